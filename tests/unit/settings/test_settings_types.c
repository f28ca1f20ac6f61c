/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "settings/settings.h"

#include "case.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"

struct span_case {
        const char *name;
        const char *text;
        bool is_go;
        int64_t ms; /* -1: refused */
};

static struct span_case spans[] = {
        { "span: seconds", "30s", false, 30000 },
        { "span: units from large to small", "1d2h3m4s", false, 93784000 },
        { "span: a unit twice", "1h1h", false, -1 },
        { "span: the smaller unit first", "1m1h", false, -1 },
        { "span: no unit", "30", false, -1 },
        { "span: no number", "s", false, -1 },
        { "span: nothing", "", false, -1 },
        { "span: zero, which the caller judges", "0s", false, 0 },
        { "span: zero without a unit", "0", false, -1 },
        { "span: a fraction", "1.5h", false, -1 },
        { "span: milliseconds", "5ms", false, -1 },
        { "span: negative", "-5m", false, -1 },
        { "span: a sign", "+5m", false, -1 },
        { "span: hexadecimal", "0x10s", false, -1 },
        { "span: an exponent", "1e3s", false, -1 },
        { "span: a blank", "5m 3s", false, -1 },
        { "span: the largest number", "9999999999d", false, 9999999999 * 86400000 },
        { "span: a larger one", "10000000000s", false, -1 },
        { "span of Go: units in any order, and twice", "1s1h1s", true, 3602000 },
        { "span of Go: a fraction", "1.5m", true, 90000 },
        { "span of Go: rounded to a millisecond", "0.0006s", true, 1 },
        { "span of Go: milliseconds are not minutes", "5ms", true, 5 },
        { "span of Go: zero without a unit", "0", true, 0 },
        { "span of Go: another number without a unit", "1", true, -1 },
        { "span of Go: two points", "1.2.3s", true, -1 },
        { "span of Go: a point alone", ".s", true, -1 },
        { "span of Go: days, which Go does not know", "1d", true, -1 },
        { "span of Go: microseconds", "1us", true, -1 },
        { "span of Go: hexadecimal", "0x1s", true, -1 },
};

static void reads_span(void **state) {
        const struct span_case *c = *state;
        uint64_t ms = 7;

        assert_int_equal(nb_setting_duration_parse(c->text, c->is_go, &ms),
                         c->ms < 0 ? -EINVAL : 0);
        assert_int_equal(ms, c->ms < 0 ? 7 : (uint64_t)c->ms);
}

/* 513 times 9999999999h are 2^64 ms and some. */
static void a_span_does_not_wrap(void **state) {
        char text[600 * 11 + 1] = "";
        uint64_t ms = 7;

        for (unsigned i = 0; i < 600; i++)
                memcpy(text + i * 11, "9999999999h", 12);
        assert_int_equal(nb_setting_duration_parse(text, true, &ms), -EINVAL);
        assert_int_equal(ms, 7);
}

struct parse_case {
        const char *name;
        enum nb_setting setting;
        const char *texts[3]; /* stored in turn; up to the first NULL */
        int expected;         /* of the last one */
        const char *value;    /* afterwards */
};

static struct parse_case parses[] = {
        { "parse: a word", NB_SETTING_CLUSTER_TYPE, { "k3s" }, 0, "k3s" },
        { "parse: a part of a word", NB_SETTING_CLUSTER_TYPE, { "k3s", "k3" }, -EINVAL, "k3s" },
        { "parse: one of two words", NB_SETTING_ALLOW_EXISTING, { "true" }, 0, "true" },
        { "parse: no boolean", NB_SETTING_ALLOW_EXISTING, { "true", "True" }, -EINVAL, "true" },
        { "parse: nothing restores an empty default",
          NB_SETTING_CRI_SOCKET,
          { "/run/a", "" },
          0,
          "\"\"" },
        { "parse: nothing is no other default",
          NB_SETTING_CA_FILE,
          { "/a", "" },
          -EINVAL,
          "\"/a\"" },
        { "parse: nothing is no entry", NB_SETTING_TAINTS, { "" }, -EINVAL, "[]" },
        { "parse: quotes are escaped", NB_SETTING_CA_FILE, { "/a\"b" }, 0, "\"/a\\\"b\"" },
        { "parse: an entry that is there is dropped",
          NB_SETTING_ENDPOINTS,
          { "a", "b:1", "A:6443" },
          0,
          "[\"a:6443\", \"b:1\"]" },
        { "parse: an invalid entry is dropped",
          NB_SETTING_ENDPOINTS,
          { "a", ":1" },
          -EINVAL,
          "[\"a:6443\"]" },
        { "parse: an argument that is there",
          NB_SETTING_EXTRA_ARGS,
          { "v=1", "vv=1", "v=2" },
          0,
          "[\"v=1\", \"vv=1\", \"v=2\"]" },
        { "parse: the same taint",
          NB_SETTING_TAINTS,
          { "a=b:NoExecute", "a:NoExecute" },
          -EEXIST,
          "[\"a=b:NoExecute\"]" },
        { "parse: a longer key of a taint",
          NB_SETTING_TAINTS,
          { "a:NoExecute", "ab:NoExecute" },
          0,
          "[\"a:NoExecute\", \"ab:NoExecute\"]" },
        { "parse: a token is parsed elsewhere",
          NB_SETTING_BOOTSTRAP_TOKEN,
          { "abcdef.0123456789abcdef" },
          -EINVAL,
          "\"\"" },
        { "parse: a number", NB_SETTING_EXPIRATION_SECONDS, { "600", "599" }, -EINVAL, "600" },
};

