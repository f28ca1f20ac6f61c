/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "systemd/libsystemd_internal.h"

struct nb_libsystemd nb_libsystemd;

int nb_libsystemd_load(void) {
        static bool is_loaded;
        void *library;

        if (is_loaded)
                return 0;
        library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!library)
                return -ELIBACC;
#define FIND(name) \
        do { \
                *(void **)&nb_libsystemd.name = dlsym(library, #name); \
                if (!nb_libsystemd.name) \
                        return -ELIBACC; \
        } while (false)
        NB_LIBSYSTEMD_FUNCTIONS(FIND)
        is_loaded = true;
        return 0;
}
