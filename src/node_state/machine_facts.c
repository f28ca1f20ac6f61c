/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "node_state/machine_facts.h"
#include "os/sources.h"

#define MACHINE_ID "/etc/machine-id"
#define CONTAINER "/run/systemd/container" /* systemd.io/CONTAINER_INTERFACE */
#define FACT_MAX 256                       /* bytes of one of these facts */
#define FILE_MAX ((size_t)64 * 1024)       /* for stat(2), a file in /sys has a whole page */

/* sysfs, since the sandbox of the service hides /proc/device-tree. */
static const char *const hardware_ids[] = {
        "/sys/class/dmi/id/product_uuid",
        "/sys/firmware/devicetree/base/serial-number",
};

/* --- Comparing --- */

#define FACT(member) offsetof(struct nb_facts, member), sizeof(((struct nb_facts *)NULL)->member)
static const struct {
        const char *name;
        size_t offset, size;
} rows[] = {
        { "host name", FACT(host_name) },
        { "machine ID", FACT(machine_id) },
        { "hardware ID", FACT(hardware_id) },
};

static const char *get_fact(const struct nb_facts *facts, size_t row) {
        return (const char *)facts + rows[row].offset;
}

static bool does_differ(const struct nb_facts *now, const struct nb_facts *then, size_t row) {
        const char *a = get_fact(now, row), *b = get_fact(then, row);

        return a[0] && b[0] && strcmp(a, b) != 0;
}

enum nb_likeness nb_facts_compare(const struct nb_facts *now, const struct nb_facts *then) {
        unsigned n = 0, n_unknown = 0;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                n += does_differ(now, then, i);
                n_unknown += !get_fact(now, i)[0] && get_fact(then, i)[0];
        }
        if (n >= 2)
                return NB_LIKENESS_COPY;
        return n + n_unknown >= 2 ? NB_LIKENESS_UNKNOWN : NB_LIKENESS_SAME;
}

bool nb_facts_update(const struct nb_facts *now, struct nb_facts *then) {
        bool is_changed = false;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *from = (const char *)now + rows[i].offset;
                char *to = (char *)then + rows[i].offset;

                if (!from[0] || !strcmp(from, to))
                        continue;
                nb_text_copy(to, rows[i].size, from);
                is_changed = true;
        }
        return is_changed;
}

bool nb_facts_complete(const struct nb_facts *now, struct nb_facts *then) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (does_differ(now, then, i))
                        return false;
        return nb_facts_update(now, then);
}

void nb_facts_describe(const struct nb_facts *now, const struct nb_facts *then, char *ret,
                       size_t size) {
        size_t len = 0;

        ret[0] = '\0';
        for (size_t i = 0; i < N_ELEMENTS(rows) && len < size; i++)
                if (does_differ(now, then, i))
                        len += (size_t)snprintf(ret + len, size - len, "%s%s",
                                                len > 0 ? " and " : "", rows[i].name);
}

/* --- Reading --- */

/* Whether `id` is "", or a UUID or serial number that the vendor has not set. */
static bool is_placeholder(const char *id) {
        /* The default of AMI's firmware, which some vendors do not replace. */
        static const char constant[] = "03000200-0400-0500-0006-000700080009";

        return !id[strspn(id, "0-")] || !id[strspn(id, "fF-")] || !strcasecmp(id, constant);
}

/* Reads the first line, which ends at a newline or, in the device tree, at a NUL. "" if there is no
 * file. 0 or -ENOMEM. */
static int read_line(int root_fd, const char *path, char ret[static FACT_MAX]) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_path_read(root_fd, path, FILE_MAX, &text);
        size_t len = r < 0 ? 0 : strcspn(text.data, "\n");

        if (len >= FACT_MAX)
                len = 0;
        if (len > 0)
                memcpy(ret, text.data, len);
        ret[len] = '\0';
        return r == -ENOMEM ? r : 0;
}

static int hash_fact(const char *text, char ret[static NB_FACT_HASH_SIZE]) {
        uint8_t digest[NB_SHA256_SIZE];
        int r = nb_sha256(text, strlen(text), digest);

        for (size_t i = 0; i < sizeof(digest) && r >= 0; i++)
                snprintf(ret + 2 * i, 3, "%02x", digest[i]);
        return r;
}

static bool exists(int root_fd, const char *path) {
        _cleanup_(nb_closep) int fd = nb_path_open(root_fd, path, O_PATH);

        return fd >= 0;
}

/* systemd binds a file in /run over an /etc/machine-id that it cannot write. */
static bool is_mounted(int root_fd, const char *path) {
        _cleanup_(nb_closep) int fd = nb_path_open(root_fd, path, O_PATH);
        struct statx st;

        return fd >= 0 && statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) == 0 &&
               (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int read_machine_id(int root_fd, struct nb_facts *facts) {
        char text[FACT_MAX];
        int r = read_line(root_fd, MACHINE_ID, text);

        if (r < 0 || !text[0] || !strcmp(text, "uninitialized") || is_mounted(root_fd, MACHINE_ID))
                return r;
        return hash_fact(text, facts->machine_id);
}

static int read_hardware_id(int root_fd, struct nb_facts *facts) {
        char text[FACT_MAX];
        int r;

        if (exists(root_fd, CONTAINER))
                return 0;
        for (size_t i = 0; i < N_ELEMENTS(hardware_ids); i++) {
                r = read_line(root_fd, hardware_ids[i], text);
                if (r < 0)
                        return r;
                if (!is_placeholder(text))
                        return hash_fact(text, facts->hardware_id);
        }
        return 0;
}

int nb_facts_read(int root_fd, struct nb_facts *ret_facts) {
        struct nb_facts facts = { 0 };
        struct nb_failure ignored = { 0 };
        int r;

        if (nb_sources_host_name(facts.host_name, &ignored) < 0 ||
            !nb_host_name_is_set(root_fd, facts.host_name))
                memset(facts.host_name, 0, sizeof(facts.host_name));
        for (char *c = facts.host_name; *c; c++)
                *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        r = read_machine_id(root_fd, &facts);
        if (r >= 0)
                r = read_hardware_id(root_fd, &facts);
        if (r >= 0)
                *ret_facts = facts;
        return r;
}
