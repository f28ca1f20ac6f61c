/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "http/http.h"
#include "metadata/cloud_internal.h"
#include "os/clock.h"
#include "os/sources.h"

#include "case.h"
#include "cloud_script.h"

static struct nb_sources sources;

#define TOKEN "abcdef.0123456789abcdef"
#define SCRIPT "#!/bin/sh\n"
#define MISSING "404 Not Found", "<html>not found</html>"
#define GET(path) "GET " path " HTTP/1.1\r\n"
#define PUT(path) "PUT " path " HTTP/1.1\r\n"

/* All requests to a provider, in order. */
struct provider_case {
        const char *name;
        enum nb_provider provider;
        struct exchange exchanges[SCRIPT_MAX];
        const char *token_source; /* of TOKEN; NULL where there is none */
        const char *node_name;
        const char *provider_id;
};

#define META "/latest/meta-data/"
#define AZURE "/metadata/instance/compute/"
#define VERSION "?api-version=2021-01-01&format="
#define GOOGLE "/computeMetadata/v1/"
#define FLAVOR "\r\nMetadata-Flavor: Google\r\n"

static struct provider_case cases[] = {
        { "Akamai",
          NB_PROVIDER_AKAMAI,
          { { PUT("/v1/token"), "\r\nMetadata-Token-Expiry-Seconds: 300\r\n", OK, "s1" },
            { GET("/v1/user-data"), "\r\nMetadata-Token: s1\r\n", OK, SCRIPT },
            { GET("/v1/instance"), "\r\nMetadata-Token: s1\r\n", OK,
              "{\"id\": 123, \"label\": \"node-1\"}" } },
          NULL,
          "node-1",
          "linode://123" },
        { "Alibaba",
          NB_PROVIDER_ALIBABA,
          { { PUT("/latest/api/token"), "\r\nX-aliyun-ecs-metadata-token-ttl-seconds: 300\r\n", OK,
              "s1" },
            { GET("/latest/user-data"), "\r\nX-aliyun-ecs-metadata-token: s1\r\n", OK, SCRIPT },
            { GET(META "hostname"), NULL, OK, "node-1" },
            { GET(META "region-id"), NULL, OK, "cn-hangzhou" },
            { GET(META "instance-id"), NULL, OK, "i-1" } },
          NULL,
          "node-1",
          "alicloud://cn-hangzhou.i-1" },
        { "AWS",
          NB_PROVIDER_AWS,
          { { PUT("/latest/api/token"), "\r\nX-aws-ec2-metadata-token-ttl-seconds: 300\r\n", OK,
              "s1" },
            { GET(META "tags/instance/node-bootstrap-token"),
              "\r\nX-aws-ec2-metadata-token: s1\r\n", OK, TOKEN },
            { GET("/latest/user-data"), "\r\nX-aws-ec2-metadata-token: s1\r\n", OK, SCRIPT },
            { GET(META "local-hostname"), NULL, OK,
              "ip-10-0-0-1.eu-west-1.compute.internal other.example" },
            { GET(META "placement/availability-zone"), NULL, OK, "eu-west-1a" },
            { GET(META "instance-id"), NULL, OK, "i-1" } },
          "instance tag 'node-bootstrap-token' of the test",
          "ip-10-0-0-1.eu-west-1.compute.internal",
          "aws:///eu-west-1a/i-1" },
        { "Azure",
          NB_PROVIDER_AZURE,
          { { GET(AZURE "tagsList" VERSION "json"), "\r\nMetadata: true\r\n", OK,
              "[{\"name\":\"node-bootstrap-token\",\"value\":\"" TOKEN "\"}]" },
            { GET(AZURE "userData" VERSION "text"), "\r\nMetadata: true\r\n", OK, SCRIPT },
            { GET(AZURE "osProfile/computerName" VERSION "text"), NULL, OK, "Node-1" },
            { GET(AZURE "resourceId" VERSION "text"), NULL, OK,
              "/subscriptions/S-1/resourceGroups/My_Group(1)/providers/Microsoft.Compute/"
              "virtualMachines/Node-1" } },
          "tag 'node-bootstrap-token' of the test",
          "node-1",
          "azure:///subscriptions/S-1/resourceGroups/my_group(1)/providers/Microsoft.Compute/"
          "virtualMachines/Node-1" },
        { "Azure without a tag",
          NB_PROVIDER_AZURE,
          { { GET(AZURE "tagsList" VERSION "json"), NULL, OK, "[]" },
            { GET(AZURE "userData" VERSION "text"), NULL, OK, "" },
            { GET(AZURE "osProfile/computerName" VERSION "text"), NULL, OK, "node-1" },
            { GET(AZURE "resourceId" VERSION "text"), NULL, OK, "/subscriptions/S/*" } },
          NULL,
          "node-1",
          NULL },
        { "DigitalOcean",
          NB_PROVIDER_DIGITALOCEAN,
          { { GET("/metadata/v1/user-data"), NULL, OK, SCRIPT },
            { GET("/metadata/v1/hostname"), NULL, OK, "node-1" },
            { GET("/metadata/v1/id"), NULL, OK, "123" } },
          NULL,
          "node-1",
          "digitalocean://123" },
        { "Exoscale",
          NB_PROVIDER_EXOSCALE,
          { { GET("/1.0/user-data"), NULL, OK, SCRIPT },
            { GET("/1.0/meta-data/local-hostname"), NULL, OK, "node-1" },
            { GET("/1.0/meta-data/instance-id"), NULL, OK, "u-1" } },
          NULL,
          "node-1",
          "exoscale://u-1" },
        { "Google",
          NB_PROVIDER_GCE,
          { { GET(GOOGLE "instance/attributes/node-bootstrap-token"), FLAVOR, OK, TOKEN },
            { GET(GOOGLE "instance/attributes/user-data"), "\r\nHost: metadata.google.internal\r\n",
              MISSING },
            { GET(GOOGLE "instance/name"), FLAVOR, OK, "node-1" },
            { GET(GOOGLE "project/project-id"), FLAVOR, OK, "project-1" },
            { GET(GOOGLE "instance/zone"), FLAVOR, OK, "projects/123/zones/europe-west1-b" },
            { GET(GOOGLE "instance/name"), FLAVOR, OK, "node-1" } },
          "instance attribute 'node-bootstrap-token' of the test",
          "node-1",
          "gce://project-1/europe-west1-b/node-1" },
        { "Hetzner",
          NB_PROVIDER_HETZNER,
          { { GET("/hetzner/v1/userdata"), NULL, "204 No Content", "" },
            { GET("/hetzner/v1/metadata/hostname"), NULL, OK, "node-1" },
            { GET("/hetzner/v1/metadata/instance-id"), NULL, OK, "123" } },
          NULL,
          "node-1",
          "hcloud://123" },
        { "OpenStack",
          NB_PROVIDER_OPENSTACK,
          { { GET("/openstack/latest/meta_data.json"), NULL, OK,
              "{\"uuid\": \"u-1\", \"name\": \"My machine\", \"hostname\": \"my-machine\", "
              "\"meta\": {\"node-bootstrap-token\": \"" TOKEN "\"}}" },
            { GET("/openstack/latest/user_data"), NULL, MISSING } },
          "metadata item 'node-bootstrap-token' of the test",
          "my-machine",
          "openstack:///u-1" },
        { "OpenStack, with a name that is a node's",
          NB_PROVIDER_OPENSTACK,
          { { GET("/openstack/latest/meta_data.json"), NULL, OK,
              "{\"uuid\": \"u-1\", \"name\": \"node-1\", \"hostname\": \"node-1.novalocal\"}" },
            { GET("/openstack/latest/user_data"), NULL, OK, SCRIPT } },
          NULL,
          "node-1",
          "openstack:///u-1" },
        { "Oracle",
          NB_PROVIDER_ORACLE,
          { { GET("/opc/v2/instance/metadata/node-bootstrap-token"),
              "\r\nAuthorization: Bearer Oracle\r\n", OK, TOKEN },
            { GET("/opc/v2/instance/metadata/user_data"), "\r\nAuthorization: Bearer Oracle\r\n",
              MISSING },
            { GET("/opc/v2/instance/hostname"), NULL, OK, "node-1" },
            { GET("/opc/v2/instance/id"), NULL, OK, "ocid1.instance.oc1.eu-frankfurt-1.abc" } },
          "metadata key 'node-bootstrap-token' of the test",
          "node-1",
          "oci://ocid1.instance.oc1.eu-frankfurt-1.abc" },
        { "UpCloud",
          NB_PROVIDER_UPCLOUD,
          { { GET("/metadata/v1/user_data"), NULL, OK, SCRIPT },
            { GET("/metadata/v1/hostname"), NULL, OK, "node-1" },
            { GET("/metadata/v1/instance_id"), NULL, OK, "u-1" } },
          NULL,
          "node-1",
          "upcloud:////u-1" },
        { "Vultr",
          NB_PROVIDER_VULTR,
          { { GET("/user-data/user-data"), NULL, OK, SCRIPT },
            { GET("/v1/hostname"), NULL, OK, "node-1" },
            { GET("/v1/instance-v2-id"), NULL, OK, "u-1" } },
          NULL,
          "node-1",
          "vultr://u-1" },
};

