/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The types of settings: how a value is parsed, stored and formatted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "codec/url.h"
#include "kube_objects/node_name.h"
#include "kube_objects/pin.h"
#include "metadata/cloud_names.h"

#define NB_SETTINGS_PATH_MAX 512
#define NB_SETTINGS_TAINT_SIZE 512 /* "prefix/name=value:PreferNoSchedule" */
#define NB_SETTINGS_EXTRA_ARG_SIZE 512
#define NB_SETTINGS_PROVIDER_ID_SIZE 512
#define NB_SETTINGS_PROOF_KEY_SIZE 32
#define NB_PROOF_KEY_CREDENTIAL "credential"
#define NB_PROOF_KEY_TPM "tpm"
#define NB_CSR_EXPIRATION_MIN 600 /* seconds; certificates.k8s.io/v1 spec.expirationSeconds */
#define NB_SETTING_TIMEOUT_MAX_SECONDS (3650ULL * 24 * 3600)

enum nb_cluster_type {
        NB_CLUSTER_TYPE_AUTO, /* from the form of the token */
        NB_CLUSTER_TYPE_KUBERNETES,
        NB_CLUSTER_TYPE_K3S,
};

#define NB_SETTING_HINT_SIZE 128

struct nb_setting_type {
        const char *yaml;     /* the nb_yaml_type_name() of a value; NULL: "a string" */
        const char *expected; /* the allowed values, for messages */

        /* The allowed words. A word is stored as its index: in a bool if there are two words,
         * otherwise in an enum. NULL: `parse` and `format` read and write the value; without
         * `format`, it is a string. */
        const char *const *words;
        unsigned n_words;

        /* 0; -EINVAL, and nothing is stored. */
        int (*parse)(const char *text, size_t len, void *ret);
        /* Appends the value as it is written in a document. */
        void (*format)(const void *value, struct nb_buffer *ret);

        /* For a list: whether two entries exclude each other. */
        bool (*is_same)(const void *a, const void *b);
        bool is_repeatable; /* the second of such entries is dropped instead of refused */
        /* Returns why a value was refused, as "; ...", or NULL. May use `buffer` for the text. */
        const char *(*hint)(const char *text, char buffer[static NB_SETTING_HINT_SIZE]);
        bool is_hint_enough; /* it says all, without what was expected and found */
};

/* What each type stores. The member of struct nb_settings has the same type, see settings.c. */
union nb_setting_value {
        bool boolean, config_from, token;
        enum nb_cluster_type cluster_type;
        enum nb_provider provider;
        char path[NB_SETTINGS_PATH_MAX], path_or_url[NB_SETTINGS_PATH_MAX];
        char cri_socket[NB_SETTINGS_PATH_MAX], node_name[NB_NODE_NAME_MAX + 1];
        char taint[NB_SETTINGS_TAINT_SIZE], extra_arg[NB_SETTINGS_EXTRA_ARG_SIZE];
        char provider_id[NB_SETTINGS_PROVIDER_ID_SIZE], proof_key[NB_SETTINGS_PROOF_KEY_SIZE];
        uint8_t pin[NB_PIN_SIZE];
        uint32_t expiration;
        uint64_t duration;
        struct nb_url endpoint;
};

extern const struct nb_setting_type nb_setting_type_boolean, nb_setting_type_cluster_type,
        nb_setting_type_config_from, nb_setting_type_cri_socket, nb_setting_type_duration,
        nb_setting_type_endpoint, nb_setting_type_expiration, nb_setting_type_extra_arg,
        nb_setting_type_node_name, nb_setting_type_path, nb_setting_type_path_or_url,
        nb_setting_type_pin, nb_setting_type_proof_key, nb_setting_type_provider,
        nb_setting_type_provider_id, nb_setting_type_taint, nb_setting_type_token;

/* Appends the value as it is written in a document. */
void nb_setting_type_format(const struct nb_setting_type *type, const void *value,
                            struct nb_buffer *ret);

/* "90m", "1h30m": each unit of d, h, m, s at most once, larger units first. `is_go`: the format of
 * Go, with h, m, s and ms in any order: "1.5s". 0 or -EINVAL. */
int nb_setting_duration_parse(const char *text, bool is_go, uint64_t *ret_ms);

/* Characters that an argument of kubelet must not contain, besides control characters: systemd
 * splits KUBELET_KUBEADM_ARGS at blanks, and interprets quotes, backslashes and variables in it. */
#define NB_KUBELET_ARGUMENT_REFUSED " \"'\\$`"

/* Whether kubelet and that line accept the name, `name_len` bytes without dashes, and the value. */
bool nb_kubelet_argument_is_valid(const char *name, size_t name_len, const char *value);
