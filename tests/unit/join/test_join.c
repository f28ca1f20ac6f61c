/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "folder.h"
#include "join/report.h"
#include "join/stages.h"
#include "os/clock.h"
#include "pki.h"

#define NODE "O=system:nodes,CN=system:node:a"

static struct pki_cert ca, other;
static struct folder folder;
static struct nb_settings settings;
static struct nb_bootstrap bootstrap;
static struct nb_join join;
static struct nb_failure f;

static int set_up(void **state) {
        folder_make(&folder);
        nb_settings_init(&settings);
        bootstrap = (struct nb_bootstrap){ .method = NB_METHOD_TOKEN };
        join = (struct nb_join){ .settings = &settings,
                                 .bootstrap = &bootstrap,
                                 .node_name = "a",
                                 .state_fd = folder.fd,
                                 .deadline_ms = NB_TIME_INFINITE };
        f = (struct nb_failure){ 0 };
        return 0;
}

static int tear_down(void **state) {
        nb_join_done(&join);
        folder_remove(&folder);
        return 0;
}

static struct nb_cluster make_cluster(const char *url, const char *pem) {
        struct nb_cluster cluster = { .ca = strdup(pem), .ca_len = strlen(pem) };

        assert_int_equal(nb_url_parse(url, strlen(url), &cluster.server), 0);
        return cluster;
}

/* --- The cluster --- */

static void set_pin(const struct pki_cert *cert) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(cert->pem, strlen(cert->pem), false, &certificates),
                         0);
        memcpy(settings.pins[settings.n_pins++], nb_certificate_pin(certificates, 0), NB_PIN_SIZE);
        nb_certificates_free(certificates);
}

static void only_pinned_cas_are_trusted_and_adopted(void **state) {
        char *both = PKI_JOIN(other.pem, ca.pem);
        struct nb_cluster cluster = make_cluster("https://10.0.0.1", both);
        struct nb_ca_selection selection;

        join.cluster = make_cluster("https://old", other.pem);
        set_pin(&ca);
        assert_int_equal(nb_join_trust(&join, &cluster, NB_ANSWER_MALFORMED, &selection, &f), 0);
        assert_string_equal(cluster.ca, ca.pem);
        assert_int_equal(selection.n_left_out, 1);
        nb_join_adopt(&join, &cluster, "10.0.0.1:443", &selection, "a test");
        assert_null(cluster.ca);
        assert_string_equal(join.cluster.ca, ca.pem);
        assert_string_equal(join.cluster.server.host, "10.0.0.1");
        assert_string_equal(join.endpoint, "10.0.0.1:443");
        free(both);
}

static void a_bundle_that_is_not_trusted_is_left(void **state) {
        struct nb_cluster cluster = make_cluster("https://10.0.0.1", other.pem);
        struct nb_ca_selection selection;

        set_pin(&ca);
        assert_true(nb_join_trust(&join, &cluster, NB_ANSWER_MALFORMED, &selection, &f) < 0);
        assert_int_equal(f.code, NB_CA_PIN_MISMATCH);
        assert_string_equal(cluster.ca, other.pem);
        nb_cluster_done(&cluster);
        nb_failure_clear(&f);
        cluster = make_cluster("https://10.0.0.1", "x");
        assert_true(nb_join_trust(&join, &cluster, NB_CLUSTER_INFO_UNACCEPTABLE, &selection, &f) <
                    0);
        assert_int_equal(f.code, NB_CLUSTER_INFO_UNACCEPTABLE);
        nb_cluster_done(&cluster);
}

