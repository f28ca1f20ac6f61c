/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/sources.h"
#include "cloud/recognise.h"
#include "format/kernel_line.h"

#define DMI_DIRECTORY "/sys/class/dmi/id/"

/* Of the kernel's own files, which have no size. What cannot be read counts as not there. */
static void read_text(const char *path, char *ret, size_t size) {
        _cleanup_(nb_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

        if (n < 0)
                n = 0;
        while (n > 0 && strchr(" \t\r\n", ret[n - 1]))
                n--;
        ret[n] = '\0';
}

#define READ(dmi, field) read_text(DMI_DIRECTORY #field, (dmi)->field, sizeof((dmi)->field))

static void read_dmi(struct nb_dmi *dmi) {
        READ(dmi, sys_vendor);
        READ(dmi, product_name);
        READ(dmi, product_version);
        READ(dmi, chassis_asset_tag);
        READ(dmi, board_vendor);
        READ(dmi, board_name);
        READ(dmi, bios_vendor);
}

/* 0 when there is none, too. */
static int read_note(struct nb_platform *platform, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret note = NB_SECRET_INIT;
        int r;

        r = nb_sources_read(NB_PLATFORM_NOTE, NB_PLATFORM_NOTE_MAX, &note, NULL);
        if (r == -ENOENT || r == -EACCES)
                return r;
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_METADATA_MALFORMED, -r, "%s cannot be read: %m", NB_PLATFORM_NOTE);
        }
        return nb_platform_parse(note.data, note.len, platform, f);
}

static void read_kernel_line(struct nb_platform *platform) {
        char line[NB_KERNEL_LINE_MAX];

        read_text(NB_KERNEL_LINE_PATH, line, sizeof(line));
        nb_kernel_line_parse(line, strlen(line), platform);
}

int nb_machine_read(struct nb_machine *ret_machine, struct nb_failure *f) {
        struct nb_machine machine = { 0 };
        int r;

        read_dmi(&machine.dmi);
        r = read_note(&machine.platform, f);
        if (r == -ENOENT || r == -EACCES)
                read_kernel_line(&machine.platform);
        else if (r < 0)
                return r;
        *ret_machine = machine;
        return 0;
}
