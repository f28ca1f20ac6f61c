/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "codec/dns_name.h"
#include "codec/url.h"

#include "case.h"

#define LABEL_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define PATH_64 "/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct url_case {
        const char *name;
        const char *text;
        const char *expected; /* written again; NULL: refused */
};

static struct url_case urls[] = {
        { "host and port", "https://api.example.com:6443", "https://api.example.com:6443" },
        { "the default port is 443", "https://api.example.com", "https://api.example.com:443" },
        { "an address", "https://10.0.0.10:6443", "https://10.0.0.10:6443" },
        { "an IPv6 address", "https://[2001:db8::1]:6443", "https://[2001:db8::1]:6443" },
        { "an IPv6 address without a port", "https://[::1]", "https://[::1]:443" },
        { "an IPv6 address is written in one way", "https://[2001:DB8:0:0:0:0:0:1]",
          "https://[2001:db8::1]:443" },
        { "an IPv4 address in IPv6", "https://[::ffff:10.0.0.10]:1",
          "https://[::ffff:10.0.0.10]:1" },
        { "upper case in the host", "https://API.Example.COM", "https://api.example.com:443" },
        { "upper case in the scheme", "HTTPS://api", "https://api:443" },
        { "a path prefix", "https://rancher.example.com/k8s/clusters/c-m-1a2b",
          "https://rancher.example.com:443/k8s/clusters/c-m-1a2b" },
        { "a slash at the end is dropped", "https://api:6443/", "https://api:6443" },
        { "a slash after the prefix is dropped", "https://api/prefix/", "https://api:443/prefix" },
        { "upper case in the path stays", "https://api/Prefix_1~x", "https://api:443/Prefix_1~x" },
        { "a label that begins with digits", "https://1-control-plane:6443",
          "https://1-control-plane:6443" },
        { "a dot at the end of the name, as Go takes it", "https://api.example.com.:6443",
          "https://api.example.com:6443" },
        { "a dot without a port", "https://api./p", "https://api:443/p" },
        { "two dots at the end", "https://api..:6443", NULL },
        { "a dot after an address", "https://10.0.0.1.:6443", NULL },
        { "only a dot", "https://.:6443", NULL },
        { "the largest port", "https://api:65535", "https://api:65535" },
        { "the longest label", "https://" LABEL_63 ".com", "https://" LABEL_63 ".com:443" },
        { "nothing", "", NULL },
        { "only the scheme", "https://", NULL },
        { "http", "http://api:6443", NULL },
        { "no scheme", "api:6443", NULL },
        { "one slash", "https:/api", NULL },
        { "a space before", " https://api", NULL },
        { "a newline after", "https://api\n", NULL },
        { "a user", "https://user@api", NULL },
        { "a user and a password", "https://user:password@api:6443", NULL },
        { "a query", "https://api/?a=b", NULL },
        { "a query without a path", "https://api?a=b", NULL },
        { "a fragment", "https://api#a", NULL },
        { "a fragment after the path", "https://api/p#a", NULL },
        { "an escape in the path", "https://api/%2e%2e/secret", NULL },
        { "a dot segment", "https://api/a/./b", NULL },
        { "a dot-dot segment", "https://api/a/../b", NULL },
        { "a dot-dot segment at the end", "https://api/a/..", NULL },
        { "an empty segment", "https://api/a//b", NULL },
        { "two slashes at the end", "https://api//", NULL },
        { "a backslash", "https://api/a\\b", NULL },
        { "a command for the shell", "https://api/$(reboot)", NULL },
        { "a quote", "https://api/'", NULL },
        { "a space in the path", "https://api/a b", NULL },
        { "a path that is not ASCII", "https://api/\xc3\xbc", NULL },
        { "an empty host", "https://:6443", NULL },
        { "an empty port", "https://api:", NULL },
        { "port 0", "https://api:0", NULL },
        { "a port above the largest", "https://api:65536", NULL },
        { "a port of many digits", "https://api:000006443", NULL },
        { "a port with a leading zero", "https://api:0443", NULL },
        { "a port with a sign", "https://api:+443", NULL },
        { "a port that is not a number", "https://api:https", NULL },
        { "two ports", "https://api:1:2", NULL },
        { "IPv6 without brackets", "https://2001:db8::1", NULL },
        { "a bracket that is not closed", "https://[::1", NULL },
        { "text after the bracket", "https://[::1]x", NULL },
        { "a name in brackets", "https://[api]", NULL },
        { "an IPv4 address in brackets", "https://[10.0.0.1]", NULL },
        { "empty brackets", "https://[]", NULL },
        { "a zone", "https://[fe80::1%eth0]", NULL },
        { "an address of three numbers", "https://10.0.1", NULL },
        { "an address of one number", "https://2130706433", NULL },
        { "an address with a part above 255", "https://10.0.0.256", NULL },
        { "an address with an octal part", "https://010.0.0.1", NULL },
        { "an address with a hexadecimal part", "https://10.0.0.0x1", NULL },
        { "an underscore in the host", "https://my_api", NULL },
        { "two dots in the host", "https://api..com", NULL },
        { "a hyphen at the end of a label", "https://api-.com", NULL },
        { "a label too long", "https://a" LABEL_63 ".com", NULL },
        { "an IPv6 address too long", "https://[" LABEL_63 LABEL_63 "]", NULL },
        { "a host too long", "https://" LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_63, NULL },
        { "a path too long", "https://api" PATH_64 PATH_64 PATH_64 PATH_64, NULL },
};

