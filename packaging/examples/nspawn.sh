#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nspawn.sh ROOT [OPTION...]: boots a container from the directory ROOT, in which node-bootstrap.service is enabled. Token and
# settings are files in the working directory, "token" (mode 0600) and "config.yaml": neither is on a command line.
set -eu

root=$1
shift
exec systemd-nspawn --boot --directory="$root" \
        --load-credential=node-bootstrap.token:"$PWD/token" \
        --load-credential=node-bootstrap.config:"$PWD/config.yaml" "$@"
