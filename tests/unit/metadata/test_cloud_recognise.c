/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "metadata/cloud.h"

#include "case.h"

struct recognise_case {
        const char *name;
        struct nb_machine machine;
        enum nb_provider provider;
        const char *why;
};

static struct recognise_case cases[] = {
        { "Akamai",
          { .dmi = { .sys_vendor = "Akamai" } },
          NB_PROVIDER_AKAMAI,
          "sys_vendor is 'Akamai'" },
        { "Linode",
          { .dmi = { .sys_vendor = "Linode" } },
          NB_PROVIDER_AKAMAI,
          "sys_vendor is 'Linode'" },
        { "Alibaba",
          { .dmi = { .sys_vendor = "Alibaba Cloud", .product_name = "Alibaba Cloud ECS" } },
          NB_PROVIDER_ALIBABA,
          "product_name is 'Alibaba Cloud ECS'" },
        { "AWS, Nitro",
          { .dmi = { .sys_vendor = "Amazon EC2",
                     .product_name = "t3.micro",
                     .bios_vendor = "Amazon EC2" } },
          NB_PROVIDER_AWS,
          "sys_vendor is 'Amazon EC2'" },
        { "AWS, by the BIOS alone",
          { .dmi = { .bios_vendor = "Amazon EC2" } },
          NB_PROVIDER_AWS,
          "bios_vendor is 'Amazon EC2'" },
        { "AWS, by the board alone",
          { .dmi = { .board_vendor = "Amazon EC2" } },
          NB_PROVIDER_AWS,
          "board_vendor is 'Amazon EC2'" },
        { "AWS, Xen",
          { .dmi = { .sys_vendor = "Xen",
                     .product_name = "HVM domU",
                     .product_version = "4.11.amazon" } },
          NB_PROVIDER_AWS,
          "product_version is '4.11.amazon'" },
        { "Azure",
          { .dmi = { .sys_vendor = "Microsoft Corporation",
                     .product_name = "Virtual Machine",
                     .chassis_asset_tag = "7783-7084-3265-9085-8269-3286-77" } },
          NB_PROVIDER_AZURE,
          "chassis_asset_tag is '7783-7084-3265-9085-8269-3286-77'" },
        { "DigitalOcean",
          { .dmi = { .sys_vendor = "DigitalOcean", .product_name = "Droplet" } },
          NB_PROVIDER_DIGITALOCEAN,
          "sys_vendor is 'DigitalOcean'" },
        { "Exoscale",
          { .dmi = { .sys_vendor = "Exoscale", .product_name = "Exoscale Compute Platform" } },
          NB_PROVIDER_EXOSCALE,
          "product_name is 'Exoscale Compute Platform'" },
        { "Google",
          { .dmi = { .sys_vendor = "Google", .product_name = "Google Compute Engine" } },
          NB_PROVIDER_GCE,
          "product_name is 'Google Compute Engine'" },
        { "Google, older",
          { .dmi = { .sys_vendor = "Google", .product_name = "Google" } },
          NB_PROVIDER_GCE,
          "product_name is 'Google'" },
        { "Hetzner",
          { .dmi = { .sys_vendor = "Hetzner", .product_name = "vServer" } },
          NB_PROVIDER_HETZNER,
          "sys_vendor is 'Hetzner'" },
        { "Hetzner, by the BIOS alone",
          { .dmi = { .bios_vendor = "Hetzner" } },
          NB_PROVIDER_HETZNER,
          "bios_vendor is 'Hetzner'" },
        { "Oracle",
          { .dmi = { .sys_vendor = "QEMU",
                     .product_name = "Standard PC (i440FX + PIIX, 1996)",
                     .chassis_asset_tag = "OracleCloud.com" } },
          NB_PROVIDER_ORACLE,
          "chassis_asset_tag is 'OracleCloud.com'" },
        { "UpCloud",
          { .dmi = { .sys_vendor = "UpCloud", .product_name = "Server" } },
          NB_PROVIDER_UPCLOUD,
          "sys_vendor is 'UpCloud'" },
        { "Vultr",
          { .dmi = { .sys_vendor = "Vultr", .product_name = "VC2" } },
          NB_PROVIDER_VULTR,
          "sys_vendor is 'Vultr'" },
        { "OpenStack",
          { .dmi = { .sys_vendor = "OpenStack Foundation", .product_name = "OpenStack Nova" } },
          NB_PROVIDER_OPENSTACK,
          "product_name is 'OpenStack Nova'" },
        { "OpenStack, Red Hat's",
          { .dmi = { .product_name = "OpenStack Compute" } },
          NB_PROVIDER_OPENSTACK,
          "product_name is 'OpenStack Compute'" },
        { "OpenStack on VMware",
          { .dmi = { .sys_vendor = "VMware, Inc.", .chassis_asset_tag = "OpenStack Nova" },
            .platform = { .has_guestinfo = true } },
          NB_PROVIDER_OPENSTACK,
          "chassis_asset_tag is 'OpenStack Nova'" },
        { "Open Telekom Cloud",
          { .dmi = { .chassis_asset_tag = "OpenTelekomCloud" } },
          NB_PROVIDER_OPENSTACK,
          "chassis_asset_tag is 'OpenTelekomCloud'" },
        { "SAP",
          { .dmi = { .chassis_asset_tag = "SAP CCloud VM" } },
          NB_PROVIDER_OPENSTACK,
          "chassis_asset_tag is 'SAP CCloud VM'" },
        { "Huawei",
          { .dmi = { .chassis_asset_tag = "HUAWEICLOUD" } },
          NB_PROVIDER_OPENSTACK,
          "chassis_asset_tag is 'HUAWEICLOUD'" },
        { "Samsung",
          { .dmi = { .chassis_asset_tag = "Samsung Cloud Platform" } },
          NB_PROVIDER_OPENSTACK,
          "chassis_asset_tag is 'Samsung Cloud Platform'" },
        { "VMware with guestinfo",
          { .dmi = { .sys_vendor = "VMware, Inc." }, .platform = { .has_guestinfo = true } },
          NB_PROVIDER_VMWARE,
          "VMware's tools return guestinfo" },

