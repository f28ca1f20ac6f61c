/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User data as clouds hand it out: one field that several tools share. Either it holds something for this program, or it
 * is somebody else's and no error. Raw, base64 or gzip (RFC 1952), also base64 of gzip; in it
 *
 *      a NodeBootstrap document or a kubeadm JoinConfiguration (settings.h)
 *      a MIME multipart message (RFC 2046) with a part of type application/vnd.node-bootstrap+yaml, or with parts that are one of
 *      the other forms; parts are raw, quoted-printable or base64
 *      `#cloud-config` with a top-level key node_bootstrap: what a NodeBootstrap document has, apiVersion and kind not required
 *      {"systemd.credentials": [{"name": ..., "text": ...}, {"name": ..., "data": BASE64}]} as systemd-imds(8) of systemd 261 has it, also
 *      after a first line "#systemd-userdata"
 *
 * As for cloud-init, white space may stand before the first line, and its case is left aside.
 *
 * No I/O. What comes out may hold secrets, and so does what goes in.
 */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

#define NB_USER_DATA_MAX (1024 * 1024)      /* bytes as the cloud hands them out; the largest limit of a cloud that is known: 256 KiB, GCE */
#define NB_USER_DATA_TEXT_MAX (1024 * 1024) /* bytes after base64 and gzip */

enum nb_user_data_kind {
        NB_USER_DATA_NOTHING,     /* nothing for us */
        NB_USER_DATA_UNREADABLE,  /* nobody can tell whose it is: gzip that is cut, damaged, or too large when it is expanded */
        NB_USER_DATA_DOCUMENT,    /* settings, which may hold tokens */
        NB_USER_DATA_CREDENTIALS, /* one or more of the members below; `document` is node-bootstrap.config, if there is one */
};

struct nb_user_data {
        enum nb_user_data_kind kind;
        char what[128];                       /* for people, without any of its content: "a shell script", "empty", "a NodeBootstrap document in gzip" */
        char near_miss[224];                  /* why there is nothing in what was probably meant for us: "line 3: expected 'node_bootstrap:', found 'node-bootstrap:'"; or "" */
        struct nb_secret document;            /* YAML for nb_settings_merge() */
        struct nb_secret token;               /* node-bootstrap.token */
        struct nb_secret tls_bootstrap_token; /* node-bootstrap.tls-bootstrap-token */
};

#define NB_USER_DATA_INIT \
        { .document = NB_SECRET_INIT, .token = NB_SECRET_INIT, .tls_bootstrap_token = NB_SECRET_INIT }

/*
 * `origin` names it in messages: "the user data of Amazon EC2". NB_METADATA_MALFORMED for what is meant for us and cannot be read:
 * a MIME part, a cloud-config or the JSON form with an error in it, more than NB_USER_DATA_MAX, a
 * credential in the JSON form that is encrypted or that is not one of the three.
 */
int nb_user_data_parse(const char *origin, const char *data, size_t len, struct nb_user_data *ret_user_data, struct nb_failure *f);

void nb_user_data_done(struct nb_user_data *user_data);
