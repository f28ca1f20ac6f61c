/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/cluster_info_command.h"
#include "admin/policy/bootstrap_token.h"
#include "base/buffer.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"

#define RBAC "rbac.authorization.k8s.io"
#define RBAC_PATH "/apis/" RBAC "/v1/"
#define OBJECT_MAX ((size_t)64 * 1024)
#define LINE_SIZE 1024 /* of what another object has, for the terminal */

/* cluster-info, or an object of RBAC. The JSON below is what the API server writes, with the
 * members in its order, so that it can be compared as text. */
struct row {
        const char *kind, *namespace, *name;
        const char *collection;   /* path */
        const char *role;         /* of a binding: its roleRef, which nobody can change */
        const char *field, *item; /* the list that decides, and what it has to have */
        const char *group;        /* of a binding for tokens */
        bool is_auto_approval;
};

#define IN_PUBLIC(object_kind, object_name, path) \
        .kind = (object_kind), .namespace = "kube-public", .name = (object_name), \
        .collection = (path)
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
};

enum state { UNCHANGED, CREATED, CHANGED, LEFT_OUT };

/* One object: how it is, and the request that makes it as it should be. */
struct plan {
        const struct row *row;
        char title[128];   /* "Role kube-public/kubeadm:bootstrap-signer-clusterinfo" */
        char reading[160]; /* for messages; `found` refers to it */
        enum state state;
        struct nb_json found; /* without a root if the object does not exist */
        struct nb_buffer body;
};

static void plan_done(struct plan *plan) {
        nb_json_done(&plan->found);
        nb_buffer_done(&plan->body);
}

bool nb_host_is_loopback(const char *host) {
        struct in_addr address;

        return !strcmp(host, "localhost") || !strcmp(host, "::1") ||
               (!strncmp(host, "127.", 4) && inet_pton(AF_INET, host, &address) == 1);
}

/* --- cluster-info: is it of this cluster? --- */

int nb_publication_parse(const char *kubeconfig, struct nb_cluster *ret_cluster,
                         struct nb_failure *f) {
        const struct nb_kubeconfig_input input = {
                .origin = "kubeconfig in cluster-info",
                .text = kubeconfig,
                .len = strlen(kubeconfig),
        };

        return nb_kubeconfig_parse(&nb_kubeconfig_cluster_info, &input, ret_cluster, NULL, f);
}

static bool has_all(const struct nb_certificates *certificates, const struct nb_certificates *of) {
        for (size_t i = 0; i < nb_certificates_count(of); i++) {
                size_t j = 0;

                while (j < nb_certificates_count(certificates) &&
                       memcmp(nb_certificate_pin(certificates, j), nb_certificate_pin(of, i),
                              NB_SHA256_SIZE) != 0)
                        j++;
                if (j == nb_certificates_count(certificates))
                        return false;
        }
        return true;
}

int nb_publication_compare_ca(const struct nb_cluster *a, const struct nb_cluster *b) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca_a = NULL, *ca_b = NULL;
        int r = nb_certificates_parse(a->ca, a->ca_len, false, &ca_a);

        if (r >= 0)
                r = nb_certificates_parse(b->ca, b->ca_len, false, &ca_b);
        return r < 0 ? r : has_all(ca_a, ca_b) && has_all(ca_b, ca_a);
}

/* 1: its kubeconfig is equivalent, for example because another version of kubeadm wrote it, and
 * stays; 0: it is replaced. */
static int verify_cluster(struct plan *plan, const struct nb_cluster *wanted, bool is_forced,
                          struct nb_failure *f) {
        const char *text = nb_json_string(&plan->found, "data.kubeconfig");
        _cleanup_(nb_cluster_done) struct nb_cluster found = { 0 };
        struct nb_failure unusable = { 0 };
        char found_server[NB_URL_MAX], wanted_server[NB_URL_MAX];
        int r;

        assert(wanted);
        if (plan->found.r < 0 || !text)
                return plan->found.r;
        r = nb_publication_parse(text, &found, &unusable);
        if (r >= 0)
                r = nb_publication_compare_ca(&found, wanted);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || (r > 0 && nb_url_is_equal(&found.server, &wanted->server)))
                return r > 0;
        if (is_forced)
                return 0;
        nb_url_format(&found.server, found_server);
        nb_url_format(&wanted->server, wanted_server);
        return nb_failure_set(
                f, NB_ADMIN_WRONG_CLUSTER, 0, "%s: it names %s: expected %s, found %s", plan->title,
                r > 0 ? "another server of this cluster" : "another CA than the kubeconfig",
                wanted_server, found_server);
}

