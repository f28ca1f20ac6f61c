/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "format/provider.h"

static const struct {
        const char *name, *title;
} providers[_NB_PROVIDER_N] = {
        [NB_PROVIDER_NONE] = { "none", "no cloud" },
        [NB_PROVIDER_AUTO] = { "auto", "the cloud that is recognised" },
        [NB_PROVIDER_AKAMAI] = { "akamai", "Akamai (Linode)" },
        [NB_PROVIDER_ALIBABA] = { "alibaba", "Alibaba Cloud" },
        [NB_PROVIDER_AWS] = { "aws", "Amazon EC2" },
        [NB_PROVIDER_AZURE] = { "azure", "Microsoft Azure" },
        [NB_PROVIDER_CLOUDSTACK] = { "cloudstack", "CloudStack" },
        [NB_PROVIDER_DIGITALOCEAN] = { "digitalocean", "DigitalOcean" },
        [NB_PROVIDER_EQUINIX] = { "equinix", "Equinix Metal" },
        [NB_PROVIDER_EXOSCALE] = { "exoscale", "Exoscale" },
        [NB_PROVIDER_GCE] = { "gce", "Google Compute Engine" },
        [NB_PROVIDER_HETZNER] = { "hetzner", "Hetzner Cloud" },
        [NB_PROVIDER_NOCLOUD] = { "nocloud", "NoCloud" },
        [NB_PROVIDER_OPENSTACK] = { "openstack", "OpenStack" },
        [NB_PROVIDER_ORACLE] = { "oracle", "Oracle Cloud" },
        [NB_PROVIDER_SCALEWAY] = { "scaleway", "Scaleway" },
        [NB_PROVIDER_UPCLOUD] = { "upcloud", "UpCloud" },
        [NB_PROVIDER_VMWARE] = { "vmware", "VMware" },
        [NB_PROVIDER_VULTR] = { "vultr", "Vultr" },
};

const char *nb_provider_name(enum nb_provider provider) {
        assert((unsigned)provider < _NB_PROVIDER_N);
        return providers[provider].name;
}

const char *nb_provider_title(enum nb_provider provider) {
        assert((unsigned)provider < _NB_PROVIDER_N);
        return providers[provider].title;
}

int nb_provider_parse(const char *name, size_t len, enum nb_provider *ret_provider) {
        for (size_t i = 0; i < N_ELEMENTS(providers); i++)
                if (strlen(providers[i].name) == len && memcmp(providers[i].name, name, len) == 0) {
                        *ret_provider = (enum nb_provider)i;
                        return 0;
                }
        return -EINVAL;
}
