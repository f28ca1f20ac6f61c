/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Certificates that stay as they are, since hashes of them are written down beside
 * (test_ca_hash.c). ECDSA P-256, valid from 2024 to 2124, subject and authority key identifiers as
 * usual, but where a comment says otherwise.
 */

enum {
        ROOT,            /* signs itself */
        INTERMEDIATE,    /* issued by ROOT */
        DEEPER,          /* issued by INTERMEDIATE */
        OTHER,           /* another root */
        CROSS,           /* ROOT's name and key, issued by OTHER */
        RENEWED,         /* ROOT's name and key, signs itself */
        K3S,             /* signs itself, names no authority key, as k3s makes its own */
        SILENT,          /* issued by ROOT, names no authority key */
        UNDER_SILENT,    /* issued by SILENT */
        CLIENTS,         /* issued by ROOT, extended key usage client auth alone */
        UNDER_CLIENTS,   /* issued by CLIENTS */
        SHORT,           /* signs itself, path length 0 */
        UNDER_SHORT,     /* issued by SHORT */
        FAR_BELOW_SHORT, /* issued by UNDER_SHORT */
        NO_ID,           /* ROOT's name and key, signs itself, no key identifiers */
        OVER,            /* INTERMEDIATE's name and key, issued by ROOT, no CA */
        N_CERTS,
};

