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

#define LIST_MAX ((size_t)1024 * 1024) /* of a Secret (Kubernetes MaxSecretSize) */
#define PATH_SIZE 96
#define OWNER_SIZE 640

/* Kubernetes reads "010.0.0.9" in an object as 10.0.0.9, and keeps the text. */
static void drop_zeros(const char *text, char ret[static NB_HOST_SIZE]) {
        size_t n = 0;

        for (; *text; text++)
                if (*text != '0' || !isdigit((unsigned char)text[1]) ||
                    (n > 0 && ret[n - 1] != '.'))
                        ret[n++] = *text;
        ret[n] = '\0';
}

int nb_hosts_add(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *host,
                 const char *owner) {
        const bool is_network = host && strchr(host, '/');
        struct nb_prefix prefix = { .len = 0 };
        char text[NB_HOST_SIZE];
        struct nb_owned *item;

        /* A kubelet sets the addresses of its Node as it likes: none may claim a network. */
        if (hosts->error < 0 || !host || strlen(host) >= sizeof(text) ||
            (is_network && kind != NB_OWNER_CLUSTER && kind != NB_OWNER_POD_NETWORK))
                return hosts->error;
        drop_zeros(host, text);
        if (nb_prefix_parse(text, &prefix) >= 0)
                text[0] = '\0';
        else if (nb_host_fold(host, text) < 0)
                return 0;
        if (hosts->n == NB_HOSTS_MAX)
                return hosts->error = -E2BIG;
        item = malloc(sizeof(*item) + strlen(text) + strlen(owner) + 2);
        if (!item)
                return hosts->error = -ENOMEM;
        *item = (struct nb_owned){ hosts->first, kind, prefix, item->name + strlen(text) + 1 };
        memcpy(item->name, text, strlen(text) + 1);
        memcpy(item->owner, owner, strlen(owner) + 1);
        hosts->first = item;
        hosts->n++;
        return 0;
}

/* --- Objects --- */

/* Adds the texts at a path such as "status.addresses[*].address". */
static int add_texts(struct nb_hosts *hosts, struct nb_json *json, enum nb_owner_kind kind,
                     const char *path, const char *owner) {
        const char *star = strchr(path, '*');
        char list[PATH_SIZE], item[2 * PATH_SIZE];
        ssize_t n;

        if (!star) {
                /* As the addresses of a Node are read (kube/node_object.h). */
                const char *texts = nb_json_string(json, path);
                char text[NB_ITEM_SIZE];

                while (nb_list_next(&texts, text))
                        nb_hosts_add(hosts, kind, text, owner);
                return json->r;
        }
        snprintf(list, sizeof(list), "%.*s", (int)(star - path) - 1, path);
        n = nb_json_array(json, list);
        for (ssize_t i = 0; i < n; i++) {
                snprintf(item, sizeof(item), "%s[%zd%s", list, i, star + 1);
                add_texts(hosts, json, kind, item, owner);
        }
        return json->r;
}

int nb_hosts_add_node(void *userdata, struct nb_json *json) {
        const char *name = nb_json_string(json, "metadata.name");

        if (!name)
                return json->r;
        nb_hosts_add(userdata, NB_OWNER_CLAIMING_NODE, name, name);
        add_texts(userdata, json, NB_OWNER_CLAIMING_NODE, "status.addresses[*].address", name);
        return add_texts(userdata, json, NB_OWNER_POD_NETWORK, "spec.podCIDRs[*]", name);
}

/* A Service is also found by NAME and NAME.NAMESPACE in the search list of a pod. The API server
 * assigns only its cluster addresses; whoever may create a Service chooses the others. */
