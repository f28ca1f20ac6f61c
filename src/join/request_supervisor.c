/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/in6.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "http/http.h"
#include "join/report.h"
#include "join/stages.h"
#include "kube_calls/k3s_calls.h"
#include "kube_objects/node_name.h"
#include "os/addresses.h"
#include "os/process.h"
#include "systemd/log.h"

/* The supervisor answers 400 to a certificate for another name. */
static bool can_present_previous(const struct nb_join *join) {
        const struct nb_identity *previous = &join->bootstrap->previous;
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;

        if (previous->kind != NB_IDENTITY_CERTIFICATE)
                return false;
        return nb_certificates_parse(previous->certificate.data, previous->certificate.len, true,
                                     &chain) >= 0 &&
               nb_certificate_is_for_node(chain, join->node_name, false);
}

/* --- The addresses of this node --- */

#define RESOLVE_TIMEOUT_MS 2000

/* The source address of packets to `target`. Connecting a UDP socket sends nothing. */
static bool find_source(const char *target, char ret[static INET6_ADDRSTRLEN]) {
        struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(9) };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
        bool is_v4 = inet_pton(AF_INET, target, &v4.sin_addr) == 1;
        struct sockaddr *address = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
        socklen_t len = is_v4 ? sizeof(v4) : sizeof(v6);
        const int public = IPV6_PREFER_SRC_PUBLIC;
        _cleanup_(nb_closep) int fd = -1;

        if (!is_v4 && inet_pton(AF_INET6, target, &v6.sin6_addr) != 1)
                return false;
        fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        /* Not a temporary address (RFC 5014): each change would need another certificate. */
        if (fd >= 0 && !is_v4)
                (void)setsockopt(fd, IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, &public, sizeof(public));
        return fd >= 0 && connect(fd, address, len) == 0 && getsockname(fd, address, &len) == 0 &&
               inet_ntop(address->sa_family,
                         is_v4 ? (const void *)&v4.sin_addr : (const void *)&v6.sin6_addr, ret,
                         INET6_ADDRSTRLEN);
}

struct resolving {
        char name[NB_NODE_NAME_MAX + 1];
        char found[NB_NODE_IPS_SIZE];
};

static void resolve_name(void *userdata) {
        struct resolving *resolving = userdata;
        const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
        struct addrinfo *all = NULL;

        if (nb_http_confine_resolver() < 0 || getaddrinfo(resolving->name, NULL, &hints, &all) != 0)
                return;
        for (const struct addrinfo *p = all; p; p = p->ai_next) {
                char address[INET6_ADDRSTRLEN];

                if (getnameinfo(p->ai_addr, p->ai_addrlen, address, sizeof(address), NULL, 0,
                                NI_NUMERICHOST) == 0)
                        nb_node_ips_add(address, resolving->found);
        }
        freeaddrinfo(all);
}

/* What the other process found is what anybody on the network can send. */
static void keep_own(const char *found, char ret[static NB_NODE_IPS_SIZE]) {
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(NB_ADDRESSES_MAX);
        char address[INET6_ADDRSTRLEN];

        if (nb_addresses_read(&own) < 0)
                return;
        while (nb_node_ips_next(&found, address))
                if (nb_addresses_contain(&own, address))
                        nb_node_ips_add(address, ret);
}

/*
 * Before it looks at the default route, kubelet resolves the node's name, and takes the first
 * address that is this machine's (pkg/kubelet/nodestatus/setters.go, NodeAddress). Another process
 * resolves it, in the sandbox in which a connection resolves names: the resolver parses what
 * anybody on the network sends, and may wait for long. That process has no secret
 * (MADV_WIPEONFORK, which also wipes the settings), and cannot read the credentials; this join has
 * not read its key yet.
 */
void nb_join_find_named_ips(struct nb_join *join) {
        struct resolving *shared;

        if (join->key || join->named_ips[0])
                return;
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      0);
        if (shared == MAP_FAILED)
                return;
        NB_TEXT_COPY(shared->name, join->node_name);
        if (nb_process_try(resolve_name, shared, RESOLVE_TIMEOUT_MS) >= 0) {
                char found[NB_NODE_IPS_SIZE];

                shared->found[sizeof(shared->found) - 1] = '\0';
                NB_TEXT_COPY_LINE(found, shared->found);
                keep_own(found, join->named_ips);
        }
        (void)munmap(shared, sizeof(*shared));
}

/* node-ip; otherwise all from which kubelet may choose: those of the node's name, and those on the
 * default routes. Without a default route, that from which this machine reaches the supervisor. */
static void find_node_ips(const struct nb_join *join, const char *supervisor,
                          char ret[static NB_NODE_IPS_SIZE]) {
        const char *const targets[] = { "192.0.2.1", "2001:db8::1", supervisor };
        char address[INET6_ADDRSTRLEN];
        bool has_source = false;

        nb_settings_node_ips(join->settings, ret);
        if (ret[0])
                return;
        for (size_t i = 0; i < N_ELEMENTS(targets) && (i < 2 || !has_source); i++)
                if (find_source(targets[i], address)) {
                        nb_node_ips_add(address, ret);
                        has_source = true;
                }
        for (const char *rest = join->named_ips; nb_node_ips_next(&rest, address);)
                nb_node_ips_add(address, ret);
}

