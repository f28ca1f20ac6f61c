/* SPDX-License-Identifier: Apache-2.0 */
/* `node-bootstrap-admin cluster-info publish` and `show`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/commands/admin_commands.h"
#include "admin/policy/address.h"
#include "admin/policy/cluster_policy.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "kube_objects/cluster_info.h"
#include "kube_objects/pin.h"
#include "os/clock.h"

#define RBAC "rbac.authorization.k8s.io"
#define RBAC_PATH "/apis/" RBAC "/v1/"
#define CA_MAX ((size_t)1024 * 1024)
#define OBJECT_MAX ((size_t)64 * 1024)
#define LINE_SIZE 1024 /* of what another object has, for the terminal */

/* cluster-info, the policy, or an object of RBAC. The JSON below is what the API server writes,
 * with the members in its order, so that it can be compared as text. */
struct row {
        const char *kind, *name;
        const char *collection;   /* path */
        const char *role;         /* of a binding: its roleRef, which nobody can change */
        const char *field, *item; /* the list that decides, and what it has to have */
        const char *group;        /* of a binding for tokens */
        bool is_public;           /* in the namespace kube-public */
        bool is_auto_approval;
        bool is_policy; /* which is an administrator's, so one that exists stays as it is */
};

#define IN_PUBLIC(object_kind, object_name, path) \
        .kind = (object_kind), .name = (object_name), .collection = (path), .is_public = true
#define RULE(resource, names) \
        .field = "rules", \
        .item = "{\"verbs\":[\"get\"],\"apiGroups\":[\"\"],\"resources\":[\"" resource "\"]" names \
                "}"
#define BINDING(role_kind, role_name, subject_kind, subject) \
        .role = "{\"apiGroup\":\"" RBAC "\",\"kind\":\"" role_kind "\",\"name\":\"" role_name \
                "\"}", \
        .field = "subjects", \
        .item = "{\"kind\":\"" subject_kind "\",\"apiGroup\":\"" RBAC "\",\"name\":\"" subject \
                "\"}"
#define CLUSTER_BINDING(object_name, role_name, subject) \
        .kind = "ClusterRoleBinding", .name = (object_name), \
        .collection = RBAC_PATH "clusterrolebindings", .group = (subject), \
        BINDING("ClusterRole", role_name, "Group", subject)
#define ANONYMOUS "kubeadm:bootstrap-signer-clusterinfo"
#define BOOTSTRAPPER "system:node-bootstrapper"
#define APPROVAL "system:certificates.k8s.io:certificatesigningrequests:"

static const struct row rows[] = {
        { IN_PUBLIC("ConfigMap", "cluster-info", "/api/v1/namespaces/kube-public/configmaps") },
        { IN_PUBLIC("Role", ANONYMOUS, RBAC_PATH "namespaces/kube-public/roles"),
          RULE("configmaps", ",\"resourceNames\":[\"cluster-info\"]") },
        { IN_PUBLIC("RoleBinding", ANONYMOUS, RBAC_PATH "namespaces/kube-public/rolebindings"),
          BINDING("Role", ANONYMOUS, "User", "system:anonymous") },
        { .kind = "ClusterRole",
          .name = "kubeadm:get-nodes",
          .collection = RBAC_PATH "clusterroles",
          RULE("nodes", "") },
        { CLUSTER_BINDING("kubeadm:get-nodes", "kubeadm:get-nodes", NB_TOKEN_GROUP_DEFAULT) },
        { CLUSTER_BINDING("kubeadm:kubelet-bootstrap", BOOTSTRAPPER, NB_TOKEN_GROUP_DEFAULT) },
        { CLUSTER_BINDING("kubeadm:node-autoapprove-certificate-rotation",
                          APPROVAL "selfnodeclient", "system:nodes") },
        { CLUSTER_BINDING("kubeadm:node-autoapprove-bootstrap", APPROVAL "nodeclient",
                          NB_TOKEN_GROUP_DEFAULT),
          .is_auto_approval = true },
        { CLUSTER_BINDING("node-bootstrap:kubelet-bootstrap", BOOTSTRAPPER, NB_TOKEN_GROUP_NODE) },
        { CLUSTER_BINDING("node-bootstrap:enrolled-bootstrap", BOOTSTRAPPER,
                          NB_TOKEN_GROUP_ENROLLED) },
        { .kind = "ConfigMap",
          .name = NB_POLICY_NAME,
          .collection = "/api/v1/namespaces/kube-system/configmaps",
          .is_policy = true },
};

