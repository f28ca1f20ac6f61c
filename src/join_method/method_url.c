/* SPDX-License-Identifier: Apache-2.0 */

/* A kubeconfig from an https URL. */

#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join_method/inputs.h"
#include "join_method/method.h"

#define URL_CA_MAX (256 * 1024)

static int load_url(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                    struct nb_failure *f) {
        const char *url = inputs->settings->discovery_file,
                   *ca_file = inputs->settings->url_ca_file;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        struct nb_cluster *web = &bootstrap->origin;
        int r;

        if (!url[0])
                return 0;
        NB_TEXT_COPY_LINE(bootstrap->discovery_source, url);
        r = nb_inputs_verify_alone(inputs, bootstrap->discovery_source, f);
        if (r < 0)
                return r;
        if (nb_url_parse(url, strlen(url), &web->server) < 0)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "discovery.file: expected an absolute path or an https URL");
        if (!ca_file[0])
                return 1;
        r = nb_sources_read_named(inputs->sources, ca_file, URL_CA_MAX, &pem, NULL);
        if (r < 0)
                return nb_failure_set(f, NB_DISCOVERY_FILE_UNREADABLE, r,
                                      "discovery.urlCAFile: '%s' cannot be read: %m",
                                      nb_text_shown(ca_file));
        if (pem.len == 0 || memchr(pem.data, '\0', pem.len))
                return nb_failure_set(f, NB_DISCOVERY_FILE_UNREADABLE, EINVAL,
                                      "discovery.urlCAFile: '%s': expected a text file, found an "
                                      "empty or binary one",
                                      nb_text_shown(ca_file));
        web->ca = strndup(pem.data, pem.len);
        web->ca_len = pem.len;
        return web->ca ? 1 : nb_failure_set_memory(f);
}

static int select_url_ca(const struct nb_ca_request *c, struct nb_failure *f) {
        return c->len == 0 ? nb_ca_choose_system(c, f) : nb_ca_choose_configured(c, f);
}

const struct nb_method nb_method_url = {
        .name = "url",
        .summary = "a kubeconfig from an https URL",
        .object = "the kubeconfig",
        .verified = "the document at the URL describes the cluster",
        .load = load_url,
        .select_ca = select_url_ca,
        .has_origin = true,
        .is_document_remote = true,
};
