/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "case.h"
#include "lookup.h"
#include "node_state/machine_facts.h"
#include "os/sources.h"

/* --- The rule --- */

/* Each fact is unknown in one of both, the same, or another one: all combinations. */
enum fact { UNKNOWN_NOW, UNKNOWN_THEN, UNKNOWN, SAME, OTHER, _FACT_N };

static void put_fact(enum fact fact, char *now, char *then) {
        strcpy(now, fact == UNKNOWN_NOW || fact == UNKNOWN ? "" : "a");
        strcpy(then, fact == UNKNOWN_THEN || fact == UNKNOWN ? "" : fact == OTHER ? "b" : "a");
}

static void two_changed_facts_are_a_copy(void **state) {
        for (unsigned i = 0; i < _FACT_N * _FACT_N * _FACT_N; i++) {
                const enum fact host = i % _FACT_N, machine = i / _FACT_N % _FACT_N,
                                hardware = i / _FACT_N / _FACT_N;
                const unsigned n = (host == OTHER) + (machine == OTHER) + (hardware == OTHER),
                               n_most = n + (host == UNKNOWN_NOW) + (machine == UNKNOWN_NOW) +
                                        (hardware == UNKNOWN_NOW);
                struct nb_facts now, then;

                put_fact(host, now.host_name, then.host_name);
                put_fact(machine, now.machine_id, then.machine_id);
                put_fact(hardware, now.hardware_id, then.hardware_id);
                assert_int_equal(nb_facts_compare(&now, &then), n >= 2        ? NB_LIKENESS_COPY
                                                                : n_most >= 2 ? NB_LIKENESS_UNKNOWN
                                                                              : NB_LIKENESS_SAME);
        }
}

static void unknown_facts_come_later(void **state) {
        struct nb_facts then = { "a", "", "" };

        assert_false(nb_facts_complete(&(struct nb_facts){ "b", "1", "x" }, &then));
        assert_false(nb_facts_complete(&(struct nb_facts){ "", "", "" }, &then));
        assert_true(nb_facts_complete(&(struct nb_facts){ "", "1", "" }, &then));
        assert_false(nb_facts_complete(&(struct nb_facts){ "a", "2", "x" }, &then));
        assert_true(nb_facts_complete(&(struct nb_facts){ "a", "1", "x" }, &then));
        assert_string_equal(then.host_name, "a");
        assert_string_equal(then.machine_id, "1");
        assert_string_equal(then.hardware_id, "x");
        assert_true(nb_facts_update(&(struct nb_facts){ "b", "", "x" }, &then));
        assert_string_equal(then.host_name, "b");
        assert_string_equal(then.machine_id, "1");
        assert_false(nb_facts_update(&(struct nb_facts){ "b", "", "x" }, &then));
}

static void names_what_differs(void **state) {
        const struct nb_facts now = { "a", "1", "x" }, then = { "b", "", "y" };
        char text[64];

        nb_facts_describe(&now, &then, text, sizeof(text));
        assert_string_equal(text, "host name and hardware ID");
}

/* --- What is known --- */

struct file_case {
        const char *name;
        const char *machine_id, *uuid, *serial; /* NULL: no file */
        bool is_container;
        bool is_machine_known, is_hardware_known;
};

#define ID "0123456789abcdef0123456789abcdef\n"
#define UUID "4c4c4544-0046-3010-8056-b9c04f4b4c32\n"

