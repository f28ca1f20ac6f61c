/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/commands/cluster_info_command.h"
#include "admin/commands/token_command.h"
#include "admin/controller/signatures.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "kube/jws.h"
#include "kube_api/cluster_calls.h"
#include "kube_api/csr_calls.h"
#include "system/clock.h"

#define TIMEOUT_MS 15000
#define GROUPS_MAX 16
#define SLACK_SEC 60 /* for kube-controller-manager to sign or to delete */
#define CLIENT_CA_PATH \
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
#define SIGNATURE_MAX ((size_t)4096)
#define PUBLISH "`node-bootstrap-admin cluster-info publish`"
#define RUN_CONTROLLERS \
        "run kube-controller-manager with --controllers=*,bootstrapsigner,tokencleaner, or " \
        "node-bootstrap-controller.service"

/* For the API server's --authentication-config (Kubernetes 1.34 or newer), which replaces
 * --anonymous-auth. */
#define STANZA \
        "        apiVersion: apiserver.config.k8s.io/v1\n" \
        "        kind: AuthenticationConfiguration\n" \
        "        anonymous:\n" \
        "          enabled: true\n" \
        "          conditions:\n" \
        "          - path: " NB_CLUSTER_INFO_PATH "\n"

enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_PROBLEM, LEVEL_UNKNOWN };

struct verification {
        struct nb_admin *admin;
        struct nb_json info; /* without a root: there is no cluster-info */
        struct nb_cluster cluster;
        const char *kubeconfig; /* in `info`; NULL: it is unusable */
        time_t now;
        unsigned n_problems, n_unknown;

        /* Of the tokens. */
        bool are_tokens_known;
        unsigned n_tokens, n_expired, n_unsigned, n_wrongly_signed;
        unsigned n_restricted;                 /* only node-bootstrap approves their requests */
        char unsigned_id[NB_TOKEN_ID_LEN + 1]; /* one of them */
        char groups[GROUPS_MAX][NB_TOKEN_GROUPS_MAX + 1];
        unsigned n_groups;
        bool has_more_groups;
        struct nb_bootstrap_token token; /* one that may authenticate; "" for none */

        /* Of the requests. */
        struct nb_certificates *client_ca; /* NULL: not known */
        unsigned n_unissued, n_pending, n_issued, n_untrusted;
        time_t oldest;                /* of those that are pending */
        char issuer[NB_SUBJECT_SIZE]; /* of one that no API server trusts */
};

static void verification_done(struct verification *verification) {
        nb_json_done(&verification->info);
        nb_cluster_done(&verification->cluster);
        nb_bootstrap_token_done(&verification->token);
        nb_certificates_free(verification->client_ca);
}

__attribute__((format(printf, 4, 5))) static void report(struct verification *verification,
                                                         enum level level, const char *remedy,
                                                         const char *format, ...) {
        static const char *const words[] = { "ok", "warning", "PROBLEM", "not known" };
        char line[1024]; /* a name from the cluster may be any text */
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(line, sizeof(line), format, arguments);
        va_end(arguments);
        NB_TEXT_COPY_LINE(line, line);
        printf("%-12s %s\n", words[level], line);
        if (remedy)
                printf("             %s\n", remedy);
        verification->n_problems += level == LEVEL_PROBLEM;
}

/* --- cluster-info --- */

static int check_cluster_info(struct verification *verification, struct nb_failure *f) {
        int r = nb_admin_get(verification->admin, "reading the ConfigMap kube-public/cluster-info",
                             NB_CLUSTER_INFO_PATH, &verification->info, f);
        const char *kubeconfig = r > 0 ? nb_json_string(&verification->info, "data.kubeconfig")
                                       : NULL;

        if (r < 0)
                return r;
        if (!kubeconfig) {
                report(verification, LEVEL_PROBLEM, PUBLISH " creates it",
                       "there is no ConfigMap kube-public/cluster-info with a kubeconfig");
                return 0;
        }
        r = nb_publication_parse(kubeconfig, &verification->cluster, f);
        if (r < 0) {
                report(verification, LEVEL_PROBLEM, PUBLISH " repairs it", "%s", f->detail);
                nb_failure_clear(f);
                return 0;
        }
        report(verification, LEVEL_OK, NULL, "cluster-info exists");
        verification->kubeconfig = kubeconfig;
        return 0;
}

