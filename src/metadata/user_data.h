/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User data: one field of the instance that several tools share. It has a document for this
 * program or data for another one. It may be raw, base64, gzip (RFC 1952), or base64 of gzip, and
 * contain one of:
 *
 *      a NodeBootstrap document or a kubeadm JoinConfiguration (settings.h), in YAML or JSON
 *      a MIME multipart message (RFC 2046) with a part of type application/vnd.node-bootstrap+yaml,
 *              or with a part in one of the other forms
 *      `#cloud-config` with a top-level key node_bootstrap, whose value is a NodeBootstrap
 *              document with or without apiVersion and kind; also below "## template: jinja" if
 *              that key has no Jinja expressions
 *
 * As in cloud-init, white space may precede the first line, and its case is ignored.
 *
 * No I/O. User data may contain a token, so every copy of it is a struct nb_secret.
 */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

/* Bytes as the cloud returns them. The largest known limit of a cloud is 256 KiB (GCE). */
#define NB_USER_DATA_MAX (1024 * 1024)
#define NB_USER_DATA_TEXT_MAX (1024 * 1024) /* bytes after decoding base64 and gzip */

enum nb_user_data_kind {
        NB_USER_DATA_NOTHING,    /* nothing for this program */
        NB_USER_DATA_UNREADABLE, /* gzip that is cut, damaged or too large; it may be for this
                                    program */
        NB_USER_DATA_DOCUMENT,   /* settings, which may contain tokens */
};

struct nb_user_data {
        enum nb_user_data_kind kind;
        char what[128]; /* describes the data in messages without quoting it: "a shell script", "a
                           NodeBootstrap document, in gzip" */
        struct nb_secret document; /* for nb_settings_merge() */
        /* for nb_settings_merge(): the top-level key that has the settings; or NULL */
        const char *key;
};

#define NB_USER_DATA_INIT \
        { .document = NB_SECRET_INIT }

/*
 * `origin` names the data in messages: "the user data of Amazon EC2". NB_METADATA_MALFORMED for
 * more than NB_USER_DATA_MAX bytes, and for a MIME part or cloud-config that is for this program
 * and invalid. Data for another program is not an error.
 */
int nb_user_data_parse(const char *origin, const char *data, size_t len,
                       struct nb_user_data *ret_user_data, struct nb_failure *f);

void nb_user_data_done(struct nb_user_data *user_data);