static struct file_case files[] = {
        { "neither", NULL, NULL, NULL, false, false, false },
        { "both", ID, UUID, NULL, false, true, true },
        { "an empty machine ID", "", UUID, NULL, false, false, true },
        { "a machine ID at its first boot", "uninitialized\n", UUID, NULL, false, false, true },
        { "a serial number in the device tree", ID, NULL, "10000000abcdef01", false, true, true },
        { "a UUID of zeros", ID, "00000000-0000-0000-0000-000000000000\n", NULL, false, true,
          false },
        { "a UUID of ones", ID, "FFFFFFFF-ffff-FFFF-FFFF-FFFFFFFFFFFF\n", NULL, false, true,
          false },
        { "a UUID that vendors ship", ID, "03000200-0400-0500-0006-000700080009\n", NULL, false,
          true, false },
        { "a placeholder, and a serial number", ID, "00000000-0000-0000-0000-000000000000\n",
          "10000000abcdef01", false, true, true },
        { "a serial number of zeros", ID, NULL, "0000000000000000", false, true, false },
        { "an empty UUID", ID, "\n", NULL, false, true, false },
        { "a container, which sees those of its host", ID, UUID, "10000000abcdef01", true, true,
          false },
};

static void put(const struct folder *folder, const char *path, const char *text) {
        if (text)
                folder_put(folder, path, text);
}

static void reads_facts(void **state) {
        const struct file_case *c = *state;
        struct nb_facts facts, again;
        struct folder folder;

        folder_skip_without_lookup();
        folder_make(&folder);
        put(&folder, "/etc/machine-id", c->machine_id);
        put(&folder, "/sys/class/dmi/id/product_uuid", c->uuid);
        put(&folder, "/sys/firmware/devicetree/base/serial-number", c->serial);
        put(&folder, "/run/systemd/container", c->is_container ? "systemd-nspawn\n" : NULL);
        assert_int_equal(nb_facts_read(folder.fd, &facts), 0);
        assert_int_equal(strlen(facts.machine_id), c->is_machine_known ? 64 : 0);
        assert_int_equal(strlen(facts.hardware_id), c->is_hardware_known ? 64 : 0);
        assert_null(strstr(facts.machine_id, "0123456789abcdef0123456789abcdef"));

        put(&folder, "/etc/machine-id", "fedcba9876543210fedcba9876543210\n");
        put(&folder, "/sys/class/dmi/id/product_uuid", "4c4c4544-0046-3010-8056-b9c04f4b4c33\n");
        assert_int_equal(nb_facts_read(folder.fd, &again), 0);
        assert_string_not_equal(facts.machine_id, again.machine_id);
        if (!c->is_container)
                assert_string_not_equal(facts.hardware_id, again.hardware_id);
        folder_remove(&folder);
}

struct host_case {
        const char *name;
        const char *host, *os_release; /* NULL: no file */
        bool is_set;
};

static struct host_case hosts[] = {
        { "a host name", "worker-1", NULL, true },
        { "a host name with a domain", "localhost-1.example.org", NULL, true },
        { "no host name", "", NULL, false },
        { "the kernel's", "(none)", NULL, false },
        { "localhost", "localhost", NULL, false },
        { "localhost with a domain", "Localhost.localdomain", NULL, false },
        { "the distribution's", "fedora", "NAME=Fedora\nDEFAULT_HOSTNAME=\"fedora\"\n", false },
        { "the distribution's, not quoted", "fedora", "DEFAULT_HOSTNAME=fedora\n", false },
        { "a longer one than the distribution's", "fedora1", "DEFAULT_HOSTNAME=fedora\n", true },
        { "another variable", "fedora", "X_DEFAULT_HOSTNAME=fedora\n", true },
        { "an empty os-release", "fedora", "", true },
};

static void knows_host_names_that_nobody_set(void **state) {
        const struct host_case *c = *state;
        struct folder folder;

        folder_skip_without_lookup();
        folder_make(&folder);
        put(&folder, "/usr/lib/os-release", c->os_release);
        assert_int_equal(nb_host_name_is_set(folder.fd, c->host), c->is_set);
        folder_remove(&folder);
}

int main(void) {
        CASE(two_changed_facts_are_a_copy);
        CASE(unknown_facts_come_later);
        CASE(names_what_differs);
        CASES(files, reads_facts);
        CASES(hosts, knows_host_names_that_nobody_set);
        return case_run("node machine facts");
}