/* As kubeadm writes it, byte for byte. */
static void format_kubeconfig(const struct nb_cluster *cluster, struct nb_buffer *ret) {
        char server[NB_URL_MAX];

        assert(cluster);
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
        const char *list = plan->state == CHANGED
                                   ? nb_json_text(&plan->found, plan->row->field, '[')
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
        (void)nb_failure_set(f, NB_ADMIN_EXISTS, 0, "%s: expected the roleRef %s, found %s",
                             plan->title, row->role, role ? role : "none");
        nb_failure_add(f,
                       "; a roleRef cannot be changed, so delete the binding with `kubectl delete "
                       "%s%s%s %s`, and run this command again",
                       row->kind, row->namespace ? " --namespace=" : "",
                       row->namespace ? row->namespace : "", row->name);
        return -EPROTO;
}

/* The whole object, or a merge patch of the field that differs. A merge patch replaces a list, so
 * the subjects that exist are repeated; resourceVersion makes it fail with 409 if somebody has
 * changed them in the meantime. */
static int format_body(struct plan *plan, const struct nb_cluster *cluster) {
        _cleanup_(nb_buffer_done) struct nb_buffer kubeconfig = NB_BUFFER_INIT(OBJECT_MAX);
        const struct row *row = plan->row;
        const char *list;
        struct nb_buffer *body = &plan->body;
        char version[NB_RESOURCE_VERSION_SIZE];

        if (plan->state == CREATED)
                nb_buffer_printf(body,
                                 "{\"kind\":\"%s\",\"apiVersion\":\"%s\","
                                 "\"metadata\":{\"name\":\"%s\"},",
                                 row->kind, row->field ? RBAC "/v1" : "v1", row->name);
        else {
                nb_json_copy(&plan->found, "metadata.resourceVersion", version, sizeof(version));
                if (plan->found.r < 0)
                        return plan->found.r;
                nb_buffer_printf(body, "{\"metadata\":{\"resourceVersion\":\"%s\"},", version);
        }
        if (row->role && plan->state == CREATED)
                nb_buffer_printf(body, "\"roleRef\":%s,", row->role);
        if (row->field) {
                list = row->role ? list_of(plan) : "[]";
                nb_buffer_printf(body, "\"%s\":%.*s%s%s]}", row->field, (int)strlen(list) - 1, list,
                                 list[1] != ']' ? "," : "", row->item);
                return plan->found.r < 0 ? plan->found.r : body->error;
        }
        format_kubeconfig(cluster, &kubeconfig);
        if (kubeconfig.error < 0)
                return kubeconfig.error;
        nb_buffer_append_string(body, "\"data\":{\"kubeconfig\":");
        nb_json_quote(kubeconfig.data, kubeconfig.len, body);
        nb_buffer_append_string(body, "}}");
        return body->error;
}

static int plan_object(struct nb_admin *admin, const struct nb_publication *publication,
                       const struct nb_cluster *cluster, struct plan *plan, struct nb_failure *f) {
        const struct row *row = plan->row;
        const bool is_left = row->is_auto_approval && !publication->is_auto_approved;
        char path[NB_ADMIN_PATH_MAX];
        int r;

        plan->body = (struct nb_buffer)NB_BUFFER_INIT(OBJECT_MAX);
        snprintf(plan->title, sizeof(plan->title), "%s %s%s%s", row->kind,
                 row->namespace ? row->namespace : "", row->namespace ? "/" : "", row->name);
        snprintf(plan->reading, sizeof(plan->reading), "reading the %s", plan->title);
        snprintf(path, sizeof(path), "%s/%s", row->collection, row->name);
        r = nb_admin_get(admin, plan->reading, path, &plan->found, f);
        if (r < 0)
                return r;
        plan->state = r > 0 ? is_left ? UNCHANGED : CHANGED : is_left ? LEFT_OUT : CREATED;
        if (plan->state == CHANGED) {
                r = row->field ? verify_list(plan, f)
                               : verify_cluster(plan, cluster, publication->is_forced, f);
                if (r < 0)
                        return r;
                if (r > 0)
                        plan->state = UNCHANGED;
        }
        r = plan->state == CREATED || plan->state == CHANGED ? format_body(plan, cluster) : 0;
        if (r < 0 && f->code == NB_NONE)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format the %s: %m", plan->title);
        return r;
}

