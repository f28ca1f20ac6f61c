/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/commands/cluster_info_command.h"
#include "admin/commands/cluster_info_requests.h"
#include "admin/controller/lease.h"
#include "admin/controller/signatures.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "admin/policy/token_secret.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "kube/jws.h"
#include "kube_api/cluster_calls.h"
#include "system/clock.h"

#define ANONYMOUS_TIMEOUT_MS 15000
#define GROUPS_MAX 16
#define SLACK_SEC 60 /* for kube-controller-manager to sign or to delete */
#define REVIEWS_PATH "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#define TOKEN_REVIEWS_PATH "/apis/authentication.k8s.io/v1/tokenreviews"
#define BODY_MAX ((size_t)4096)

/* For the API server's --authentication-config (Kubernetes 1.34 or newer), which replaces
 * --anonymous-auth. */
#define STANZA \
        "        apiVersion: apiserver.config.k8s.io/v1\n" \
        "        kind: AuthenticationConfiguration\n" \
        "        anonymous:\n" \
        "          enabled: true\n" \
        "          conditions:\n" \
        "          - path: " NB_CLUSTER_INFO_PATH "\n"

/* UNTRIED is not known, either, but another line, or the absence of anything to try, is the cause.
 */
enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_PROBLEM, LEVEL_UNKNOWN, LEVEL_UNTRIED };

struct verification {
        struct nb_admin *admin;
        struct nb_json info; /* without a root: there is no cluster-info */
        struct nb_cluster cluster;
        const char *kubeconfig; /* in `info` */
        time_t now;
        unsigned n_problems, n_unknown;

        /* Of the tokens. */
        bool are_tokens_known;
        unsigned n_tokens, n_expired, n_unsigned, n_wrongly_signed, n_for_node;
        char unsigned_id[NB_TOKEN_ID_LEN + 1]; /* one of them */
        char groups[GROUPS_MAX][NB_TOKEN_GROUPS_MAX + 1];
        unsigned n_groups;
        struct nb_bootstrap_token token; /* one that may authenticate; "" for none */
};

__attribute__((format(printf, 4, 5))) static void report(struct verification *verification,
                                                         enum level level, const char *remedy,
                                                         const char *format, ...) {
        static const char *const words[] = { "ok", "warning", "PROBLEM", "not known", "not known" };
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
        verification->n_unknown += level == LEVEL_UNKNOWN;
}

/* A check that fails for lack of a permission does not end the others. An API server that does not
 * answer ends the command. */
static int report_failure(struct verification *verification, int r, struct nb_failure *f) {
        if (f->code != NB_ADMIN_FORBIDDEN && f->code != NB_ADMIN_MISSING)
                return r;
        report(verification, LEVEL_UNKNOWN, NULL, "%s", f->detail);
        nb_failure_clear(f);
        return 0;
}

static int report_untried(struct verification *verification, const char *what, const char *why) {
        report(verification, LEVEL_UNTRIED, NULL, "%s: %s", what, why);
        return 0;
}

/* --- cluster-info --- */

static int check_cluster_info(struct verification *verification, struct nb_failure *f) {
        static const char what[] = "reading the ConfigMap kube-public/cluster-info";
        int r = nb_admin_get(verification->admin, what, NB_CLUSTER_INFO_PATH, &verification->info,
                             f);

        if (r < 0)
                return report_failure(verification, r, f);
        if (r > 0)
                verification->kubeconfig = nb_json_string(&verification->info, "data.kubeconfig");
        if (r == 0 || !verification->kubeconfig) {
                report(verification, LEVEL_PROBLEM,
                       "`node-bootstrap-admin cluster-info publish` creates it",
                       "there is no ConfigMap kube-public/cluster-info with a kubeconfig");
                return 0;
        }
        r = nb_publication_parse(verification->kubeconfig, &verification->cluster, f);
        if (r >= 0) {
                report(verification, LEVEL_OK, NULL, "cluster-info exists");
                return 0;
        }
        report(verification, LEVEL_PROBLEM,
               "`node-bootstrap-admin cluster-info publish` repairs it", "%s", f->detail);
        nb_failure_clear(f);
        verification->kubeconfig = NULL;
        return 0;
}