static const struct nb_machine no_volume;

static void asks(void **state) {
        const struct provider_case *c = *state;
        /* Any whose connections are plain ones, from any port. */
        const struct nb_cloud_request request = {
                .sources = &sources,
                .provider = NB_PROVIDER_HETZNER,
                .machine = &no_volume,
                .wants_node_name = true,
                .wants_provider_id = true,
                .until_ms = nb_now_ms() + 30000,
        };
        struct nb_cloud_row row = nb_cloud_rows[c->provider];
        struct nb_metadata metadata = NB_METADATA_INIT;
        char address[SCRIPT_ADDRESS_SIZE];
        struct nb_cloud_call call;
        struct nb_failure f = { 0 };
        int r;

        script_start(c->exchanges, address);
        assert_int_equal(nb_cloud_call_init(&call, &request, &metadata, &f), 0);
        call.row = &row;
        call.title = "the test";
        call.address = address;
        call.address6 = NULL;
        r = nb_cloud_read_values(&call, &f);
        nb_cloud_call_done(&call);
        script_stop();

        assert_int_equal(r >= 0, c->provider_id != NULL);
        assert_int_equal(f.code, c->provider_id ? NB_NONE : NB_METADATA_MALFORMED);
        assert_string_equal(metadata.token.data ? metadata.token.data : "",
                            c->token_source ? TOKEN : "");
        assert_string_equal(metadata.token_source, c->token_source ? c->token_source : "");
        assert_string_equal(metadata.node_name, c->node_name);
        assert_string_equal(metadata.provider_id, c->provider_id ? c->provider_id : "");
        nb_metadata_done(&metadata);
}

