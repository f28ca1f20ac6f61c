/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "state_files/platform_note.h"

#include "case.h"

struct platform_case {
        const char *name;
        const char *json;
        bool is_good;
        struct nb_platform expected;
};

static struct platform_case cases[] = {
        { "everything",
          "{\"platformId\":\"qemu\",\"dataSource\":\"nocloud-net\",\"volume\":\"cidata\","
          "\"hasGuestinfo\":true}",
          true,
          { "qemu", "nocloud-net", "cidata", true } },
        { "nothing", "{}", true, { .volume = "" } },
        { "empty strings",
          "{\"platformId\":\"\",\"dataSource\":\"\",\"volume\":\"\"}",
          true,
          { .volume = "" } },
        { "the other volume", "{\"volume\":\"config-2\"}", true, { .volume = "config-2" } },
        { "a key that is not known",
          "{\"platformId\":\"aws\",\"more\":[1]}",
          true,
          { .platform_id = "aws" } },
        { "a volume that is not known", "{\"volume\":\"root\"}", false, { .volume = "" } },
        { "a volume in upper case", "{\"volume\":\"CIDATA\"}", false, { .volume = "" } },
        { "a platform of 31 letters",
          "{\"platformId\":\"a234567890123456789012345678901\"}",
          true,
          { .platform_id = "a234567890123456789012345678901" } },
        { "a platform of 32 letters",
          "{\"platformId\":\"a2345678901234567890123456789012\"}",
          false,
          { .volume = "" } },
        { "a line break", "{\"platformId\":\"a\\nb\"}", false, { .volume = "" } },
        { "a path", "{\"dataSource\":\"../a\"}", false, { .volume = "" } },
        { "a number for a string", "{\"platformId\":1}", false, { .volume = "" } },
        { "a string for a boolean", "{\"hasGuestinfo\":\"true\"}", false, { .volume = "" } },
        { "a list", "[]", false, { .volume = "" } },
        { "no JSON", "qemu", false, { .volume = "" } },
        { "empty", "", false, { .volume = "" } },
};

static void parses(void **state) {
        const struct platform_case *c = *state;
        struct nb_platform platform = { .platform_id = "earlier" };
        struct nb_failure f = { 0 };
        int r = nb_state_file_parse(&nb_platform_file, c->json, strlen(c->json), &platform, &f);

        assert_int_equal(r >= 0, c->is_good);
        assert_int_equal(f.code, c->is_good ? NB_NONE : NB_METADATA_MALFORMED);
        assert_string_equal(platform.platform_id, c->expected.platform_id);
        assert_string_equal(platform.data_source, c->expected.data_source);
        assert_string_equal(platform.volume, c->expected.volume);
        assert_int_equal(platform.has_guestinfo, c->expected.has_guestinfo);
}

static void formats_as_documented(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);
        struct nb_platform platform = { "qemu", "nocloud", "cidata", false };

        assert_int_equal(nb_state_file_format(&nb_platform_file, &platform, &text), 0);
        assert_string_equal(
                text.data,
                "{\n  \"platformId\": \"qemu\",\n  \"dataSource\": "
                "\"nocloud\",\n  \"volume\": \"cidata\",\n  \"hasGuestinfo\": false\n}\n");
        nb_buffer_done(&text);
}

static void formats_what_it_parses(void **state) {
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_buffer text = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);
                struct nb_platform again = { 0 };
                struct nb_failure f = { 0 };

                if (!cases[i].is_good)
                        continue;
                assert_int_equal(nb_state_file_format(&nb_platform_file, &cases[i].expected, &text),
                                 0);
                assert_int_equal(
                        nb_state_file_parse(&nb_platform_file, text.data, text.len, &again, &f), 0);
                assert_memory_equal(&again, &cases[i].expected, sizeof(again));
                nb_buffer_done(&text);
        }
}

int main(void) {
        CASES(cases, parses);
        CASE(formats_as_documented);
        CASE(formats_what_it_parses);
        return case_run("format platform");
}
