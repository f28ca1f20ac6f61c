/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The channel between install and the child that reads metadata. The child sends the document and
 * the tokens that it has found. install treats the child as hostile. It answers that a join can
 * begin, or with the failure that prevents it. Nothing is written to disk, since a message may
 * contain a token.
 */

#include "base/failure.h"
#include "base/secret.h"
#include "metadata/cloud_names.h"
#include "settings/settings.h"

#define NB_FOUND_FD 5 /* of the child */

struct nb_found {
        enum nb_provider provider; /* NB_PROVIDER_NONE: there is nothing for this program */
        struct nb_secret document; /* a NodeBootstrap document without tokens, at most
                                      NB_SETTINGS_TEXT_MAX bytes */
        struct nb_settings_tokens tokens;
};

#define NB_FOUND_INIT \
        { .document = NB_SECRET_INIT, .tokens = NB_SETTINGS_TOKENS_INIT }

/* 0, -errno. */
int nb_found_send(int fd, const struct nb_found *found);

/* 1; 0 at the end of the channel; -EBADMSG; -EAGAIN if nothing was sent; -ENOMEM. */
int nb_found_receive(int fd, struct nb_found *ret);

/* `f` without a code: a join can begin. Does not wait. */
void nb_found_answer(int fd, const struct nb_failure *f);

/* Waits for the answer. 0; -ECANCELED if a stop was requested; NB_INTERNAL if install does not
 * answer; otherwise the failure in the answer. */
int nb_found_await_answer(int fd, struct nb_failure *f);

void nb_found_done(struct nb_found *found);
