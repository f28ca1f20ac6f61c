/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/sources.h"
#include "cloud/internal.h"
#include "format/metadata_document.h"

#define LEASE_MAX (256 * 1024)

/* CloudStack's virtual router is both DHCP server and metadata service. */
static const struct {
        const char *folder, *suffix;
} places[] = {
        { "/run/systemd/netif/leases", "" },
        { "/var/lib/dhcp", ".leases" },
};

static bool has_suffix(const char *name, const char *suffix) {
        size_t len = strlen(name), suffix_len = strlen(suffix);

        return name[0] != '.' && len >= suffix_len && !strcmp(name + len - suffix_len, suffix);
}

static int read_lease(const char *folder, const char *name, char ret_address[static NB_LEASE_ADDRESS_SIZE]) {
        _cleanup_(nb_secret_done) struct nb_secret lease = NB_SECRET_INIT;
        _cleanup_(nb_freep) char *path = NULL;
        int r;

        if (asprintf(&path, "%s/%s", folder, name) < 0)
                return -ENOMEM;
        r = nb_sources_read(path, LEASE_MAX, &lease, NULL);
        return r < 0 ? r : nb_metadata_lease_server(lease.data, lease.len, ret_address);
}

static int search(const char *folder, const char *suffix, char ret_address[static NB_LEASE_ADDRESS_SIZE]) {
        struct dirent **entries = NULL;
        int n, r = -ENOENT;

        n = scandir(folder, &entries, NULL, alphasort);
        for (int i = 0; i < n; i++) {
                if (r < 0 && has_suffix(entries[i]->d_name, suffix))
                        r = read_lease(folder, entries[i]->d_name, ret_address);
                free(entries[i]);
        }
        free(entries);
        return r;
}

int nb_cloud_find_cloudstack(char *ret_address, size_t size, struct nb_failure *f) {
        char address[NB_LEASE_ADDRESS_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(places); i++)
                if (search(places[i].folder, places[i].suffix, address) >= 0) {
                        (void)snprintf(ret_address, size, "%s", address);
                        return 0;
                }
        return nb_failure_set(f, NB_METADATA_UNREACHABLE, ENOENT,
                              "CloudStack's metadata service is at the address of the DHCP server, and no lease in /run/systemd/netif/leases or /var/lib/dhcp names one");
}