static void parses_url(void **state) {
        const struct url_case *c = *state;
        struct nb_url url, again;
        char text[NB_URL_MAX];
        int r;

        r = nb_url_parse(c->text, strlen(c->text), &url);
        assert_int_equal(r, c->expected ? 0 : -EINVAL);
        if (r < 0)
                return;
        nb_url_format(&url, text);
        assert_string_equal(text, c->expected);
        assert_int_equal(nb_url_parse(text, strlen(text), &again), 0);
        assert_true(nb_url_is_equal(&url, &again));
}

static struct url_case endpoints[] = {
        { "endpoint: host and port", "api.example.com:6443", "api.example.com:6443" },
        { "endpoint: the default port is kubeadm's", "api.example.com", "api.example.com:6443" },
        { "endpoint: an address", "10.0.0.10:443", "10.0.0.10:443" },
        { "endpoint: an IPv6 address and a port", "[2001:db8::1]:443", "[2001:db8::1]:443" },
        { "endpoint: an IPv6 address in brackets", "[2001:db8::1]", "[2001:db8::1]:6443" },
        { "endpoint: a bare IPv6 address", "2001:db8::1", "[2001:db8::1]:6443" },
        { "endpoint: the unspecified IPv6 address", "::", "[::]:6443" },
        { "endpoint: nothing", "", NULL },
        { "endpoint: a URL", "https://api:6443", NULL },
        { "endpoint: a path", "api:6443/prefix", NULL },
        { "endpoint: a slash at the end", "api:6443/", NULL },
        { "endpoint: a user", "user@api:6443", NULL },
        { "endpoint: a space", "api:6443 ", NULL },
        { "endpoint: only a port", ":6443", NULL },
        { "endpoint: a dot at the end", "api.example.com.:6443", NULL },
        { "endpoint: IPv6 with a port but no brackets", "2001:db8::1:2:3:4:5:6:6443", NULL },
        { "endpoint: a colon more than an address has", "10.0.0.10:64:43", NULL },
        { "endpoint: only a bracket", "[", NULL },
        { "endpoint: a closing bracket first", "]:6443", NULL },
};

struct bracket_case {
        const char *name, *text, *likely; /* NULL: as it is */
        bool is_lacking;
};

static struct bracket_case brackets[] = {
        { "brackets: kubeadm's port", "fd00:20::2:6443", "[fd00:20::2]:6443", true },
        { "brackets: another usual port", "fd00::1:8443", "[fd00::1]:8443", true },
        { "brackets: the port of a supervisor", "2001:db8::a:9345", "[2001:db8::a]:9345", true },
        { "brackets: https", "fd00:1:2:3:4:5:6:443", NULL, true },
        { "brackets: a port directly after the zeros", "fd00::6443", NULL, true },
        { "brackets: another group", "fd00:20::2:6444", NULL, false },
        { "brackets: there, with another port", "[fd00::2:6443]:443", NULL, false },
        { "brackets: a name", "api-6443", NULL, false },
        { "brackets: IPv4", "10.0.0.1:6443", NULL, false },
};

static void finds_missing_brackets(void **state) {
        const struct bracket_case *c = *state;
        char text[NB_URL_MAX], likely[NB_URL_MAX];
        struct nb_url url;

        assert_int_equal(nb_endpoint_parse(c->text, strlen(c->text), &url), 0);
        nb_endpoint_format(&url, text);
        assert_int_equal(nb_endpoint_lacks_brackets(&url, likely), c->is_lacking);
        assert_string_equal(likely, c->likely ? c->likely : text);
}

static void parses_endpoint(void **state) {
        const struct url_case *c = *state;
        struct nb_url url, again;
        char text[NB_URL_MAX];
        int r;

        r = nb_endpoint_parse(c->text, strlen(c->text), &url);
        assert_int_equal(r, c->expected ? 0 : -EINVAL);
        if (r < 0)
                return;
        nb_endpoint_format(&url, text);
        assert_string_equal(text, c->expected);
        assert_int_equal(nb_endpoint_parse(text, strlen(text), &again), 0);
        assert_true(nb_url_is_equal(&url, &again));
}