static void parses_setting(void **state) {
        const struct parse_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(256);
        struct nb_settings settings;
        int r = 0;

        nb_settings_init(&settings);
        for (size_t i = 0; i < N_ELEMENTS(c->texts) && c->texts[i]; i++) {
                assert_true(r >= 0);
                r = nb_setting_parse(&settings, c->setting, c->texts[i], strlen(c->texts[i]));
        }
        assert_int_equal(r, c->expected);
        nb_setting_format(&settings, c->setting, &value);
        assert_string_equal(value.data, c->value);
        /* Only a document has an origin. */
        assert_false(nb_setting_is_set(&settings, c->setting));
}

static void formats_types(void **state) {
        static const struct {
                const struct nb_setting_type *type;
                union nb_setting_value value;
                const char *expected;
        } rows[] = {
                { &nb_setting_type_boolean, { .boolean = true }, "true" },
                { &nb_setting_type_cluster_type, { .cluster_type = NB_CLUSTER_TYPE_K3S }, "k3s" },
                { &nb_setting_type_duration, { .duration = UINT64_MAX }, "infinity" },
                { &nb_setting_type_duration, { .duration = 90000 }, "90s" },
                { &nb_setting_type_path, { .path = "/a\\\"" }, "\"/a\\\\\\\"\"" },
                { &nb_setting_type_token, { .token = true }, "\"(not shown)\"" },
                { &nb_setting_type_token, { .token = false }, "\"\"" },
                { &nb_setting_type_endpoint,
                  { .endpoint = { .host = "::1", .is_ipv6 = true, .port = 1 } },
                  "\"[::1]:1\"" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(256);

                nb_setting_type_format(rows[i].type, &rows[i].value, &text);
                assert_string_equal(text.data, rows[i].expected);
        }
}

static void merge_good(struct nb_settings *settings, const char *origin, const char *text) {
        const struct nb_settings_source source = { .origin = origin };
        struct nb_failure f = {};

        assert_int_equal(nb_settings_merge(settings, &source, text, strlen(text), &f), 0);
}

static void overlays_what_is_set(void **state) {
        struct nb_settings under, over;
        char endpoint[NB_URL_MAX];

        nb_settings_init(&under);
        nb_settings_init(&over);
        merge_good(&under, "under",
                   HEAD "discovery:\n  endpoints: [a, b]\nnode:\n  name: UPPER\n  taints: "
                        "[a:NoExecute]\ntimeout: 5m\n");
        merge_good(&over, "over",
                   HEAD "discovery:\n  endpoints: [c]\nnode:\n  taints: []\n  allowExisting: "
                        "false\n");
        nb_settings_overlay(&under, &over);
        assert_int_equal(under.n_endpoints, 1);
        nb_endpoint_format(&under.endpoints[0], endpoint);
        assert_string_equal(endpoint, "c:6443");
        assert_int_equal(under.n_taints, 0);
        assert_string_equal(under.origin[NB_SETTING_TAINTS], "over");
        /* Set to the default is set. */
        assert_true(nb_setting_is_set(&under, NB_SETTING_ALLOW_EXISTING));
        assert_false(nb_setting_is_set(&under, NB_SETTING_CA_FILE));
        assert_string_equal(under.node_name, "upper");
        assert_true(under.is_node_name_lowered);
        assert_string_equal(under.origin[NB_SETTING_NODE_NAME], "under");
        assert_true(under.timeout_ms == 300000);
        merge_good(&over, "over", HEAD "node:\n  name: lower\n");
        nb_settings_overlay(&under, &over);
        assert_string_equal(under.node_name, "lower");
        assert_false(under.is_node_name_lowered);
}

static void knows_what_units_make_writable(void **state) {
        static const struct {
                const char *path, *folder;
        } rows[] = {
                { "/etc/kubernetes", "/etc/kubernetes" },
                { "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes" },
                { "/var/lib/kubelet/pki", "/var/lib/kubelet" },
                { "/etc/kubernetes2/ca.crt", NULL },
                { "/etc/kubernete", NULL },
                { "/var/lib", NULL },
                { "/srv/etc/kubernetes", NULL },
                { "", NULL },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *folder = nb_settings_folder_of(rows[i].path);

                assert_string_equal(folder ? folder : "", rows[i].folder ? rows[i].folder : "");
        }
}

int main(void) {
        CASES(spans, reads_span);
        CASE(a_span_does_not_wrap);
        CASES(parses, parses_setting);
        CASE(formats_types);
        CASE(overlays_what_is_set);
        CASE(knows_what_units_make_writable);
        return case_run("settings types");
}