/* --- The request --- */

/* Certificates as the supervisor sent them. */
struct issued {
        struct nb_buffer client, serving;
};

/* Uses a separate connection for each identity: on a shared one, the client certificate would also
 * be presented with the token. */
static int ask_as(const struct nb_join *join, const struct nb_identity *identity,
                  const struct nb_buffer *csr, struct issued *ret, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_cluster supervisor = join->cluster;
        char node_ips[NB_NODE_IPS_SIZE];
        struct nb_k3s_request request = {
                .endpoint = &supervisor.server,
                .name = "client-kubelet",
                .node_name = join->node_name,
                .node_password = join->bootstrap->node_password.data,
                .node_ips = node_ips,
                .csr = csr,
        };
        int r;

        r = nb_endpoint_parse(join->endpoint, strlen(join->endpoint), &supervisor.server);
        assert(r >= 0);
        nb_buffer_clear(&ret->client);
        find_node_ips(join, supervisor.server.host, node_ips);
        r = nb_api_init(&api, &supervisor, identity, join->deadline_ms, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_k3s_verify_signing(&api, &supervisor.server, join->node_name, f);
        if (r < 0)
                return r;
        r = nb_k3s_sign(&api, &request, &ret->client, f);
        if (r < 0)
                return r;
        request.name = "serving-kubelet";
        r = nb_k3s_sign(&api, &request, &ret->serving, f);
        if (r >= 0)
                nb_report_new_connection(&api);
        return r;
}

static int ask_supervisor(struct nb_join *join, const struct nb_buffer *csr, struct issued *ret,
                          struct nb_failure *f) {
        int r;

        if (!can_present_previous(join))
                return ask_as(join, &join->bootstrap->identity, csr, ret, f);
        r = ask_as(join, &join->bootstrap->previous, csr, ret, f);
        if (r >= 0 || f->http_status != 401 || join->bootstrap->identity.kind == NB_IDENTITY_NONE)
                return r;
        if (!join->is_previous_refused)
                nb_log(LOG_NOTICE, NB_PREVIOUS_REJECTED, "%s; using the token instead", f->detail);
        nb_failure_clear(f);
        join->is_previous_refused = true;
        return ask_as(join, &join->bootstrap->identity, csr, ret, f);
}

static int take_serving(struct nb_join *join, const struct nb_buffer *pem, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL, *ca = NULL;
        char node_ips[NB_NODE_IPS_SIZE];
        int r;

        r = nb_certificates_parse(pem->data ? pem->data : "", pem->len, false, &chain);
        if (r >= 0)
                r = nb_certificates_parse(join->cluster.ca, join->cluster.ca_len, false, &ca);
        if (r < 0)
                return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, r,
                                      "expected a serving certificate in PEM for node '%s', found "
                                      "%s",
                                      join->node_name, nb_certificates_reason(r));
        nb_settings_node_ips(join->settings, node_ips);
        r = nb_certificate_verify_serving(chain, ca, join->key, join->node_name, node_ips,
                                          time(NULL), f);
        if (r < 0)
                return r;
        nb_buffer_done(&join->serving);
        join->serving = (struct nb_buffer)NB_BUFFER_INIT(NB_K3S_CERTIFICATE_MAX);
        for (size_t i = 0; i < nb_certificates_count(chain); i++)
                nb_certificate_export(chain, i, &join->serving);
        return join->serving.error < 0 ? nb_failure_set_memory(f) : 0;
}

static int take_issued(struct nb_join *join, const struct issued *issued, struct nb_failure *f) {
        const struct nb_buffer *client = &issued->client;
        int r = nb_join_take_issued(join, client->data ? client->data : "", client->len, f);

        return r < 0 ? r : take_serving(join, &issued->serving, f);
}

int nb_stage_request_supervisor(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer csr = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX);
        struct issued issued = { NB_BUFFER_INIT(NB_K3S_CERTIFICATE_MAX),
                                 NB_BUFFER_INIT(NB_K3S_CERTIFICATE_MAX) };
        int r;

        if (join->bootstrap->node_password.len == 0)
                return nb_failure_set(f, NB_NODE_PASSWORD_MISSING, ENOENT,
                                      "there is no usable node password in '" NB_NODE_PASSWORD_FILE
                                      "'");
        nb_join_find_named_ips(join);
        r = nb_pending_key_keep(join, f);
        if (r < 0)
                return r;
        join->is_key_unused = false;
        r = nb_pkcs10_create(join->key, join->node_name, false, &csr);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the CSR cannot be created");
        r = ask_supervisor(join, &csr, &issued, f);
        if (r >= 0)
                r = take_issued(join, &issued, f);
        nb_buffer_done(&issued.client);
        nb_buffer_done(&issued.serving);
        if (r < 0 && (f->code == NB_CERTIFICATE_UNUSABLE || f->code == NB_SUPERVISOR_TOO_OLD))
                nb_pending_key_drop(join);
        return r;
}
