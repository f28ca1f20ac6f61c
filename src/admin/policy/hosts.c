/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/policy/hosts.h"
#include "base/macro.h"

#define PATH_SIZE 96
#define OWNER_SIZE 640

int nb_host_fold(const char *text, char ret_host[static NB_HOST_SIZE]) {
        struct nb_address address;
        size_t len = strlen(text);

        if (nb_address_parse(text, &address) >= 0)
                return inet_ntop(AF_INET6, address.bytes, ret_host, NB_HOST_SIZE) ? 0 : -EINVAL;
        if (len > 0 && text[len - 1] == '.')
                len--;
        if (len >= NB_HOST_SIZE)
                return -EINVAL;
        for (size_t i = 0; i < len; i++)
                ret_host[i] = (char)tolower((unsigned char)text[i]);
        ret_host[len] = '\0';
        return nb_dns_name_is_valid(ret_host, len, NB_DNS_LABEL_MAX) ? 0 : -EINVAL;
}

/* --- Adding --- */

static int add_item(struct nb_hosts *hosts, struct nb_owned item, const char *host,
                    const char *owner) {
        if (hosts->n == NB_HOSTS_MAX)
                return -E2BIG;
        if (hosts->n == hosts->allocated) {
                size_t allocated = hosts->allocated ? hosts->allocated * 2 : 64;
                struct nb_owned *grown = reallocarray(hosts->items, allocated, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                hosts->items = grown;
                hosts->allocated = allocated;
        }
        item.host = host ? strdup(host) : NULL;
        item.owner = strdup(owner);
        if ((host && !item.host) || !item.owner) {
                free(item.host);
                free(item.owner);
                return -ENOMEM;
        }
        hosts->items[hosts->n++] = item;
        hosts->is_sorted = false;
        return 0;
}

/* Kubernetes reads "010.0.0.9" in an object as 10.0.0.9, and keeps the text. */
static void drop_zeros(const char *text, char ret[static NB_HOST_SIZE]) {
        bool is_ipv4 = !text[strspn(text, "0123456789./")];
        size_t n = 0, n_dots = 0;

        for (const char *at = text; *at; at++)
                n_dots += *at == '.';
        is_ipv4 &= n_dots == 3; /* not the node "007" */
        for (; *text; text++)
                if (!is_ipv4 || *text != '0' || !isdigit((unsigned char)text[1]) ||
                    (n > 0 && ret[n - 1] != '.'))
                        ret[n++] = *text;
        ret[n] = '\0';
}

int nb_hosts_add(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *host,
                 const char *owner) {
        char folded[NB_HOST_SIZE], decimal[NB_HOST_SIZE] = "";

        if (!host || strlen(host) >= sizeof(decimal))
                return 0;
        drop_zeros(host, decimal);
        if (nb_host_fold(decimal, folded) < 0)
                return 0;
        return add_item(hosts, (struct nb_owned){ .kind = kind }, folded, owner);
}

static int add_network(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *text,
                       const char *owner) {
        char decimal[NB_HOST_SIZE] = "";
        struct nb_prefix network;

        if (!text || strlen(text) >= sizeof(decimal))
                return 0;
        drop_zeros(text, decimal);
        if (nb_network_parse(decimal, &network) < 0)
                return 0;
        return add_item(hosts, (struct nb_owned){ .kind = kind, .network = network }, NULL, owner);
}

/* Adds the texts at LIST[i]MEMBER with `add`. */
static int add_list(struct nb_hosts *hosts, enum nb_owner_kind kind, struct nb_json *json,
                    const char *list, const char *member, const char *owner,
                    int (*add)(struct nb_hosts *hosts, enum nb_owner_kind kind, const char *text,
                               const char *owner)) {
        ssize_t n = nb_json_array(json, list);
        int r = 0;

        for (ssize_t i = 0; i < n && r >= 0; i++) {
                char path[PATH_SIZE];

                snprintf(path, sizeof(path), "%s[%zd]%s", list, i, member);
                r = add(hosts, kind, nb_json_string(json, path), owner);
        }
        return r;
}

static int check(struct nb_json *json, int r) {
        return r < 0 ? nb_failure_set(json->f, NB_INTERNAL, r, "%s: %m", json->what) : json->r;
}

int nb_hosts_add_node(void *userdata, struct nb_json *json) {
        struct nb_hosts *hosts = userdata;
        const char *name = nb_json_string(json, "metadata.name");
        int r;

        if (!name)
                return 0;
        r = nb_hosts_add(hosts, NB_OWNER_CLAIMING_NODE, name, name);
        if (r >= 0)
                r = add_list(hosts, NB_OWNER_CLAIMING_NODE, json, "status.addresses", ".address",
                             name, nb_hosts_add);
        if (r >= 0)
                r = add_list(hosts, NB_OWNER_CLAIMING_NODE, json, "spec.podCIDRs", "", name,
                             add_network);
        return check(json, r);
}

/* A Service is also found by NAME and NAME.NAMESPACE in the search list of a pod. The API server
 * assigns only its cluster addresses; whoever may create a Service chooses the others. */
int nb_hosts_add_service(void *userdata, struct nb_json *json) {
        struct nb_hosts *hosts = userdata;
        static const struct {
                const char *list, *member;
        } claims[] = {
                { "spec.externalIPs", "" },
                { "status.loadBalancer.ingress", ".ip" },
                { "status.loadBalancer.ingress", ".hostname" },
        };
        const char *name = nb_json_string(json, "metadata.name");
        const char *namespace = nb_json_string(json, "metadata.namespace");
        enum nb_owner_kind kind = NB_OWNER_SERVICE;
        char owner[OWNER_SIZE], host[OWNER_SIZE];
        int r;

        if (!name || !namespace)
                return 0;
        snprintf(owner, sizeof(owner), "%s/%s", namespace, name);
        snprintf(host, sizeof(host), "%s.%s", name, namespace);
        if (!strcmp(owner, "default/kubernetes"))
                kind = NB_OWNER_CLUSTER;
        r = nb_hosts_add(hosts, kind, nb_json_string(json, "spec.clusterIP"), owner);
        if (r >= 0)
                r = add_list(hosts, kind, json, "spec.clusterIPs", "", owner, nb_hosts_add);
        if (r >= 0)
                r = nb_hosts_add(hosts, NB_OWNER_CLAIMING_SERVICE, name, owner);
        if (r >= 0)
                r = nb_hosts_add(hosts, NB_OWNER_CLAIMING_SERVICE, host, owner);
        if (r >= 0)
                r = nb_hosts_add(hosts, NB_OWNER_CLAIMING_SERVICE,
                                 nb_json_string(json, "spec.loadBalancerIP"), owner);
        for (size_t i = 0; i < N_ELEMENTS(claims) && r >= 0; i++)
                r = add_list(hosts, NB_OWNER_CLAIMING_SERVICE, json, claims[i].list,
                             claims[i].member, owner, nb_hosts_add);
        return check(json, r);
}

int nb_hosts_add_service_network(void *userdata, struct nb_json *json) {
        struct nb_hosts *hosts = userdata;
        const size_t before = hosts->n;
        int r = add_list(hosts, NB_OWNER_CLUSTER, json, "spec.cidrs", "", "a network of Services",
                         add_network);

        hosts->has_service_networks |= hosts->n > before;
        return check(json, r);
}

int nb_hosts_add_endpoints(void *userdata, struct nb_json *json) {
        struct nb_hosts *hosts = userdata;
        static const char *const lists[] = { "addresses", "notReadyAddresses" };
        ssize_t n = nb_json_array(json, "subsets");
        int r = 0;

        for (ssize_t i = 0; i < n; i++)
                for (size_t k = 0; k < N_ELEMENTS(lists) && r >= 0; k++) {
                        char path[PATH_SIZE];

                        snprintf(path, sizeof(path), "subsets[%zd].%s", i, lists[k]);
                        r = add_list(hosts, NB_OWNER_CLUSTER, json, path, ".ip", "the API server",
                                     nb_hosts_add);
                }
        return check(json, r);
}

/* A record with a mistake in it allows its node nothing, but what can be read of its names is still
 * not allowed to others. */
int nb_hosts_add_record(void *userdata, struct nb_json *json) {
        struct nb_failure *f = json->f, ignored = { 0 };
        struct nb_node_record record = { .removed = 1 };
        int r = 0;

        json->f = &ignored;
        nb_node_record_read(json, &record);
        if (json->r < 0) {
                json->r = 0;
                nb_json_line(json, "metadata.name", record.node, sizeof(record.node));
                nb_node_record_read_names(json, &record);
        }
        json->f = f;
        json->r = 0;
        if (record.removed == 0)
                r = nb_hosts_add(userdata, NB_OWNER_ENROLLED, record.node, record.node);
        for (unsigned i = 0; i < record.n_names && r >= 0; i++)
                r = nb_hosts_add(userdata, NB_OWNER_ENROLLED, record.names[i].text, record.node);
        return check(json, r);
}

/* --- Finding --- */

static int compare_items(const void *a, const void *b) {
        const struct nb_owned *left = a, *right = b;
        int r = (left->host != NULL) - (right->host != NULL);

        if (r == 0 && left->host)
                r = strcmp(left->host, right->host);
        return r != 0 ? r : (int)left->kind - (int)right->kind;
}

static void sort_items(struct nb_hosts *hosts) {
        if (hosts->is_sorted)
                return;
        if (hosts->n > 0)
                qsort(hosts->items, hosts->n, sizeof(*hosts->items), compare_items);
        for (hosts->n_networks = 0; hosts->n_networks < hosts->n; hosts->n_networks++)
                if (hosts->items[hosts->n_networks].host)
                        break;
        hosts->is_sorted = true;
}

/* The index of the first item that is not before `host`. */
static size_t find_first(const struct nb_hosts *hosts, const char *host) {
        size_t low = hosts->n_networks, high = hosts->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(hosts->items[middle].host, host) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static bool is_of_other(const struct nb_owned *item, const char *node) {
        return (item->kind != NB_OWNER_ENROLLED && item->kind != NB_OWNER_CLAIMING_NODE) ||
               strcmp(item->owner, node) != 0;
}

const struct nb_owned *nb_hosts_find(struct nb_hosts *hosts, const char *host, const char *node,
                                     bool is_enrolled) {
        const enum nb_owner_kind end = is_enrolled ? _NB_OWNER_CLAIMS : NB_OWNER_CLAIMING_NODE + 1;
        struct nb_address address;

        sort_items(hosts);
        for (size_t i = find_first(hosts, host); i < hosts->n; i++) {
                const struct nb_owned *item = &hosts->items[i];

                if (strcmp(item->host, host) != 0)
                        break;
                if (item->kind < end && is_of_other(item, node))
                        return item;
        }
        if (nb_address_parse(host, &address) < 0)
                return NULL;
        for (size_t i = 0; i < hosts->n_networks; i++) {
                const struct nb_owned *item = &hosts->items[i];

                if (item->kind < end && nb_prefix_contains(&item->network, &address))
                        return item;
        }
        return NULL;
}

void nb_hosts_done(struct nb_hosts *hosts) {
        for (size_t i = 0; i < hosts->n; i++) {
                free(hosts->items[i].host);
                free(hosts->items[i].owner);
        }
        free(hosts->items);
        *hosts = (struct nb_hosts){ 0 };
}