static void every_provider_has_a_case(void **state) {
        for (size_t i = NB_PROVIDER_AUTO + 1; i < _NB_PROVIDER_N; i++) {
                bool is_there = i == NB_PROVIDER_NOCLOUD || i == NB_PROVIDER_VMWARE;

                for (size_t j = 0; j < N_ELEMENTS(cases); j++)
                        is_there |= cases[j].provider == i;
                if (!is_there)
                        fail_msg("no row has %s", nb_provider_names[i]);
        }
}

/* The file of node-bootstrap-platform.service, as install passes it on. */
struct file_case {
        const char *name;
        enum nb_provider provider;
        const char *volume;
        const char *user_data, *meta_data, *token; /* NULL: not there */
        enum nb_code code;
        enum nb_user_data_kind kind;
        const char *token_source;
        const char *node_name;
        const char *provider_id;
};

#define DOCUMENT "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"

static struct file_case files[] = {
        { "NoCloud", NB_PROVIDER_NOCLOUD, "cidata", DOCUMENT, "local-hostname: node-1\n", NULL,
          NB_NONE, NB_USER_DATA_DOCUMENT, NULL, "node-1", "" },
        { "NoCloud without a volume", NB_PROVIDER_NOCLOUD, "", NULL, NULL, NULL, NB_NONE,
          NB_USER_DATA_NOTHING, NULL, "", "" },
        { "NoCloud, empty", NB_PROVIDER_NOCLOUD, "cidata", "", "", NULL, NB_NONE,
          NB_USER_DATA_NOTHING, NULL, "", "" },
        { "NoCloud, meta-data that is no YAML", NB_PROVIDER_NOCLOUD, "cidata", DOCUMENT, "[", NULL,
          NB_METADATA_MALFORMED, NB_USER_DATA_DOCUMENT, NULL, "", "" },
        { "a config drive", NB_PROVIDER_OPENSTACK, "config-2", DOCUMENT,
          "{\"uuid\": \"u-1\", \"name\": \"node-1\", \"meta\": {\"node-bootstrap-token\": \"" TOKEN
          "\"}}",
          NULL, NB_NONE, NB_USER_DATA_DOCUMENT, "metadata item 'node-bootstrap-token' of OpenStack",
          "node-1", "openstack:///u-1" },
        { "a config drive without metadata", NB_PROVIDER_OPENSTACK, "config-2", SCRIPT, NULL, NULL,
          NB_NONE, NB_USER_DATA_NOTHING, NULL, "", "" },
        { "a config drive with an error in it", NB_PROVIDER_OPENSTACK, "config-2", SCRIPT, "{",
          NULL, NB_METADATA_MALFORMED, NB_USER_DATA_NOTHING, NULL, "", "" },
        { "VMware", NB_PROVIDER_VMWARE, "", DOCUMENT, NULL, TOKEN "\n", NB_NONE,
          NB_USER_DATA_DOCUMENT, "guestinfo.node-bootstrap.token of VMware", "", "" },
        { "VMware without either", NB_PROVIDER_VMWARE, "", NULL, NULL, NULL, NB_NONE,
          NB_USER_DATA_NOTHING, NULL, "", "" },
};

