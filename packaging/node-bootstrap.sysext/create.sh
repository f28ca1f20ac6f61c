#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# create.sh: recipe for Flatcar's sysext bakery, which sources this file. `cp -r packaging/node-bootstrap.sysext BAKERY` adds it there;
# then `bakery.sh list node-bootstrap` and `bakery.sh create node-bootstrap VERSION` work.
#
# The extension is not built here, since it has to be linked for libraries of its own: it is taken from where releases are published,
# a folder with what packaging/build-sysext writes.

# shellcheck disable=SC2034 # read by the bakery
RELOAD_SERVICES_ON_MERGE="true"
RELEASES=${NODE_BOOTSTRAP_RELEASES:-https://example.org/node-bootstrap/releases}

download() { # NAME FILE
        curl --fail --silent --show-error --location --output "$2" "$RELEASES/$1"
}

# Newest first.
list_available_versions() {
        local sums
        sums=$(download SHA256SUMS -) || return
        sed -n 's/.*  node-bootstrap-\(.*\)-\(x86-64\|arm64\)\.raw$/\1/p' <<<"$sums" | sort -V -r -u
}

# In an empty folder, which the bakery removes afterwards.
populate_sysext_root() { # ROOT ARCHITECTURE VERSION
        local root=$1 name="node-bootstrap-$3-$2.raw"
        download SHA256SUMS SHA256SUMS || return
        download "$name" "$name" || return
        # Fails if the name is not in the file.
        awk -v name="$name" '$2 == name' SHA256SUMS | sha256sum --check --strict --quiet || return
        unsquashfs -quiet -no-progress -dest unpacked "$name" || return
        # The bakery writes its own.
        rm -r unpacked/usr/lib/extension-release.d
        cp -a unpacked/usr "$root"
}
