/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "allocation.h"
#include "case.h"
#include "cluster_hosts.h"

/* Otherwise another node could get the names of this one. */
static void is_incomplete_without_memory(void **state _unused_) {
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };

        allocation_fail(0);
        nb_hosts_add(&hosts, "10.0.0.5", "x", false);
        assert_true(allocation_stop());
        assert_true(hosts.is_incomplete);
        nb_hosts_add(&hosts, "10.0.0.6", "x", false);
        assert_true(hosts.is_incomplete);
}

static struct {
        const char *name, *text;
} unreadable[] = {
        { "a record without a node", "{\"type\":\"node-bootstrap/enrolled-node\"}" },
        { "an object of another type", "{\"type\":\"Opaque\"}" },
        { "a Node whose addresses are no list",
          "{\"metadata\":{\"name\":\"n\"},\"status\":{\"addresses\":{}}}" },
        { "a Node with an address that is no text",
          "{\"metadata\":{\"name\":\"n\"},\"status\":{\"addresses\":[{\"address\":1}]}}" },
};

static void is_incomplete_without_an_object(void **state) {
        const __typeof__(unreadable[0]) *row = *state;
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };
        _cleanup_(nb_hosts_done) struct nb_hosts unread = { 0 };

        add_object(&hosts, row->text);
        assert_true(hosts.is_incomplete);
        assert_int_equal(nb_hosts_add_object(&unread, &(struct nb_json){ .what = "x" }), 0);
        assert_true(unread.is_incomplete);
}

static struct {
        const char *name;
        uint64_t read_ms, now_ms;
        bool is_fresh;
} ages[] = {
        { "nothing was read, just after the machine started", 0, 1, false },
        { "just read", 50000, 50000, true },
        { "at the limit", 50000, 50000 + NB_HOSTS_AGE_MAX_MS, true },
        { "above it", 50000, 50001 + NB_HOSTS_AGE_MAX_MS, false },
        { "read later than now", 50001, 50000, false },
};

static void has_an_age(void **state) {
        const __typeof__(ages[0]) *row = *state;

        assert_int_equal(
                nb_hosts_is_fresh(&(struct nb_hosts){ .read_ms = row->read_ms }, row->now_ms),
                row->is_fresh);
}

int main(void) {
        CASE(is_incomplete_without_memory);
        CASES(unreadable, is_incomplete_without_an_object);
        CASES(ages, has_an_age);
        return case_run("hosts");
}
