/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "base/macro.h"

/* Kubernetes reads "010.0.0.9" in an object as 10.0.0.9, and keeps the text. */
static void drop_zeros(const char *text, char ret[static NB_HOST_SIZE]) {
        size_t n = 0;

        for (; *text; text++)
                if (*text != '0' || !isdigit((unsigned char)text[1]) ||
                    (n > 0 && ret[n - 1] != '.'))
                        ret[n++] = *text;
        ret[n] = '\0';
}

void nb_hosts_add(struct nb_hosts *hosts, const char *host, const char *owner, bool is_enrolled) {
        char text[NB_HOST_SIZE], folded[NB_HOST_SIZE];
        struct nb_owned *item;

        if (strlen(host) >= sizeof(text))
                return;
        drop_zeros(host, text);
        if ((nb_host_fold(text, folded) < 0 || !nb_host_is_address(folded)) &&
            (!is_enrolled || nb_host_fold(host, folded) < 0))
                return;
        item = hosts->n < NB_HOSTS_MAX ? malloc(sizeof(*item) + strlen(folded) + strlen(owner) + 2)
                                       : NULL;
        if (!item) {
                hosts->is_incomplete = true;
                return;
        }
        *item = (struct nb_owned){ hosts->first, is_enrolled, item->host + strlen(folded) + 1 };
        memcpy(item->host, folded, strlen(folded) + 1);
        memcpy(item->owner, owner, strlen(owner) + 1);
        hosts->first = item;
        hosts->n++;
}

/* --- Objects --- */

static void add_list(struct nb_hosts *hosts, const char *list, const char *owner,
                     bool is_enrolled) {
        char item[NB_ITEM_SIZE];

        while (nb_list_next(&list, item))
                nb_hosts_add(hosts, item, owner, is_enrolled);
}

static void add_node(struct nb_hosts *hosts, struct nb_json *json) {
        const char *name = nb_json_string(json, "metadata.name");
        const ssize_t n = nb_json_array(json, "status.addresses");

        for (ssize_t i = 0; i < n && name; i++) {
                char path[64];

                /* As the addresses of a Node are read (kube_objects/node_object.h). */
                snprintf(path, sizeof(path), "status.addresses[%zd].address", i);
                add_list(hosts, nb_json_string(json, path), name, false);
        }
}

static void add_record(struct nb_hosts *hosts, struct nb_json *json) {
        struct nb_node_record record = { 0 };

        nb_node_record_read(json, &record);
        add_list(hosts, record.addresses, record.node, true);
        add_list(hosts, record.dns_names, record.node, true);
}

int nb_hosts_add_object(void *userdata, struct nb_json *json) {
        struct nb_failure ignored = { 0 };
        struct nb_json view = { json->root, json->what, json->code, &ignored, 0 };
        struct nb_hosts *hosts = userdata;

        if (json->root && nb_json_string(&view, "type")) /* of a Secret */
                add_record(hosts, &view);
        else if (json->root)
                add_node(hosts, &view);
        hosts->is_incomplete |= !json->root || view.r < 0;
        return 0;
}

/* --- Finding --- */

const struct nb_owned *nb_hosts_find(const struct nb_hosts *hosts, const char *host,
                                     const char *node) {
        for (const struct nb_owned *item = hosts->first; item; item = item->next)
                if (strcmp(item->owner, node) != 0 && !strcmp(item->host, host))
                        return item;
        return NULL;
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