/* The installer compares the hash of all bytes again, so comments stay. */
static void the_bytes_of_a_hash_are_kept(void **state) {
        char *text = PKI_JOIN("# a comment\n", ca.pem);
        struct nb_cluster cluster = make_cluster("https://10.0.0.1", text);
        struct nb_ca_selection selection;

        bootstrap.method = NB_METHOD_K3S;
        bootstrap.has_hash = true;
        assert_int_equal(nb_sha256(text, strlen(text), bootstrap.hash), 0);
        assert_int_equal(nb_join_trust(&join, &cluster, NB_ANSWER_MALFORMED, &selection, &f), 0);
        assert_string_equal(cluster.ca, text);
        nb_cluster_done(&cluster);
        free(text);
}

/* --- The clock --- */

static void the_clock_is_compared(void **state) {
        assert_int_equal(nb_join_clock_behind_sec(&join), 0);
        join.server_date = time(NULL) + 3600;
        join.server_date_ms = nb_now_ms();
        assert_in_range(nb_join_clock_behind_sec(&join), 3598, 3601);
        join.server_date -= 7200;
        assert_in_range(-nb_join_clock_behind_sec(&join), 3599, 3602);
}

struct skew_case {
        const char *name;
        enum nb_code code;
        int errnum, behind_sec;
        enum nb_code expected;
};

static struct skew_case skews[] = {
        { "skew: expired, and the clock is right", NB_TLS_EXPIRED, EKEYREJECTED, 0,
          NB_TLS_EXPIRED },
        { "skew: expired, and the clock is wrong", NB_TLS_EXPIRED, EKEYREJECTED, 3600,
          NB_CLOCK_WRONG },
        { "skew: a certificate of this node has expired", NB_CERTIFICATE_UNUSABLE, EKEYEXPIRED,
          3600, NB_CLOCK_WRONG },
        { "skew: a certificate for another key", NB_CERTIFICATE_UNUSABLE, EKEYREJECTED, 3600,
          NB_CERTIFICATE_UNUSABLE },
        { "skew: a server that is not trusted, whatever Date it sends", NB_TLS_UNTRUSTED,
          EKEYREJECTED, 3600, NB_TLS_UNTRUSTED },
};

static void maps_skew(void **state) {
        const struct skew_case *c = *state;

        (void)set_up(NULL);
        join.server_date = time(NULL) + c->behind_sec;
        join.server_date_ms = nb_now_ms();
        assert_int_equal(nb_join_map_clock_skew(&join, 0, &f), 0);
        (void)nb_failure_set(&f, c->code, c->errnum, "why");
        assert_true(nb_join_map_clock_skew(&join, -c->errnum, &f) < 0);
        assert_int_equal(f.code, c->expected);
        assert_non_null(strstr(f.detail, "why"));
        (void)tear_down(NULL);
}

/* --- The key --- */

static void expect_key(bool is_there) {
        assert_int_equal(faccessat(folder.fd, NB_PENDING_KEY_FILE, F_OK, 0), is_there ? 0 : -1);
}