struct publication {
        struct nb_admin *admin;
        struct nb_cluster cluster; /* for cluster-info; owns nothing */
        bool is_dry_run, is_forced, is_auto_approved;
};

/* One object: how it is, and the request that makes it as it should be. */
struct plan {
        const struct row *row;
        char title[128]; /* "Role kubeadm:bootstrap-signer-clusterinfo" */
        char path[NB_ADMIN_PATH_MAX];
        struct nb_json found; /* without a root if the object does not exist */
        struct nb_buffer body;
};

static void plan_done(struct plan *plan) {
        nb_json_done(&plan->found);
        nb_buffer_done(&plan->body);
}

/* --- cluster-info --- */

bool nb_host_is_loopback(const char *host) {
        char folded[NB_HOST_SIZE];

        return !strcmp(host, "localhost") ||
               (nb_host_fold(host, folded) >= 0 && nb_hosts_contain("127.0.0.0/8,::1/128", folded));
}

int nb_publication_read(struct nb_admin *admin, struct nb_json *ret_info,
                        struct nb_cluster *ret_cluster, struct nb_failure *f) {
        int r = nb_admin_get(admin, "reading the ConfigMap kube-public/cluster-info",
                             NB_CLUSTER_INFO_PATH, ret_info, f);
        const char *kubeconfig = r > 0 ? nb_json_string(ret_info, "data.kubeconfig") : NULL;

        if (r < 0)
                return r;
        if (!kubeconfig)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "there is no ConfigMap kube-public/cluster-info with a "
                                      "kubeconfig, so no machine can join; `node-bootstrap-admin "
                                      "cluster-info publish` creates it");
        return nb_cluster_info_parse_cluster(kubeconfig, ret_cluster, f);
}

size_t nb_publication_count(struct nb_json *info) {
        size_t n = 0;

        for (const char *key = NULL; (key = nb_json_next_key(info, "data", key));)
                n += strncmp(key, NB_SIGNATURE_PREFIX, strlen(NB_SIGNATURE_PREFIX)) == 0;
        return n;
}

int nb_publication_select_cas(const struct nb_cluster *cluster, struct nb_ca_selection *ret,
                              struct nb_failure *f) {
        static const struct nb_ca_criteria criteria = { .choice = NB_CA_ALL_UNPINNED,
                                                        .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                        .mismatch = NB_CLUSTER_INFO_UNACCEPTABLE };
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(CA_MAX);

        return nb_ca_select(cluster->ca, cluster->ca_len, &criteria, &pem, ret, f);
}

int nb_publication_has_ca(const struct nb_cluster *published, const struct nb_cluster *own,
                          struct nb_failure *f) {
        struct nb_failure unusable = { 0 };
        struct nb_ca_selection found, wanted;
        unsigned n = 0;

        if (nb_publication_select_cas(published, &found, &unusable) < 0)
                return unusable.code == NB_INTERNAL ? nb_failure_set_memory(f) : 0;
        if (nb_publication_select_cas(own, &wanted, f) < 0)
                return -EINVAL;
        for (unsigned i = 0; i < found.n_taken; i++)
                for (unsigned k = 0; k < wanted.n_taken; k++)
                        n += nb_digest_is_equal(found.taken[i], wanted.taken[k]);
        return n == found.n_taken && n == wanted.n_taken;
}

/* 1: its kubeconfig is equivalent, for example because another version of kubeadm wrote it, and
 * stays; 0: it is replaced. */
