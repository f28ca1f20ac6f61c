/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/stop.h"
#include "state_files/found_metadata.h"

#define TOKEN_MAX ((size_t)4096)

/* The head of a message; the document and the tokens follow. */
struct head {
        uint32_t provider, document_len, discovery_len, tls_bootstrap_len;
        char discovery_origin[128], tls_bootstrap_origin[128];
};

int nb_found_send(int fd, const struct nb_found *found) {
        const struct nb_settings_tokens *tokens = &found->tokens;
        struct head head = { found->provider, (uint32_t)found->document.len,
                             (uint32_t)tokens->discovery.len, (uint32_t)tokens->tls_bootstrap.len };
        struct iovec parts[] = { { &head, sizeof(head) },
                                 { found->document.data, found->document.len },
                                 { tokens->discovery.data, tokens->discovery.len },
                                 { tokens->tls_bootstrap.data, tokens->tls_bootstrap.len } };
        const struct msghdr message = { .msg_iov = parts, .msg_iovlen = N_ELEMENTS(parts) };

        NB_TEXT_COPY(head.discovery_origin, tokens->discovery_origin);
        NB_TEXT_COPY(head.tls_bootstrap_origin, tokens->tls_bootstrap_origin);
        return TEMP_FAILURE_RETRY(sendmsg(fd, &message, MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

/* Takes the next part of a message. */
static int take_part(const char **at, size_t len, struct nb_secret *ret) {
        int r = len > 0 ? nb_secret_copy(ret, *at, len) : 0;

        *at += len;
        return r;
}

static int parse(const char *data, size_t len, struct nb_found *ret) {
        const char *at = data + sizeof(struct head);
        struct head head;
        int r;

        if (len < sizeof(head))
                return -EBADMSG;
        memcpy(&head, data, sizeof(head));
        if (head.provider >= _NB_PROVIDER_N || head.provider == NB_PROVIDER_AUTO ||
            head.document_len > NB_SETTINGS_TEXT_MAX || head.discovery_len > TOKEN_MAX ||
            head.tls_bootstrap_len > TOKEN_MAX ||
            len != sizeof(head) + head.document_len + head.discovery_len + head.tls_bootstrap_len)
                return -EBADMSG;
        head.discovery_origin[sizeof(head.discovery_origin) - 1] = '\0';
        head.tls_bootstrap_origin[sizeof(head.tls_bootstrap_origin) - 1] = '\0';
        ret->provider = head.provider;
        NB_TEXT_COPY_LINE(ret->tokens.discovery_origin, head.discovery_origin);
        NB_TEXT_COPY_LINE(ret->tokens.tls_bootstrap_origin, head.tls_bootstrap_origin);
        r = take_part(&at, head.document_len, &ret->document);
        if (r >= 0)
                r = take_part(&at, head.discovery_len, &ret->tokens.discovery);
        return r < 0 ? r : take_part(&at, head.tls_bootstrap_len, &ret->tokens.tls_bootstrap);
}

int nb_found_receive(int fd, struct nb_found *ret) {
        _cleanup_(nb_found_done) struct nb_found found = NB_FOUND_INIT;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        ssize_t n;
        int r;

        /* One byte more than the longest valid message, so that a longer one is noticed. */
        if (nb_secret_init(&text, sizeof(struct head) + NB_SETTINGS_TEXT_MAX + 2 * TOKEN_MAX + 1) <
            0)
                return -ENOMEM;
        n = TEMP_FAILURE_RETRY(recv(fd, text.data, text.size, MSG_DONTWAIT));
        if (n <= 0)
                return n < 0 ? -errno : 0;
        r = parse(text.data, (size_t)n, &found);
        if (r < 0)
                return r;
        *ret = found;
        found = (struct nb_found)NB_FOUND_INIT;
        return 1;
}

void nb_found_answer(int fd, const struct nb_failure *f) {
        (void)TEMP_FAILURE_RETRY(send(fd, f, sizeof(*f), MSG_NOSIGNAL | MSG_DONTWAIT));
}

int nb_found_await_answer(int fd, struct nb_failure *f) {
        struct pollfd polls[] = { { 0 }, { .fd = fd, .events = POLLIN } };
        struct nb_failure answer;
        int r;

        do
                r = nb_stop_poll(polls, N_ELEMENTS(polls), NB_TIME_INFINITE);
        while (r >= 0 && !polls[1].revents);
        if (r == -ECANCELED)
                return r;
        if (r < 0 || TEMP_FAILURE_RETRY(recv(fd, &answer, sizeof(answer), 0)) != sizeof(answer))
                return nb_failure_set(f, NB_INTERNAL, ECHILD, "install does not answer");
        if (answer.code == NB_NONE)
                return 0;
        *f = answer;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

void nb_found_done(struct nb_found *found) {
        nb_secret_done(&found->document);
        nb_settings_tokens_done(&found->tokens);
}
