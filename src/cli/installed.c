/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/installed.h"

#define CERTIFICATE_FILE_MAX (256 * 1024)

/* Only the certificates of the file are parsed; it also has kubelet's private key. */
int nb_installed_read_certificate(const struct nb_settings *settings,
                                  struct nb_installed_certificate *ret_certificate,
                                  struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        char path[NB_SETTINGS_PATH_MAX + 64];
        int r;

        snprintf(path, sizeof(path), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        r = nb_path_read(-1, path, CERTIFICATE_FILE_MAX, &pem);
        if (r < 0)
                return nb_installed_refuse(path, r, f);
        r = nb_certificates_parse(pem.data, pem.len, true, &chain);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, r,
                                      "'%s' contains no valid certificate", path);
        nb_certificate_subject(chain, 0, ret_certificate->subject);
        nb_certificate_issuer(chain, 0, ret_certificate->issuer);
        ret_certificate->not_before = nb_certificate_not_before(chain, 0);
        ret_certificate->not_after = nb_certificate_not_after(chain, 0);
        return 0;
}