static int verify_cluster(struct plan *plan, const struct publication *publication,
                          struct nb_failure *f) {
        const struct nb_cluster *wanted = &publication->cluster;
        const char *text = nb_json_string(&plan->found, "data.kubeconfig");
        _cleanup_(nb_cluster_done) struct nb_cluster found = { 0 };
        struct nb_failure unusable = { 0 };
        char found_server[NB_URL_MAX], wanted_server[NB_URL_MAX];
        bool is_same;
        int has_ca;

        if (plan->found.r < 0 || !text)
                return plan->found.r;
        if (nb_cluster_info_parse_cluster(text, &found, &unusable) < 0)
                return unusable.code == NB_INTERNAL ? nb_failure_set_memory(f) : 0;
        has_ca = nb_publication_has_ca(&found, wanted, f);
        if (has_ca < 0)
                return has_ca;
        is_same = has_ca && nb_url_is_equal(&found.server, &wanted->server);
        if (is_same || publication->is_forced)
                return is_same;
        nb_url_format(&found.server, found_server);
        nb_url_format(&wanted->server, wanted_server);
        return nb_failure_set(
                f, NB_ADMIN_WRONG_CLUSTER, 0, "%s: it names %s: expected %s, found %s", plan->title,
                has_ca ? "another server of this cluster" : "another CA than the kubeconfig",
                wanted_server, found_server);
}

/* As kubeadm writes it, byte for byte. */
static void format_kubeconfig(const struct nb_cluster *cluster, struct nb_buffer *ret) {
        char server[NB_URL_MAX];

        nb_url_format(&cluster->server, server);
        nb_buffer_append_string(ret, "apiVersion: v1\n"
                                     "clusters:\n"
                                     "- cluster:\n"
                                     "    certificate-authority-data: ");
        nb_base64_encode(cluster->ca, cluster->ca_len, ret);
        nb_buffer_printf(ret,
                         "\n"
                         "    server: %s\n"
                         "  name: \"\"\n"
                         "contexts: null\n"
                         "current-context: \"\"\n"
                         "kind: Config\n"
                         "preferences: {}\n"
                         "users: null\n",
                         server);
}

/* --- Planning --- */

/* The list that decides, as the API server wrote it; "[]" if it is missing. */
static const char *list_of(struct plan *plan) {
        const char *list = plan->found.root ? nb_json_text(&plan->found, plan->row->field, '[')
                                            : NULL;

        return list ? list : "[]";
}

/* 1: it is as it should be, or has more subjects, which an administrator has added; 0: it is not.
 */
static int verify_list(struct plan *plan, struct nb_failure *f) {
        const struct row *row = plan->row;
        const char *list = list_of(plan), *role;

        if (!row->role)
                return strlen(list) == strlen(row->item) + 2 &&
                       !strncmp(list + 1, row->item, strlen(row->item));
        role = nb_json_text(&plan->found, "roleRef", '{');
        if (plan->found.r < 0)
                return plan->found.r;
        if (role && !strcmp(role, row->role))
                return strstr(list, row->item) != NULL;
        return nb_failure_set(
                f, NB_ADMIN_EXISTS, 0,
                "%s: a roleRef cannot be changed, so delete the binding with `kubectl "
                "delete %s %s%s`, and run this command again: expected %s, found %s",
                plan->title, row->kind, row->name, row->is_public ? " --namespace=kube-public" : "",
                row->role, role ? role : "none");
}

/* A new object, or a merge patch with the field that differs. A merge patch replaces a list, so the
 * subjects that exist are repeated; resourceVersion makes it fail with 409 if somebody has changed
 * them in the meantime. */
