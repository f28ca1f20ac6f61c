/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "case.h"
#include "http/http_internal.h"

/* --- Kinds of failures --- */

static void failures_have_one_kind(void **state) {
        static const enum nb_code unanswered[] = {
                NB_ENDPOINT_UNRESOLVED,  NB_ENDPOINT_REFUSED,  NB_ENDPOINT_RESET,
                NB_ENDPOINT_UNREACHABLE, NB_ENDPOINT_COSTLY,   NB_PROXY_REFUSED,
                NB_PROXY_UNUSABLE,       NB_PROXY_UNREACHABLE,
        };
        static const enum nb_code untrusted[] = { NB_TLS_UNTRUSTED, NB_TLS_NAME_MISMATCH,
                                                  NB_TLS_EXPIRED };

        for (int code = NB_NONE; code < _NB_CODE_N; code++) {
                bool is_unanswered = false, is_untrusted = false;

                for (size_t i = 0; i < N_ELEMENTS(unanswered); i++)
                        is_unanswered |= (int)unanswered[i] == code;
                for (size_t i = 0; i < N_ELEMENTS(untrusted); i++)
                        is_untrusted |= (int)untrusted[i] == code;
                assert_int_equal(nb_http_is_unanswered((enum nb_code)code), is_unanswered);
                assert_int_equal(nb_http_is_untrusted((enum nb_code)code), is_untrusted);
        }
}

/* --- Proxies --- */

