/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "allocation.h"
#include "case.h"
#include "cluster_hosts.h"

static int add_one_record(const void *input) {
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };
        struct nb_failure f = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = parse(input, &f);
        int r = nb_hosts_add_record(&hosts, &json);

        if (r >= 0 && hosts.error >= 0)
                assert_int_equal(hosts.n, 3);
        return r < 0 ? r : hosts.error;
}

/* Otherwise another node could get the names of this one. */
static void misses_no_name_without_memory(void **state _unused_) {
        struct nb_node_record record = { .node = "node3", .uid = "u", .resource_version = "1" };
        struct nb_buffer text = NB_BUFFER_INIT(65536);

        strcpy(record.public_key, KEY);
        assert_true(nb_node_record_set_names(&record, "10.0.0.8", true));
        assert_true(nb_node_record_set_names(&record, "c.example.org", false));
        assert_int_equal(nb_node_record_format(&record, &text), 0);
        allocation_try_all(add_one_record, text.data);
        nb_buffer_done(&text);
}

static void keeps_an_error(void **state _unused_) {
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };

        allocation_fail(0);
        assert_int_equal(nb_hosts_add(&hosts, NB_OWNER_CLUSTER, "a", "x"), -ENOMEM);
        assert_true(allocation_stop());
        assert_int_equal(nb_hosts_add(&hosts, NB_OWNER_CLUSTER, "b", "x"), -ENOMEM);
        assert_int_equal(hosts.n, 0);
        nb_hosts_done(&hosts);
        assert_int_equal(nb_hosts_add(&hosts, NB_OWNER_CLUSTER, "b", "x"), 0);
        assert_non_null(nb_hosts_find(&hosts, "b", "n", true));
        assert_null(nb_hosts_find(&hosts, "a", "n", false));
}

static void knows_networks_of_services(void **state _unused_) {
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };
        struct nb_failure f = { 0 };
        struct nb_json json;

        assert_int_equal(nb_hosts_add(&hosts, NB_OWNER_CLUSTER, "10.96.0.1", "x"), 0);
        assert_int_equal(nb_hosts_add(&hosts, NB_OWNER_POD_NETWORK, "10.97.0.0/16", "n"), 0);
        assert_int_equal(nb_hosts_add(&hosts, NB_OWNER_CLAIMING_NODE, "10.98.0.0/16", "n"), 0);
        assert_int_equal(hosts.n, 2);
        assert_false(hosts.has_service_networks);
        json = parse("{\"spec\":{\"cidrs\":[]}}", &f);
        assert_int_equal(nb_hosts_add_service_network(&hosts, &json), 0);
        assert_false(hosts.has_service_networks);
        nb_json_done(&json);
        json = parse("{\"spec\":{\"cidrs\":[\"10.96.0.0/16\"]}}", &f);
        assert_int_equal(nb_hosts_add_service_network(&hosts, &json), 0);
        assert_true(hosts.has_service_networks);
        nb_json_done(&json);
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
        CASE(misses_no_name_without_memory);
        CASE(keeps_an_error);
        CASE(knows_networks_of_services);
        CASES(ages, has_an_age);
        return case_run("hosts");
}