/* It is on disk before it is used, and the next start finds it. */
static void a_key_is_kept(void **state) {
        char first[NB_PKCS10_NAME_SIZE], second[NB_PKCS10_NAME_SIZE];
        struct stat st;

        assert_int_equal(nb_pending_key_prepare(&join, &f), 0);
        assert_true(join.is_key_new);
        expect_key(false);
        assert_int_equal(nb_pkcs10_csr_name(join.key, "a", first), 0);
        assert_int_equal(nb_pending_key_keep(&join, &f), 0);
        assert_true(!join.is_key_new && join.is_key_unused);
        assert_int_equal(fstatat(folder.fd, NB_PENDING_KEY_FILE, &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        nb_key_free(join.key);
        join.key = NULL;
        join.is_key_unused = false;
        assert_int_equal(nb_pending_key_keep(&join, &f), 0);
        assert_int_equal(nb_pkcs10_csr_name(join.key, "a", second), 0);
        assert_string_equal(first, second);
        assert_false(join.is_key_unused);
        nb_pending_key_drop(&join);
        assert_null(join.key);
        expect_key(false);
        nb_pending_key_drop(&join);
        assert_int_equal(nb_pending_key_prepare(&join, &f), 0);
        assert_int_equal(nb_pkcs10_csr_name(join.key, "a", second), 0);
        assert_string_not_equal(first, second);
}

static void a_key_that_is_damaged_is_replaced(void **state) {
        folder_put(&folder, "/" NB_PENDING_KEY_FILE, "x");
        assert_int_equal(nb_pending_key_keep(&join, &f), 0);
        assert_non_null(join.key);
        assert_true(join.is_key_unused);
        nb_key_free(join.key);
        join.key = NULL;
        join.state_fd = -1;
        assert_true(nb_pending_key_keep(&join, &f) < 0);
        assert_int_equal(f.code, NB_STATE_UNWRITABLE);
        join.state_fd = folder.fd;
}

/* --- The certificate --- */

static struct pki_cert make_leaf(const struct pki_cert *key, time_t begin, time_t end) {
        return pki_make(&(struct pki_options){ .dn = NODE,
                                               .issuer = &ca,
                                               .key_of = key,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) + begin,
                                               .not_after = time(NULL) + end });
}

static void a_certificate_is_taken(void **state) {
        struct pki_cert good, late, expired;
        char *text;

        good = make_leaf(NULL, -PKI_DAY, PKI_DAY);
        late = make_leaf(&good, PKI_DAY, 2 * PKI_DAY);
        expired = make_leaf(&good, -2 * PKI_DAY, -PKI_DAY);
        folder_put(&folder, "/" NB_PENDING_KEY_FILE, good.key_pem);
        assert_int_equal(nb_pending_key_prepare(&join, &f), 0);
        text = PKI_JOIN("Subject: a\n", good.pem);
        assert_int_equal(nb_join_take_issued(&join, text, strlen(text), &f), 0);
        assert_string_equal(join.certificate.data, good.pem);
        /* kubelet ignores when it begins. */
        assert_int_equal(nb_join_take_issued(&join, late.pem, strlen(late.pem), &f), 0);
        assert_string_equal(join.certificate.data, late.pem);
        assert_true(nb_join_take_issued(&join, expired.pem, strlen(expired.pem), &f) < 0);
        assert_int_equal(f.code, NB_CERTIFICATE_UNUSABLE);
        nb_failure_clear(&f);
        assert_true(nb_join_take_issued(&join, ca.pem, strlen(ca.pem), &f) < 0);
        assert_int_equal(f.code, NB_CERTIFICATE_UNUSABLE);
        nb_failure_clear(&f);
        assert_true(nb_join_take_issued(&join, "", 0, &f) < 0);
        assert_non_null(strstr(f.detail, "text that is not a list of certificates in PEM"));
        assert_string_equal(join.certificate.data, late.pem);
        free(text);
        pki_done(&expired);
        pki_done(&late);
        pki_done(&good);
}

/* --- Reports --- */

static void waiting_begins_once(void **state) {
        time_t since = 0, before = time(NULL);

        (void)nb_failure_set(&f, NB_ENDPOINT_REFUSED, ECONNREFUSED, "why");
        nb_report_wait(&since, &f, false);
        assert_in_range(since, before, time(NULL));
        since = 7;
        nb_report_wait(&since, &f, true);
        assert_int_equal(since, 7);
        nb_report_new_connection(&join.api); /* there is none */
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(only_pinned_cas_are_trusted_and_adopted),
                TEST(a_bundle_that_is_not_trusted_is_left),
                TEST(the_bytes_of_a_hash_are_kept),
                TEST(the_clock_is_compared),
                TEST(a_key_is_kept),
                TEST(a_key_that_is_damaged_is_replaced),
                TEST(a_certificate_is_taken),
                TEST(waiting_begins_once),
        };
        int r;

        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        other = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        r = cmocka_run_group_tests_name("join", tests, NULL, NULL);
        CASES(skews, maps_skew);
        return case_run("join skew") + r;
}