static void format_body(struct plan *plan, const struct nb_cluster *cluster) {
        _cleanup_(nb_buffer_done) struct nb_buffer kubeconfig = NB_BUFFER_INIT(OBJECT_MAX);
        const struct row *row = plan->row;
        const char *list = row->role ? list_of(plan) : "[]";
        struct nb_buffer *body = &plan->body;
        char version[NB_RESOURCE_VERSION_SIZE] = "";

        if (plan->found.root)
                nb_json_copy(&plan->found, "metadata.resourceVersion", version, sizeof(version));
        nb_buffer_printf(body,
                         "{\"kind\":\"%s\",\"apiVersion\":\"%s\","
                         "\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%s\"},",
                         row->kind, row->field ? RBAC "/v1" : "v1", row->name, version);
        if (row->role)
                nb_buffer_printf(body, "\"roleRef\":%s,", row->role);
        if (row->field)
                nb_buffer_printf(body, "\"%s\":%.*s%s%s]}", row->field, (int)strlen(list) - 1, list,
                                 list[1] != ']' ? "," : "", row->item);
        else if (row->is_policy)
                nb_buffer_append_string(body, "\"data\":{}}");
        else {
                format_kubeconfig(cluster, &kubeconfig);
                if (kubeconfig.error < 0)
                        body->error = kubeconfig.error;
                nb_buffer_append_string(body, "\"data\":{\"kubeconfig\":");
                nb_json_quote(kubeconfig.data, kubeconfig.len, body);
                nb_buffer_append_string(body, "}}");
        }
}

/* `plan` has a row, and is zero otherwise. 1: nothing is to be changed; 0: plan->body is. */
static int plan_object(const struct publication *publication, struct plan *plan,
                       struct nb_failure *f) {
        const struct row *row = plan->row;
        int r;

        plan->body = (struct nb_buffer)NB_BUFFER_INIT(OBJECT_MAX);
        snprintf(plan->title, sizeof(plan->title), "%s %s", row->kind, row->name);
        snprintf(plan->path, sizeof(plan->path), "%s/%s", row->collection, row->name);
        r = nb_admin_get(publication->admin, plan->title, plan->path, &plan->found, f);
        if (r > 0)
                r = row->is_policy ? 1
                    : row->field   ? verify_list(plan, f)
                                   : verify_cluster(plan, publication, f);
        if (r != 0)
                return r;
        format_body(plan, &publication->cluster);
        return plan->found.r;
}

static void print_difference(struct plan *plan, const struct nb_cluster *cluster) {
        const struct row *row = plan->row;
        char server[NB_URL_MAX], list[LINE_SIZE];

        if (plan->found.root && row->field && !row->role) {
                NB_TEXT_COPY_LINE(list, list_of(plan));
                printf("    - %s\n", list);
        }
        nb_url_format(&cluster->server, server);
        printf("    + %s%s\n",
               row->field       ? row->item
               : row->is_policy ? "no keys: see POLICY in node-bootstrap-admin(8)"
                                : "server: ",
               row->field || row->is_policy ? "" : server);
}

/* --- Applying --- */

static int apply_plan(struct nb_admin *admin, struct plan *plan, struct nb_failure *f) {
        const bool is_new = !plan->found.root;
        char what[160];

        snprintf(what, sizeof(what), "%s the %s", is_new ? "creating" : "changing", plan->title);
        return nb_admin_write(admin, is_new ? "POST" : "PATCH", what,
                              is_new ? plan->row->collection : plan->path, &plan->body, NULL, f);
}

/* Prints what is to be changed, or changes it. *n counts the changes. */
static int visit_objects(const struct publication *publication, bool is_applying, unsigned *n,
                         struct nb_failure *f) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(plan_done) struct plan plan = { .row = &rows[i] };
                int r;

                if (plan.row->is_auto_approval && !publication->is_auto_approved)
                        continue;
                r = plan_object(publication, &plan, f);
                if (r > 0 && !is_applying)
                        printf("%s: unchanged\n", plan.title);
                if (r > 0)
                        continue;
                if (r == 0 && is_applying)
                        r = apply_plan(publication->admin, &plan, f);
                if (r < 0)
                        return r;
                printf("%s: %s%s\n", plan.title, is_applying ? "" : "will be ",
                       plan.found.root ? "changed" : "created");
                if (!is_applying)
                        print_difference(&plan, &publication->cluster);
                ++*n;
        }
        return 0;
}

