/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "metadata/kernel_line.h"

#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1
#define LONGEST "a23456789012345678901234567890."

struct line_case {
        const char *name;
        const char *line;
        size_t len;
        const char *platform_id, *data_source;
};

static struct line_case cases[] = {
        { "nothing", TEXT(""), "", "" },
        { "only other words", TEXT("BOOT_IMAGE=/vmlinuz root=LABEL=root ro quiet\n"), "", "" },
        { "a platform among others", TEXT("ro ignition.platform.id=aws console=ttyS0\n"), "aws",
          "" },
        { "a data source first", TEXT("ds=nocloud quiet"), "", "nocloud" },
        { "both", TEXT("ds=openstack ignition.platform.id=openstack"), "openstack", "openstack" },
        { "the text after a semicolon is ignored", TEXT("ds=nocloud;s=http://192.0.2.1/seed/"), "",
          "nocloud" },
        { "a data source in quotes", TEXT("ds=\"nocloud;s=/a b/\" ignition.platform.id=qemu"),
          "qemu", "nocloud" },
        { "a whole word in quotes", TEXT("\"ds=nocloud;h=a b\" ro"), "", "nocloud" },
        { "a key inside quotes is ignored", TEXT("x=\"a ds=nocloud b\""), "", "" },
        { "an unterminated quote", TEXT("ds=\"nocloud"), "", "nocloud" },
        { "the last one counts", TEXT("ignition.platform.id=aws ignition.platform.id=gcp"), "gcp",
          "" },
        { "an empty value overrides an earlier one", TEXT("ds=nocloud ds="), "", "" },
        { "no value", TEXT("ds ignition.platform.id"), "", "" },
        { "another key with the same end", TEXT("cloud.ds=nocloud xignition.platform.id=aws"), "",
          "" },
        { "another key with the same beginning", TEXT("dsx=nocloud ignition.platform.idx=aws"), "",
          "" },
        { "tabs between words", TEXT("ro\tds=nocloud\tquiet"), "", "nocloud" },
        { "a control character", TEXT("ds=no\033cloud"), "", "" },
        { "a slash", TEXT("ignition.platform.id=../aws"), "", "" },
        { "a NUL inside", TEXT("ds=no\0cloud"), "", "no" },
        { "a key after a NUL", TEXT("ro\0ds=nocloud"), "", "nocloud" },
        { "the longest value", TEXT("ds=" LONGEST), "", LONGEST },
        { "a value that is too long", TEXT("ds=" LONGEST "x"), "", "" },
        { "a single quote", TEXT("\""), "", "" },
        { "the key alone in quotes", TEXT("\"ds=\""), "", "" },
};

static void parses(void **state) {
        const struct line_case *c = *state;
        struct nb_platform platform = {
                .platform_id = "x", .data_source = "x", .volume = "cidata", .has_guestinfo = true
        };
        char *copy = malloc(c->len > 0 ? c->len : 1);

        /* Of exactly this size, so that a read beyond it is seen. */
        assert_non_null(copy);
        memcpy(copy, c->line, c->len);
        nb_kernel_line_parse(copy, c->len, &platform);
        free(copy);
        assert_string_equal(platform.platform_id, c->platform_id);
        assert_string_equal(platform.data_source, c->data_source);
        assert_string_equal(platform.volume, "cidata");
        assert_true(platform.has_guestinfo);
}

int main(void) {
        CASES(cases, parses);
        return case_run("format kernel line");
}
