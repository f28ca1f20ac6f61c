/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "install/present.h"
#include "install/salvage.h"

#define COMMON_NAME "CN=system:node:"

/* "" if it is not a node's certificate. nb_present_classify() checks whether the certificate is
 * usable. */
static void read_node_name(const struct nb_certificates *chain,
                           char ret[static NB_NODE_NAME_MAX + 1]) {
        char subject[NB_SUBJECT_SIZE];
        const char *name;

        nb_certificate_subject(chain, 0, subject);
        name = strstr(subject, COMMON_NAME);
        if (name)
                name += strlen(COMMON_NAME);
        if (!name || nb_node_name_parse(name, strcspn(name, ",+"), ret) < 0)
                ret[0] = '\0';
}

static bool is_kept(struct nb_context *context, struct nb_inspection *ret_inspection) {
        _cleanup_(nb_present_done) struct nb_present present = { 0 };
        struct nb_failure ignored = { 0 };

        if (nb_present_read(context, &present, &ignored) < 0)
                return false;
        if (!context->node_name[0] && present.chain)
                read_node_name(present.chain, context->node_name);
        nb_present_classify(&present, context, ret_inspection);
        return nb_node_state_is_joined(ret_inspection->state) || ret_inspection->fallback;
}

bool nb_salvage(int root_fd, struct nb_sources *sources, struct nb_inspection *ret_inspection) {
        _cleanup_(nb_context_done) struct nb_context context = { 0 };
        struct nb_failure ignored = { 0 };

        if (nb_context_load(&context, root_fd, sources, &ignored) >= 0)
                return is_kept(&context, ret_inspection);
        for (unsigned is_by_record = 0; is_by_record < 2; is_by_record++) {
                _cleanup_(nb_context_done) struct nb_context salvaged = { 0 };

                nb_context_salvage(&salvaged, root_fd, sources, is_by_record);
                if (is_kept(&salvaged, ret_inspection))
                        return true;
        }
        return false;
}