static const char *const variables[] = { "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                         "http_proxy" };

static void clear_proxies(void) {
        for (size_t i = 0; i < N_ELEMENTS(variables); i++)
                (void)unsetenv(variables[i]);
}

struct proxy_case {
        const char *name;
        const char *values[N_ELEMENTS(variables)];
        const char *setting;
        const char *url, *origin; /* that is found; "": none */
};

static struct proxy_case proxies[] = {
        { "proxy: none", .url = "" },
        { "proxy: for https",
          { "http://a", "http://b", "http://c" },
          .url = "http://a",
          .origin = "https_proxy" },
        { "proxy: in capital letters",
          { NULL, "http://b", "http://c" },
          .url = "http://b",
          .origin = "HTTPS_PROXY" },
        { "proxy: for everything",
          { [2] = "http://c", [3] = "http://d" },
          .url = "http://c",
          .origin = "all_proxy" },
        { "proxy: an empty one counts as none",
          { "", [3] = "http://d" },
          .url = "http://d",
          .origin = "ALL_PROXY" },
        { "proxy: for http alone", { [4] = "http://e" }, .url = "" },
        { "proxy: of the kubeconfig",
          { "http://a" },
          "http://k",
          .url = "http://k",
          .origin = "proxy-url in the kubeconfig" },
};

static void finds_proxy(void **state) {
        const struct proxy_case *c = *state;
        struct nb_http_config config = { 0 };
        struct nb_http_exchange exchange = { .config = &config };
        const char *origin;

        clear_proxies();
        for (size_t i = 0; i < N_ELEMENTS(variables); i++)
                if (c->values[i])
                        assert_int_equal(setenv(variables[i], c->values[i], 1), 0);
        if (c->setting)
                NB_TEXT_COPY(config.proxy_url, c->setting);
        assert_string_equal(nb_http_find_proxy(&config, &origin), c->url);
        if (c->origin)
                assert_string_equal(origin, c->origin);
        assert_int_equal(nb_http_has_proxy(&exchange), c->url[0] != '\0');
        /* An address of the server needs no name server, but a proxy may. */
        assert_int_equal(nb_http_needs_resolver(&config, "https://10.0.0.1:6443/x"),
                         c->url[0] != '\0');
        exchange.is_direct = true;
        assert_false(nb_http_has_proxy(&exchange));
        exchange.is_direct = false;
        config.is_metadata = true;
        assert_false(nb_http_has_proxy(&exchange));
        clear_proxies();
}

struct host_case {
        const char *name, *host, *url;
        bool is_address;
};

static struct host_case hosts[] = {
        { "host: IPv4", "169.254.169.254", "http://169.254.169.254/latest", true },
        { "host: IPv6", "fd00:ec2::254", "https://[fd00:ec2::254]:6443", true },
        { "host: a name", "a.example", "https://a.example:6443/x", false },
        { "host: a name that begins like an address", "10.0.0.1.example",
          "https://10.0.0.1.example", false },
        { "host: a short form, which a resolver reads", "10.1", "https://10.1/", false },
        { "host: brackets", "[::1]", "https://user@name:1/", false },
        { "host: nothing", "", "https://name", false },
};

static void knows_addresses(void **state) {
        const struct host_case *c = *state;
        const struct nb_http_config config = { 0 };

        clear_proxies();
        assert_int_equal(nb_http_is_address(c->host), c->is_address);
        assert_int_equal(nb_http_needs_resolver(&config, c->url), !c->is_address);
}

/* --- Limits --- */

struct limit_case {
        const char *name;
        bool is_connected;
        uint32_t silence_sec;
        const char *detail;
};

static struct limit_case limits[] = {
        { "limit: of a connection", false, 0, "no connection within 10 s" },
        { "limit: of a connection for a stream", false, 90, "no connection within 10 s" },
        { "limit: of an answer", true, 0, "no complete answer within 7 s" },
        { "limit: of silence", true, 90, "no data received for 90 s" },
};

static void names_limits(void **state) {
        const struct limit_case *c = *state;
        const struct nb_http_config config = { .connect_timeout_ms = 10000 };
        const struct nb_http_call call = { .timeout_ms = 7000, .silence_sec = c->silence_sec };
        struct nb_failure f = { 0 };

        assert_int_equal(nb_http_outcome_timeout(&config, &call, c->is_connected, &f), -ETIMEDOUT);
        assert_int_equal(f.code, NB_ENDPOINT_UNREACHABLE);
        assert_string_equal(f.detail, c->detail);
}

static void names_the_limit_of_an_answer(void **state) {
        const struct nb_http_call call = { .max_body = 256 * 1024 };
        struct nb_failure f = { 0 };

        assert_int_equal(nb_http_outcome_too_large(&call, &f), -EMSGSIZE);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_string_equal(f.detail, "the answer is larger than 256 KiB, or its headers are "
                                      "larger than 64 KiB");
}

/* --- Outcomes --- */

struct outcome_case {
        const char *name;
        CURLcode result;
        const char *host, *proxy; /* NULL: an address; none */
        bool is_secured, is_too_large, is_socket_wanted, is_connected;
        const char *peer;
        enum nb_code code;
        const char *detail; /* a part of it */
};

static struct outcome_case outcomes[] = {
        { "no name server answers", CURLE_OPERATION_TIMEDOUT, "a.example",
          .code = NB_ENDPOINT_UNRESOLVED, .detail = "no answer from a name server within 10 s" },
        { "no connection", CURLE_OPERATION_TIMEDOUT, .code = NB_ENDPOINT_UNREACHABLE,
          .detail = "no connection within 10 s" },
        { "no answer", CURLE_OPERATION_TIMEDOUT, .is_connected = true,
          .code = NB_ENDPOINT_UNREACHABLE, .detail = "no complete answer within 7 s" },
        { "no such name", CURLE_COULDNT_RESOLVE_HOST, "a.example", .code = NB_ENDPOINT_UNRESOLVED },
        { "no route", CURLE_COULDNT_CONNECT, .code = NB_ENDPOINT_UNREACHABLE },
        { "a connection that is closed", CURLE_GOT_NOTHING, .code = NB_ENDPOINT_RESET },
        { "a connection that is lost", CURLE_RECV_ERROR, .code = NB_ENDPOINT_RESET },
        { "an answer that is cut", CURLE_PARTIAL_FILE, .code = NB_ENDPOINT_RESET },
        { "no TLS", CURLE_SSL_CONNECT_ERROR, .code = NB_ENDPOINT_RESET },
        { "too large an answer", CURLE_WRITE_ERROR, .is_too_large = true,
          .code = NB_ANSWER_MALFORMED, .detail = "larger than" },
        { "too long a header, for an old libcurl", CURLE_OUT_OF_MEMORY, .is_secured = true,
          .code = NB_ANSWER_MALFORMED, .detail = "larger than" },
        { "no memory", CURLE_OUT_OF_MEMORY, .code = NB_INTERNAL, .detail = "memory ran out" },
        { "no HTTP", CURLE_WEIRD_SERVER_REPLY, .code = NB_ANSWER_MALFORMED },
        { "no CAs", CURLE_SSL_CACERT_BADFILE, .code = NB_INTERNAL },
        { "no such proxy", CURLE_COULDNT_RESOLVE_PROXY, .proxy = "http://p:1",
          .code = NB_PROXY_UNUSABLE, .detail = "no proxy at proxy-url in the kubeconfig" },
        { "a proxy that does not answer", CURLE_COULDNT_CONNECT, .proxy = "http://u:p@p:1",
          .is_socket_wanted = true, .peer = "10.0.0.9:1", .code = NB_PROXY_UNREACHABLE,
          .detail = "the proxy at 10.0.0.9:1 (proxy-url in the kubeconfig)" },
        { "a silent proxy", CURLE_OPERATION_TIMEDOUT, .proxy = "http://p:1",
          .is_socket_wanted = true, .peer = "10.0.0.9:1", .code = NB_PROXY_UNREACHABLE,
          .detail = "no connection within 10 s" },
        { "an https proxy that nobody vouches for", CURLE_PEER_FAILED_VERIFICATION,
          .proxy = "https://p:1", .is_socket_wanted = true, .peer = "10.0.0.9:1",
          .code = NB_PROXY_UNUSABLE, .detail = "do not verify the certificate of the proxy" },
};

static void sorts_outcomes(void **state) {
        const struct outcome_case *c = *state;
        struct nb_http_config config = { .connect_timeout_ms = 10000 };
        static struct nb_http_exchange exchange;
        struct nb_failure f = { 0 };

        clear_proxies();
        if (c->proxy)
                NB_TEXT_COPY(config.proxy_url, c->proxy);
        exchange = (struct nb_http_exchange){ .config = &config,
                                              .easy = curl_easy_init(),
                                              .socket_fd = -1,
                                              .call = { .timeout_ms = 7000, .max_body = 1024 },
                                              .is_secured = c->is_secured,
                                              .is_too_large = c->is_too_large,
                                              .is_socket_wanted = c->is_socket_wanted,
                                              .is_connected = c->is_connected,
                                              .result = c->result };
        NB_TEXT_COPY(exchange.host, c->host ? c->host : "10.0.0.1");
        NB_TEXT_COPY(exchange.peer, c->peer ? c->peer : "");
        NB_TEXT_COPY(exchange.error, c->proxy ? c->proxy : "");
        assert_true(nb_http_outcome(&exchange, &f) < 0);
        assert_int_equal(f.code, c->code);
        if (c->detail && !strstr(f.detail, c->detail))
                fail_msg("'%s' is not in '%s'", c->detail, f.detail);
        /* libcurl may quote its password. */
        if (c->proxy)
                assert_null(strstr(f.detail, c->proxy));
        curl_easy_cleanup(exchange.easy);
}

int main(void) {
        CASE(failures_have_one_kind);
        CASES(proxies, finds_proxy);
        CASES(hosts, knows_addresses);
        CASES(limits, names_limits);
        CASE(names_the_limit_of_an_answer);
        CASES(outcomes, sorts_outcomes);
        return case_run("http outcome");
}
