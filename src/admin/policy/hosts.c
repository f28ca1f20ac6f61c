/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "admin/policy/secret_data.h"
#include "base/macro.h"

#define PATH_SIZE 96
#define OWNER_SIZE 640
#define ITEMS_STEP 1024

/* Kubernetes reads "010.0.0.9" in an object as 10.0.0.9, and keeps the text. */
static void drop_zeros(const char *text, char ret[static NB_HOST_SIZE]) {
        size_t n = 0;

        for (; *text; text++)
                if (*text != '0' || !isdigit((unsigned char)text[1]) ||
                    (n > 0 && ret[n - 1] != '.'))
                        ret[n++] = *text;
        ret[n] = '\0';
}

/* A network is the only text with a '/'. A kubelet sets the addresses of its Node as it likes, so
 * what is to be an address must not claim a network. */
static bool may_be_network(enum nb_owner_kind kind) {
        return kind == NB_OWNER_CLUSTER || kind == NB_OWNER_POD_NETWORK;
}

int nb_hosts_add(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *host,
                 const char *owner) {
        struct nb_owned item = { .kind = kind };
        char text[NB_HOST_SIZE];
        bool is_name;

        if (!host || strlen(host) >= sizeof(text) || (strchr(host, '/') && !may_be_network(kind)))
                return 0;
        drop_zeros(host, text);
        is_name = nb_prefix_parse(text, &item.prefix) < 0;
        if (is_name && nb_host_fold(host, text) < 0)
                return 0;
        if (hosts->n == NB_HOSTS_MAX)
                return -E2BIG;
        if (hosts->n % ITEMS_STEP == 0) {
                struct nb_owned *grown = reallocarray(hosts->items, hosts->n + ITEMS_STEP,
                                                      sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                hosts->items = grown;
        }
        item.name = is_name ? strdup(text) : NULL;
        item.owner = strdup(owner);
        hosts->items[hosts->n++] = item;
        return item.owner && (item.name || !is_name) ? 0 : -ENOMEM;
}

/* --- Objects --- */

static int check(const struct nb_json *json, int r) {
        return r < 0 ? nb_failure_set(json->f, NB_INTERNAL, r, "%s: %m", json->what) : json->r;
}

/* Adds the texts at a path such as "status.addresses[*].address". */
static int add_texts(struct nb_hosts *hosts, enum nb_owner_kind kind, struct nb_json *json,
                     const char *path, const char *owner) {
        const char *star = strchr(path, '*');
        char list[PATH_SIZE], item[2 * PATH_SIZE];
        ssize_t n;
        int r = 0;

        if (!star)
                return nb_hosts_add(hosts, kind, nb_json_string(json, path), owner);
        snprintf(list, sizeof(list), "%.*s", (int)(star - path) - 1, path);
        n = nb_json_array(json, list);
        for (ssize_t i = 0; i < n && r >= 0; i++) {
                snprintf(item, sizeof(item), "%s[%zd%s", list, i, star + 1);
                r = add_texts(hosts, kind, json, item, owner);
        }
        return r;
}

struct source {
        enum nb_owner_kind kind;
        const char *path;
};

static int add_sources(struct nb_hosts *hosts, struct nb_json *json, const struct source *sources,
                       size_t n, const char *owner) {
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++)
                r = add_texts(hosts, sources[i].kind, json, sources[i].path, owner);
        return check(json, r);
}

int nb_hosts_add_node(void *userdata, struct nb_json *json) {
        static const struct source sources[] = {
                { NB_OWNER_CLAIMING_NODE, "metadata.name" },
                { NB_OWNER_CLAIMING_NODE, "status.addresses[*].address" },
                { NB_OWNER_POD_NETWORK, "spec.podCIDRs[*]" },
        };
        const char *name = nb_json_string(json, "metadata.name");

        return name ? add_sources(userdata, json, sources, N_ELEMENTS(sources), name) : 0;
}

/* A Service is also found by NAME and NAME.NAMESPACE in the search list of a pod. The API server
 * assigns only its cluster addresses; whoever may create a Service chooses the others. */