        { "a config drive",
          { .platform = { .volume = "config-2" } },
          NB_PROVIDER_OPENSTACK,
          "a volume has the label 'config-2'" },
        { "a NoCloud volume",
          { .platform = { .volume = "cidata" } },
          NB_PROVIDER_NOCLOUD,
          "a volume has the label 'cidata'" },
        { "a volume says more than the kernel command line",
          { .platform = { .volume = "cidata", .platform_id = "aws" } },
          NB_PROVIDER_NOCLOUD,
          "a volume has the label 'cidata'" },
        { "a volume says more than DMI",
          { .dmi = { .sys_vendor = "Hetzner" }, .platform = { .volume = "config-2" } },
          NB_PROVIDER_OPENSTACK,
          "a volume has the label 'config-2'" },
        { "the kernel command line says more than DMI",
          { .dmi = { .sys_vendor = "Amazon EC2" }, .platform = { .platform_id = "gcp" } },
          NB_PROVIDER_GCE,
          "ignition.platform.id=gcp on the kernel command line" },
        { "a platform that is no cloud",
          { .dmi = { .sys_vendor = "Amazon EC2" }, .platform = { .platform_id = "metal" } },
          NB_PROVIDER_NONE,
          "ignition.platform.id=metal on the kernel command line" },
        { "cloud-init's data source",
          { .platform = { .data_source = "nocloud" } },
          NB_PROVIDER_NOCLOUD,
          "ds=nocloud on the kernel command line" },
        { "cloud-init's data source, as it writes it",
          { .platform = { .data_source = "ConfigDrive" } },
          NB_PROVIDER_OPENSTACK,
          "ds=ConfigDrive on the kernel command line" },
        { "a data source of several clouds",
          { .platform = { .data_source = "ec2" }, .dmi = { .sys_vendor = "Exotic" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Exotic', product_name ''" },

        { "no DMI",
          { .dmi = { .sys_vendor = "" } },
          NB_PROVIDER_NONE,
          "sys_vendor is '', product_name ''" },
        { "QEMU",
          { .dmi = { .sys_vendor = "QEMU", .product_name = "Standard PC (Q35 + ICH9, 2009)" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'QEMU', product_name 'Standard PC (Q35 + ICH9, 2009)'" },
        { "KVM",
          { .dmi = { .sys_vendor = "Red Hat", .product_name = "KVM" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Red Hat', product_name 'KVM'" },
        { "VMware without guestinfo",
          { .dmi = { .sys_vendor = "VMware, Inc.", .product_name = "VMware7,1" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'VMware, Inc.', product_name 'VMware7,1'" },
        { "Hyper-V",
          { .dmi = { .sys_vendor = "Microsoft Corporation",
                     .product_name = "Virtual Machine",
                     .chassis_asset_tag = "1234-5678" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Microsoft Corporation', product_name 'Virtual Machine'" },
        { "VirtualBox",
          { .dmi = { .sys_vendor = "innotek GmbH",
                     .product_name = "VirtualBox",
                     .board_vendor = "Oracle Corporation" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'innotek GmbH', product_name 'VirtualBox'" },
        { "Xen",
          { .dmi = { .sys_vendor = "Xen", .product_name = "HVM domU", .product_version = "4.17" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Xen', product_name 'HVM domU'" },
        { "a Chromebook",
          { .dmi = { .sys_vendor = "Google", .product_name = "Eve" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Google', product_name 'Eve'" },
        { "a server",
          { .dmi = { .sys_vendor = "Dell Inc.", .product_name = "PowerEdge R640" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Dell Inc.', product_name 'PowerEdge R640'" },
        { "a vendor that begins like one",
          { .dmi = { .sys_vendor = "Hetzner Online" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'Hetzner Online', product_name ''" },
        { "a vendor with a line break",
          { .dmi = { .sys_vendor = "a\nb" } },
          NB_PROVIDER_NONE,
          "sys_vendor is 'a b', product_name ''" },
};

static void recognises(void **state) {
        const struct recognise_case *c = *state;
        struct nb_recognition recognition;

        nb_recognise(&c->machine, &recognition);
        assert_string_equal(nb_provider_names[recognition.provider],
                            nb_provider_names[c->provider]);
        assert_string_equal(recognition.why, c->why);
}

static void every_provider_has_a_case(void **state) {
        bool is_there[_NB_PROVIDER_N] = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++)
                is_there[cases[i].provider] = true;
        for (size_t i = 0; i < N_ELEMENTS(is_there); i++)
                if (!is_there[i] && i != NB_PROVIDER_AUTO)
                        fail_msg("no row has %s", nb_provider_names[i]);
}

/* node-bootstrap-platform.service has the last word about the machine. */
static void reads_what_root_has_found(void **state) {
        static const struct {
                const char *note;
                const char *volume;
                enum nb_code code;
        } rows[] = {
                { "{\"version\":1,\"volume\":\"cidata\"}", "cidata", NB_NONE },
                { "{", "", NB_METADATA_MALFORMED },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char text[64];
                const struct nb_secret note = { .data = text, .len = strlen(rows[i].note) };
                struct nb_sources sources = { 0 };
                struct nb_machine machine = { 0 };
                struct nb_failure f = { 0 };

                (void)strcpy(text, rows[i].note);
                assert_int_equal(
                        nb_sources_put(&sources, NB_SOURCE_FILE, NB_PLATFORM_NOTE, 0644, &note), 0);
                assert_int_equal(nb_machine_read(&sources, &machine, &f) < 0,
                                 rows[i].code != NB_NONE);
                assert_int_equal(f.code, rows[i].code);
                assert_string_equal(machine.platform.volume, rows[i].volume);
                nb_sources_done(&sources);
        }
}

int main(void) {
        CASES(cases, recognises);
        CASE(every_provider_has_a_case);
        CASE(reads_what_root_has_found);
        return case_run("metadata/recognise");
}
