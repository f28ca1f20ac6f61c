/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Certificates of TLS servers. The verdict of Go's crypto/x509 is part of each row, with the rule
 * from its documentation or source, since kubelet must accept what the join accepts. With
 * MATRIX=DIR in the environment, the rows are written there for verify.go, which compares; done
 * with Go 1.19.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "crypto/certificate.h"
#include "pki.h"

#define HOST "api.example"
#define NAMES "dns:" HOST
#define UNTRUSTED NB_TLS_UNTRUSTED
#define MISMATCH NB_TLS_NAME_MISMATCH
#define EXPIRED NB_TLS_EXPIRED
#define ROOT .dn = "CN=kubernetes", .is_ca = true
#define MIDDLE .dn = "CN=middle", .is_ca = true

static inline void write_row(const char *name, bool is_accepted, const char *host,
                             const char *bundle, const char *chain) {
        const char *directory = getenv("MATRIX");
        static unsigned n;
        char path[512];
        FILE *out;

        if (!directory)
                return;
        snprintf(path, sizeof(path), "%s/%s-%03u.row", directory, program_invocation_short_name,
                 n++);
        out = fopen(path, "w");
        assert_non_null(out);
        (void)fprintf(out, "%s\n%s\n%s\n%s---chain---\n%s", is_accepted ? "accepted" : "refused",
                      name, host, bundle, chain);
        assert_int_equal(fclose(out), 0);
}

static inline enum nb_code verify(const char *chain_pem, const char *bundle, const char *host,
                                  char ret_reason[static 256]) {
        struct nb_certificates *chain = NULL;
        enum nb_code code;

        assert_int_equal(nb_certificates_parse(chain_pem, strlen(chain_pem), false, &chain), 0);
        strcpy(ret_reason, "");
        code = nb_certificate_verify_server(chain, bundle, strlen(bundle), host, PKI_NOW,
                                            ret_reason, 256);
        assert_true((code == NB_NONE) == !ret_reason[0]);
        nb_certificates_free(chain);
        return code;
}
