/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "kube/answer.h"
#include "kube/node_calls.h"

#define NODES_PATH "/api/v1/nodes"

int nb_node_read(struct nb_api *api, const char *name, uint64_t until_ms, struct nb_node_object *ret_node, long *ret_status,
                 struct nb_failure *f) {
        static const struct nb_answer_codes codes = {
                .unauthorized = NB_ANSWER_MALFORMED,
                .forbidden = NB_ANSWER_MALFORMED,
                .invalid = NB_ANSWER_MALFORMED,
        };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char path[sizeof(NODES_PATH) + NB_NODE_NAME_MAX + 2], what[NB_URL_MAX + NB_NODE_NAME_MAX + 32];
        int r;

        (void)snprintf(what, sizeof(what), "the Node '%s' from %s", name, api->name);
        (void)snprintf(path, sizeof(path), NODES_PATH "/%s", name);
        r = nb_api_get(api, path, what, NB_NODE_OBJECT_MAX, until_ms, &answer, f);
        if (r < 0)
                return r;
        *ret_status = answer.status;
        if (answer.status == 404)
                return 0;
        if (answer.status == 401 || answer.status == 403)
                return -EACCES;
        if (answer.status != 200)
                return nb_answer_failure(&answer, what, &codes, f);
        r = nb_node_object_parse(nb_answer_text(&answer), answer.body.len, ret_node, f);
        if (r < 0)
                return r;
        if (strcmp(ret_node->name, name) != 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG, "%s: the answer is the Node '%s'", what, ret_node->name);
        return 1;
}
