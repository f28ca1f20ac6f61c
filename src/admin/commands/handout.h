/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a machine needs to join, in the form that its consumer reads: `token create --print`. This
 * only writes text; it makes no connection and reads no file.
 */

#include <stddef.h>

#include "base/buffer.h"
#include "kube/pin.h"

#define NB_HANDOUT_MAX ((size_t)64 * 1024) /* bytes; no form is longer */
#define NB_HANDOUT_PINS_MAX 16             /* as many as discovery.caCertHashes accepts */
#define NB_HANDOUT_TOKEN "credential"      /* the form of the token alone; needs only the token */
#define NB_HANDOUT_NAMES "kubeadm, setup, config, cloud-config, ignition or " NB_HANDOUT_TOKEN

struct nb_handout {
        const char *token;    /* "ID.SECRET" */
        const char *endpoint; /* nb_endpoint_format() */
        char pins[NB_HANDOUT_PINS_MAX][NB_PIN_TEXT_SIZE];
        unsigned n_pins;  /* at least 1 */
        const char *node; /* name of the node; "" for none */
};

struct nb_handout_form;

/* NULL if there is no such form. */
const struct nb_handout_form *nb_handout_find(const char *name);

/* Writes the text, which ends with a newline, into an empty buffer, NB_BUFFER_INIT(NB_HANDOUT_MAX).
 * It contains the token: the buffer is allocated once, since growing would leave copies, and the
 * caller wipes it before freeing it. 0, -ENOMEM. */
int nb_handout_format(const struct nb_handout_form *form, const struct nb_handout *handout,
                      struct nb_buffer *ret);