static int check_ca(struct verification *verification, struct nb_failure *f) {
        const struct nb_cluster *own = &verification->admin->cluster;
        _cleanup_(nb_certificates_freep) struct nb_certificates *published = NULL, *ca = NULL;
        int r;

        if (!verification->kubeconfig || !own->ca)
                return report_untried(
                        verification, "whether the CA certificates are the right ones",
                        own->ca ? "no cluster-info was read" : "the kubeconfig has none");
        r = nb_certificates_parse(own->ca, own->ca_len, false, &ca);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r,
                                      "%s: expected CA certificates, found %s",
                                      verification->admin->origin, nb_certificates_reason(r));
        r = nb_certificates_parse(verification->cluster.ca, verification->cluster.ca_len, false,
                                  &published);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0) {
                report(verification, LEVEL_PROBLEM,
                       "`node-bootstrap-admin cluster-info publish` repairs it",
                       "cluster-info: expected CA certificates, found %s",
                       nb_certificates_reason(r));
                verification->kubeconfig = NULL;
                return 0;
        }
        if (nb_certificates_are_equal(ca, published))
                report(verification, LEVEL_OK, NULL,
                       "cluster-info and the kubeconfig have the same CA certificates");
        else
                report(verification, LEVEL_PROBLEM,
                       "`node-bootstrap-admin cluster-info publish` shows the difference",
                       "cluster-info has other CA certificates than the kubeconfig");
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
                return report_untried(verification, "whether anybody can read cluster-info",
                                      "it names no usable server and CA");
        nb_endpoint_format(&verification->cluster.server, server);
        if (nb_host_is_loopback(verification->cluster.server.host))
                report(verification, LEVEL_PROBLEM,
                       "`node-bootstrap-admin cluster-info publish --server=URL --force` replaces "
                       "it",
                       "cluster-info names %s, which other machines cannot reach", server);
        r = nb_api_init(&api, &verification->cluster, NULL, nb_now_ms() + ANONYMOUS_TIMEOUT_MS,
                        &failure);
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
                               : "`node-bootstrap-admin cluster-info publish` repairs the Role and "
                                 "RoleBinding; if they exist, allow the path:",
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
        }
}

/* 1: signed; 0: not signed; -EBADMSG: with another signature. */
static int compare_signature(struct verification *verification,
                             const struct nb_token_secret *secret) {
        _cleanup_(nb_buffer_done) struct nb_buffer expected = NB_BUFFER_INIT(BODY_MAX);
        struct nb_signature signature = { 0 };
        char path[64];
        const char *found;
        int r;

        snprintf(path, sizeof(path), "data." NB_SIGNATURE_PREFIX "%s", secret->signer_id);
        found = nb_json_string(&verification->info, path);
        if (!found)
                return 0;
        memcpy(signature.id, secret->signer_id, sizeof(signature.id));
        r = nb_signature_compute(&signature, secret, verification->kubeconfig,
                                 strlen(verification->kubeconfig));
        if (r < 0)
                return r;
        nb_jws_format(secret->signer_id, NB_JWS_SIGNATURE, signature.mac, sizeof(signature.mac),
                      &expected);
        if (expected.error < 0)
                return expected.error;
        return strcmp(found, expected.data) == 0 ? 1 : -EBADMSG;
}

static int count_signature(struct verification *verification,
                           const struct nb_token_secret *secret) {
        int r;

        if (!verification->kubeconfig || !secret->signer_id[0])
                return 0;
        r = compare_signature(verification, secret);
        if (r < 0 && r != -EBADMSG)
                return r;
        verification->n_wrongly_signed += r == -EBADMSG;
        verification->n_unsigned += r == 0;
        if (r != 1)
                memcpy(verification->unsigned_id, secret->signer_id, sizeof(secret->signer_id));
        return 0;
}

