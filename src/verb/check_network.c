/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "crypto/certificate.h"
#include "stage/wall_clock.h"
#include "verb/check_internal.h"

#define CONNECT_MS 3000
#define SKEW_MAX_SEC 60 /* NTP keeps clocks within seconds; certificates are dated back by minutes */
#define ANSWER_MAX ((size_t)64 * 1024)
#define ADDRESSES_TEXT_SIZE (NB_CHECK_ADDRESSES_MAX * 66)

void nb_check_network_free(struct nb_check_network *network) {
        if (!network)
                return;
        nb_join_done(&network->join);
        free(network);
}

static bool is_any_proxy(void) {
        static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY" };

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                const char *value = getenv(names[i]);

                if (value && value[0])
                        return true;
        }
        return false;
}

static void add(struct nb_check_network *network, const struct nb_url *url) {
        struct nb_check_endpoint *endpoint = &network->endpoints[network->n++];

        endpoint->url = *url;
        nb_endpoint_format(url, endpoint->name);
}

static int open_network(struct nb_check *check, struct nb_failure *f) {
        const struct nb_bootstrap *bootstrap = &check->load.bootstrap;
        const struct nb_settings *settings = &check->load.settings;
        struct nb_check_network *network;

        if (check->network)
                return 0;
        network = calloc(1, sizeof(*network));
        if (!network)
                return nb_failure_set_memory(f);
        network->is_proxied = is_any_proxy();
        if (bootstrap->discovery == NB_DISCOVERY_DOCUMENT)
                add(network, &bootstrap->document.server);
        else if (bootstrap->discovery == NB_DISCOVERY_URL)
                add(network, &bootstrap->url);
        else
                for (unsigned i = 0; i < settings->n_endpoints; i++)
                        add(network, &settings->endpoints[i]);
        check->network = network;
        return 0;
}

/* Where it could not begin, the steps are there, too, as those that were not tried. */
bool nb_check_is_online(const struct nb_check *check) {
        return !check->is_local && !check->is_undecided;
}

bool nb_check_is_shown(const struct nb_check *check) {
        return nb_check_is_online(check) && !check->load.bootstrap.document.proxy_url[0];
}

bool nb_check_is_direct(const struct nb_check *check) {
        return nb_check_is_shown(check);
}