static int check_ca(struct verification *verification, struct nb_failure *f) {
        int r;

        if (!verification->kubeconfig || !verification->admin->cluster.ca)
                return 0;
        r = nb_publication_compare_ca(&verification->cluster, &verification->admin->cluster);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0) {
                report(verification, LEVEL_PROBLEM, PUBLISH " repairs it",
                       "cluster-info: expected CA certificates, found %s",
                       nb_certificates_reason(r));
                verification->kubeconfig = NULL;
        } else if (r == 0)
                report(verification, LEVEL_PROBLEM, PUBLISH " shows the difference",
                       "cluster-info has other CA certificates than the kubeconfig");
        else
                report(verification, LEVEL_OK, NULL,
                       "cluster-info and the kubeconfig have the same CA certificates");
        return 0;
}

/* Asks as a joining machine does: without a credential, at the server in cluster-info, with its
 * CAs. */
static int check_anonymous(struct verification *verification, _unused_ struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_cluster_info info = { 0 };
        struct nb_failure failure = { 0 };
        char server[NB_URL_MAX];
        int r;

        if (!verification->kubeconfig)
                return 0;
        nb_endpoint_format(&verification->cluster.server, server);
        if (nb_host_is_loopback(verification->cluster.server.host))
                report(verification, LEVEL_PROBLEM,
                       "`node-bootstrap-admin cluster-info publish --server=URL --force` replaces "
                       "it",
                       "cluster-info names %s, which other machines cannot reach", server);
        r = nb_api_init(&api, &verification->cluster, NULL, nb_now_ms() + TIMEOUT_MS, &failure);
        if (r >= 0)
                r = nb_cluster_info_fetch_verified(&api, &info, &failure);
        nb_cluster_info_done(&info);
        if (r == -ECANCELED && failure.code == NB_NONE)
                return r;
        if (r >= 0)
                report(verification, LEVEL_OK, NULL, "anybody can read cluster-info at %s", server);
        else if (failure.http_status == 401 || failure.http_status == 403) {
                report(verification, LEVEL_PROBLEM,
                       failure.http_status == 401
                               ? "the API server accepts no anonymous requests; allow this one:"
                               : PUBLISH " repairs the Role and RoleBinding; if they exist, allow "
                                         "the path:",
                       "machines without a credential cannot read cluster-info at %s (%ld)", server,
                       failure.http_status);
                printf(STANZA);
        } else
                report(verification, LEVEL_PROBLEM,
                       "make the address reachable, with a certificate of that CA, or name another "
                       "server with `node-bootstrap-admin cluster-info publish --server=URL "
                       "--force`",
                       "%s", failure.detail);
        return 0;
}

/* --- Tokens --- */

static void add_groups(struct verification *verification, const char *groups) {
        for (size_t len; *groups; groups += len + (groups[len] == ',')) {
                unsigned i = 0;

                len = strcspn(groups, ",");
                while (i < verification->n_groups &&
                       (strlen(verification->groups[i]) != len ||
                        strncmp(verification->groups[i], groups, len) != 0))
                        i++;
                if (i == verification->n_groups && i < GROUPS_MAX)
                        snprintf(verification->groups[verification->n_groups++],
                                 sizeof(verification->groups[0]), "%.*s", (int)len, groups);
                verification->has_more_groups |= i == GROUPS_MAX;
        }
}