static int visit_secret(void *userdata, struct nb_json *item) {
        struct verification *verification = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        _cleanup_(nb_token_secret_done) struct nb_token_secret secret = { 0 };
        struct nb_failure ignored = { 0 };
        struct nb_json json = { item->root, item->what, item->code, &ignored, 0 };
        int r;

        nb_token_secret_read(item, &secret);
        if (item->r < 0)
                return item->r;
        verification->n_tokens++;
        if (nb_token_secret_is_expired(secret.expires, verification->now)) {
                verification->n_expired += secret.expires + SLACK_SEC < verification->now;
                return 0;
        }
        r = count_signature(verification, &secret);
        if (r < 0)
                return nb_failure_set_memory(item->f);
        nb_bootstrap_token_read(&json, &token);
        if (json.r < 0)
                return 0; /* `token list` reports it */
        verification->n_for_node += token.node[0] != '\0';
        if (token.may_authenticate) {
                add_groups(verification, token.groups);
                verification->token = token;
        }
        return 0;
}

static int check_tokens(struct verification *verification, struct nb_failure *f) {
        int r = nb_admin_list(verification->admin, "listing the tokens",
                              NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY, visit_secret,
                              verification, NULL, f);

        if (r < 0)
                return report_failure(verification, r, f);
        verification->are_tokens_known = true;
        if (verification->n_expired > 0)
                report(verification, LEVEL_WARNING,
                       "run kube-controller-manager with --controllers=*,bootstrapsigner,"
                       "tokencleaner, or node-bootstrap-controller.service",
                       "expired tokens that were not removed: %u; no tokencleaner is running",
                       verification->n_expired);
        if (verification->n_unsigned + verification->n_wrongly_signed > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with --controllers=*,bootstrapsigner,"
                       "tokencleaner, or node-bootstrap-controller.service",
                       "cluster-info is not signed with %u of %u tokens, and wrongly signed with "
                       "%u, such as %s: no bootstrapsigner is running",
                       verification->n_unsigned, verification->n_tokens,
                       verification->n_wrongly_signed, verification->unsigned_id);
        else if (verification->kubeconfig)
                report(verification, LEVEL_OK, NULL, "cluster-info is signed with all tokens (%u)",
                       verification->n_tokens - verification->n_expired);
        else
                return report_untried(verification, "whether cluster-info is signed",
                                      "it has no usable kubeconfig");
        return 0;
}

/* --- Reviews --- */

/* Submits a review. 1: status.KEY is true; 0: it is not. */
static int review(struct verification *verification, const char *what, const char *path,
                  const struct nb_buffer *body, const char *key, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_json json;
        int r;

        if (body->error < 0)
                return nb_failure_set_memory(f);
        r = nb_admin_perform(verification->admin,
                             &(const struct nb_admin_call){ .method = "POST",
                                                            .what = what,
                                                            .path = path,
                                                            .body = body->data,
                                                            .body_len = body->len },
                             &answer, f);
        if (r < 0)
                return r;
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "%s: the API server does not serve it", what);
        json = nb_json_parse(nb_answer_text(&answer), answer.body.len, what, NB_ANSWER_MALFORMED,
                             f);
        r = nb_json_boolean(&json, key);
        if (json.r < 0)
                r = json.r;
        nb_json_done(&json);
        if (answer.body.data)
                explicit_bzero(answer.body.data, answer.body.len);
        return r < 0 && f->code == NB_NONE ? 0 : r;
}

