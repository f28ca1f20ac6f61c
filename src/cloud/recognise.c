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
#include "base/sources.h"
#include "base/text.h"
#include "cloud/cloud_internal.h"
#include "metadata/kernel_line.h"

/* --- The machine --- */

/* Reads a file of the kernel, which has no size. One that cannot be read counts as empty. */
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

struct evidence {
        const struct nb_machine *machine;
        char *why;
        size_t why_size;
};

static bool has_volume(const struct nb_cloud_row *row, const struct evidence *evidence) {
        if (!row->volume || strcmp(row->volume, evidence->machine->platform.volume) != 0)
                return false;
        snprintf(evidence->why, evidence->why_size, "a volume has the label '%s'", row->volume);
        return true;
}

static bool is_listed(const char *const names[static 2], const char *name) {
        return (names[0] && !strcasecmp(names[0], name)) ||
               (names[1] && !strcasecmp(names[1], name));
}

/* An ID without a row is no known cloud: "metal", "qemu". */
static bool has_platform_id(const struct nb_cloud_row *row, const struct evidence *evidence) {
        const char *id = evidence->machine->platform.platform_id;

        if (id[0])
                snprintf(evidence->why, evidence->why_size,
                         "ignition.platform.id=%s on the kernel command line", id);
        return is_listed(row->platform_ids, id);
}

/* Several clouds share the data source "ec2", so it says nothing. */
static bool has_data_source(const struct nb_cloud_row *row, const struct evidence *evidence) {
        const char *name = evidence->machine->platform.data_source;

        if (!is_listed(row->data_sources, name))
                return false;
        snprintf(evidence->why, evidence->why_size, "ds=%s on the kernel command line", name);
        return true;
}

/* A hypervisor is no cloud: no row has QEMU's "Standard PC", KVM, VMware and the like. */
static bool has_dmi(const struct nb_cloud_row *row, const struct evidence *evidence) {
        for (size_t i = 0; row->dmi[i].pattern; i++) {
                const char *text = (const char *)&evidence->machine->dmi + row->dmi[i].offset;
                char shown[sizeof(evidence->machine->dmi.sys_vendor)];

                if (fnmatch(row->dmi[i].pattern, text, 0) != 0)
                        continue;
                nb_text_copy_line(text, strlen(text), shown, sizeof(shown));
                snprintf(evidence->why, evidence->why_size, "%s is '%s'", row->dmi[i].field, shown);
                return true;
        }
        return false;
}

static bool has_guestinfo(const struct nb_cloud_row *row, const struct evidence *evidence) {
        if (!row->has_guestinfo || !evidence->machine->platform.has_guestinfo)
                return false;
        snprintf(evidence->why, evidence->why_size, "VMware's tools return guestinfo");
        return true;
}

static void describe_unknown(const struct nb_dmi *dmi, char *ret, size_t size) {
        char vendor[sizeof(dmi->sys_vendor)], product[sizeof(dmi->product_name)];

        nb_text_copy_line(dmi->sys_vendor, strlen(dmi->sys_vendor), vendor, sizeof(vendor));
        nb_text_copy_line(dmi->product_name, strlen(dmi->product_name), product, sizeof(product));
        if (!vendor[0] && !product[0])
                snprintf(ret, size, "/sys/class/dmi/id names neither vendor nor product");
        else
                snprintf(ret, size, "sys_vendor is '%s', product_name '%s'", vendor, product);
}

void nb_recognise(const struct nb_machine *machine, struct nb_recognition *ret_recognition) {
        static bool (*const has[])(const struct nb_cloud_row *row,
                                   const struct evidence *evidence) = {
                has_volume, has_platform_id, has_data_source, has_dmi, has_guestinfo,
        };
        const struct evidence evidence = { machine, ret_recognition->why,
                                           sizeof(ret_recognition->why) };

        *ret_recognition = (struct nb_recognition){ .provider = NB_PROVIDER_NONE };
        for (size_t i = 0; i < N_ELEMENTS(has); i++) {
                for (unsigned p = NB_PROVIDER_AUTO + 1; p < _NB_PROVIDER_N; p++)
                        if (has[i](&nb_cloud_rows[p], &evidence)) {
                                ret_recognition->provider = (enum nb_provider)p;
                                return;
                        }
                if (ret_recognition->why[0])
                        return;
        }
        describe_unknown(&machine->dmi, ret_recognition->why, sizeof(ret_recognition->why));
}
