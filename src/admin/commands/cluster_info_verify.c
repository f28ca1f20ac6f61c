/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "kube_calls/cluster_calls.h"
#include "kube_calls/csr_calls.h"
#include "kube_calls/jws.h"
#include "os/clock.h"

#define TIMEOUT_MS 15000
#define SLACK_SEC 60 /* for kube-controller-manager to sign or to delete */
#define CLIENT_CA_PATH \
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
#define PUBLISH "`node-bootstrap-admin cluster-info publish`"
#define RUN_CONTROLLERS \
        "run kube-controller-manager with --controllers=*,bootstrapsigner,tokencleaner, or " \
        "node-bootstrap-controller.service"
#define OK "ok           "

/* For the API server's --authentication-config (Kubernetes 1.34 or newer), which replaces
 * --anonymous-auth. */
#define STANZA \
        "        apiVersion: apiserver.config.k8s.io/v1\n" \
        "        kind: AuthenticationConfiguration\n" \
        "        anonymous:\n" \
        "          enabled: true\n" \
        "          conditions:\n" \
        "          - path: " NB_CLUSTER_INFO_PATH "\n"

enum level { LEVEL_WARNING, LEVEL_PROBLEM, LEVEL_UNKNOWN };

struct verification {
        struct nb_admin *admin;
        struct nb_json info, client_ca_info; /* without a root: not read */
        struct nb_cluster cluster;           /* in cluster-info */
        const char *kubeconfig;              /* in `info`; NULL: it is unusable */
        time_t now;
        unsigned n_problems, n_unknown;

        /* Of the tokens. */
        bool are_tokens_known;
        unsigned n_tokens, n_expired;
        unsigned n_signing, n_not_signed;
        unsigned n_restricted;        /* only node-bootstrap approves their requests */
        char not_signed[256];         /* those with which cluster-info is not signed */
        char groups[1024];            /* as nb_text_list_add() */
        char token[NB_TOKEN_LEN + 1]; /* one that may authenticate; "" for none */

        struct nb_policy policy;
        char networks[256]; /* of Services, which the policy lacks */

        /* Of the requests. */
        const char *client_ca; /* NULL: not known */
        unsigned n_unissued, n_pending, n_issued, n_untrusted;
        time_t oldest;                /* of those that are pending */
        char issuer[NB_SUBJECT_SIZE]; /* of one that no API server trusts */
};

static void verification_done(struct verification *verification) {
        nb_json_done(&verification->info);
        nb_json_done(&verification->client_ca_info);
        nb_cluster_done(&verification->cluster);
        explicit_bzero(verification->token, sizeof(verification->token));
}

__attribute__((format(printf, 4, 5))) static void report(struct verification *verification,
                                                         enum level level, const char *remedy,
                                                         const char *format, ...) {
        static const char *const words[] = { "warning", "PROBLEM", "not known" };
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
        const struct nb_cluster *own = &verification->admin->cluster;
        int r = nb_publication_read(verification->admin, &verification->info,
                                    &verification->cluster, f);

        if (r < 0 && f->code != NB_ADMIN_MISSING && f->code != NB_CLUSTER_INFO_UNACCEPTABLE)
                return r;
        if (r < 0) {
                report(verification, LEVEL_PROBLEM, PUBLISH " repairs it", "%s", f->detail);
                nb_failure_clear(f);
                return 0;
        }
        verification->kubeconfig = nb_json_string(&verification->info, "data.kubeconfig");
        r = own->ca ? nb_publication_has_ca(&verification->cluster, own, f) : 1;
        if (r < 0)
                return r;
        if (r > 0)
                printf(OK "cluster-info exists%s\n",
                       own->ca ? ", with the CA certificates of the kubeconfig" : "");
        else
                report(verification, LEVEL_PROBLEM, PUBLISH " shows the difference",
                       "cluster-info has other CA certificates than the kubeconfig");
        return 0;
}

/* Asks as a joining machine does: without a credential, at the server in cluster-info, with its
 * CAs. */