/* Of several endpoints one is enough. */
static int sum_up(const struct nb_check *check, unsigned n_good, const struct nb_failure *first, struct nb_failure *f) {
        if (n_good > 0 || check->network->is_proxied || first->code == NB_NONE)
                return 0;
        *f = *first;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

static void tell(const struct nb_check *check, const struct nb_check_endpoint *endpoint, const struct nb_failure *why, struct nb_failure *first) {
        if (first->code == NB_NONE) {
                *first = *why;
                nb_log_field(NB_FIELD_ENDPOINT, "%s", endpoint->name);
        }
        if (check->network->n > 1 || check->network->is_proxied)
                nb_check_row(check, NB_CHECK_DOUBT, "%s: %s", nb_failure_info(why->code)->slug, why->detail);
}

/* --- Names --- */

static void take_addresses(struct nb_check_endpoint *endpoint, const struct addrinfo *found, char text[static ADDRESSES_TEXT_SIZE]) {
        size_t len = 0;

        for (const struct addrinfo *a = found; a && endpoint->n_addresses < NB_CHECK_ADDRESSES_MAX; a = a->ai_next) {
                unsigned i = endpoint->n_addresses;

                if (a->ai_addrlen > sizeof(endpoint->addresses[i].address) ||
                    getnameinfo(a->ai_addr, a->ai_addrlen, endpoint->addresses[i].text, sizeof(endpoint->addresses[i].text), NULL, 0, NI_NUMERICHOST) != 0)
                        continue;
                memcpy(&endpoint->addresses[i].address, a->ai_addr, a->ai_addrlen);
                endpoint->addresses[i].len = a->ai_addrlen;
                len += (size_t)snprintf(text + len, ADDRESSES_TEXT_SIZE - len, "%s%s", i > 0 ? ", " : "", endpoint->addresses[i].text);
                endpoint->n_addresses++;
        }
}

/* A question of getaddrinfo_a(3), which has a thread of its own for it. */
struct lookup {
        struct gaicb question;
        struct addrinfo hints;
        char host[NB_HOST_MAX + 1], port[8];
        struct lookup *next;
};

/* An answer may still be written into it: it is left to the end of the program, as libcurl leaves its resolver. */
static struct lookup *left_behind;

static void leave(struct lookup *lookup) {
        if (gai_cancel(&lookup->question) == EAI_CANCELED) {
                free(lookup);
        } else {
                lookup->next = left_behind;
                left_behind = lookup;
        }
}

/* 0; EAI_* of the resolver; EAI_INPROGRESS: no answer in time; EAI_INTR: stopping was asked for. */
static int await_lookup(struct lookup *lookup) {
        const struct gaicb *const questions[] = { &lookup->question };
        const struct timespec while_nobody_stops = { .tv_nsec = 100000000 };
        uint64_t end = nb_now_ms() + NB_CHECK_PATIENCE_MS;

        while (gai_error(&lookup->question) == EAI_INPROGRESS) {
                if (nb_stop_is_requested())
                        return EAI_INTR;
                if (nb_now_ms() >= end)
                        return EAI_INPROGRESS;
                (void)gai_suspend(questions, N_ELEMENTS(questions), &while_nobody_stops);
        }
        return gai_error(&lookup->question);
}

/* As getaddrinfo(3), which a name server that is silent would keep from ending, for minutes and whatever the signal. */
static int look_up(const struct nb_url *url, struct addrinfo **ret_found) {
        struct lookup *lookup = calloc(1, sizeof(*lookup));
        struct gaicb *questions[1];
        int r;

        if (!lookup)
                return EAI_MEMORY;
        lookup->hints.ai_socktype = SOCK_STREAM;
        (void)snprintf(lookup->host, sizeof(lookup->host), "%s", url->host);
        (void)snprintf(lookup->port, sizeof(lookup->port), "%u", url->port);
        lookup->question = (struct gaicb){ .ar_name = lookup->host, .ar_service = lookup->port, .ar_request = &lookup->hints };
        questions[0] = &lookup->question;
        r = getaddrinfo_a(GAI_NOWAIT, questions, N_ELEMENTS(questions), NULL);
        if (r == 0)
                r = await_lookup(lookup);
        if (r == EAI_INPROGRESS || r == EAI_INTR) {
                leave(lookup);
                return r;
        }
        *ret_found = lookup->question.ar_result;
        free(lookup);
        return r;
}

static int resolve(const struct nb_check *check, struct nb_check_endpoint *endpoint, struct nb_failure *f) {
        char text[ADDRESSES_TEXT_SIZE] = "";
        struct addrinfo *found = NULL;
        int r = look_up(&endpoint->url, &found);

        if (r == EAI_INTR)
                return -ECANCELED;
        if (r == EAI_INPROGRESS)
                return nb_failure_set(f, NB_ENDPOINT_UNRESOLVED, ETIMEDOUT, "%s: no answer of a name server within %d s", endpoint->url.host, NB_CHECK_PATIENCE_MS / 1000);
        if (r != 0)
                return nb_failure_set(f, NB_ENDPOINT_UNRESOLVED, EHOSTUNREACH, "%s: %s", endpoint->url.host, gai_strerror(r));
        take_addresses(endpoint, found, text);
        freeaddrinfo(found);
        if (strcmp(text, endpoint->url.host) == 0)
                nb_check_row(check, NB_CHECK_GOOD, "name resolution: %s is an address", text);
        else
                nb_check_row(check, NB_CHECK_GOOD, "name resolution: %s is %s", endpoint->url.host, text);
        return 0;
}

int nb_check_resolve(struct nb_check *check, struct nb_failure *f) {
        struct nb_failure first = { 0 };
        unsigned n_good = 0;
        int r;

        r = open_network(check, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < check->network->n; i++) {
                struct nb_check_endpoint *endpoint = &check->network->endpoints[i];
                struct nb_failure why = { 0 };

                r = resolve(check, endpoint, &why);
                if (r == -ECANCELED || nb_stop_is_requested())
                        return -ECANCELED;
                if (r >= 0)
                        n_good++;
                else
                        tell(check, endpoint, &why, &first);
        }
        return sum_up(check, n_good, &first, f);
}

/* --- Connections --- */

/* 0, -ETIMEDOUT, -ECANCELED, or what the socket says. */
static int await_connection(int fd) {
        struct pollfd polled[] = { { .fd = fd, .events = POLLOUT }, { .fd = nb_stop_fd(), .events = POLLIN } };
        int error = 0, n;
        socklen_t len = sizeof(error);

        do
                n = poll(polled, N_ELEMENTS(polled), CONNECT_MS);
        while (n < 0 && errno == EINTR);
        if (n > 0 && polled[1].revents)
                return -ECANCELED;
        if (n <= 0)
                return n < 0 ? -errno : -ETIMEDOUT;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? -errno : -error;
}

static int connect_to(const struct sockaddr_storage *address, socklen_t len) {
        _cleanup_(nb_closep) int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        if (connect(fd, (const struct sockaddr *)address, len) == 0)
                return 0;
        return errno == EINPROGRESS ? await_connection(fd) : -errno;
}

static enum nb_code code_of(int r) {
        if (r == -ECONNRESET)
                return NB_ENDPOINT_RESET;
        return r == -ECONNREFUSED ? NB_ENDPOINT_REFUSED : NB_ENDPOINT_UNREACHABLE;
}

/* 1: some address takes connections. */
static int try_addresses(const struct nb_check *check, const struct nb_check_endpoint *endpoint, struct nb_failure *ret_why) {
        bool is_good = false;

        for (unsigned i = 0; i < endpoint->n_addresses; i++) {
                const char *text = endpoint->addresses[i].text;
                int r = connect_to(&endpoint->addresses[i].address, endpoint->addresses[i].len);

                if (r == -ECANCELED)
                        return r;
                if (r >= 0) {
                        nb_check_row(check, NB_CHECK_GOOD, "connection: %s, port %u, takes it", text, endpoint->url.port);
                        is_good = true;
                        continue;
                }
                errno = -r;
                if (endpoint->n_addresses > 1)
                        nb_check_row(check, NB_CHECK_DOUBT, "connection: %s, port %u: %m", text, endpoint->url.port);
                errno = -r;
                (void)nb_failure_set(ret_why, code_of(r), -r, "connection to %s at %s: %m", endpoint->name, text);
        }
        return is_good;
}

int nb_check_connect(struct nb_check *check, struct nb_failure *f) {
        struct nb_failure first = { 0 };
        unsigned n_good = 0;

        for (unsigned i = 0; i < check->network->n; i++) {
                const struct nb_check_endpoint *endpoint = &check->network->endpoints[i];
                struct nb_failure why = { 0 };
                int r = endpoint->n_addresses > 0 ? try_addresses(check, endpoint, &why) : 0;

                if (r < 0)
                        return r;
                if (r > 0)
                        n_good++;
                else if (why.code != NB_NONE)
                        tell(check, endpoint, &why, &first);
        }
        return sum_up(check, n_good, &first, f);
}

/* --- TLS, of which nothing is believed yet --- */

static int print_certificate(const struct nb_check *check, struct nb_check_endpoint *endpoint, const char *pem) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        char subject[NB_SUBJECT_SIZE], issuer[NB_SUBJECT_SIZE], names[512], since[NB_RFC3339_SIZE], until[NB_RFC3339_SIZE];
        time_t now = time(NULL);
        int r = pem ? nb_certificates_parse(pem, strlen(pem), false, &certificates) : -ENODATA;

        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                nb_check_row(check, NB_CHECK_DOUBT, "TLS: %s shows a certificate that cannot be read", endpoint->name);
                return 0;
        }
        endpoint->not_before = nb_certificate_not_before(certificates, 0);
        endpoint->not_after = nb_certificate_not_after(certificates, 0);
        nb_certificate_subject(certificates, 0, subject);
        nb_certificate_issuer(certificates, 0, issuer);
        nb_certificate_names(certificates, 0, names, sizeof(names));
        nb_time_format(endpoint->not_before, since);
        nb_time_format(endpoint->not_after, until);
        nb_check_row(check, now < endpoint->not_before || now > endpoint->not_after ? NB_CHECK_DOUBT : NB_CHECK_GOOD,
                     "TLS: %s shows a certificate of %s, by %s, for %s, good from %s until %s", endpoint->name, subject, issuer,
                     names[0] ? names : "no name", since, until);
        return 0;
}