#define LEFT_OUT_TEXT \
        "not created without --auto-approve, since it lets the holder of any token of kubeadm's " \
        "group join as any node"

static void print_plan(struct plan *plan, const struct nb_cluster *cluster) {
        static const char *const words[] = {
                [UNCHANGED] = "unchanged",
                [CREATED] = "will be created",
                [CHANGED] = "will be changed",
                [LEFT_OUT] = LEFT_OUT_TEXT,
        };
        const struct row *row = plan->row;
        char server[NB_URL_MAX], list[LINE_SIZE];

        printf("%s: %s\n", plan->title, words[plan->state]);
        if (plan->state == UNCHANGED || plan->state == LEFT_OUT)
                return;
        nb_url_format(&cluster->server, server);
        if (plan->state == CHANGED && row->field && !row->role) {
                NB_TEXT_COPY_LINE(list, list_of(plan));
                printf("    - %s\n", list);
        }
        printf("    + %s%s\n", row->field ? row->item : "server: ", row->field ? "" : server);
}

/* --- Applying --- */

static int apply_plan(struct nb_admin *admin, const struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        const bool is_new = plan->state == CREATED;
        char what[192], path[NB_ADMIN_PATH_MAX];
        const struct nb_admin_call call = { .method = is_new ? "POST" : "PATCH",
                                            .what = what,
                                            .path = path,
                                            .body = plan->body.data,
                                            .body_len = plan->body.len };
        int r;

        snprintf(what, sizeof(what), "%s the %s", is_new ? "creating" : "changing", plan->title);
        snprintf(path, sizeof(path), "%s%s%s", plan->row->collection, is_new ? "" : "/",
                 is_new ? "" : plan->row->name);
        r = nb_admin_perform(admin, &call, &answer, f);
        if (r == 409)
                return nb_failure_set_http(f, NB_ADMIN_CONFLICT, r, "%s: it was %s meanwhile", what,
                                           is_new ? "created" : "changed");
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r, "%s: %s was deleted meanwhile",
                                           what, is_new ? "its namespace" : "it");
        return r < 0 ? r : 0;
}

static int plan_and_apply(struct nb_admin *admin, const struct nb_publication *publication,
                          const struct nb_cluster *cluster, struct plan *plans,
                          struct nb_failure *f) {
        unsigned n = 0, n_done = 0;
        int r;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                plans[i].row = &rows[i];
                r = plan_object(admin, publication, cluster, &plans[i], f);
                if (r < 0)
                        return r;
                n += plans[i].body.len > 0;
        }
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                print_plan(&plans[i], cluster);
        if (publication->is_dry_run || n == 0)
                return 0;
        putchar('\n');
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                if (plans[i].body.len == 0)
                        continue;
                r = apply_plan(admin, &plans[i], f);
                if (r < 0 && n_done > 0)
                        nb_failure_add(f, "; %u of %u changes were already made", n_done, n);
                if (r < 0)
                        return r;
                printf("%s %s\n", plans[i].title,
                       plans[i].state == CREATED ? "created" : "changed");
                n_done++;
        }
        return 0;
}

int nb_publication_apply(struct nb_admin *admin, const struct nb_publication *publication,
                         struct nb_failure *f) {
        struct nb_cluster cluster = admin->cluster; /* a copy for another server; owns nothing */
        struct plan plans[N_ELEMENTS(rows)] = { 0 };
        int r;

        if (publication->server.host[0])
                cluster.server = publication->server;
        if (!cluster.ca)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: expected the CA of the cluster "
                                      "(certificate-authority-data), found none",
                                      admin->origin);
        if (nb_host_is_loopback(cluster.server.host))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "other machines cannot reach the server '%s', which "
                                      "cluster-info would name; set one with --server",
                                      cluster.server.host);
        r = plan_and_apply(admin, publication, &cluster, plans, f);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                plan_done(&plans[i]);
        return r;
}

int nb_publication_bind(struct nb_admin *admin, const char *group, struct nb_failure *f) {
        _cleanup_(plan_done) struct plan plan = { .row = rows };
        int r;

        while (!plan.row->group || strcmp(plan.row->group, group) != 0)
                plan.row++;
        r = plan_object(admin, &(const struct nb_publication){ 0 }, NULL, &plan, f);
        return r < 0 || plan.body.len == 0 ? r : apply_plan(admin, &plan, f);
}
