// SPDX-License-Identifier: Apache-2.0

// What Go makes of the certificates of test_certificate_server.c, test_certificate_path.c and test_certificate_forged.c, to compare after a change of one:
//
//	mkdir m && for part in server path forged; do MATRIX=m build/tests/unit/crypto/test-crypto-certificate_$part; done && go run verify.go m
//
// prints each row for which Go and the table differ, and then the number of rows.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func parse(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// As crypto/tls of a client: the first certificate is the server's. It refuses keys of other types in the handshake.
func verify(chain, roots []byte, host string) error {
	pool, others := x509.NewCertPool(), x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	all, err := parse(chain)
	if err != nil {
		return err
	}
	for _, one := range all[1:] {
		others.AddCert(one)
	}
	switch all[0].PublicKeyAlgorithm {
	case x509.RSA, x509.ECDSA, x509.Ed25519:
	default:
		return fmt.Errorf("tls: server's certificate contains an unsupported type of public key")
	}
	_, err = all[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: others, DNSName: host, CurrentTime: time.Unix(1800000000, 0)})
	return err
}

func main() {
	rows, _ := filepath.Glob(filepath.Join(os.Args[1], "*.row"))
	for _, row := range rows {
		text, _ := os.ReadFile(row)
		field := strings.SplitN(string(text), "\n", 4) // accepted or refused, name, host, CAs and chain
		parts := strings.SplitN(field[3], "---chain---\n", 2)
		err := verify([]byte(parts[1]), []byte(parts[0]), field[2])
		if (err == nil) != (field[0] == "accepted") {
			fmt.Printf("%s: the table says that Go %s: %v\n", field[1], field[0], err)
		}
	}
	fmt.Println(len(rows), "rows")
}
