/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A shell script that replaces VMware's tool. */

#include "folder.h"
#include "platform/guestinfo.h"

struct tool {
        struct folder folder;
        char path[96];
        struct nb_guestinfo_tool list[2];
};

static inline void tool_make(struct tool *tool, const char *option, const char *script) {
        char text[1024];

        folder_make(&tool->folder);
        (void)snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);
        folder_put(&tool->folder, "/tool", text);
        (void)snprintf(tool->path, sizeof(tool->path), "%s/tool", tool->folder.path);
        assert_int_equal(chmod(tool->path, 0755), 0);
        tool->list[0] = (struct nb_guestinfo_tool){ tool->path, option };
        tool->list[1] = (struct nb_guestinfo_tool){ NULL, NULL };
}

static inline void tool_remove(struct tool *tool) {
        folder_remove(&tool->folder);
}
