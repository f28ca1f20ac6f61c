/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "crypto/pkcs10_facts.h"
#include "make_request.h"
#include "odd_requests.h"

#define BEGIN "-----BEGIN CERTIFICATE REQUEST-----\n"
#define END "-----END CERTIFICATE REQUEST-----\n"

static struct expected {
        const char *name;
        struct made_request made;
        int r;
        bool is_subject_plain, has_other_extensions;
        unsigned n_names;
        enum nb_request_name_type type;
        const char *text;
} made_cases[] = {
        { "a client's", { .attributes = { O, "system:nodes", CN, "system:node:a" } }, 0, true },
        { "a common name before the organization",
          { .attributes = { CN, "system:node:a", O, "system:nodes" } },
          0,
          true },
        { "a server's, with a DNS name",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .names = { { GNUTLS_SAN_DNSNAME, "a.example" } } },
          0,
          true,
          false,
          1,
          NB_REQUEST_NAME_DNS,
          "a.example" },
        { "a server's, with an IPv4 address",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .names = { { GNUTLS_SAN_IPADDRESS, "\x0a\0\0\5", 4 } } },
          0,
          true,
          false,
          1,
          NB_REQUEST_NAME_ADDRESS,
          "10.0.0.5" },
        { "a server's, with an IPv6 address",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .names = { { GNUTLS_SAN_IPADDRESS, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5", 16 } } },
          0,
          true,
          false,
          1,
          NB_REQUEST_NAME_ADDRESS,
          "fd00::5" },
        { "an IPv4 address in the form of IPv6 is of no known type",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .names = { { GNUTLS_SAN_IPADDRESS, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\5", 16 } } },
          0,
          true,
          false,
          1,
          NB_REQUEST_NAME_OTHER,
          "::ffff:10.0.0.5" },
        { "a URI is of no known type",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .names = { { GNUTLS_SAN_URI, "spiffe://a" } } },
          0,
          true,
          false,
          1,
          NB_REQUEST_NAME_OTHER,
          "spiffe://a" },
        { "a second organization is reported",
          { .attributes = { O, "system:nodes", O, "system:masters", CN, "system:node:a" } },
          0,
          false },
        { "a unit is reported",
          { .attributes = { O, "system:nodes", CN, "system:node:a", OU, "x" } },
          0,
          false },
        { "a second common name is reported",
          { .attributes = { O, "system:nodes", CN, "system:node:a", CN, "system:node:b" } },
          0,
          false },
        { "a missing organization is reported",
          { .attributes = { CN, "system:node:a" } },
          0,
          false },
        { "a missing common name is reported", { .attributes = { O, "system:nodes" } }, 0, false },
        { "another extension is reported",
          { .attributes = { O, "system:nodes", CN, "system:node:a" }, .has_usages = true },
          0,
          true,
          true },
        { "another extension beside names is reported",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .names = { { GNUTLS_SAN_DNSNAME, "a" } },
            .has_usages = true },
          0,
          true,
          true,
          1,
          NB_REQUEST_NAME_DNS,
          "a" },
        { "another attribute is reported",
          { .attributes = { O, "system:nodes", CN, "system:node:a" }, .has_password = true },
          0,
          true,
          true },
        { "a wrong signature is refused",
          { .attributes = { O, "system:nodes", CN, "system:node:a" }, .is_signature_wrong = true },
          -EINVAL },
        { "a control character in the common name is refused",
          { .attributes = { O, "system:nodes", CN, "system:node:a\033[2K" } },
          -EINVAL },
        { "too many names are refused",
          { .attributes = { O, "system:nodes", CN, "system:node:a" },
            .n_more_names = NB_REQUEST_NAMES_MAX + 1 },
          -E2BIG },
};

static void made_request_is_read(void **state) {
        const struct expected *expected = *state;
        char *pem = make_request(&expected->made);
        struct nb_pkcs10_facts facts = { 0 };

        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &facts), expected->r);
        assert_int_equal(facts.is_subject_plain, expected->is_subject_plain);
        assert_int_equal(facts.has_other_extensions, expected->has_other_extensions);
        assert_int_equal(facts.n_names, expected->n_names);
        if (expected->text) {
                assert_int_equal(facts.names[0].type, expected->type);
                assert_string_equal(facts.names[0].text, expected->text);
        }
        if (facts.is_subject_plain) {
                assert_string_equal(facts.common_name, "system:node:a");
                assert_string_equal(facts.organization, "system:nodes");
        }
        free(pem);
}

static void as_many_names_as_fit(_unused_ void **state) {
        const struct made_request made = { .attributes = { O, "system:nodes", CN, "system:node:a" },
                                           .n_more_names = NB_REQUEST_NAMES_MAX };
        char *pem = make_request(&made);
        struct nb_pkcs10_facts facts;

        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &facts), 0);
        assert_int_equal(facts.n_names, NB_REQUEST_NAMES_MAX);
        assert_string_equal(facts.names[NB_REQUEST_NAMES_MAX - 1].text, "x31");
        free(pem);
}

