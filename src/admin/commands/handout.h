/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a machine needs to join, in the form that its consumer reads: `token create --print`. This
 * only writes text; it makes no connection and reads no file.
 */

#include <stdbool.h>
#include <stdio.h>

#include "codec/url.h"
#include "kube_objects/pin.h"

#define NB_HANDOUT_PINS_MAX 16          /* discovery.caCertHashes accepts more */
#define NB_HANDOUT_TOKEN "credential"   /* the form of the token alone; needs only the token */
#define NB_HANDOUT_SECRET "capi-secret" /* needs the name of a cluster, and no node */
#define NB_HANDOUT_NAMES \
        "kubeadm, setup, config, cloud-config, ignition, capi-secret or " NB_HANDOUT_TOKEN

struct nb_handout {
        const char *token;         /* "ID.SECRET" */
        char endpoint[NB_URL_MAX]; /* nb_endpoint_format() */
        char pins[NB_HANDOUT_PINS_MAX][NB_PIN_TEXT_SIZE];
        unsigned n_pins;       /* at least 1 */
        const char *node;      /* name of the node; "" for none */
        const char *proof_key; /* of the settings; NULL for none */
        bool is_listed;        /* the token alone follows the name of its node */
        const char *cluster;   /* name of the cluster in Cluster API; NULL for none */
};

struct nb_handout_form;

/* NULL if there is no such form. */
const struct nb_handout_form *nb_handout_find(const char *name);

/* Whether the text is a document, so that two of them are no longer one. */
bool nb_handout_is_document(const struct nb_handout_form *form);

/* Writes the text, which ends with a newline and contains the token, and flushes `out`. 0, -ENOMEM;
 * -EIO or another error of `out`. */
int nb_handout_print(const struct nb_handout_form *form, const struct nb_handout *handout,
                     FILE *out);
