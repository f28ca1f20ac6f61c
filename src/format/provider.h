/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The clouds and platforms by the names that `metadata.provider` takes. What each of them offers is in cloud/. */

#include <stddef.h>

enum nb_provider {
        NB_PROVIDER_NONE, /* metadata is never read; or: this machine is no cloud that is known */
        NB_PROVIDER_AUTO, /* the one that is recognised */
        NB_PROVIDER_AKAMAI,
        NB_PROVIDER_ALIBABA,
        NB_PROVIDER_AWS,
        NB_PROVIDER_AZURE,
        NB_PROVIDER_CLOUDSTACK,
        NB_PROVIDER_DIGITALOCEAN,
        NB_PROVIDER_EQUINIX,
        NB_PROVIDER_EXOSCALE,
        NB_PROVIDER_GCE,
        NB_PROVIDER_HETZNER,
        NB_PROVIDER_NOCLOUD,
        NB_PROVIDER_OPENSTACK,
        NB_PROVIDER_ORACLE,
        NB_PROVIDER_SCALEWAY,
        NB_PROVIDER_UPCLOUD,
        NB_PROVIDER_VMWARE,
        NB_PROVIDER_VULTR,
        _NB_PROVIDER_N,
};

/* "aws": as in the settings. */
const char *nb_provider_name(enum nb_provider provider);

/* "Amazon EC2": for people. */
const char *nb_provider_title(enum nb_provider provider);

/* 0 or -EINVAL. */
int nb_provider_parse(const char *name, size_t len, enum nb_provider *ret_provider);