static struct odd {
        const char *name;
        const char *base64;
        int r;
        bool has_other_extensions;
} odd_cases[] = {
        { "names in a second attribute, which Go reads too", TWO_REQUESTS_FOR_EXTENSIONS, 0, true },
        { "names in a second value", TWO_VALUES, 0, true },
        { "two lists of names", TWO_LISTS_OF_NAMES, 0, true },
        { "an attribute without extensions", NO_EXTENSIONS, 0, true },
        { "organization and common name in one set", ONE_RDN, 0, false },
        { "a common name in UTF-16", BMP, 0, false },
        { "a NUL in the common name", NUL, -EINVAL },
        { "a NUL in a DNS name", SAN_NUL, -EINVAL },
        { "an address of three bytes", SHORT_ADDRESS, -EINVAL },
        { "names that are not DER", BROKEN_NAMES, -EINVAL },
        { "extensions that are not DER", BROKEN_EXTENSIONS, -EINVAL },
        { "a byte after the request", TRAILING, -EINVAL },
};

/* Lines of 64 characters, as every writer of PEM makes them. */
static void wrap(const char *base64, char *ret) {
        ret += sprintf(ret, BEGIN);
        for (; *base64; base64 += strnlen(base64, 64))
                ret += sprintf(ret, "%.64s\n", base64);
        sprintf(ret, END);
}

static void odd_request_is_read(void **state) {
        const struct odd *odd = *state;
        struct nb_pkcs10_facts facts = { 0 };
        char pem[2048];

        wrap(odd->base64, pem);
        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &facts), odd->r);
        assert_int_equal(facts.has_other_extensions, odd->has_other_extensions);
        assert_string_equal(facts.common_name, odd->r < 0 ? "" : "system:node:a");
        assert_int_equal(facts.is_subject_plain, odd->r == 0);
}

/* Text around and within the base64 for which parsers differ in what is the first block. */
static struct form {
        const char *name;
        const char *before, *first_line, *inside, *last_line, *after;
        int r;
} form_cases[] = {
        { "exactly the block", "", BEGIN, "", END, "", 0 },
        { "another block behind it", "", BEGIN, "", END, "-----BEGIN X-----\n-----END X-----\n",
          0 },
        { "garbage behind it", "", BEGIN, "", END, "x", 0 },
        { "no final newline", "", BEGIN, "", "-----END CERTIFICATE REQUEST-----", "", 0 },
        { "text before it", "x\n", BEGIN, "", END, "", -EINVAL },
        { "another block before it", "-----BEGIN X-----\nAAAA\n-----END X-----\n", BEGIN, "", END,
          "", -EINVAL },
        { "a hyphen in the base64, which GnuTLS ignores", "", BEGIN, "-", END, "", -EINVAL },
        { "a space in the base64", "", BEGIN, " ", END, "", -EINVAL },
        { "a carriage return", "", BEGIN, "\r", END, "", -EINVAL },
        { "a header", "", BEGIN "X: y\n\n", "", END, "", -EINVAL },
        { "text after the label", "", "-----BEGIN CERTIFICATE REQUEST-----x\n", "", END, "",
          -EINVAL },
        { "another label", "", "-----BEGIN NEW CERTIFICATE REQUEST-----\n", "",
          "-----END NEW CERTIFICATE REQUEST-----\n", "", -EINVAL },
        { "another label at the end", "", BEGIN, "", "-----END CERTIFICATE-----\n", "", -EINVAL },
        { "no end", "", BEGIN, "", "", "", -EINVAL },
};

static void form_is_checked(void **state) {
        const struct form *form = *state;
        struct nb_pkcs10_facts facts;
        char plain[2048], pem[4096], *base64, *end;

        wrap(ONE_RDN, plain);
        base64 = plain + strlen(BEGIN);
        end = strstr(base64, END);
        sprintf(pem, "%s%s%.10s%s%.*s%s%s", form->before, form->first_line, base64, form->inside,
                (int)(end - base64 - 10), base64 + 10, form->last_line, form->after);
        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &facts), form->r);
}

/* The hash is of the request alone, so that a proof behind it can cover it. */
static void hash_is_of_the_request(_unused_ void **state) {
        struct nb_pkcs10_facts facts, again;
        char pem[4096];

        wrap(ONE_RDN, pem);
        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &facts), 0);
        strcat(pem, "-----BEGIN X-----\nAAAA\n-----END X-----\n");
        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &again), 0);
        assert_memory_equal(facts.hash, again.hash, sizeof(facts.hash));
        wrap(BMP, pem);
        assert_int_equal(nb_pkcs10_facts_read(pem, strlen(pem), &again), 0);
        assert_memory_not_equal(facts.hash, again.hash, sizeof(facts.hash));
        assert_memory_equal(facts.key, again.key, sizeof(facts.key));
}

int main(void) {
        CASES(made_cases, made_request_is_read);
        CASES(odd_cases, odd_request_is_read);
        CASES(form_cases, form_is_checked);
        CASE(as_many_names_as_fit);
        CASE(hash_is_of_the_request);
        return case_run("request facts");
}
