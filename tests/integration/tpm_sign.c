/* SPDX-License-Identifier: Apache-2.0 */

/* tpm_sign DEVICE VERSION-FILE KEY MILLISECONDS [MESSAGE]: prints the public key and, with a
 * message, its signature, in hex; or code, class and text of the failure. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "os/clock.h"
#include "tpm/tpm.h"

static void print_hex(const struct nb_buffer *bytes) {
        _cleanup_(nb_freep) char *hex = malloc(2 * bytes->len + 1);

        if (!hex)
                abort();
        nb_hex_encode((const uint8_t *)bytes->data, bytes->len, hex);
        puts(hex);
}

int main(int argc, char **argv) {
        _cleanup_(nb_buffer_done) struct nb_buffer spki = NB_BUFFER_INIT(1024);
        _cleanup_(nb_buffer_done) struct nb_buffer signature = NB_BUFFER_INIT(1024);
        struct nb_failure f = { 0 };
        struct nb_tpm tpm;

        if (argc < 5)
                return 64;
        tpm = (struct nb_tpm){
                .device = argv[1],
                .version_file = argv[2],
                .key = (uint32_t)strtoul(argv[3], NULL, 16),
                .deadline_ms = nb_now_ms() + strtoul(argv[4], NULL, 10),
        };
        if (nb_tpm_sign(&tpm, argv[5], argv[5] ? strlen(argv[5]) : 0, &spki, &signature, &f) < 0) {
                printf("%s %s: %s\n", nb_failure_info(f.code)->slug,
                       nb_class_name(nb_failure_class(&f)), f.detail);
                return 1;
        }
        print_hex(&spki);
        if (argv[5])
                print_hex(&signature);
        return 0;
}
