/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User data: one field of the instance that several tools share. It has a document for this
 * program or data for another one:
 *
 *      a NodeBootstrap document or a kubeadm JoinConfiguration (settings.h), in YAML or JSON
 *      `#cloud-config` with a top-level key node_bootstrap, whose value is a NodeBootstrap
 *              document with or without apiVersion and kind; also below "## template: jinja" if
 *              that key has no Jinja expressions
 *
 * As in cloud-init, white space may precede the first line, and its case is ignored. All of it may
 * be in base64: the APIs of Akamai, Azure and Oracle return base64, and VMware's guestinfo.userdata
 * is base64 if guestinfo.userdata.encoding says so. MIME and gzip are not read. Data that is meant
 * for this program but has another form, such as text in UTF-16, is described, with a hint.
 *
 * No I/O. User data may contain a token, so every copy of it is a struct nb_secret.
 */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

/* Bytes as the cloud returns them. The largest known limit of a cloud is 256 KiB (GCE). */
#define NB_USER_DATA_MAX (1024 * 1024)

enum nb_user_data_kind {
        NB_USER_DATA_NOTHING,  /* nothing for this program */
        NB_USER_DATA_DOCUMENT, /* settings, which may contain tokens */
};

struct nb_user_data {
        enum nb_user_data_kind kind;
        char what[128]; /* describes the data in messages without quoting it: "a shell script", "a
                           NodeBootstrap document, in base64" */
        /* "; ...", for messages: what to do if the data is for this program; NULL for none */
        const char *hint;
        struct nb_secret document; /* for nb_settings_merge() */
        /* for nb_settings_merge(): the top-level key that has the settings; or NULL */
        const char *key;
};

#define NB_USER_DATA_INIT \
        { .document = NB_SECRET_INIT }

/*
 * `origin` names the data in messages: "the user data of Amazon EC2". NB_METADATA_MALFORMED for
 * more than NB_USER_DATA_MAX bytes, and for a cloud-config that is for this program and invalid.
 * Data for another program is not an error.
 */
int nb_user_data_parse(const char *origin, const char *data, size_t len,
                       struct nb_user_data *ret_user_data, struct nb_failure *f);

void nb_user_data_done(struct nb_user_data *user_data);