static int check_anonymous(struct verification *verification, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
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
        r = nb_api_init(&api, &verification->cluster, NULL, nb_now_ms() + TIMEOUT_MS, f);
        if (r >= 0)
                r = nb_cluster_info_fetch_verified(&api, &info, f);
        if (r == -ECANCELED && f->code == NB_NONE)
                return r;
        if (r >= 0)
                printf(OK "anybody can read cluster-info at %s\n", server);
        else if (f->http_status == 401 || f->http_status == 403) {
                report(verification, LEVEL_PROBLEM,
                       PUBLISH " repairs the Role and RoleBinding; if they exist, allow anonymous "
                               "requests for the path:",
                       "machines without a credential cannot read cluster-info at %s (%ld)", server,
                       f->http_status);
                printf(STANZA);
        } else
                report(verification, LEVEL_PROBLEM,
                       "make the address reachable, with a certificate of that CA, or name another "
                       "server with `node-bootstrap-admin cluster-info publish --server=URL "
                       "--force`",
                       "%s", f->detail);
        nb_failure_clear(f);
        return 0;
}

/* --- Tokens --- */

static int check_signature(struct verification *verification,
                           const struct nb_bootstrap_token *token) {
        char expected[NB_JWS_LEN + 1];
        struct nb_buffer signature = NB_BUFFER_IN(expected);
        char path[64];
        const char *found;
        int r;

        if (!verification->kubeconfig || !token->may_sign)
                return 0;
        verification->n_signing++;
        snprintf(path, sizeof(path), "data." NB_SIGNATURE_PREFIX "%s", token->id);
        found = nb_json_string(&verification->info, path);
        r = nb_jws_sign(token->id, token->secret, NB_TOKEN_SECRET_LEN, verification->kubeconfig,
                        &signature);
        if (r < 0)
                return r;
        if (found && !strcmp(found, expected))
                return 0;
        verification->n_not_signed++;
        nb_text_list_add(verification->not_signed, sizeof(verification->not_signed), token->id);
        return 0;
}

/* `token list` reports what cannot be read. */
static int visit_secret(void *userdata, struct nb_json *item) {
        struct verification *verification = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };

        nb_bootstrap_token_read(item, &token);
        if (item->r < 0 || token.flaw)
                return item->r;
        if (nb_bootstrap_token_is_expired(token.expires, verification->now)) {
                verification->n_expired += token.expires + SLACK_SEC < verification->now;
                return 0;
        }
        verification->n_tokens++;
        if (check_signature(verification, &token) < 0)
                return nb_failure_set_memory(item->f);
        if (!token.may_authenticate)
                return 0;
        verification->n_restricted += strstr(token.groups, NB_TOKEN_GROUP_NODE) != NULL;
        snprintf(verification->token, sizeof(verification->token), "%s.%.*s", token.id,
                 NB_TOKEN_SECRET_LEN, token.secret);
        for (char *next = token.groups, *group; (group = strsep(&next, ","));)
                if (group[0])
                        nb_text_list_add(verification->groups, sizeof(verification->groups), group);
        return 0;
}

static int check_tokens(struct verification *verification, struct nb_failure *f) {
        int r = nb_admin_list(verification->admin, "the tokens", NB_TOKENS_PATH, visit_secret,
                              verification, f);
        const unsigned n_left_out = verification->n_signing > NB_SIGNATURES_MAX
                                            ? verification->n_signing - NB_SIGNATURES_MAX
                                            : 0;

        if (r < 0)
                return r;
        verification->are_tokens_known = true;
        if (verification->n_expired > 0)
                report(verification, LEVEL_WARNING, RUN_CONTROLLERS,
                       "expired tokens that were not removed: %u; no tokencleaner is running",
                       verification->n_expired);
        if (n_left_out > 0)
                report(verification, LEVEL_WARNING,
                       "revoke tokens that are not used, or create tokens with `token create "
                       "--no-signing` for machines with a discovery file",
                       "cluster-info has room for %d signatures; the oldest %u tokens have none, "
                       "and cannot be used for discovery",
                       NB_SIGNATURES_MAX, n_left_out);
        if (verification->n_not_signed > n_left_out)
                report(verification, LEVEL_PROBLEM, RUN_CONTROLLERS,
                       "cluster-info is not signed, or wrongly, with these of %u tokens: %s. No "
                       "bootstrapsigner is running",
                       verification->n_tokens, verification->not_signed);
        else if (verification->kubeconfig)
                printf(OK "cluster-info is signed with all tokens that may sign (%u)\n",
                       verification->n_signing - n_left_out);
        return 0;
}