int nb_publication_publish(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        struct publication publication = { .admin = &admin };
        struct nb_cluster *cluster = &publication.cluster;
        unsigned n = 0, n_done = 0;
        const char *server = NULL;
        const struct nb_option option_rows[] = {
                NB_ADMIN_PLACE_OPTIONS(admin.place),
                { "server", "URL", "name this server in cluster-info instead of the kubeconfig's",
                  .ret_value = &server },
                { "dry-run", NULL, "only show the changes", .ret_switch = &publication.is_dry_run },
                { "force", NULL, "replace a cluster-info that names another CA or server",
                  .ret_switch = &publication.is_forced },
                { "auto-approve", NULL,
                  "let kube-controller-manager approve every request with a token of kubeadm's "
                  "group",
                  .ret_switch = &publication.is_auto_approved },
                { NULL },
        };
        struct nb_url url;
        int r = nb_options_read(options, option_rows, f);

        if (r >= 0 && server && nb_url_parse(server, strlen(server), &url) < 0)
                return nb_admin_refuse_word("'--server' to be https://HOST[:PORT]", server, f);
        if (r >= 0)
                r = nb_admin_connect(&admin, f);
        if (r < 0)
                return r;
        *cluster = admin.cluster;
        if (server)
                cluster->server = url;
        if (!cluster->ca)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: expected the CA of the cluster "
                                      "(certificate-authority-data), found none",
                                      admin.origin);
        if (nb_host_is_loopback(cluster->server.host))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "other machines cannot reach the server '%s', which "
                                      "cluster-info would name; set one with --server",
                                      cluster->server.host);
        r = visit_objects(&publication, false, &n, f);
        if (r < 0 || publication.is_dry_run || n == 0)
                return r;
        putchar('\n');
        /* The objects are read again before they are changed. */
        r = visit_objects(&publication, true, &n_done, f);
        if (r < 0 && n_done > 0)
                nb_failure_add(f, "; %u of %u changes were already made", n_done, n);
        return r;
}

int nb_publication_bind(struct nb_admin *admin, const char *group, bool is_dry_run,
                        struct nb_failure *f) {
        const struct publication publication = { .admin = admin };
        _cleanup_(plan_done) struct plan plan = { .row = rows };
        int r;

        while (!plan.row->group || strcmp(plan.row->group, group) != 0)
                plan.row++;
        r = plan_object(&publication, &plan, f);
        if (r != 0)
                return r;
        if (!is_dry_run)
                r = apply_plan(admin, &plan, f);
        if (r >= 0)
                fprintf(stderr, "the %s %s %s\n", plan.title, is_dry_run ? "would be" : "was",
                        plan.found.root ? "changed" : "created");
        return r;
}

/* --- Showing --- */

int nb_publication_show(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        _cleanup_(nb_json_done) struct nb_json info = { 0 };
        const char *separator = "";
        char server[NB_URL_MAX], subject[NB_SUBJECT_SIZE], pin[NB_PIN_TEXT_SIZE], id[64];
        char not_after[NB_RFC3339_SIZE];
        int r = nb_publication_read(admin, &info, &cluster, f);

        if (r < 0)
                return r;
        r = nb_certificates_parse(cluster.ca, cluster.ca_len, false, &certificates);
        if (r < 0)
                return nb_failure_set(f, NB_CLUSTER_INFO_UNACCEPTABLE, r,
                                      "cluster-info: expected CA certificates, found %s",
                                      nb_certificates_reason(r));
        nb_url_format(&cluster.server, server);
        printf("Server: %s\n", server);
        for (size_t i = 0; i < nb_certificates_count(certificates); i++) {
                nb_certificate_subject(certificates, i, subject);
                nb_pin_format(nb_certificate_pin(certificates, i), pin);
                nb_time_format(nb_certificate_not_after(certificates, i), not_after);
                printf("CA: %s\n    %s\n    valid until %s\n", subject, pin, not_after);
        }
        printf("Signed with tokens:");
        for (const char *key = NULL; (key = nb_json_next_key(&info, "data", key));) {
                if (strncmp(key, NB_SIGNATURE_PREFIX, strlen(NB_SIGNATURE_PREFIX)) != 0)
                        continue;
                NB_TEXT_COPY_LINE(id, key + strlen(NB_SIGNATURE_PREFIX));
                printf("%s %s", separator, id);
                separator = ",";
        }
        puts(separator[0] ? "" : " none");
        return 0;
}
