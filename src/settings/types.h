/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The types that settings have: how a value is written, read from a document and stored. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "kube/pin.h"

#define NB_SETTINGS_PATH_MAX 512
#define NB_SETTINGS_TAINT_SIZE 512 /* "prefix/name=value:PreferNoSchedule" */
#define NB_SETTINGS_EXTRA_ARG_SIZE 512
#define NB_SETTINGS_PROVIDER_ID_SIZE 512
#define NB_CSR_EXPIRATION_MIN 600 /* seconds; certificates.k8s.io/v1 spec.expirationSeconds */
#define NB_SETTING_TIMEOUT_MAX_SECONDS (3650ULL * 24 * 3600)

enum nb_cluster_type {
        NB_CLUSTER_TYPE_AUTO, /* from the form of the token */
        NB_CLUSTER_TYPE_KUBERNETES,
        NB_CLUSTER_TYPE_K3S,
};

#define NB_SETTING_HINT_SIZE 128

struct nb_setting_type {
        const char *yaml;     /* what nb_yaml_type_name() says of a value; NULL: "a string" */
        const char *expected; /* the values, for messages */

        /* One of these words; stored as its index, in a bool if there are two, otherwise in an
         * enum. NULL: `parse` and `format` read and write the values; no `format`: a string. */
        const char *const *words;
        unsigned n_words;

        /* 0 or -EINVAL, with nothing stored. */
        int (*parse)(const char *text, size_t len, void *ret);
        /* Appends the value as a document has it. 0, -E2BIG, -ENOMEM. */
        void (*format)(const void *value, struct nb_buffer *ret);

        /* For entries of a list: whether only one of the two can be in it. */
        bool (*is_same)(const void *a, const void *b);
        bool is_repeatable; /* the second one is dropped instead of refused */
        /* Why a value was refused, as "; ...", perhaps in `buffer`; or NULL. */
        const char *(*hint)(const char *text, char buffer[static NB_SETTING_HINT_SIZE]);
};

extern const struct nb_setting_type nb_setting_type_boolean, nb_setting_type_cluster_type,
        nb_setting_type_config_from, nb_setting_type_cri_socket, nb_setting_type_duration,
        nb_setting_type_endpoint, nb_setting_type_expiration, nb_setting_type_extra_arg,
        nb_setting_type_node_name, nb_setting_type_path, nb_setting_type_path_or_url,
        nb_setting_type_pin, nb_setting_type_provider, nb_setting_type_provider_id,
        nb_setting_type_taint, nb_setting_type_token;

/* Appends the value as a document has it. */
void nb_setting_type_format(const struct nb_setting_type *type, const void *value,
                            struct nb_buffer *ret);

/* "90m", "1h30m": each unit of d, h, m, s at most once, the larger one first. `is_go`: as Go writes
 * durations: h, m, s, ms in any order, "1.5s". 0 or -EINVAL. */
int nb_setting_duration_parse(const char *text, bool is_go, uint64_t *ret_ms);

/* What an argument of kubelet must not contain, besides control characters: systemd splits
 * KUBELET_KUBEADM_ARGS at blanks, and reads quotes, backslashes and variables in it. */
#define NB_KUBELET_ARGUMENT_REFUSED " \"'\\$`"

/* Whether kubelet and that line accept the name, `name_len` bytes without dashes, and the value. */
bool nb_kubelet_argument_is_valid(const char *name, size_t name_len, const char *value);