int nb_hosts_add_service(void *userdata, struct nb_json *json) {
        static const char *const claims[] = {
                "metadata.name",
                "spec.loadBalancerIP",
                "spec.externalIPs[*]",
                "status.loadBalancer.ingress[*].ip",
                "status.loadBalancer.ingress[*].hostname",
        };
        const char *name = nb_json_string(json, "metadata.name");
        const char *namespace = nb_json_string(json, "metadata.namespace");
        char owner[OWNER_SIZE], host[OWNER_SIZE];

        if (!name || !namespace)
                return json->r;
        snprintf(owner, sizeof(owner), "%s/%s", namespace, name);
        snprintf(host, sizeof(host), "%s.%s", name, namespace);
        nb_hosts_add(userdata, NB_OWNER_CLAIMING_SERVICE, host, owner);
        for (size_t i = 0; i < N_ELEMENTS(claims); i++)
                add_texts(userdata, json, NB_OWNER_CLAIMING_SERVICE, claims[i], owner);
        add_texts(userdata, json, NB_OWNER_SERVICE, "spec.clusterIP", owner);
        return add_texts(userdata, json, NB_OWNER_SERVICE, "spec.clusterIPs[*]", owner);
}

int nb_hosts_add_service_network(void *userdata, struct nb_json *json) {
        struct nb_hosts *hosts = userdata;
        const size_t before = hosts->n;
        int r = add_texts(hosts, json, NB_OWNER_CLUSTER, "spec.cidrs[*]", "a network of Services");

        hosts->has_service_networks |= hosts->n > before;
        return r;
}

int nb_hosts_add_endpoints(void *userdata, struct nb_json *json) {
        add_texts(userdata, json, NB_OWNER_CLUSTER, "subsets[*].addresses[*].ip", "the API server");
        return add_texts(userdata, json, NB_OWNER_CLUSTER, "subsets[*].notReadyAddresses[*].ip",
                         "the API server");
}

/* A record with a mistake in it allows its node nothing, but what can be read of its names is still
 * not allowed to others. */
int nb_hosts_add_record(void *userdata, struct nb_json *json) {
        static const char *const lists[] = { "addresses", "dnsNames" };
        struct nb_failure ignored = { 0 };
        struct nb_json view = { json->root, json->what, json->code, &ignored, 0 };
        struct nb_node_record record = { 0 };
        struct nb_hosts *hosts = userdata;
        const char *owner = record.node;

        nb_node_record_read(&view, &record);
        if (view.r == -ENOMEM || record.removed != 0)
                return view.r == -ENOMEM ? nb_failure_set_memory(json->f) : 0;
        if (view.r < 0)
                owner = "(unusable record)"; /* not the name of any node */
        nb_hosts_add(hosts, NB_OWNER_ENROLLED, record.node, owner);
        for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(LIST_MAX);
                const char *list;
                char item[NB_ITEM_SIZE];

                view.r = 0;
                nb_secret_data_read(&view, lists[i], "", &value);
                /* Names that are not read would be allowed to others. */
                if (value.error < 0)
                        hosts->error = value.error;
                list = value.data;
                while (nb_list_next(&list, item))
                        nb_hosts_add(hosts, NB_OWNER_ENROLLED, item, owner);
        }
        return 0;
}

/* --- Finding --- */

const struct nb_owned *nb_hosts_find(const struct nb_hosts *hosts, const char *host,
                                     const char *node, bool is_enrolled) {
        struct nb_prefix address;
        const bool is_address = nb_prefix_parse(host, &address) >= 0;
        const struct nb_owned *found = NULL;

        for (const struct nb_owned *item = hosts->first; item; item = item->next) {
                /* A node may not have an address of its own pods, either. */
                if ((found && item->kind >= found->kind) ||
                    (is_enrolled && item->kind > NB_OWNER_ENROLLED) ||
                    (item->kind != NB_OWNER_POD_NETWORK && !strcmp(item->owner, node)))
                        continue;
                if (is_address ? !item->name[0] && nb_prefix_contains(&item->prefix, &address)
                               : !strcmp(item->name, host))
                        found = item;
        }
        return found;
}

bool nb_hosts_is_fresh(const struct nb_hosts *hosts, uint64_t now_ms) {
        return hosts->read_ms > 0 && now_ms - hosts->read_ms <= NB_HOSTS_AGE_MAX_MS;
}

void nb_hosts_done(struct nb_hosts *hosts) {
        while (hosts->first) {
                struct nb_owned *next = hosts->first->next;

                free(hosts->first);
                hosts->first = next;
        }
        *hosts = (struct nb_hosts){ 0 };
}