/* Asks whether the API server accepts a token that it should accept. */
static int check_authentication(struct verification *verification, struct nb_failure *f) {
        const struct nb_bootstrap_token *token = &verification->token;
        struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        int r;

        if (!token->id[0])
                return report_untried(
                        verification, "whether the API server accepts bootstrap tokens",
                        verification->are_tokens_known ? "there is none that may authenticate"
                                                       : "the tokens could not be listed");
        nb_buffer_printf(&body,
                         "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\","
                         "\"spec\":{\"token\":\"%s.%s\"}}",
                         token->id, token->secret);
        r = review(verification, "reviewing a token", TOKEN_REVIEWS_PATH, &body,
                   "status.authenticated", f);
        if (body.data)
                explicit_bzero(body.data, body.allocated);
        nb_buffer_done(&body);
        if (r < 0)
                return report_failure(verification, r, f);
        if (r > 0)
                report(verification, LEVEL_OK, NULL, "the API server accepts bootstrap tokens");
        else
                report(verification, LEVEL_PROBLEM,
                       "run kube-apiserver with --enable-bootstrap-token-auth",
                       "the API server rejects the bootstrap token %s", token->id);
        return 0;
}

/* Whether a token of the group may create this subresource of CSRs. */
static int review_group(struct verification *verification, const char *group,
                        const char *subresource, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);

        nb_buffer_printf(&body, "{\"apiVersion\":\"authorization.k8s.io/v1\","
                                "\"kind\":\"SubjectAccessReview\","
                                "\"spec\":{\"user\":\"" NB_BOOTSTRAP_USER_PREFIX "aaaaaa\","
                                "\"groups\":[\"system:bootstrappers\",\"system:authenticated\",");
        nb_json_quote(group, strlen(group), &body);
        nb_buffer_printf(&body,
                         "],\"resourceAttributes\":{\"group\":\"certificates.k8s.io\","
                         "\"resource\":\"certificatesigningrequests\",\"subresource\":\"%s\","
                         "\"verb\":\"create\"}}}",
                         subresource);
        return review(verification, "reviewing the rights of tokens", REVIEWS_PATH, &body,
                      "status.allowed", f);
}

static int check_group(struct verification *verification, const char *group, struct nb_failure *f) {
        const bool is_for_node = !strcmp(group, NB_TOKEN_GROUP_NODE);
        int r = review_group(verification, group, "", f);

        if (r < 0)
                return report_failure(verification, r, f);
        if (r == 0)
                report(verification, LEVEL_PROBLEM,
                       "`node-bootstrap-admin cluster-info publish` creates the bindings of "
                       "kubeadm's and this program's groups",
                       "tokens of the group %s may not submit requests", group);
        r = review_group(verification, group, "nodeclient", f);
        if (r < 0)
                return report_failure(verification, r, f);
        if (r > 0)
                report(verification, is_for_node ? LEVEL_PROBLEM : LEVEL_WARNING,
                       is_for_node
                               ? "remove the binding of this group, or of system:bootstrappers, to "
                                 "the ClusterRole ...:certificatesigningrequests:nodeclient"
                               : "`node-bootstrap-admin token create --node` creates tokens for "
                                 "one node",
                       "kube-controller-manager approves every request with a token of the group "
                       "%s: any holder can join as any node",
                       group);
        return 0;
}