/* Whether the API server accepts a token that it should accept. Audit logs keep the body of a
 * TokenReview, and so a live token; of this request they keep that the token was used. */
static int check_authentication(struct verification *verification, struct nb_failure *f) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        if (!verification->token[0]) {
                if (verification->are_tokens_known)
                        report(verification, LEVEL_UNKNOWN, NULL,
                               "whether the API server accepts bootstrap tokens: there is none "
                               "that may authenticate");
                return 0;
        }
        if (nb_identity_set_token(&identity, verification->token, NB_TOKEN_LEN,
                                  "Secret of the token") < 0)
                return nb_failure_set_memory(f);
        r = nb_api_init(&api, &verification->admin->cluster, &identity, nb_now_ms() + TIMEOUT_MS,
                        f);
        if (r >= 0)
                r = nb_right_read(&api, NB_RIGHT_CREATE_CSR, f);
        if (r < 0 && f->code != NB_TOKEN_REJECTED)
                return r;
        if (r >= 0)
                printf(OK "the API server accepts bootstrap tokens\n");
        else
                report(verification, LEVEL_PROBLEM,
                       "run kube-apiserver with --enable-bootstrap-token-auth",
                       "the API server rejects the bootstrap token %s", identity.token_id);
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
                                 "approval off; then only `node-bootstrap-admin requests approve` "
                                 "approves "
                                 "these requests",
                       "kube-controller-manager approves every request with a token of the group "
                       "%s: any holder can join as any node",
                       group);
        return r;
}

static int check_groups(struct verification *verification, struct nb_failure *f) {
        int r = 0;

        for (char *next = verification->groups, *group; r >= 0 && (group = strsep(&next, ","));) {
                group += strspn(group, " ");
                if (strcmp(group, "...") == 0)
                        report(verification, LEVEL_UNKNOWN, NULL,
                               "the tokens have too many groups; some were not checked");
                else if (group[0])
                        r = check_group(verification, group, f);
        }
        return r;
}

/* --- Approval and issue --- */

static int check_controller(struct verification *verification, struct nb_failure *f) {
        int r = nb_controller_is_running(verification->admin, f);

        if (r > 0)
                printf(OK "a node-bootstrap controller is running\n");
        else if (r == 0 && verification->n_restricted > 0)
                report(verification, LEVEL_PROBLEM,
                       "start node-bootstrap-controller.service, or approve the requests with "
                       "`node-bootstrap-admin requests approve`",
                       "bound and enrolled tokens: %u, but no controller is running that "
                       "approves their requests",
                       verification->n_restricted);
        else if (r == 0 && verification->are_tokens_known)
                printf(OK "no node-bootstrap controller is running, and no token needs it\n");
        return r;
}

static int visit_networks(void *userdata, struct nb_json *item) {
        struct verification *verification = userdata;
        const ssize_t n = nb_json_array(item, "spec.cidrs");

        for (ssize_t i = 0; i < n; i++) {
                char path[64];
                const char *network;

                snprintf(path, sizeof(path), "spec.cidrs[%zd]", i);
                network = nb_json_string(item, path);
                if (network && !nb_hosts_contain(verification->policy.service_networks, network))
                        nb_text_list_add(verification->networks, sizeof(verification->networks),
                                         network);
        }
        return item->r;
}