static const char *const pems[N_CERTS] = {
        [ROOT] = "-----BEGIN CERTIFICATE-----\n"
                 "MIIBYzCCAQigAwIBAgIBATAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARyb290MCAX\n"
                 "DTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDDARyb290\n"
                 "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAErTnwlkkFNFVqtDmeiODgD5lDSEdC\n"
                 "f48oKX4Ta640wJqUAb1WJ9Ik/T0ub7wVx98y7R2Zmop4wRbfMTZj4zcWUKNTMFEw\n"
                 "DwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUwgWsns53M2DoiyfjY5x8OGVYpVow\n"
                 "HwYDVR0jBBgwFoAUwgWsns53M2DoiyfjY5x8OGVYpVowCgYIKoZIzj0EAwIDSQAw\n"
                 "RgIhANiZ4DDrSzP9tU6QztjNyfkpYOb/y2vJIov3Nl7xLg+3AiEA6ef32pDqFNNe\n"
                 "LAeRe7moq2ZSKtwG1AiAH5qyhaW72Uw=\n"
                 "-----END CERTIFICATE-----\n",
        [INTERMEDIATE] = "-----BEGIN CERTIFICATE-----\n"
                         "MIIBazCCARCgAwIBAgIBAjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARyb290MCAX\n"
                         "DTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjAXMRUwEwYDVQQDDAxpbnRl\n"
                         "cm1lZGlhdGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQT9G1UgGPkiQnioWng\n"
                         "39BagISlrPY+cI9Z2271c9essxhrnPh3IfBQuJUTqBe63f8P9gwymG5+NOvPaxno\n"
                         "kC+ho1MwUTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBTxRcYL2Ut2hrFWeQEN\n"
                         "oz+Jje5RuDAfBgNVHSMEGDAWgBTCBayeznczYOiLJ+NjnHw4ZVilWjAKBggqhkjO\n"
                         "PQQDAgNJADBGAiEAnegVo27Esqq9vYcR8aSORnnE5lIfR1/Je8R5G/iQQrACIQC+\n"
                         "EYf9+8Tf2BfvTYJHJq8GFwB/O+UfPI9pptZbQIrrcQ==\n"
                         "-----END CERTIFICATE-----\n",
        [DEEPER] = "-----BEGIN CERTIFICATE-----\n"
                   "MIIBbDCCARKgAwIBAgIBAzAKBggqhkjOPQQDAjAXMRUwEwYDVQQDDAxpbnRlcm1l\n"
                   "ZGlhdGUwIBcNMjQwMTAxMDAwMDAwWhgPMjEyNDAxMDEwMDAwMDBaMBExDzANBgNV\n"
                   "BAMMBmRlZXBlcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPwNCX/td06/64F/\n"
                   "98ERhgy6Xi9ok2NCErhiOwLk5s3Zb2QBi1hKAm1kwLPhMEYE6+yRow421jV0NlqG\n"
                   "iJ3sabujUzBRMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFCCrMmD3FV4TIPGz\n"
                   "Z8pK+7CW+yBnMB8GA1UdIwQYMBaAFPFFxgvZS3aGsVZ5AQ2jP4mN7lG4MAoGCCqG\n"
                   "SM49BAMCA0gAMEUCIQC0Tgj+vzZVqpV3d0RePKGoR4GpUJrn/A0DKJSjqWEMaAIg\n"
                   "ClXMTSo0xate/aspWcoGhx84L03lfYCCX2NLogHbrEw=\n"
                   "-----END CERTIFICATE-----\n",
        [OTHER] = "-----BEGIN CERTIFICATE-----\n"
                  "MIIBZDCCAQqgAwIBAgIBBDAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAVvdGhlcjAg\n"
                  "Fw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFb3Ro\n"
                  "ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQeBWo9Fk0P4Hsm/owStbsWBd0N\n"
                  "lyn0ndTLHcgpqUwLLX9q90uEL2VdTsGegRm07PgFjS7ftJchfAVyI7wPFKpCo1Mw\n"
                  "UTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBTFgYCKJMMSGIBT3WrxSFgdVCmO\n"
                  "pjAfBgNVHSMEGDAWgBTFgYCKJMMSGIBT3WrxSFgdVCmOpjAKBggqhkjOPQQDAgNI\n"
                  "ADBFAiEA2xepoBw+0QhvcvEO+Ja2zMrYoZdq5MpbkscOKSK2jGcCIGxb/GODOblH\n"
                  "06t7GOUnfzCZR/j7LmXGyAKOSL7qDmgP\n"
                  "-----END CERTIFICATE-----\n",
        [CROSS] = "-----BEGIN CERTIFICATE-----\n"
                  "MIIBYjCCAQmgAwIBAgIBBTAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAVvdGhlcjAg\n"
                  "Fw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFowDzENMAsGA1UEAwwEcm9v\n"
                  "dDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABK058JZJBTRVarQ5nojg4A+ZQ0hH\n"
                  "Qn+PKCl+E2uuNMCalAG9VifSJP09Lm+8FcffMu0dmZqKeMEW3zE2Y+M3FlCjUzBR\n"
                  "MA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFMIFrJ7OdzNg6Isn42OcfDhlWKVa\n"
                  "MB8GA1UdIwQYMBaAFMWBgIokwxIYgFPdavFIWB1UKY6mMAoGCCqGSM49BAMCA0cA\n"
                  "MEQCIGHH4y42Gm+tJiHf9LXwomA64vgqzuj0LUtSzn4Hb0CFAiASZXL+RIFaoB/N\n"
                  "Fj7T5+KzGBkaSOIp63rBc4TVvrCZuw==\n"
                  "-----END CERTIFICATE-----\n",
        [RENEWED] = "-----BEGIN CERTIFICATE-----\n"
                    "MIIBYjCCAQigAwIBAgIBBjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARyb290MCAX\n"
                    "DTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDDARyb290\n"
                    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAErTnwlkkFNFVqtDmeiODgD5lDSEdC\n"
                    "f48oKX4Ta640wJqUAb1WJ9Ik/T0ub7wVx98y7R2Zmop4wRbfMTZj4zcWUKNTMFEw\n"
                    "DwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUwgWsns53M2DoiyfjY5x8OGVYpVow\n"
                    "HwYDVR0jBBgwFoAUwgWsns53M2DoiyfjY5x8OGVYpVowCgYIKoZIzj0EAwIDSAAw\n"
                    "RQIhANP9WPkQFMbSlKog5VIzBMEAImkN2JUin5Qe51JlFkaxAiB0ilf3G21oU9Jo\n"
                    "TnO/fXvYCXTfI2NiBTUpkFu+TWDS1A==\n"
                    "-----END CERTIFICATE-----\n",
        [K3S] = "-----BEGIN CERTIFICATE-----\n"
                "MIIBaDCCAQ+gAwIBAgIBBzAKBggqhkjOPQQDAjAjMSEwHwYDVQQDDBhrM3Mtc2Vy\n"
                "dmVyLWNhQDE3MDAwMDAwMDAwIBcNMjQwMTAxMDAwMDAwWhgPMjEyNDAxMDEwMDAw\n"
                "MDBaMCMxITAfBgNVBAMMGGszcy1zZXJ2ZXItY2FAMTcwMDAwMDAwMDBZMBMGByqG\n"
                "SM49AgEGCCqGSM49AwEHA0IABEP3yfhY74zN3U8GQVZKJqAW/WgSJOGGQdmWtICq\n"
                "Ee63OzjGOPqc9ISPgeXiLC1t0l3l4IPZGJtZfw4n5w+mEvujMjAwMA8GA1UdEwEB\n"
                "/wQFMAMBAf8wHQYDVR0OBBYEFFEESmT57JsQtYsYGEl7O+3LKelaMAoGCCqGSM49\n"
                "BAMCA0cAMEQCIAvR4TeM6VrjXQoY1jXafJZVFYl04kUMh8t1yDDidQc2AiBlLcrJ\n"
                "U7i6HbKxiH8ZvHXba6Le7s2ezAMEX/RTyZPMmg==\n"
                "-----END CERTIFICATE-----\n",
        [SILENT] = "-----BEGIN CERTIFICATE-----\n"
                   "MIIBQzCB6aADAgECAgEIMAoGCCqGSM49BAMCMA8xDTALBgNVBAMMBHJvb3QwIBcN\n"
                   "MjQwMTAxMDAwMDAwWhgPMjEyNDAxMDEwMDAwMDBaMBExDzANBgNVBAMMBnNpbGVu\n"
                   "dDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNUb+J9rlpKIX6uOnrfzGXY/oqqy\n"
                   "FwxYOYvkdsmuRy83GFgm4eQo9KHc4fU1fsTsnkPI2OrfqFso4BYQ+xwS9sqjMjAw\n"
                   "MA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFEESWj6m9594kAfHH87J2YMRlRIx\n"
                   "MAoGCCqGSM49BAMCA0kAMEYCIQCrwbiYWzNeDCzXfKYLfBJslx9KLqSYpNR9h3+d\n"
                   "cL5V3AIhAKd9Uw7vKfSQdGk601b7sJ+MGfZlssGw6IuTohnQo1AL\n"
                   "-----END CERTIFICATE-----\n",
        [UNDER_SILENT] = "-----BEGIN CERTIFICATE-----\n"
                         "MIIBbDCCARKgAwIBAgIBCTAKBggqhkjOPQQDAjARMQ8wDQYDVQQDDAZzaWxlbnQw\n"
                         "IBcNMjQwMTAxMDAwMDAwWhgPMjEyNDAxMDEwMDAwMDBaMBcxFTATBgNVBAMMDHVu\n"
                         "ZGVyIHNpbGVudDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPwNCX/td06/64F/\n"
                         "98ERhgy6Xi9ok2NCErhiOwLk5s3Zb2QBi1hKAm1kwLPhMEYE6+yRow421jV0NlqG\n"
                         "iJ3sabujUzBRMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFCCrMmD3FV4TIPGz\n"
                         "Z8pK+7CW+yBnMB8GA1UdIwQYMBaAFEESWj6m9594kAfHH87J2YMRlRIxMAoGCCqG\n"
                         "SM49BAMCA0gAMEUCIHW9kCQvFW9FVd5Qd3qzKGG20Si/thHfrVZ5dSIV0MaFAiEA\n"
                         "2d3iavMm7vo2A4k2WfWmmFtup+PKS5ENbM2Q8SoG9qY=\n"
                         "-----END CERTIFICATE-----\n",
        [CLIENTS] = "-----BEGIN CERTIFICATE-----\n"
                    "MIIBezCCASCgAwIBAgIBCjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARyb290MCAX\n"
                    "DTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjASMRAwDgYDVQQDDAdjbGll\n"
                    "bnRzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE/PEuhDw/XU+TZaUMP6J2K2eD\n"
                    "XrK/lIrujzfAeme1WhvW7LrtfIcOGZc2PlpXnGxUsCEf6RkrmpOJSykEPr2Pc6No\n"
                    "MGYwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQU6yndGx7/cpEdapgHdsCdwIhz\n"
                    "XREwHwYDVR0jBBgwFoAUwgWsns53M2DoiyfjY5x8OGVYpVowEwYDVR0lBAwwCgYI\n"
                    "KwYBBQUHAwIwCgYIKoZIzj0EAwIDSQAwRgIhAMkrYqnkl57UmicmnJxeVhURQryL\n"
                    "6IKHz2M/y5bsPsiaAiEAhUgN0dU4jpiihsSFpkAWBqKwXl82XMKZUkkOUWq/ub8=\n"
                    "-----END CERTIFICATE-----\n",
        [UNDER_CLIENTS] = "-----BEGIN CERTIFICATE-----\n"
                          "MIIBbjCCARSgAwIBAgIBCzAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAdjbGllbnRz\n"
                          "MCAXDTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjAYMRYwFAYDVQQDDA11\n"
                          "bmRlciBjbGllbnRzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE/A0Jf+13Tr/r\n"
                          "gX/3wRGGDLpeL2iTY0ISuGI7AuTmzdlvZAGLWEoCbWTAs+EwRgTr7JGjDjbWNXQ2\n"
                          "WoaInexpu6NTMFEwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUIKsyYPcVXhMg\n"
                          "8bNnykr7sJb7IGcwHwYDVR0jBBgwFoAU6yndGx7/cpEdapgHdsCdwIhzXREwCgYI\n"
                          "KoZIzj0EAwIDSAAwRQIhAMbjV+hYsm0CHCvC1WpH0mOgsH+hpvu/nIeD0Alttr7C\n"
                          "AiBlEe2UJ3cmaLezTFpjqCY9vjO4Aq9VHZZBQzC+hpybLQ==\n"
                          "-----END CERTIFICATE-----\n",
        [SHORT] = "-----BEGIN CERTIFICATE-----\n"
                  "MIIBZjCCAQ2gAwIBAgIBDDAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAVzaG9ydDAg\n"
                  "Fw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFc2hv\n"
                  "cnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQOwgiLKEGh4U0ssMICX+JGN++i\n"
                  "CD5seBTh9I2xeWQuxVYb9yU7nYjwVsdNRKXKA20nu2zU5vTx5Mx+MZU1mscco1Yw\n"
                  "VDASBgNVHRMBAf8ECDAGAQH/AgEAMB0GA1UdDgQWBBTf6WEen6fCBSd814iTIlW+\n"
                  "wMVp/jAfBgNVHSMEGDAWgBTf6WEen6fCBSd814iTIlW+wMVp/jAKBggqhkjOPQQD\n"
                  "AgNHADBEAiAo8QOiqq+tY+Q/KN+ynUn4fkkycvUTo92pIJyehdvodAIgB0d4YukU\n"
                  "qKMNPaMl7AvMoVtv09YWBXmiYdz1IKjW6Ms=\n"
                  "-----END CERTIFICATE-----\n",
        [UNDER_SHORT] = "-----BEGIN CERTIFICATE-----\n"
                        "MIIBazCCARCgAwIBAgIBDTAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAVzaG9ydDAg\n"
                        "Fw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFowFjEUMBIGA1UEAwwLdW5k\n"
                        "ZXIgc2hvcnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAS+XNlZQQTu3nnZBP03\n"
                        "7wKqkIUcIbotwCKC3ixohWC6votBH2c3Z7ly1J8tLlTv2N/K4AdYHe9ce+4rxQ0H\n"
                        "TDWlo1MwUTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBS47xq5fk8WTPmbsAq4\n"
                        "C1QBIgomYDAfBgNVHSMEGDAWgBTf6WEen6fCBSd814iTIlW+wMVp/jAKBggqhkjO\n"
                        "PQQDAgNJADBGAiEAgwQlNcfhH38g+rl+QdTT2U50vkpZmDLvsX1CapbChv8CIQDl\n"
                        "J1UdItb8QSd1Yy2kp3uFjHloWOn/6squW3qqbBn3Gg==\n"
                        "-----END CERTIFICATE-----\n",
        [FAR_BELOW_SHORT] = "-----BEGIN CERTIFICATE-----\n"
                            "MIIBczCCARqgAwIBAgIBDjAKBggqhkjOPQQDAjAWMRQwEgYDVQQDDAt1bmRlciBz\n"
                            "aG9ydDAgFw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFowGjEYMBYGA1UE\n"
                            "AwwPZmFyIGJlbG93IHNob3J0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAESq2P\n"
                            "cTeV6uKY5LFYVy7WhzIKeV0DPj1X+n4NgoCdcWEOdL+pHtMtik+bLnlhMih881Ti\n"
                            "TwEEAyYYvrWDywwvpqNTMFEwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUbAr1\n"
                            "BIZ6jxDPrdSuyCP/WFlw4HwwHwYDVR0jBBgwFoAUuO8auX5PFkz5m7AKuAtUASIK\n"
                            "JmAwCgYIKoZIzj0EAwIDRwAwRAIgLHkR6P6Vq/i3BAtT5WqO6M5FEhzlbg/Do41e\n"
                            "YNweGn0CIErjg8fA20XBpTYTBCLIrEXjWaCQR/NHkiaus+7UxuAS\n"
                            "-----END CERTIFICATE-----\n",
        [NO_ID] = "-----BEGIN CERTIFICATE-----\n"
                  "MIIBIDCByKADAgECAgEPMAoGCCqGSM49BAMCMA8xDTALBgNVBAMMBHJvb3QwIBcN\n"
                  "MjQwMTAxMDAwMDAwWhgPMjEyNDAxMDEwMDAwMDBaMA8xDTALBgNVBAMMBHJvb3Qw\n"
                  "WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAStOfCWSQU0VWq0OZ6I4OAPmUNIR0J/\n"
                  "jygpfhNrrjTAmpQBvVYn0iT9PS5vvBXH3zLtHZmainjBFt8xNmPjNxZQoxMwETAP\n"
                  "BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIG5kgVjlBK0zmXv9Aq8e\n"
                  "JDEBUJ28G1okr6FK5trHTnPLAiBy8FvKBBFd6srZg8BMHURG5SFAL141Ev5UQOwO\n"
                  "43Etpg==\n"
                  "-----END CERTIFICATE-----\n",
        [OVER] = "-----BEGIN CERTIFICATE-----\n"
                 "MIIBZzCCAQ2gAwIBAgIBEDAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARyb290MCAX\n"
                 "DTI0MDEwMTAwMDAwMFoYDzIxMjQwMTAxMDAwMDAwWjAXMRUwEwYDVQQDDAxpbnRl\n"
                 "cm1lZGlhdGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQT9G1UgGPkiQnioWng\n"
                 "39BagISlrPY+cI9Z2271c9essxhrnPh3IfBQuJUTqBe63f8P9gwymG5+NOvPaxno\n"
                 "kC+ho1AwTjAMBgNVHRMBAf8EAjAAMB0GA1UdDgQWBBTxRcYL2Ut2hrFWeQENoz+J\n"
                 "je5RuDAfBgNVHSMEGDAWgBTCBayeznczYOiLJ+NjnHw4ZVilWjAKBggqhkjOPQQD\n"
                 "AgNIADBFAiA2I21VqcEcFdg4LF1d/dtRDhONVxe/dGQHCPIisr4VbQIhANbPBXlQ\n"
                 "FQGF9tY3/20eJaBD7Xa7nTAEkGT+MlEMRn1n\n"
                 "-----END CERTIFICATE-----\n",
};
