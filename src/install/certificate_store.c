/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "install/certificate_store.h"

#define TRIES_MAX 60

/* Removes temporary files that a crash left. Each contains a private key, and later files have
 * other names, so nothing else would remove them. */
static int sweep_temporary(int folder_fd) {
        _cleanup_(nb_folder_closep) DIR *folder = nb_folder_list(folder_fd);
        struct dirent *entry;

        if (!folder)
                return -errno;
        while ((entry = readdir(folder)))
                if (fnmatch(".kubelet-client-*.pem.tmp", entry->d_name, 0) == 0 &&
                    unlinkat(folder_fd, entry->d_name, 0) < 0)
                        return -errno;
        return 0;
}

int nb_store_create(int folder_fd, time_t now, const struct nb_secret *pem,
                    char ret_name[static NB_STORE_NAME_SIZE]) {
        int r;

        r = sweep_temporary(folder_fd);
        if (r < 0)
                return r;
        tzset();
        r = -EEXIST;
        for (time_t at = now; r == -EEXIST && at < now + TRIES_MAX; at++) {
                struct tm local;

                if (!localtime_r(&at, &local) ||
                    strftime(ret_name, NB_STORE_NAME_SIZE, "kubelet-client-%Y-%m-%d-%H-%M-%S.pem",
                             &local) == 0)
                        return -EOVERFLOW;
                r = nb_file_create(folder_fd, ret_name, 0600, pem->data, pem->len);
        }
        return r;
}
