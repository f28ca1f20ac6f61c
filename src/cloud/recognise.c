/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/text.h"
#include "cloud/recognise.h"

enum match {
        WHOLE,
        PREFIX,
        SUFFIX,
};

#define FIELD(name) offsetof(struct nb_dmi, name), #name

/* Hypervisors are no clouds: QEMU's "Standard PC", KVM, VMware and the like stand in none of these. */
static const struct {
        enum nb_provider provider;
        size_t field;
        const char *field_name;
        enum match match;
        const char *value;
} rules[] = {
        { NB_PROVIDER_AKAMAI, FIELD(sys_vendor), WHOLE, "Akamai" },
        { NB_PROVIDER_AKAMAI, FIELD(sys_vendor), WHOLE, "Linode" },
        { NB_PROVIDER_ALIBABA, FIELD(product_name), WHOLE, "Alibaba Cloud ECS" },
        { NB_PROVIDER_AWS, FIELD(sys_vendor), WHOLE, "Amazon EC2" },
        { NB_PROVIDER_AWS, FIELD(bios_vendor), WHOLE, "Amazon EC2" },
        { NB_PROVIDER_AWS, FIELD(board_vendor), WHOLE, "Amazon EC2" },
        { NB_PROVIDER_AWS, FIELD(product_version), SUFFIX, ".amazon" }, /* its Xen instances */
        { NB_PROVIDER_AZURE, FIELD(chassis_asset_tag), WHOLE, "7783-7084-3265-9085-8269-3286-77" },
        { NB_PROVIDER_CLOUDSTACK, FIELD(product_name), PREFIX, "CloudStack" },
        { NB_PROVIDER_DIGITALOCEAN, FIELD(sys_vendor), WHOLE, "DigitalOcean" },
        { NB_PROVIDER_EXOSCALE, FIELD(product_name), PREFIX, "Exoscale" },
        { NB_PROVIDER_GCE, FIELD(product_name), WHOLE, "Google Compute Engine" },
        { NB_PROVIDER_GCE, FIELD(product_name), WHOLE, "Google" },
        { NB_PROVIDER_HETZNER, FIELD(sys_vendor), WHOLE, "Hetzner" },
        { NB_PROVIDER_HETZNER, FIELD(bios_vendor), WHOLE, "Hetzner" },
        { NB_PROVIDER_ORACLE, FIELD(chassis_asset_tag), WHOLE, "OracleCloud.com" },
        { NB_PROVIDER_SCALEWAY, FIELD(sys_vendor), WHOLE, "Scaleway" },
        { NB_PROVIDER_UPCLOUD, FIELD(sys_vendor), WHOLE, "UpCloud" },
        { NB_PROVIDER_VULTR, FIELD(sys_vendor), WHOLE, "Vultr" },
        { NB_PROVIDER_OPENSTACK, FIELD(product_name), WHOLE, "OpenStack Nova" },
        { NB_PROVIDER_OPENSTACK, FIELD(product_name), WHOLE, "OpenStack Compute" },
        { NB_PROVIDER_OPENSTACK, FIELD(chassis_asset_tag), WHOLE, "OpenStack Nova" },
        { NB_PROVIDER_OPENSTACK, FIELD(chassis_asset_tag), WHOLE, "OpenStack Compute" },
        { NB_PROVIDER_OPENSTACK, FIELD(chassis_asset_tag), WHOLE, "OpenTelekomCloud" },
        { NB_PROVIDER_OPENSTACK, FIELD(chassis_asset_tag), WHOLE, "SAP CCloud VM" },
        { NB_PROVIDER_OPENSTACK, FIELD(chassis_asset_tag), WHOLE, "HUAWEICLOUD" },
        { NB_PROVIDER_OPENSTACK, FIELD(chassis_asset_tag), WHOLE, "Samsung Cloud Platform" },
};

/* As Ignition and afterburn name them. One that is not here is no cloud that is known: "metal", "qemu". */
static const struct {
        const char *id;
        enum nb_provider provider;
} platforms[] = {
        { "akamai", NB_PROVIDER_AKAMAI },
        { "aliyun", NB_PROVIDER_ALIBABA },
        { "aws", NB_PROVIDER_AWS },
        { "azure", NB_PROVIDER_AZURE },
        { "azurestack", NB_PROVIDER_AZURE },
        { "cloudstack", NB_PROVIDER_CLOUDSTACK },
        { "cloudstack-metadata", NB_PROVIDER_CLOUDSTACK },
        { "digitalocean", NB_PROVIDER_DIGITALOCEAN },
        { "ec2", NB_PROVIDER_AWS },
        { "equinixmetal", NB_PROVIDER_EQUINIX },
        { "exoscale", NB_PROVIDER_EXOSCALE },
        { "gce", NB_PROVIDER_GCE },
        { "gcp", NB_PROVIDER_GCE },
        { "hetzner", NB_PROVIDER_HETZNER },
        { "nocloud", NB_PROVIDER_NOCLOUD },
        { "openstack", NB_PROVIDER_OPENSTACK },
        { "openstack-metadata", NB_PROVIDER_OPENSTACK },
        { "oraclecloud", NB_PROVIDER_ORACLE },
        { "packet", NB_PROVIDER_EQUINIX },
        { "scaleway", NB_PROVIDER_SCALEWAY },
        { "upcloud", NB_PROVIDER_UPCLOUD },
        { "vmware", NB_PROVIDER_VMWARE },
        { "vultr", NB_PROVIDER_VULTR },
};