static int check_signature(struct verification *verification, struct nb_bootstrap_token *token) {
        _cleanup_(nb_buffer_done) struct nb_buffer expected = NB_BUFFER_INIT(SIGNATURE_MAX);
        const struct nb_token_secret secret = { .key = { .data = token->secret,
                                                         .len = NB_TOKEN_SECRET_LEN } };
        struct nb_signature signature = { 0 };
        char path[64];
        const char *found;
        int r;

        if (!verification->kubeconfig || !token->may_sign)
                return 0;
        snprintf(path, sizeof(path), "data." NB_SIGNATURE_PREFIX "%s", token->id);
        found = nb_json_string(&verification->info, path);
        memcpy(signature.id, token->id, sizeof(signature.id));
        r = nb_signature_compute(&signature, &secret, verification->kubeconfig,
                                 strlen(verification->kubeconfig));
        if (r < 0)
                return r;
        nb_jws_format(token->id, NB_JWS_SIGNATURE, signature.mac, sizeof(signature.mac), &expected);
        if (expected.error < 0)
                return expected.error;
        if (found && !strcmp(found, expected.data))
                return 0;
        verification->n_wrongly_signed += found != NULL;
        verification->n_unsigned += !found;
        memcpy(verification->unsigned_id, token->id, sizeof(token->id));
        return 0;
}

/* `token list` reports what cannot be read. */
static int visit_secret(void *userdata, struct nb_json *item) {
        struct verification *verification = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_failure ignored = { 0 };
        struct nb_json json = { item->root, item->what, item->code, &ignored, 0 };

        nb_bootstrap_token_read(&json, &token);
        if (json.r < 0)
                return 0;
        if (nb_bootstrap_token_is_expired(&token, verification->now)) {
                verification->n_expired += token.expires + SLACK_SEC < verification->now;
                return 0;
        }
        verification->n_tokens++;
        if (check_signature(verification, &token) < 0)
                return nb_failure_set_memory(item->f);
        if (!token.may_authenticate)
                return 0;
        verification->n_restricted += strstr(token.groups, NB_TOKEN_GROUP_NODE) != NULL;
        add_groups(verification, token.groups);
        verification->token = token;
        return 0;
}

static int check_tokens(struct verification *verification, struct nb_failure *f) {
        int r = nb_admin_list(verification->admin, "listing the tokens",
                              NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY, visit_secret,
                              verification, NULL, f);

        if (r < 0)
                return r;
        verification->are_tokens_known = true;
        if (verification->n_expired > 0)
                report(verification, LEVEL_WARNING, RUN_CONTROLLERS,
                       "expired tokens that were not removed: %u; no tokencleaner is running",
                       verification->n_expired);
        if (verification->n_unsigned + verification->n_wrongly_signed > 0)
                report(verification, LEVEL_PROBLEM, RUN_CONTROLLERS,
                       "cluster-info is not signed with %u of %u tokens, and wrongly signed with "
                       "%u, such as %s: no bootstrapsigner is running",
                       verification->n_unsigned, verification->n_tokens,
                       verification->n_wrongly_signed, verification->unsigned_id);
        else if (verification->kubeconfig)
                report(verification, LEVEL_OK, NULL, "cluster-info is signed with all tokens (%u)",
                       verification->n_tokens);
        return 0;
}

/* Whether the API server accepts a token that it should accept. Audit logs keep the body of a
 * TokenReview, and so a live token; of this request they keep that the token was used. */