/* Kubernetes before 1.33 serves no ServiceCIDRs. */
static int check_policy(struct verification *verification, struct nb_failure *f) {
        struct nb_failure flaw = { 0 };
        int r = nb_facts_read_policy(verification->admin, &verification->policy, &flaw, f);

        if (r >= 0 && verification->policy.serving_prefixes[0])
                r = nb_admin_list(verification->admin, "the ServiceCIDRs",
                                  "/apis/networking.k8s.io/v1/servicecidrs", visit_networks,
                                  verification, f);
        if (r < 0 && f->code != NB_ADMIN_MISSING)
                return r;
        nb_failure_clear(f);
        if (flaw.code == NB_ADMIN_FORBIDDEN) {
                *f = flaw;
                return -EPERM;
        }
        if (flaw.code == NB_ADMIN_MISSING && verification->are_tokens_known &&
            verification->n_restricted == 0)
                printf(OK "%s, and no bound or enrolled token needs it\n", flaw.detail);
        else if (flaw.code != NB_NONE)
                report(verification, LEVEL_PROBLEM,
                       PUBLISH " creates a missing one, without keys such as requireProof; correct "
                               "the keys of another one",
                       "%s; the requests of bound and enrolled tokens stay pending", flaw.detail);
        else if (verification->networks[0])
                report(verification, LEVEL_PROBLEM, "add them to serviceNetworks",
                       "the policy lacks networks of Services, from which a serving certificate "
                       "could have an address: %s",
                       verification->networks);
        else
                printf(OK "the policy can be used\n");
        return 0;
}

/* The CAs that the API servers trust for client certificates, as they publish them. */
static int read_client_ca(struct verification *verification, struct nb_failure *f) {
        struct nb_json *info = &verification->client_ca_info;
        int r = nb_admin_get(verification->admin, "reading the client CA of the API servers",
                             CLIENT_CA_PATH, info, f);

        if (r > 0)
                verification->client_ca = nb_json_string(info, "data.client-ca-file");
        return r < 0 ? r : info->r;
}

static void count_issuer(struct verification *verification, struct nb_json *item) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *issued = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        const char *text = nb_json_string(item, "status.certificate");

        if (!text || nb_base64_decode(text, strlen(text), &pem) < 0 ||
            nb_certificates_parse(pem.data, pem.len, false, &issued) < 0)
                return;
        verification->n_issued++;
        if (!verification->client_ca ||
            nb_certificate_is_trusted_by_bundle(issued, verification->client_ca,
                                                strlen(verification->client_ca)))
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
        int r = nb_admin_list(verification->admin, "the requests", NB_CSRS_PATH, visit_request,
                              verification, f);

        if (r < 0)
                return r;
        if (verification->n_unissued > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with --cluster-signing-cert-file and "
                       "--cluster-signing-key-file",
                       "approved requests of nodes without a certificate: %u; nobody signs them",
                       verification->n_unissued);
        else
                printf(OK "no approved request of a node waits for its certificate\n");
        if (verification->n_untrusted > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with a --cluster-signing-cert-file that the "
                       "--client-ca-file of kube-apiserver has",
                       "certificates of nodes that the API servers do not trust: %u, issued by "
                       "'%s'",
                       verification->n_untrusted, verification->issuer);
        else if (verification->n_issued > 0 && verification->client_ca)
                printf(OK "the API servers trust the CA that issues certificates of nodes\n");
        if (verification->n_pending == 0) {
                printf(OK "no request of a node is pending\n");
                return 0;
        }
        nb_time_format(verification->oldest, oldest);
        report(verification, LEVEL_WARNING, "`node-bootstrap-admin requests list` shows them",
               "pending requests of nodes: %u, the oldest since %s", verification->n_pending,
               oldest);
        return 0;
}

int nb_publication_verify(struct nb_admin *admin, struct nb_failure *f) {
        static int (*const checks[])(struct verification *, struct nb_failure *) = {
                check_cluster_info,   check_anonymous, check_tokens,
                check_authentication, check_groups,    check_controller,
                check_policy,         read_client_ca,  check_requests,
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
