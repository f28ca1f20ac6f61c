/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "format/kernel_line.h"

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
        { "other words alone", TEXT("BOOT_IMAGE=/vmlinuz root=LABEL=root ro quiet\n"), "", "" },
        { "a platform among others", TEXT("ro ignition.platform.id=aws console=ttyS0\n"), "aws", "" },
        { "a data source first", TEXT("ds=nocloud quiet"), "", "nocloud" },
        { "both", TEXT("ds=openstack ignition.platform.id=openstack"), "openstack", "openstack" },
        { "what follows a semicolon goes", TEXT("ds=nocloud;s=http://192.0.2.1/seed/"), "", "nocloud" },
        { "a data source in quotes", TEXT("ds=\"nocloud;s=/a b/\" ignition.platform.id=qemu"), "qemu", "nocloud" },
        { "a whole word in quotes", TEXT("\"ds=nocloud;h=a b\" ro"), "", "nocloud" },
        { "a key inside of quotes is none", TEXT("x=\"a ds=nocloud b\""), "", "" },
        { "quotes that do not end", TEXT("ds=\"nocloud"), "", "nocloud" },
        { "the last one counts", TEXT("ignition.platform.id=aws ignition.platform.id=gcp"), "gcp", "" },
        { "an empty one last counts as none", TEXT("ds=nocloud ds="), "", "" },
        { "no value", TEXT("ds ignition.platform.id"), "", "" },
        { "another key that ends alike", TEXT("cloud.ds=nocloud xignition.platform.id=aws"), "", "" },
        { "another key that begins alike", TEXT("dsx=nocloud ignition.platform.idx=aws"), "", "" },
        { "tabs between words", TEXT("ro\tds=nocloud\tquiet"), "", "nocloud" },
        { "a control character", TEXT("ds=no\033cloud"), "", "" },
        { "a slash", TEXT("ignition.platform.id=../aws"), "", "" },
        { "a NUL inside", TEXT("ds=no\0cloud"), "", "no" },
        { "a key after a NUL", TEXT("ro\0ds=nocloud"), "", "nocloud" },
        { "the longest", TEXT("ds=" LONGEST), "", LONGEST },
        { "one longer than the longest", TEXT("ds=" LONGEST "x"), "", "" },
        { "one quote alone", TEXT("\""), "", "" },
        { "the key alone in quotes", TEXT("\"ds=\""), "", "" },
};

static void parses(void **state) {
        const struct line_case *c = *state;
        struct nb_platform platform = { .platform_id = "x", .data_source = "x", .volume = "cidata", .has_guestinfo = true };
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