static int check_authentication(struct verification *verification, struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        const struct nb_bootstrap_token *token = &verification->token;
        char text[NB_TOKEN_TEXT_SIZE];
        int r;

        if (!token->id[0]) {
                if (verification->are_tokens_known)
                        report(verification, LEVEL_UNKNOWN, NULL,
                               "whether the API server accepts bootstrap tokens: there is none "
                               "that may authenticate");
                return 0;
        }
        nb_token_format(token, text);
        r = nb_identity_set_token(&identity, text, NB_TOKEN_LEN, "Secret of the token");
        explicit_bzero(text, sizeof(text));
        if (r < 0)
                return nb_failure_set_memory(f);
        r = nb_api_init(&api, &verification->admin->cluster, &identity, nb_now_ms() + TIMEOUT_MS,
                        f);
        if (r >= 0)
                r = nb_right_read(&api, NB_RIGHT_CREATE_CSR, f);
        if (r < 0 && f->code != NB_TOKEN_REJECTED)
                return r;
        if (r >= 0)
                report(verification, LEVEL_OK, NULL, "the API server accepts bootstrap tokens");
        else
                report(verification, LEVEL_PROBLEM,
                       "run kube-apiserver with --enable-bootstrap-token-auth",
                       "the API server rejects the bootstrap token %s", token->id);
        nb_failure_clear(f);
        return 0;
}

static int check_group(struct verification *verification, const char *group, struct nb_failure *f) {
        const bool is_restricted = !strcmp(group, NB_TOKEN_GROUP_NODE) ||
                                   !strcmp(group, NB_TOKEN_GROUP_ENROLLED);
        int r = nb_groups_may_create(verification->admin, group, "", f);

        if (r == 0)
                report(verification, LEVEL_PROBLEM,
                       PUBLISH " creates the bindings of kubeadm's and this program's groups",
                       "tokens of the group %s may not submit requests", group);
        if (r >= 0)
                r = nb_groups_may_create(verification->admin, group, "nodeclient", f);
        if (r > 0)
                report(verification, is_restricted ? LEVEL_PROBLEM : LEVEL_WARNING,
                       is_restricted
                               ? "remove the binding of this group, or of system:bootstrappers, to "
                                 "the ClusterRole ...:certificatesigningrequests:nodeclient; "
                                 "`kubectl get clusterrolebindings --output=wide` shows it"
                               : "`kubectl delete clusterrolebinding "
                                 "kubeadm:node-autoapprove-bootstrap` switches kubeadm's automatic "
                                 "approval off; then only `node-bootstrap-admin approve` approves "
                                 "these requests",
                       "kube-controller-manager approves every request with a token of the group "
                       "%s: any holder can join as any node",
                       group);
        return r;
}

static int check_groups(struct verification *verification, struct nb_failure *f) {
        int r = 0;

        for (unsigned i = 0; i < verification->n_groups && r >= 0; i++)
                r = check_group(verification, verification->groups[i], f);
        if (r >= 0 && verification->has_more_groups)
                report(verification, LEVEL_UNKNOWN, NULL,
                       "the tokens have more than %d groups; the others were not checked",
                       GROUPS_MAX);
        return r;
}

/* --- Approval and issue --- */

static int check_controller(struct verification *verification, struct nb_failure *f) {
        int r = nb_controller_is_running(verification->admin, f);

        if (r > 0)
                report(verification, LEVEL_OK, NULL, "a node-bootstrap controller is running");
        else if (r == 0 && verification->n_restricted > 0)
                report(verification, LEVEL_PROBLEM,
                       "start node-bootstrap-controller.service, or approve the requests with "
                       "`node-bootstrap-admin approve`",
                       "bound and enrolled tokens: %u, but no controller is running that "
                       "approves their requests",
                       verification->n_restricted);
        else if (r == 0 && verification->are_tokens_known)
                report(verification, LEVEL_OK, NULL,
                       "no node-bootstrap controller is running, and no token needs it");
        return r;
}

/* The CAs that the API servers trust for client certificates, as they publish them. */
static int read_client_ca(struct verification *verification, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *text;
        int r = nb_admin_get(verification->admin, "reading the client CA of the API servers",
                             CLIENT_CA_PATH, &json, f);

        if (r <= 0)
                return r;
        text = nb_json_string(&json, "data.client-ca-file");
        r = text ? nb_certificates_parse(text, strlen(text), false, &verification->client_ca) : 0;
        return json.r < 0 ? json.r : r == -ENOMEM ? nb_failure_set_memory(f) : 0;
}

