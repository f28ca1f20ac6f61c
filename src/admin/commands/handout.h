/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a machine needs to join, in the form that its consumer reads: `token create --print`. This
 * only writes text; it makes no connection and reads no file.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "kube/pin.h"

#define NB_HANDOUT_MAX ((size_t)64 * 1024) /* bytes; no form is longer */
#define NB_HANDOUT_ENDPOINTS_MAX 16        /* as many as discovery.endpoints accepts */
#define NB_HANDOUT_PINS_MAX 16             /* as many as discovery.caCertHashes accepts */

struct nb_handout {
        const char *token;                               /* "ID.SECRET" */
        const char *endpoints[NB_HANDOUT_ENDPOINTS_MAX]; /* nb_endpoint_format() */
        unsigned n_endpoints;                            /* at least 1 */
        char pins[NB_HANDOUT_PINS_MAX][NB_PIN_TEXT_SIZE];
        unsigned n_pins;           /* at least 1 */
        const char *node;          /* name of the node; "" for none */
        unsigned kubernetes_minor; /* of the cluster, 20 for v1.20, for the version of a
                                      JoinConfiguration; 0 if it is unknown */
};

struct nb_handout_form {
        const char *name;   /* "cloud-config" */
        const char *help;   /* for --help, without a full stop */
        const char *suffix; /* of a file with it: "yaml" */
        /* kubeadm join also reads the Node and ConfigMaps in kube-system, which kubeadm allows to
         * NB_TOKEN_GROUP_DEFAULT only: a token for one node is not enough for it. */
        bool is_for_kubeadm;
        void (*format)(const struct nb_handout *handout, struct nb_buffer *ret);
};

extern const struct nb_handout_form nb_handout_forms[]; /* ends with a form without a name */

/* NULL if there is no such form. */
const struct nb_handout_form *nb_handout_find(const char *name);

/* Writes the text, which ends with a newline, into an empty buffer, NB_BUFFER_INIT(NB_HANDOUT_MAX).
 * It contains the token: the buffer is allocated once, since growing would leave copies, and the
 * caller wipes it before freeing it. 0, -ENOMEM. */
int nb_handout_format(const struct nb_handout_form *form, const struct nb_handout *handout,
                      struct nb_buffer *ret);
