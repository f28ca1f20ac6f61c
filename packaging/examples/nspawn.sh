#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nspawn.sh ROOT [OPTION...]: boots a container from the directory ROOT, in which node-bootstrap.service is enabled. Token and
# settings are files in the working directory, "token" (mode 0600) and "config.yaml": neither is on a command line.
# Without --system-call-filter=, systemd-nspawn 252 refuses Landlock, which restricts each connection of the join.
set -eu

root=$1
shift
exec systemd-nspawn --boot --directory="$root" \
        --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
        --load-credential=node-bootstrap.token:"$PWD/token" \
        --load-credential=node-bootstrap.config:"$PWD/config.yaml" "$@"
