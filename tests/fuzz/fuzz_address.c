/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/url.h"
#include "fuzz.h"
#include "kube_objects/kubeconfig.h"
#include "kube_objects/node_name.h"

static void check_format(const struct nb_url *url) {
        struct nb_url again;
        char text[NB_URL_MAX];

        nb_url_format(url, text);
        FUZZ_CHECK(strpbrk(text, " \"'\\$`;&|<>()\n") == NULL);
        FUZZ_CHECK(nb_url_parse(text, strlen(text), &again) == 0);
        FUZZ_CHECK(nb_url_is_equal(url, &again));
}

static void check_endpoint(const struct nb_url *url) {
        struct nb_url again;
        char text[NB_URL_MAX];

        FUZZ_CHECK(url->path[0] == '\0' && url->port > 0);
        check_format(url);
        nb_endpoint_format(url, text);
        FUZZ_CHECK(nb_endpoint_parse(text, strlen(text), &again) == 0);
        FUZZ_CHECK(nb_url_is_equal(url, &again));
}

static void check_node_name(const char *name) {
        char again[NB_NODE_NAME_MAX + 1];

        FUZZ_CHECK(name[0] != '\0' && nb_node_name_parse(name, strlen(name), again) == 0);
        FUZZ_CHECK(strcmp(name, again) == 0);
}

void fuzz_one(const char *data, size_t len) {
        char name[NB_NODE_NAME_MAX + 1], *text;
        struct nb_url url;

        if (nb_url_parse(data, len, &url) >= 0)
                check_format(&url);
        if (nb_endpoint_parse(data, len, &url) >= 0)
                check_endpoint(&url);
        if (nb_node_name_parse(data, len, name) >= 0)
                check_node_name(name);

        text = calloc(1, len + 1);
        FUZZ_CHECK(text);
        memcpy(text, data, len);
        if (nb_proxy_url_verify(text) >= 0)
                FUZZ_CHECK(!strchr(text, '@') && strlen(text) <= NB_PROXY_URL_MAX);
        if (nb_tls_server_name_verify(text) >= 0)
                FUZZ_CHECK(!strpbrk(text, ":[]/ \n") && strlen(text) <= NB_HOST_MAX);
        free(text);
}
