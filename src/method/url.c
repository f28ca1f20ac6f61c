/* SPDX-License-Identifier: Apache-2.0 */

/* A kubeconfig from an https URL. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "method/inputs.h"
#include "method/method.h"

#define URL_CA_MAX (256 * 1024)

static int read_ca(const struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                   struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        const char *path = inputs->settings->url_ca_file;
        int r;

        if (!path[0])
                return 0;
        r = nb_sources_read(inputs->sources, path, URL_CA_MAX, &pem, NULL);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_DISCOVERY_FILE_UNREADABLE, r,
                                      "discovery.urlCAFile: '%s' cannot be read: %m", path);
        bootstrap->url_ca = strndup(pem.data, pem.len);
        bootstrap->url_ca_len = pem.len;
        return bootstrap->url_ca ? 0 : nb_failure_set_memory(f);
}

static int load_url(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                    struct nb_failure *f) {
        const char *url = inputs->settings->discovery_file;
        int r;

        if (!url[0])
                return 0;
        snprintf(bootstrap->discovery_source, sizeof(bootstrap->discovery_source), "%.*s",
                 NB_IDENTITY_SOURCE_MAX, url);
        r = nb_inputs_verify_alone(inputs, bootstrap->discovery_source, f);
        if (r < 0)
                return r;
        if (nb_url_parse(url, strlen(url), &bootstrap->url) < 0)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "discovery.file: expected an absolute path or an https URL");
        r = read_ca(inputs, bootstrap, f);
        return r < 0 ? r : 1;
}

static int select_ca(const struct nb_ca_request *c, struct nb_failure *f) {
        if (c->len == 0)
                return nb_ca_choose_system(c, f);
        return c->settings->n_pins > 0 ? nb_ca_choose_pinned(c, f) : nb_ca_choose_unpinned(c, f);
}

static const struct nb_url *get_url(const struct nb_bootstrap *bootstrap) {
        return &bootstrap->url;
}

const struct nb_method nb_method_url = {
        .name = "url",
        .summary = "a kubeconfig from an https URL",
        .object = "the kubeconfig",
        .verified = "the cluster is known from the document of the URL",
        .load = load_url,
        .select_ca = select_ca,
        .origin = get_url,
};