static int shake_hands(const struct nb_check *check, struct nb_http *http, struct nb_check_endpoint *endpoint, struct nb_failure *f) {
        _cleanup_(nb_unverified_done) struct nb_unverified unverified = { 0 };
        struct nb_http_transfer *transfer = NULL, *done = NULL;
        char base[NB_URL_MAX], url[NB_URL_MAX + 16], what[NB_URL_MAX + 16];
        const struct nb_http_request request = {
                .what = what,
                .url = url,
                .max_body = ANSWER_MAX,
                .timeout_ms = NB_CHECK_PATIENCE_MS,
                .is_certificate_kept = true,
        };
        int r;

        nb_url_format(&endpoint->url, base);
        (void)snprintf(url, sizeof(url), "%s/version", base);
        (void)snprintf(what, sizeof(what), "TLS with %s", endpoint->name);
        r = nb_http_start(http, &request, &transfer, f);
        if (r >= 0)
                r = nb_http_wait(http, NB_TIME_INFINITE, &done, f);
        if (r >= 0)
                r = nb_http_finish_unverified(done, &unverified, f);
        if (r < 0)
                return r;
        endpoint->date = unverified.answer.date;
        endpoint->date_ms = nb_now_ms();
        return print_certificate(check, endpoint, unverified.answer.certificate) < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_check_tls(struct nb_check *check, struct nb_failure *f) {
        _cleanup_(nb_http_freep) struct nb_http *http = NULL;
        struct nb_failure first = { 0 };
        unsigned n_good = 0;
        int r;

        r = nb_http_new(NULL, &http, f);
        for (unsigned i = 0; r >= 0 && i < check->network->n; i++) {
                struct nb_check_endpoint *endpoint = &check->network->endpoints[i];
                struct nb_failure why = { 0 };

                if (endpoint->n_addresses == 0 && !check->network->is_proxied)
                        continue;
                r = shake_hands(check, http, endpoint, &why);
                if (r == -ECANCELED)
                        return r;
                if (r >= 0)
                        n_good++;
                else
                        tell(check, endpoint, &why, &first);
                r = 0;
        }
        return r < 0 ? r : sum_up(check, n_good, &first, f);
}

/* --- The clock --- */

/* For want of an answer. Not the time of the program's file: that is whatever the machine's that made or copied it was. */
static int compare_with_program(struct nb_failure *f) {
        const struct nb_wall_clock clock = { .now = time(NULL), .built = nb_build_time() };
        char blame[NB_WALL_CLOCK_TEXT_SIZE];

        return nb_wall_clock_blame(&clock, blame) > 0 ? nb_failure_set(f, NB_CLOCK_WRONG, ETIME, "%s", blame) : 0;
}

static int compare_with_answer(const struct nb_check *check, const struct nb_check_endpoint *endpoint, struct nb_failure *f) {
        time_t now = time(NULL), theirs = endpoint->date + (time_t)((nb_now_ms() - endpoint->date_ms) / 1000);
        int64_t ahead = (int64_t)now - (int64_t)theirs;
        bool is_far = ahead > SKEW_MAX_SEC || ahead < -SKEW_MAX_SEC;
        char duration[NB_DURATION_SIZE];

        nb_duration_format((uint64_t)(ahead < 0 ? -ahead : ahead) * 1000, duration);
        if (is_far && endpoint->not_after > 0 && theirs >= endpoint->not_before && theirs <= endpoint->not_after &&
            (now < endpoint->not_before || now > endpoint->not_after))
                return nb_failure_set(f, NB_CLOCK_WRONG, ETIME, "this machine's clock is %s %s that of %s, so that its certificate does not look valid", duration,
                                      ahead < 0 ? "behind" : "ahead of", endpoint->name);
        nb_check_row(check, is_far ? NB_CHECK_DOUBT : NB_CHECK_GOOD, "clock: %s %s that of %s", duration, ahead < 0 ? "behind" : "ahead of", endpoint->name);
        return 0;
}

/* None of them is proven yet, so that one that lies must not end what another one would let through. */
int nb_check_clock(struct nb_check *check, struct nb_failure *f) {
        struct nb_failure first = { 0 };
        unsigned n_good = 0;
        bool is_known = false;

        for (unsigned i = 0; i < check->network->n; i++) {
                const struct nb_check_endpoint *endpoint = &check->network->endpoints[i];
                struct nb_failure why = { 0 };

                is_known = is_known || endpoint->date > 0;
                if (endpoint->date > 0 && compare_with_answer(check, endpoint, &why) < 0)
                        tell(check, endpoint, &why, &first);
                else if (endpoint->not_after > 0)
                        n_good++;
        }
        if (!is_known) {
                if (compare_with_program(f) < 0)
                        return -ETIME;
                nb_check_row(check, NB_CHECK_DOUBT, "clock: no answer said what time it is");
        }
        if (n_good > 0 || first.code == NB_NONE)
                return 0;
        *f = first;
        return -f->errnum;
}
