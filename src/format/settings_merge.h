/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What settings.c, settings_values.c, settings_tokens.c, settings_metadata.c, settings_messages.c and join_configuration.c
 * share: the one table of settings, and how a value out of a document gets into them. Private to these files.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "format/settings.h"
#include "format/yaml.h"

#define NB_SETTING_KEY_MAX 128 /* bytes of "discovery.caCertHashes[1]", longer ones are cut in messages */

#define NB_SETTING_HINT_SIZE 128

enum nb_setting_type {
        NB_SETTING_TYPE_LIST, /* of strings */
        NB_SETTING_TYPE_STRING,
        NB_SETTING_TYPE_BOOLEAN,
        NB_SETTING_TYPE_NUMBER,
};

/* A key: what it takes, and where that goes. */
struct nb_setting_row {
        const char *key;
        enum nb_setting_type type;
        /* Gets the scalar, or each one of a list; 0, -EINVAL, -E2BIG for one more than a list holds, -EEXIST for the same
         * once more. */
        int (*store)(struct nb_settings *settings, size_t offset, const char *value, size_t len);
        size_t offset; /* of the member, for what several rows share */
        const char *expected;
        size_t n_offset; /* a list: of the number of its entries, and */
        unsigned max;    /* how many it holds */
        /* What a person should know of this value that was refused: "; ..."; or NULL. It may stand in `buffer`. */
        const char *(*hint)(const char *value, char buffer[static NB_SETTING_HINT_SIZE]);
};

extern const struct nb_setting_row nb_setting_rows[_NB_SETTING_N];

/* Takes "90m", "1h30m"; each unit once, the larger one first. 0 or -EINVAL. */
int nb_setting_duration_parse(const char *text, uint64_t *ret_seconds);
#define NB_SETTING_TIMEOUT_MAX_SECONDS (3650ULL * 24 * 3600)

/* A document that is being merged. */
struct nb_settings_merge {
        struct nb_settings *settings;
        const char *origin;
        bool is_exposed, is_metadata;
        struct nb_failure *f;
};

/* --- Messages (settings_messages.c); all NB_SETTINGS_INVALID --- */

/* `wanted` is the type that is expected, "a string"; NULL when the type is right. `hint` may be NULL. */
int nb_settings_refuse(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path,
                       const char *expected, const char *wanted, const char *hint);

/* A text that was put together of several values. */
int nb_settings_refuse_text(const struct nb_settings_merge *merge, unsigned line, const char *path, const char *expected,
                            const char *text, const char *hint);

/* `meant` may be NULL. */
int nb_settings_refuse_unknown(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path,
                               const char *meant);

/* Before any message has the key in it: a token that stands where a key belongs. */
int nb_settings_check_key(const struct nb_settings_merge *merge, const struct nb_yaml_node *node);

/* Of user data, too. Takes `candidate` for what was probably meant when it is nearer than what *ret_meant holds; *least begins with
 * NB_SETTINGS_FAR. */
#define NB_SETTINGS_FAR 3
void nb_settings_nearer(const char *path, const char *candidate, const char **ret_meant, unsigned *least);

/* --- Storing (settings.c) --- */

/* A node under the key `path`, which is another than the row's in a JoinConfiguration. */
int nb_settings_store(const struct nb_settings_merge *merge, enum nb_setting setting, const struct nb_yaml_node *node,
                      const char *path);

/* Empties a list, and enters where it is from now on from. */
void nb_settings_clear_list(const struct nb_settings_merge *merge, enum nb_setting setting);

/* One more entry of a list, in the words of its row. */
int nb_settings_store_entry(const struct nb_settings_merge *merge, enum nb_setting setting, unsigned line,
                            const char *text, const char *path);

void nb_settings_set_origin(const struct nb_settings_merge *merge, enum nb_setting setting);

/* --- Tokens (settings_tokens.c) --- */

/* Nothing of the value is ever in a message. NB_TOKEN_EXPOSED, NB_TOKEN_MALFORMED. `is_k3s_known`: a token of k3s will do. */
int nb_settings_store_discovery_token(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path,
                                      bool is_k3s_known);
int nb_settings_store_tls_bootstrap_token(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path);

/* --- Metadata (settings_metadata.c); no more than a look where the document is not out of it --- */

/* NB_SETTINGS_INVALID where metadata may not set it. */
int nb_settings_check_metadata_key(const struct nb_settings_merge *merge, enum nb_setting setting, unsigned line, const char *path);

/* The same for one value, or entry of a list. */
int nb_settings_check_metadata_value(const struct nb_settings_merge *merge, enum nb_setting setting, unsigned line, const char *path,
                                     const char *value);