static void count_issuer(struct verification *verification, struct nb_json *item) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *issued = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        const char *text = nb_json_string(item, "status.certificate");

        if (!text || nb_base64_decode(text, strlen(text), &pem) < 0 ||
            nb_certificates_parse(pem.data, pem.len, false, &issued) < 0)
                return;
        verification->n_issued++;
        if (!verification->client_ca || nb_certificate_is_trusted(issued, verification->client_ca))
                return;
        verification->n_untrusted++;
        nb_certificate_issuer(issued, 0, verification->issuer);
}

static int visit_request(void *userdata, struct nb_json *item) {
        struct verification *verification = userdata;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };

        nb_node_request_read(item, &request);
        if (item->r < 0)
                return item->r;
        if (request.kind == NB_NODE_REQUEST_OTHER)
                return 0;
        if (request.kind == NB_NODE_REQUEST_CLIENT && request.has_certificate)
                count_issuer(verification, item);
        verification->n_unissued += request.state == NB_CSR_STATE_APPROVED &&
                                    !request.has_certificate &&
                                    (request.approved > 0 ? request.approved : request.created) +
                                                    SLACK_SEC <
                                            verification->now;
        if (request.state != NB_CSR_STATE_PENDING)
                return 0;
        if (verification->n_pending++ == 0 || request.created < verification->oldest)
                verification->oldest = request.created;
        return 0;
}

static int check_requests(struct verification *verification, struct nb_failure *f) {
        char oldest[NB_RFC3339_SIZE];
        int r = nb_admin_list(verification->admin, "listing the requests", NB_CSRS_PATH,
                              visit_request, verification, NULL, f);

        if (r < 0)
                return r;
        if (verification->n_unissued > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with --cluster-signing-cert-file and "
                       "--cluster-signing-key-file",
                       "approved requests of nodes without a certificate: %u; nobody signs them",
                       verification->n_unissued);
        else
                report(verification, LEVEL_OK, NULL,
                       "no approved request of a node waits for its certificate");
        if (verification->n_untrusted > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with a --cluster-signing-cert-file that the "
                       "--client-ca-file of kube-apiserver has",
                       "certificates of nodes that the API servers do not trust: %u, issued by "
                       "'%s'",
                       verification->n_untrusted, verification->issuer);
        else if (verification->n_issued > 0 && verification->client_ca)
                report(verification, LEVEL_OK, NULL,
                       "the API servers trust the CA that issues certificates of nodes");
        if (verification->n_pending == 0) {
                report(verification, LEVEL_OK, NULL, "no request of a node is pending");
                return 0;
        }
        nb_time_format(verification->oldest, oldest);
        report(verification, LEVEL_WARNING, "`node-bootstrap-admin approve` shows them",
               "pending requests of nodes: %u, the oldest since %s", verification->n_pending,
               oldest);
        return 0;
}

int nb_publication_verify(struct nb_admin *admin, struct nb_failure *f) {
        static int (*const checks[])(struct verification *, struct nb_failure *) = {
                check_cluster_info,   check_ca,     check_anonymous,  check_tokens,
                check_authentication, check_groups, check_controller, read_client_ca,
                check_requests,
        };
        _cleanup_(verification_done) struct verification verification = { .admin = admin,
                                                                          .now = time(NULL) };

        for (size_t i = 0; i < N_ELEMENTS(checks); i++) {
                int r = checks[i](&verification, f);

                /* A check that fails for lack of a permission does not end the others. The
                 * command ends if the API server does not answer. */
                if (r < 0 && f->code != NB_ADMIN_FORBIDDEN && f->code != NB_ADMIN_MISSING)
                        return r;
                if (r < 0) {
                        report(&verification, LEVEL_UNKNOWN, NULL, "%s", f->detail);
                        verification.n_unknown++;
                        nb_failure_clear(f);
                }
                fflush(stdout);
        }
        return verification.n_problems > 0 ? 1 : verification.n_unknown > 0 ? 2 : 0;
}