static void put(const char *path, const char *data) {
        const struct nb_secret value = { .data = (char *)(uintptr_t)data,
                                         .len = data ? strlen(data) : 0 };

        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, path, 0600, data ? &value : NULL),
                         0);
}

static void reads_files(void **state) {
        const struct file_case *c = *state;
        struct nb_machine machine = { .platform = { .volume = "" } };
        const struct nb_cloud_request request = {
                .sources = &sources,
                .provider = c->provider,
                .machine = &machine,
                .wants_node_name = true,
                .wants_provider_id = true,
                .until_ms = nb_now_ms() + 30000,
        };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_failure f = { 0 };
        int r;

        (void)snprintf(machine.platform.volume, sizeof(machine.platform.volume), "%s", c->volume);
        put(NB_PLATFORM_USER_DATA, c->user_data);
        put(NB_PLATFORM_META_DATA, c->meta_data);
        put(NB_PLATFORM_TOKEN, c->token);
        r = nb_cloud_read(&request, &metadata, &f);
        nb_sources_done(&sources);

        assert_int_equal(r < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_null(strstr(f.detail, TOKEN));
        if (c->code == NB_NONE) {
                assert_int_equal(metadata.provider, c->provider);
                assert_int_equal(metadata.user_data.kind, c->kind);
                assert_true(metadata.user_data.what[0] != '\0');
                assert_string_equal(metadata.token.data ? metadata.token.data : "",
                                    c->token_source ? TOKEN : "");
                assert_string_equal(metadata.token_source, c->token_source ? c->token_source : "");
                assert_string_equal(metadata.node_name, c->node_name);
                assert_string_equal(metadata.provider_id, c->provider_id);
        }
        nb_metadata_done(&metadata);
}

static void knows_which_values_a_provider_has(void **state) {
        for (size_t i = NB_PROVIDER_AUTO + 1; i < _NB_PROVIDER_N; i++) {
                enum nb_provider provider = (enum nb_provider)i;
                bool has_files = provider == NB_PROVIDER_NOCLOUD || provider == NB_PROVIDER_VMWARE;

                assert_int_equal(nb_cloud_has_node_name(provider), provider != NB_PROVIDER_VMWARE);
                assert_int_equal(nb_cloud_has_provider_id(provider), !has_files);
                /* The place is for the message about a token, so there is one wherever there is
                 * the other. */
                assert_int_equal(nb_cloud_token_place(provider) != NULL,
                                 nb_cloud_rows[provider].token != NULL);
        }
}

/* The case of a resource group is not the same in all answers. */
static void edits_azure_ids(void **state) {
        static const struct {
                const char *id, *expected;
        } rows[] = {
                { "/subscriptions/S/resourceGroups/My_G/providers/V/x",
                  "/subscriptions/S/resourceGroups/my_g/providers/V/x" },
                { "/S/RESOURCEGROUPS/G(1)", "/S/RESOURCEGROUPS/g(1)" },
                { "/S/resourceGroups/", "/S/resourceGroups/" },
                { "/S/resourceGroups", "/S/resourceGroups" },
                { "/S/xresourceGroups/G/V", "/S/xresourceGroups/G/V" },
                { "", "" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char id[64];

                (void)snprintf(id, sizeof(id), "%s", rows[i].id);
                nb_cloud_edit_azure_id(id);
                assert_string_equal(id, rows[i].expected);
        }
}

int main(void) {
        struct nb_failure f = { 0 };

        if (nb_http_begin(false, &f) < 0)
                return 1;
        CASES(cases, asks);
        CASE(every_provider_has_a_case);
        CASES(files, reads_files);
        CASE(knows_which_values_a_provider_has);
        CASE(edits_azure_ids);
        return case_run("metadata/cloud_requests");
}