static int check_groups(struct verification *verification, struct nb_failure *f) {
        if (!verification->are_tokens_known)
                return report_untried(verification, "what tokens may do",
                                      "they could not be listed");
        for (unsigned i = 0; i < verification->n_groups; i++) {
                int r = check_group(verification, verification->groups[i], f);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Approval and issue --- */

static int check_controller(struct verification *verification, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *renewed, *holder;
        time_t when = 0;
        int r = nb_admin_get(verification->admin, "reading the Lease of the controller",
                             NB_LEASES_PATH "/" NB_LEASE_NAME, &json, f);

        if (r < 0)
                return report_failure(verification, r, f);
        renewed = r > 0 ? nb_json_string(&json, "spec.renewTime") : NULL;
        holder = r > 0 ? nb_json_string(&json, "spec.holderIdentity") : NULL;
        if (renewed && nb_rfc3339_parse(renewed, &when) < 0)
                when = 0;
        if (holder && holder[0] && verification->now - when <= 2 * NB_LEASE_DURATION_SEC)
                report(verification, LEVEL_OK, NULL, "a node-bootstrap controller is running");
        else if (verification->n_for_node > 0)
                report(verification, LEVEL_PROBLEM,
                       "start node-bootstrap-controller.service, or approve the requests with "
                       "`node-bootstrap-admin approve`",
                       "tokens for one node: %u, but no controller is running that "
                       "approves their requests",
                       verification->n_for_node);
        else if (verification->are_tokens_known)
                report(verification, LEVEL_OK, NULL,
                       "no node-bootstrap controller is running, and no token needs it");
        else
                return report_untried(verification, "whether a token needs a controller",
                                      "none is running, and the tokens could not be listed");
        return 0;
}

static void report_issue(struct verification *verification, const struct nb_requests_found *found) {
        if (found->n_unissued > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with --cluster-signing-cert-file and "
                       "--cluster-signing-key-file",
                       "approved requests of nodes without a certificate: %u; nobody signs them",
                       found->n_unissued);
        else
                report(verification, LEVEL_OK, NULL,
                       "no approved request of a node waits for its certificate");
}

static void report_issuer(struct verification *verification,
                          const struct nb_requests_found *found) {
        if (found->n_untrusted > 0)
                report(verification, LEVEL_PROBLEM,
                       "run kube-controller-manager with a --cluster-signing-cert-file that the "
                       "--client-ca-file of kube-apiserver has",
                       "certificates of nodes that the API servers do not trust: %u, issued by "
                       "'%s'",
                       found->n_untrusted, found->issuer);
        else if (found->n_issued == 0 || !found->client_ca)
                (void)report_untried(verification, "whether the API servers trust the signing CA",
                                     found->client_ca ? "there is no certificate of a node to see"
                                                      : "which CAs they trust is not known");
        else
                report(verification, LEVEL_OK, NULL,
                       "the API servers trust the CA that issues certificates of nodes");
}

static void report_pending(struct verification *verification,
                           const struct nb_requests_found *found) {
        char oldest[NB_RFC3339_SIZE];

        if (found->n_pending == 0) {
                report(verification, LEVEL_OK, NULL, "no request of a node is pending");
                return;
        }
        nb_time_format(found->oldest, oldest);
        report(verification, LEVEL_WARNING, "`node-bootstrap-admin approve` shows them",
               "pending requests of nodes: %u, the oldest since %s", found->n_pending, oldest);
}

static int check_requests(struct verification *verification, struct nb_failure *f) {
        _cleanup_(nb_requests_found_done) struct nb_requests_found found = { 0 };
        int r = nb_client_ca_read(verification->admin, &found.client_ca, f);

        if (r < 0)
                r = report_failure(verification, r, f);
        if (r < 0)
                return r;
        r = nb_requests_examine(verification->admin, verification->now - SLACK_SEC, &found, f);
        if (r < 0)
                return report_failure(verification, r, f);
        report_issue(verification, &found);
        report_issuer(verification, &found);
        report_pending(verification, &found);
        return 0;
}

static void verification_done(struct verification *verification) {
        nb_json_done(&verification->info);
        nb_cluster_done(&verification->cluster);
        nb_bootstrap_token_done(&verification->token);
}

int nb_publication_verify(struct nb_admin *admin, struct nb_failure *f) {
        static int (*const checks[])(struct verification *, struct nb_failure *) = {
                check_cluster_info,   check_ca,     check_anonymous,  check_tokens,
                check_authentication, check_groups, check_controller, check_requests,
        };
        _cleanup_(verification_done) struct verification verification = { .admin = admin,
                                                                          .now = time(NULL) };

        for (size_t i = 0; i < N_ELEMENTS(checks); i++) {
                int r = checks[i](&verification, f);

                if (r < 0)
                        return r;
                fflush(stdout);
        }
        return verification.n_problems > 0 ? 1 : verification.n_unknown > 0 ? 2 : 0;
}
