/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "metadata/cloud_internal.h"
#include "metadata/kernel_line.h"
#include "os/sources.h"

/* --- The machine --- */

/* Reads a file of the kernel, which reports no size. The result is "" if it cannot be read. */
static void read_text(const char *path, char *ret, size_t size) {
        _cleanup_(nb_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

        if (n < 0)
                n = 0;
        while (n > 0 && strchr(" \t\r\n", ret[n - 1]))
                n--;
        ret[n] = '\0';
}

int nb_machine_read(struct nb_sources *sources, struct nb_machine *ret_machine,
                    struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret note = NB_SECRET_INIT;
        struct nb_machine machine = { 0 };
        struct nb_dmi *dmi = &machine.dmi;
        char line[NB_KERNEL_LINE_MAX];
        int r;

#define READ(field) read_text("/sys/class/dmi/id/" #field, dmi->field, sizeof(dmi->field))
        READ(sys_vendor);
        READ(product_name);
        READ(product_version);
        READ(chassis_asset_tag);
        READ(board_vendor);
        READ(bios_vendor);
        r = nb_sources_read(sources, NB_PLATFORM_NOTE, NB_PLATFORM_NOTE_MAX, &note, NULL);
        if (r == -ENOENT || r == -EACCES) {
                read_text(NB_KERNEL_LINE_PATH, line, sizeof(line));
                nb_kernel_line_parse(line, strlen(line), &machine.platform);
        } else if (r < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, r, "'%s' cannot be read: %m",
                                      NB_PLATFORM_NOTE);
        else {
                r = nb_state_file_parse(&nb_platform_file, note.data, note.len, &machine.platform,
                                        f);
                if (r < 0)
                        return r;
        }
        *ret_machine = machine;
        return 0;
}

/* --- Which cloud it is in --- */

/* Each function returns whether a row describes the machine, and stores the reason. */

static bool has_volume(const struct nb_cloud_row *row, const struct nb_machine *machine,
                       struct nb_recognition *found) {
        if (!row->volume || strcmp(row->volume, machine->platform.volume) != 0)
                return false;
        snprintf(found->why, sizeof(found->why), "a volume has the label '%s'", row->volume);
        return true;
}

static bool is_listed(const char *const names[static 2], const char *name) {
        return (names[0] && !strcasecmp(names[0], name)) ||
               (names[1] && !strcasecmp(names[1], name));
}

/* An ID without a row, such as "metal" or "qemu", is not a known cloud. The reason is then set
 * without a match, which ends the search. */
static bool has_platform_id(const struct nb_cloud_row *row, const struct nb_machine *machine,
                            struct nb_recognition *found) {
        const char *id = machine->platform.platform_id;

        if (id[0])
                snprintf(found->why, sizeof(found->why),
                         "ignition.platform.id=%s on the kernel command line", id);
        return is_listed(row->platform_ids, id);
}

/* No row has the data source "ec2", since several clouds share it. */
static bool has_data_source(const struct nb_cloud_row *row, const struct nb_machine *machine,
                            struct nb_recognition *found) {
        const char *name = machine->platform.data_source;

        if (!is_listed(row->data_sources, name))
                return false;
        snprintf(found->why, sizeof(found->why), "ds=%s on the kernel command line", name);
        return true;
}

/* A hypervisor is not a cloud: no row matches QEMU's "Standard PC", KVM, VMware and similar. */
static bool has_dmi(const struct nb_cloud_row *row, const struct nb_machine *machine,
                    struct nb_recognition *found) {
        for (size_t i = 0; row->dmi[i].pattern; i++) {
                const char *text = (const char *)&machine->dmi + row->dmi[i].offset;

                if (fnmatch(row->dmi[i].pattern, text, 0) != 0)
                        continue;
                snprintf(found->why, sizeof(found->why), "%s is '%s'", row->dmi[i].field, text);
                return true;
        }
        return false;
}

static bool has_guestinfo(const struct nb_cloud_row *row, const struct nb_machine *machine,
                          struct nb_recognition *found) {
        if (!row->has_guestinfo || !machine->platform.has_guestinfo)
                return false;
        snprintf(found->why, sizeof(found->why), "VMware's tools return guestinfo");
        return true;
}

static enum nb_provider find_provider(const struct nb_machine *machine,
                                      struct nb_recognition *found) {
        static bool (*const has[])(const struct nb_cloud_row *row, const struct nb_machine *machine,
                                   struct nb_recognition *found) = {
                has_volume, has_platform_id, has_data_source, has_dmi, has_guestinfo,
        };

        for (size_t i = 0; i < N_ELEMENTS(has) && !found->why[0]; i++)
                for (unsigned p = NB_PROVIDER_AUTO + 1; p < _NB_PROVIDER_N; p++)
                        if (has[i](&nb_cloud_rows[p], machine, found))
                                return (enum nb_provider)p;
        return NB_PROVIDER_NONE;
}

void nb_recognise(const struct nb_machine *machine, struct nb_recognition *ret_recognition) {
        struct nb_recognition found = { 0 };

        found.provider = find_provider(machine, &found);
        if (!found.why[0])
                snprintf(found.why, sizeof(found.why), "sys_vendor is '%s', product_name '%s'",
                         machine->dmi.sys_vendor, machine->dmi.product_name);
        ret_recognition->provider = found.provider;
        NB_TEXT_COPY_LINE(ret_recognition->why, found.why);
}
