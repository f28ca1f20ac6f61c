/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CA certificates whose public key GnuTLS would encode otherwise, or cannot encode. The pins are
 * from `openssl x509 -pubkey -noout | openssl pkey -pubin -outform DER | sha256sum`; OpenSSL adds
 * the NULL to the second, so that its pin is over the bytes in the certificate. */

/* an RSA-PSS key with parameters */
static const char pss_ca[] = "-----BEGIN CERTIFICATE-----\n"
                             "MIICPDCCAY+gAwIBAgIUH4nboKz1PvoIG8GnP5jzrw8sOAswIwYJKoZIhvcNAQEK\n"
                             "MBagDzANBglghkgBZQMEAgEFAKIDAgEoMA4xDDAKBgNVBAMMA3BzczAgFw0yNjEx\n"
                             "MjIxOTM5MzlaGA8yMTI2MTAyOTE5MzkzOVowDjEMMAoGA1UEAwwDcHNzMIG1MCMG\n"
                             "CSqGSIb3DQEBCjAWoA8wDQYJYIZIAWUDBAIBBQCiAwIBKAOBjQAwgYkCgYEAst2B\n"
                             "LhgpAlOA1C9LS39KhP0Nqjc+9lUcEFiaRWqSQoKNh8mUjqzVO3EIYphE6PA0GGVK\n"
                             "z2nVCcJepUv6WC5u82NQ4bB+qujc6GCzTWjq9DmJMKchxuAbIVAwRGbnWcb/Gq4C\n"
                             "Pty9G8ojzxHpiXGxc2y/Dv3OABpOaCX1JOUxCLsCAwEAAaNTMFEwHQYDVR0OBBYE\n"
                             "FBGeSKp0mfHZ5CBNP8KTyx2ix8NXMB8GA1UdIwQYMBaAFBGeSKp0mfHZ5CBNP8KT\n"
                             "yx2ix8NXMA8GA1UdEwEB/wQFMAMBAf8wIwYJKoZIhvcNAQEKMBagDzANBglghkgB\n"
                             "ZQMEAgEFAKIDAgEoA4GBAJwHvL+CkdhhTBKEX/1NiBzOvuykx6u4JvlkTWN/0ZzS\n"
                             "k7bfoiY718/L1pNpFF1DSA5Ucb62VrC1FuQFTHIs3b+4TL5L1LZr4VIdHySelUgh\n"
                             "VH73TwmsQp2PLIX23e1qEq+KN4AMo2ZeRWjO+PtQFmI/srEIafJyT1gvj0+zjNpc\n"
                             "-----END CERTIFICATE-----\n";
#define PSS_PIN "fc6157588d4a67ec153e55e9ebf1ea571e9935afe3a6f9cd1bd848a6ce61f5b7"

/* an RSA key without the NULL of its algorithm */
static const char nonull_ca[] = "-----BEGIN CERTIFICATE-----\n"
                                "MIICADCCAWmgAwIBAgIUQG+li7zY+SRg0+8MBzcKuEA91+UwDQYJKoZIhvcNAQEL\n"
                                "BQAwEjEQMA4GA1UEAwwHbm8tbnVsbDAgFw0yNjExMjIxOTM5MzlaGA8yMTI2MTAy\n"
                                "OTE5MzkzOVowEjEQMA4GA1UEAwwHbm8tbnVsbDCBnTALBgkqhkiG9w0BAQEDgY0A\n"
                                "MIGJAoGBAN6HyFaBI/pVi87kotDvgDOF0WHYePzBHr9Jawv51OWz+f3+s9uMwyFw\n"
                                "wkYyFffRvNgGdCQzWcxApGgam9BeR2iiRkq8XwtdPVImOET6CL9KeAxFfo0Ehq8d\n"
                                "QqXsOqnppiLbBpNsWnBZOJUzyMY0kSz/SPhmVN8hBhASorSowJufAgMBAAGjUzBR\n"
                                "MB0GA1UdDgQWBBT3MykNNYJMRgtj48D9wGbGvxj8GDAfBgNVHSMEGDAWgBT3MykN\n"
                                "NYJMRgtj48D9wGbGvxj8GDAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUA\n"
                                "A4GBAL1+LVQ6GPNzPbpuD0feBNnCdgYRWCm01jWnfgOUELCHlubWNTf12QSmFvBj\n"
                                "yHpAg62QPxLw/fUqjgkAodYsV073QLDhKI9QUVhFldFePUFjDIpePZzQAkp/c9h3\n"
                                "rm8L4TPrps2uVgmtI1EXND8FDdMutANAdtvrFhAgqY3uoeSy\n"
                                "-----END CERTIFICATE-----\n";
#define NONULL_PIN "dfe9cdcd83a18327bb91ac019fa1ba5bc7f8e8bc45aa3e3d4790370d8c3626c2"

/* a P-256 key with explicit curve parameters */
static const char explicit_ca[] =
        "-----BEGIN CERTIFICATE-----\n"
        "MIICcjCCAhegAwIBAgIUT5DteG6pc1d7sO0mMXjROAmoYcIwCgYIKoZIzj0EAwIw\n"
        "EzERMA8GA1UEAwwIZXhwbGljaXQwIBcNMjYxMTIyMTkzOTM5WhgPMjEyNjEwMjkx\n"
        "OTM5MzlaMBMxETAPBgNVBAMMCGV4cGxpY2l0MIIBSzCCAQMGByqGSM49AgEwgfcC\n"
        "AQEwLAYHKoZIzj0BAQIhAP////8AAAABAAAAAAAAAAAAAAAA////////////////\n"
        "MFsEIP////8AAAABAAAAAAAAAAAAAAAA///////////////8BCBaxjXYqjqT57Pr\n"
        "vVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMVAMSdNgiG5wSTamZ44ROdJreBn36QBEEE\n"
        "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54W\n"
        "K84zV2sxXs7LtkBoN79R9QIhAP////8AAAAA//////////+85vqtpxeehPO5ysL8\n"
        "YyVRAgEBA0IABEbcGcxoDCBPhLpijoFz6TPhvuuT5JFZpmyZ9QUoCQg0o9jSnwT1\n"
        "80T7wWatV0wTKbEo+LmVsIoB1oVlEOqb6kSjUzBRMB0GA1UdDgQWBBSpqMhhyF16\n"
        "6L9vH8ubxO9XxmiitzAfBgNVHSMEGDAWgBSpqMhhyF166L9vH8ubxO9XxmiitzAP\n"
        "BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDAbOT/8wjsE5bf78ww\n"
        "vxefSnWTqTDZy9pbdDCCRRlYLwIhAPBnQpWUJJ9QDOvqjAnc/RlIKaj+d4YIVydC\n"
        "oVeNYpg9\n"
        "-----END CERTIFICATE-----\n";
#define EXPLICIT_PIN "5599dc5d9de3c74931c92d4fc9a2419ec634ba7172abe05a0cc638f82231cc64"