/* cloud-init's, of which several clouds share "ec2". */
static const struct {
        const char *name;
        enum nb_provider provider;
} data_sources[] = {
        { "configdrive", NB_PROVIDER_OPENSTACK },
        { "nocloud", NB_PROVIDER_NOCLOUD },
        { "nocloud-net", NB_PROVIDER_NOCLOUD },
        { "openstack", NB_PROVIDER_OPENSTACK },
};

static bool is_match(const char *text, enum match match, const char *value) {
        size_t text_len = strlen(text), len = strlen(value);

        if (text_len < len || (match == WHOLE && text_len != len))
                return false;
        return memcmp(match == SUFFIX ? text + text_len - len : text, value, len) == 0;
}

static bool by_volume(const struct nb_machine *machine, struct nb_recognition *ret) {
        if (!strcmp(machine->platform.volume, "config-2"))
                ret->provider = NB_PROVIDER_OPENSTACK;
        else if (!strcmp(machine->platform.volume, "cidata"))
                ret->provider = NB_PROVIDER_NOCLOUD;
        else
                return false;
        (void)snprintf(ret->why, sizeof(ret->why), "there is a volume with the label '%s'", machine->platform.volume);
        return true;
}

static bool by_platform_id(const struct nb_machine *machine, struct nb_recognition *ret) {
        const char *id = machine->platform.platform_id;

        if (!id[0])
                return false;
        for (size_t i = 0; i < N_ELEMENTS(platforms); i++)
                if (!strcmp(platforms[i].id, id))
                        ret->provider = platforms[i].provider;
        (void)snprintf(ret->why, sizeof(ret->why), "ignition.platform.id=%s on the kernel command line", id);
        return true;
}

static bool by_data_source(const struct nb_machine *machine, struct nb_recognition *ret) {
        for (size_t i = 0; i < N_ELEMENTS(data_sources); i++)
                if (!strcasecmp(data_sources[i].name, machine->platform.data_source)) {
                        ret->provider = data_sources[i].provider;
                        (void)snprintf(ret->why, sizeof(ret->why), "ds=%s on the kernel command line", machine->platform.data_source);
                        return true;
                }
        return false;
}

static bool by_dmi(const struct nb_machine *machine, struct nb_recognition *ret) {
        char shown[sizeof(machine->dmi.sys_vendor)];

        for (size_t i = 0; i < N_ELEMENTS(rules); i++) {
                const char *text = (const char *)&machine->dmi + rules[i].field;

                if (!is_match(text, rules[i].match, rules[i].value))
                        continue;
                nb_text_copy_line(text, strlen(text), shown, sizeof(shown));
                ret->provider = rules[i].provider;
                (void)snprintf(ret->why, sizeof(ret->why), "%s is '%s'", rules[i].field_name, shown);
                return true;
        }
        return false;
}

static bool by_guestinfo(const struct nb_machine *machine, struct nb_recognition *ret) {
        if (!machine->platform.has_guestinfo)
                return false;
        ret->provider = NB_PROVIDER_VMWARE;
        (void)snprintf(ret->why, sizeof(ret->why), "VMware's tools have guestinfo");
        return true;
}

static void by_nothing(const struct nb_machine *machine, struct nb_recognition *ret) {
        char vendor[sizeof(machine->dmi.sys_vendor)], product[sizeof(machine->dmi.product_name)];

        nb_text_copy_line(machine->dmi.sys_vendor, strlen(machine->dmi.sys_vendor), vendor, sizeof(vendor));
        nb_text_copy_line(machine->dmi.product_name, strlen(machine->dmi.product_name), product, sizeof(product));
        if (!vendor[0] && !product[0])
                (void)snprintf(ret->why, sizeof(ret->why), "the machine says nothing of itself in /sys/class/dmi/id");
        else
                (void)snprintf(ret->why, sizeof(ret->why), "sys_vendor is '%s', product_name '%s'", vendor, product);
}

void nb_recognise(const struct nb_machine *machine, struct nb_recognition *ret_recognition) {
        static bool (*const ways[])(const struct nb_machine *machine, struct nb_recognition *ret) = {
                by_volume,
                by_platform_id,
                by_data_source,
                by_dmi,
                by_guestinfo,
        };

        *ret_recognition = (struct nb_recognition){ .provider = NB_PROVIDER_NONE };
        for (size_t i = 0; i < N_ELEMENTS(ways); i++)
                if (ways[i](machine, ret_recognition))
                        return;
        by_nothing(machine, ret_recognition);
}
