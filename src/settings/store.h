/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stores values from documents as settings, and formats messages about refused values. For the
 * parsers of documents and of a command line: merge.c, join_configuration.c, setup. No message
 * contains a secret.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "codec/yaml.h"
#include "settings/settings.h"

/* Size of "discovery.caCertHashes[1]"; longer keys are cut. */
#define NB_SETTING_KEY_MAX 128

/* A document that is being merged. */
struct nb_settings_merge {
        struct nb_settings *settings;
        const struct nb_settings_source *source;
        struct nb_failure *f;
};

/* How the keys of a mapping are read. A key with a dot is in a section, which can be empty. */
struct nb_settings_walk {
        const struct nb_settings_merge *merge;
        /* Returns the known key `i`; NULL after the last one. NULL: `take` gets all keys. */
        const char *(*known_key)(size_t i);
        int (*take)(void *userdata, size_t i, const char *path, const struct nb_yaml_node *node);
        void *userdata;
        size_t base_len;  /* length of the path of the mapping that the keys are relative to */
        bool is_tolerant; /* a key whose value is refused, even in parts, is skipped */
};

/* Calls `take` for each key, with its index among the known keys and its path ("node.name").
 * `parent` is the path of the mapping, "" for the document itself, whose apiVersion and kind are
 * skipped if there are known keys. Stops at the first failure, unless the walk is tolerant: then
 * the failure is the first one of a path of kubelet, or unset. NB_SETTINGS_INVALID. */
int nb_settings_walk(const struct nb_settings_walk *walk, const struct nb_yaml_node *mapping,
                     const char *parent);

/* --- Messages; all return NB_SETTINGS_INVALID. `line` is 0 for the command line --- */

int nb_settings_refuse(const struct nb_settings_merge *merge, unsigned line, const char *path,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "expected EXPECTED, found ...". `type` is the type that the node should have ("a string"); NULL
 * if its type is right. */
int nb_settings_refuse_node(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                            const char *path, const char *expected, const char *type);
int nb_settings_refuse_text(const struct nb_settings_merge *merge, unsigned line, const char *path,
                            const char *expected, const char *text, const char *hint);

/* Refuses an IPv6 address without brackets, which kubeadm does not accept, and shows where they
 * belong; 0 for any other text. */
int nb_settings_refuse_bare_ipv6(const struct nb_settings_merge *merge, unsigned line,
                                 const char *path, const char *text);

/* Refuses a node whose type is not `type` ("a list"). */
int nb_settings_refuse_type(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                            const char *path, const char *type);

/* --- Storing; in a JoinConfiguration, `path` differs from the setting's key --- */

bool nb_settings_is_string(const struct nb_yaml_node *node);

int nb_settings_store(const struct nb_settings_merge *merge, enum nb_setting setting,
                      const struct nb_yaml_node *node, const char *path);

/* Store a value with its origin, or append an entry to a list, from a node or a text. */
int nb_settings_store_node(const struct nb_settings_merge *merge, enum nb_setting setting,
                           const struct nb_yaml_node *node, const char *path);
int nb_settings_store_text(const struct nb_settings_merge *merge, enum nb_setting setting,
                           unsigned line, const char *path, const char *text);

/* Empties a list, before this document sets its entries. */
void nb_settings_clear_list(const struct nb_settings_merge *merge, enum nb_setting setting);

/* --- Tokens --- */

enum nb_settings_token {
        NB_SETTINGS_TOKEN_ANY, /* for discovery: a bootstrap token or a k3s token */
        NB_SETTINGS_TOKEN_DISCOVERY,
        NB_SETTINGS_TOKEN_TLS_BOOTSTRAP,
};

/* NB_TOKEN_EXPOSED, NB_TOKEN_MALFORMED; in metadata, NB_METADATA_MALFORMED. */
int nb_settings_store_token(const struct nb_settings_merge *merge, enum nb_settings_token kind,
                            const struct nb_yaml_node *node, const char *path);