int nb_hosts_add_service(void *userdata, struct nb_json *json) {
        static const struct source sources[] = {
                { NB_OWNER_SERVICE, "spec.clusterIP" },
                { NB_OWNER_SERVICE, "spec.clusterIPs[*]" },
                { NB_OWNER_CLAIMING_SERVICE, "metadata.name" },
                { NB_OWNER_CLAIMING_SERVICE, "spec.loadBalancerIP" },
                { NB_OWNER_CLAIMING_SERVICE, "spec.externalIPs[*]" },
                { NB_OWNER_CLAIMING_SERVICE, "status.loadBalancer.ingress[*].ip" },
                { NB_OWNER_CLAIMING_SERVICE, "status.loadBalancer.ingress[*].hostname" },
        };
        const char *name = nb_json_string(json, "metadata.name");
        const char *namespace = nb_json_string(json, "metadata.namespace");
        char owner[OWNER_SIZE], host[OWNER_SIZE];
        int r;

        if (!name || !namespace)
                return 0;
        snprintf(owner, sizeof(owner), "%s/%s", namespace, name);
        snprintf(host, sizeof(host), "%s.%s", name, namespace);
        r = nb_hosts_add(userdata, NB_OWNER_CLAIMING_SERVICE, host, owner);
        return r < 0 ? check(json, r)
                     : add_sources(userdata, json, sources, N_ELEMENTS(sources), owner);
}

int nb_hosts_add_service_network(void *userdata, struct nb_json *json) {
        static const struct source source = { NB_OWNER_CLUSTER, "spec.cidrs[*]" };
        struct nb_hosts *hosts = userdata;
        const size_t before = hosts->n;
        int r = add_sources(hosts, json, &source, 1, "a network of Services");

        hosts->has_service_networks |= hosts->n > before;
        return r;
}

int nb_hosts_add_endpoints(void *userdata, struct nb_json *json) {
        static const struct source sources[] = {
                { NB_OWNER_CLUSTER, "subsets[*].addresses[*].ip" },
                { NB_OWNER_CLUSTER, "subsets[*].notReadyAddresses[*].ip" },
        };

        return add_sources(userdata, json, sources, N_ELEMENTS(sources), "the API server");
}

/* A record with a mistake in it allows its node nothing, but what can be read of its names is still
 * not allowed to others. */
int nb_hosts_add_record(void *userdata, struct nb_json *json) {
        static const char *const lists[] = { "addresses", "dnsNames" };
        struct nb_failure ignored = { 0 };
        struct nb_json view = { json->root, json->what, json->code, &ignored, 0 };
        struct nb_node_record record = { 0 };
        int r = 0;

        nb_node_record_read(&view, &record);
        if (record.removed != 0)
                return 0;
        if (view.r < 0) {
                view.r = 0;
                nb_json_line(&view, "metadata.name", record.node, sizeof(record.node));
        } else
                r = nb_hosts_add(userdata, NB_OWNER_ENROLLED, record.node, record.node);
        for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(NB_LIST_SIZE);
                const char *list;
                char item[NB_ITEM_SIZE];

                view.r = 0;
                nb_secret_data_read(&view, lists[i], "", &value);
                list = value.data;
                while (r >= 0 && nb_list_next(&list, item))
                        r = nb_hosts_add(userdata, NB_OWNER_ENROLLED, item, record.node);
        }
        return check(json, r);
}

/* --- Finding --- */

static bool is_of_other(const struct nb_owned *item, const char *node) {
        return (item->kind != NB_OWNER_ENROLLED && item->kind != NB_OWNER_CLAIMING_NODE) ||
               strcmp(item->owner, node) != 0;
}

const struct nb_owned *nb_hosts_find(const struct nb_hosts *hosts, const char *host,
                                     const char *node, bool is_enrolled) {
        const bool is_address = nb_host_is_address(host);
        struct nb_prefix address;

        if (is_address && nb_prefix_parse(host, &address) < 0)
                return NULL;
        for (size_t i = 0; i < hosts->n; i++) {
                const struct nb_owned *item = &hosts->items[i];

                if (is_enrolled && item->kind > _NB_OWNER_CLAIMS)
                        continue;
                if ((item->name ? !is_address && !strcmp(item->name, host)
                                : is_address && nb_prefix_contains(&item->prefix, &address)) &&
                    is_of_other(item, node))
                        return item;
        }
        return NULL;
}

void nb_hosts_done(struct nb_hosts *hosts) {
        for (size_t i = 0; i < hosts->n; i++) {
                free(hosts->items[i].name);
                free(hosts->items[i].owner);
        }
        free(hosts->items);
        *hosts = (struct nb_hosts){ 0 };
}