struct pair_case {
        const char *name;
        const char *a, *b;
        bool expected;
};

static struct pair_case pairs[] = {
        { "the same", "https://api:6443/p", "https://api:6443/p", true },
        { "the same in other letters", "https://API:443", "https://api/", true },
        { "the same IPv6 address", "https://[0:0::1]", "https://[::1]", true },
        { "another host", "https://api-1", "https://api-2", false },
        { "another port", "https://api:6443", "https://api:6444", false },
        { "another prefix", "https://api/a", "https://api/b", false },
        { "with and without a prefix", "https://api/a", "https://api", false },
};

static void compares(void **state) {
        const struct pair_case *c = *state;
        struct nb_url a, b;

        assert_int_equal(nb_url_parse(c->a, strlen(c->a), &a), 0);
        assert_int_equal(nb_url_parse(c->b, strlen(c->b), &b), 0);
        assert_int_equal(nb_url_is_equal(&a, &b), c->expected);
        assert_int_equal(nb_url_is_equal(&b, &a), c->expected);
}

#define NAME_253 \
        LABEL_63 "." LABEL_63 "." LABEL_63 "." \
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct name_case {
        const char *name;
        const char *text;
        size_t len;
        size_t label_max;
        bool is_valid;
};

#define DNS(text) (text), sizeof(text) - 1, NB_DNS_LABEL_MAX

static struct name_case names[] = {
        { "DNS name: a label", DNS("a"), true },
        { "DNS name: digits alone", DNS("1"), true },
        { "DNS name: a dash and a dot inside", DNS("a-b.c-9"), true },
        { "DNS name: two dashes", DNS("xn--a"), true },
        { "DNS name: empty", DNS(""), false },
        { "DNS name: a dot alone", DNS("."), false },
        { "DNS name: a dot before", DNS(".a"), false },
        { "DNS name: a dot behind, as of the root", DNS("a."), false },
        { "DNS name: two dots", DNS("a..b"), false },
        { "DNS name: a dash alone", DNS("-"), false },
        { "DNS name: a dash before", DNS("-a"), false },
        { "DNS name: a dash behind", DNS("a-"), false },
        { "DNS name: a dash before a dot", DNS("a-.b"), false },
        { "DNS name: a dash behind a dot", DNS("a.-b"), false },
        { "DNS name: upper case", DNS("A"), false },
        { "DNS name: an underscore", DNS("a_b"), false },
        { "DNS name: a byte above ASCII", DNS("\xc3\xa9"), false },
        { "DNS name: a NUL inside", DNS("a\0b"), false },
        { "DNS name: only what belongs to it is read", "a_", 1, NB_DNS_LABEL_MAX, true },
        { "DNS name: the longest label", DNS(LABEL_63), true },
        { "DNS name: a label too long", DNS(LABEL_63 "a"), false },
        { "DNS name: a label too long behind a dot", DNS("a." LABEL_63 "a"), false },
        { "DNS name: a longer label, where a caller permits it", LABEL_63 "a", 64, NB_DNS_NAME_MAX,
          true },
        { "DNS name: the longest", DNS(NAME_253), true },
        { "DNS name: a byte too long", DNS(NAME_253 "a"), false },
};

static void knows_dns_names(void **state) {
        const struct name_case *c = *state;

        assert_int_equal(nb_dns_name_is_valid(c->text, c->len, c->label_max), c->is_valid);
}

static void a_nul_is_refused(void **state) {
        struct nb_url url;

        assert_int_equal(nb_url_parse("https://api\0:6443", 17, &url), -EINVAL);
        assert_int_equal(nb_url_parse("https://api/a\0b", 15, &url), -EINVAL);
        assert_int_equal(nb_url_parse("https://[::1\0]", 14, &url), -EINVAL);
        assert_int_equal(nb_endpoint_parse("::1\0", 4, &url), -EINVAL);
}

static void failing_writes_nothing(void **state) {
        struct nb_url url, before;

        memset(&url, 0x5a, sizeof(url));
        before = url;
        assert_int_equal(nb_url_parse("https://api:6443/a?b", 20, &url), -EINVAL);
        assert_int_equal(nb_endpoint_parse("api:0", 5, &url), -EINVAL);
        assert_memory_equal(&url, &before, sizeof(url));
}

int main(void) {
        CASES(urls, parses_url);
        CASES(endpoints, parses_endpoint);
        CASES(brackets, finds_missing_brackets);
        CASES(pairs, compares);
        CASES(names, knows_dns_names);
        CASE(a_nul_is_refused);
        CASE(failing_writes_nothing);
        return case_run("url");
}
