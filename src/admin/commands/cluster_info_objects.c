/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
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
#include "codec/yaml.h"
#include "kube/kubeconfig.h"
#include "kube/pin.h"

#define RBAC "rbac.authorization.k8s.io"
#define RBAC_PATH "/apis/" RBAC "/v1/"
#define OBJECT_MAX ((size_t)64 * 1024)
#define LINE_MAX_SHOWN 100
#define FACT_SIZE 512

struct row {
        const char *kind, *namespace, *name;
        const char *collection; /* path */
        /* Of a role: its one rule, with the verb `get`. */
        const char *resource, *resource_name;
        /* Of a binding. */
        const char *role_kind, *role, *subject_kind, *subject;
        bool is_auto_approval;
};

#define IN_PUBLIC(object_kind, object_name, path) \
        .kind = (object_kind), .namespace = "kube-public", .name = (object_name), \
        .collection = (path)
#define CLUSTER_BINDING(object_name, cluster_role, group) \
        .kind = "ClusterRoleBinding", .name = (object_name), \
        .collection = RBAC_PATH "clusterrolebindings", .role_kind = "ClusterRole", \
        .role = (cluster_role), .subject_kind = "Group", .subject = (group)
#define ANONYMOUS "kubeadm:bootstrap-signer-clusterinfo"
#define APPROVAL "system:certificates.k8s.io:certificatesigningrequests:"

static const struct row rows[] = {
        { IN_PUBLIC("ConfigMap", "cluster-info", "/api/v1/namespaces/kube-public/configmaps") },
        { IN_PUBLIC("Role", ANONYMOUS, RBAC_PATH "namespaces/kube-public/roles"),
          .resource = "configmaps", .resource_name = "cluster-info" },
        { IN_PUBLIC("RoleBinding", ANONYMOUS, RBAC_PATH "namespaces/kube-public/rolebindings"),
          .role_kind = "Role", .role = ANONYMOUS, .subject_kind = "User",
          .subject = "system:anonymous" },
        { .kind = "ClusterRole",
          .name = "kubeadm:get-nodes",
          .collection = RBAC_PATH "clusterroles",
          .resource = "nodes" },
        { CLUSTER_BINDING("kubeadm:get-nodes", "kubeadm:get-nodes", NB_TOKEN_GROUP_DEFAULT) },
        { CLUSTER_BINDING("kubeadm:kubelet-bootstrap", "system:node-bootstrapper",
                          NB_TOKEN_GROUP_DEFAULT) },
        { CLUSTER_BINDING("kubeadm:node-autoapprove-certificate-rotation",
                          APPROVAL "selfnodeclient", "system:nodes") },
        { CLUSTER_BINDING("kubeadm:node-autoapprove-bootstrap", APPROVAL "nodeclient",
                          NB_TOKEN_GROUP_DEFAULT),
          .is_auto_approval = true },
        { CLUSTER_BINDING("node-bootstrap:kubelet-bootstrap", "system:node-bootstrapper",
                          NB_TOKEN_GROUP_NODE) },
};

enum state { UNCHANGED, CREATED, CHANGED, LEFT_OUT };

/* One object: how it is, and how it should be. */
struct plan {
        const struct row *row;
        char title[128];   /* "Role kube-public/kubeadm:bootstrap-signer-clusterinfo" */
        char reading[160]; /* for messages; `found` refers to it */
        enum state state;
        struct nb_json found;        /* without a root if the object does not exist */
        struct nb_buffer difference; /* lines for people */
};

static void plan_done(struct plan *plan) {
        nb_json_done(&plan->found);
        nb_buffer_done(&plan->difference);
}

/* --- How the objects should be --- */

bool nb_host_is_loopback(const char *host) {
        struct in_addr address;

        return !strcmp(host, "localhost") || !strcmp(host, "::1") ||
               (!strncmp(host, "127.", 4) && inet_pton(AF_INET, host, &address) == 1);
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

static void format_role(const char *kind, const char *name, char ret[static FACT_SIZE]) {
        snprintf(ret, FACT_SIZE, "roleRef: %s %s", kind, name);
}

/* The facts of an object that this program decides, one per line. */
static void format_wanted(const struct row *row, const char *kubeconfig, struct nb_buffer *ret) {
        if (row->resource)
                nb_buffer_printf(ret, "rule: verbs=get apiGroups= resources=%s%s%s\n",
                                 row->resource, row->resource_name ? " resourceNames=" : "",
                                 row->resource_name ? row->resource_name : "");
        else if (row->role)
                nb_buffer_printf(ret, "subject: %s %s\n", row->subject_kind, row->subject);
        else
                nb_buffer_append_string(ret, kubeconfig);
}

/* --- How they are --- */

static void format_rule(struct nb_json *json, ssize_t i, struct nb_buffer *ret) {
        static const char *const keys[] = { "verbs", "apiGroups", "resources", "resourceNames",
                                            "nonResourceURLs" };
        char path[64], value[FACT_SIZE];

        nb_buffer_append_string(ret, "rule:");
        for (size_t k = 0; k < N_ELEMENTS(keys); k++) {
                ssize_t n;

                snprintf(path, sizeof(path), "rules[%zd].%s", i, keys[k]);
                n = nb_json_array(json, path);
                for (ssize_t j = 0; j < n; j++) {
                        snprintf(path, sizeof(path), "rules[%zd].%s[%zd]", i, keys[k], j);
                        nb_json_line(json, path, value, sizeof(value));
                        if (j == 0)
                                nb_buffer_printf(ret, " %s=%s", keys[k], value);
                        else
                                nb_buffer_printf(ret, ",%s", value);
                }
        }
        nb_buffer_append_string(ret, "\n");
}

static void format_found(const struct row *row, struct nb_json *json, struct nb_buffer *ret) {
        char path[64], kind[64], name[FACT_SIZE];
        const char *kubeconfig;

        if (row->resource) {
                for (ssize_t i = 0; i < nb_json_array(json, "rules"); i++)
                        format_rule(json, i, ret);
                return;
        }
        if (row->role) {
                for (ssize_t i = 0; i < nb_json_array(json, "subjects"); i++) {
                        snprintf(path, sizeof(path), "subjects[%zd].kind", i);
                        nb_json_line(json, path, kind, sizeof(kind));
                        snprintf(path, sizeof(path), "subjects[%zd].name", i);
                        nb_json_line(json, path, name, sizeof(name));
                        nb_buffer_printf(ret, "subject: %s %s\n", kind, name);
                }
                return;
        }
        kubeconfig = nb_json_string(json, "data.kubeconfig");
        if (kubeconfig)
                nb_buffer_append_string(ret, kubeconfig);
}

/* --- The difference --- */

static bool has_line(const char *text, const char *line, size_t len) {
        for (const char *p = text; p && *p; p += strcspn(p, "\n"), p += *p == '\n')
                if (strcspn(p, "\n") == len && !memcmp(p, line, len))
                        return true;
        return false;
}

/* Appends the lines of `text` that `other` does not have. */
static void add_lines(char sign, const char *text, const char *other, struct nb_buffer *ret) {
        size_t len;

        for (const char *p = text; p && *p; p += len, p += *p == '\n') {
                char line[LINE_MAX_SHOWN + 1];

                len = strcspn(p, "\n");
                if (has_line(other, p, len))
                        continue;
                nb_text_copy_line(p, len, line, sizeof(line));
                nb_buffer_printf(ret, "    %c %s", sign, line);
                if (len > LINE_MAX_SHOWN)
                        nb_buffer_printf(ret, "... (%zu bytes)", len);
                nb_buffer_append_string(ret, "\n");
        }
}

/* Further subjects stay: an administrator has added them. */
static int compare_objects(const struct nb_buffer *wanted, struct plan *plan,
                           struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer found = NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);

        if (plan->state == CHANGED)
                format_found(plan->row, &plan->found, &found);
        if (plan->found.r < 0)
                return plan->found.r;
        if (!plan->row->role)
                add_lines('-', found.data, wanted->data, &plan->difference);
        add_lines('+', wanted->data, found.data, &plan->difference);
        if (found.error < 0 || plan->difference.error < 0)
                return nb_failure_set_memory(f);
        return 0;
}

static int verify_role(struct plan *plan, struct nb_failure *f) {
        char kind[64], name[256], found[FACT_SIZE], wanted[FACT_SIZE];

        nb_json_line(&plan->found, "roleRef.kind", kind, sizeof(kind));
        nb_json_line(&plan->found, "roleRef.name", name, sizeof(name));
        format_role(kind, name, found);
        format_role(plan->row->role_kind, plan->row->role, wanted);
        if (plan->found.r < 0 || !strcmp(found, wanted))
                return plan->found.r;
        return nb_failure_set(
                f, NB_ADMIN_EXISTS, 0,
                "%s: expected %s, found %s; a roleRef cannot be changed, so delete the "
                "binding with `kubectl delete %s%s%s %s`, and publish again",
                plan->title, wanted, found, plan->row->kind,
                plan->row->namespace ? " --namespace=" : "",
                plan->row->namespace ? plan->row->namespace : "", plan->row->name);
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

static bool has_pin(const struct nb_certificates *certificates, const uint8_t *pin) {
        for (size_t i = 0; i < nb_certificates_count(certificates); i++)
                if (!memcmp(nb_certificate_pin(certificates, i), pin, NB_PIN_SIZE))
                        return true;
        return false;
}

static bool has_all(const struct nb_certificates *certificates, const struct nb_certificates *of) {
        for (size_t i = 0; i < nb_certificates_count(of); i++)
                if (!has_pin(certificates, nb_certificate_pin(of, i)))
                        return false;
        return true;
}

bool nb_certificates_are_equal(const struct nb_certificates *a, const struct nb_certificates *b) {
        return has_all(a, b) && has_all(b, a);
}

/* "https://10.0.0.1:6443 with the CA sha256:..." */
static void describe_cluster(const struct nb_cluster *cluster,
                             const struct nb_certificates *certificates, char *ret, size_t size) {
        char server[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        size_t n = nb_certificates_count(certificates);

        nb_url_format(&cluster->server, server);
        nb_pin_format(nb_certificate_pin(certificates, 0), pin);
        snprintf(ret, size, "%.100s with the CA %s", server, pin);
        if (n > 1)
                snprintf(ret + strlen(ret), size - strlen(ret), " and %zu more", n - 1);
}

/* 1: the same server and CAs; 0: others; negative: not usable. */
static int compare_clusters(const struct nb_cluster *found, const struct nb_cluster *wanted,
                            char *ret_text, size_t size) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *a = NULL, *b = NULL;
        char found_text[256], wanted_text[256];
        bool is_same;
        int r = nb_certificates_parse(found->ca, found->ca_len, false, &a);

        if (r >= 0)
                r = nb_certificates_parse(wanted->ca, wanted->ca_len, false, &b);
        if (r < 0)
                return r;
        describe_cluster(found, a, found_text, sizeof(found_text));
        describe_cluster(wanted, b, wanted_text, sizeof(wanted_text));
        is_same = nb_certificates_are_equal(a, b);
        snprintf(ret_text, size, "it names %s: expected %s, found %s",
                 is_same ? "another server of this cluster" : "another CA", wanted_text,
                 found_text);
        return is_same && nb_url_is_equal(&found->server, &wanted->server);
}

/* kubeadm and node-bootstrap need a cluster without a name, or a current context. */
static bool has_unnamed_cluster(const char *text, size_t len) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *document = NULL;
        struct nb_failure ignored = { 0 };
        const struct nb_yaml_node *clusters, *name;

        if (nb_yaml_parse("cluster-info", text, len, NB_ANSWER_MALFORMED, 1, &document, &ignored) <
                    0 ||
            !document)
                return false;
        clusters = nb_yaml_get(document, "clusters");
        name = clusters && clusters->first ? nb_yaml_get(clusters->first, "name") : NULL;
        return name && name->type == NB_YAML_SCALAR && name->value_len == 0;
}

/* 1: its kubeconfig is equivalent, for example because another version of kubeadm wrote it, and
 * stays; 0: it is replaced. */
static int verify_cluster(struct plan *plan, const struct nb_cluster *wanted, bool is_forced,
                          struct nb_failure *f) {
        const char *text = nb_json_string(&plan->found, "data.kubeconfig");
        _cleanup_(nb_cluster_done) struct nb_cluster found = { 0 };
        struct nb_failure unusable = { 0 };
        char difference[600];
        int r;

        if (plan->found.r < 0 || !text)
                return plan->found.r;
        r = nb_publication_parse(text, &found, &unusable);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || !found.ca)
                return 0;
        r = compare_clusters(&found, wanted, difference, sizeof(difference));
        if (r == 0 && !is_forced)
                return nb_failure_set(f, NB_ADMIN_WRONG_CLUSTER, 0, "%s: %s", plan->title,
                                      difference);
        return r > 0 && has_unnamed_cluster(text, strlen(text));
}

/* --- Planning --- */

static int read_object(struct nb_admin *admin, struct plan *plan, struct nb_failure *f) {
        char path[NB_ADMIN_PATH_MAX];

        snprintf(plan->reading, sizeof(plan->reading), "reading the %s", plan->title);
        snprintf(path, sizeof(path), "%s/%s", plan->row->collection, plan->row->name);
        return nb_admin_get(admin, plan->reading, path, &plan->found, f);
}

/* 1: it stays as it is; 0: it may be changed. */
static int verify_found(const struct nb_publication *publication, const struct nb_cluster *cluster,
                        struct plan *plan, struct nb_failure *f) {
        if (plan->row->role)
                return verify_role(plan, f);
        if (plan->row->resource)
                return 0;
        return verify_cluster(plan, cluster, publication->is_forced, f);
}

static int plan_object(struct nb_admin *admin, const struct nb_publication *publication,
                       const struct nb_cluster *cluster, const char *kubeconfig, struct plan *plan,
                       struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer wanted = NB_BUFFER_INIT(OBJECT_MAX);
        const struct row *row = plan->row;
        int r;

        snprintf(plan->title, sizeof(plan->title), "%s %s%s%s", row->kind,
                 row->namespace ? row->namespace : "", row->namespace ? "/" : "", row->name);
        plan->difference = (struct nb_buffer)NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);
        r = read_object(admin, plan, f);
        if (r < 0)
                return r;
        if (row->is_auto_approval && !publication->is_auto_approved) {
                plan->state = r > 0 ? UNCHANGED : LEFT_OUT;
                return 0;
        }
        plan->state = r > 0 ? CHANGED : CREATED;
        if (r > 0) {
                r = verify_found(publication, cluster, plan, f);
                if (r != 0) {
                        plan->state = UNCHANGED;
                        return r < 0 ? r : 0;
                }
        }
        format_wanted(row, kubeconfig, &wanted);
        if (wanted.error < 0)
                return nb_failure_set_memory(f);
        r = compare_objects(&wanted, plan, f);
        if (r >= 0 && plan->state == CHANGED && plan->difference.len == 0)
                plan->state = UNCHANGED;
        return r;
}

static void print_plan(const struct plan *plan) {
        static const char unwanted[] = "not created without --auto-approve, since it lets the "
                                       "holder of any token of kubeadm's group join as any node";
        static const char *const words[] = {
                [UNCHANGED] = "unchanged",
                [CREATED] = "will be created",
                [CHANGED] = "will be changed",
                [LEFT_OUT] = unwanted,
        };

        printf("%s: %s\n%s", plan->title, words[plan->state],
               plan->difference.data ? plan->difference.data : "");
}

/* --- Applying --- */

static void put_subject(struct nb_json_writer *writer, const char *kind, const char *namespace,
                        const char *name) {
        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "kind", kind);
        if (strcmp(kind, "ServiceAccount") != 0)
                nb_json_put_string(writer, "apiGroup", RBAC);
        if (namespace)
                nb_json_put_string(writer, "namespace", namespace);
        nb_json_put_string(writer, "name", name);
        nb_json_close(writer);
}

static const char *get_subject(struct nb_json *json, ssize_t i, const char *key) {
        char path[64];

        snprintf(path, sizeof(path), "subjects[%zd].%s", i, key);
        return nb_json_string(json, path);
}

/* A merge patch replaces a list, so the subjects that exist are repeated. */
static void put_subjects(struct nb_json_writer *writer, struct plan *plan) {
        ssize_t n = plan->state == CHANGED ? nb_json_array(&plan->found, "subjects") : 0;

        nb_json_open(writer, "subjects", '[');
        for (ssize_t i = 0; i < n; i++) {
                const char *kind = get_subject(&plan->found, i, "kind"),
                           *name = get_subject(&plan->found, i, "name");

                if (kind && name)
                        put_subject(writer, kind, get_subject(&plan->found, i, "namespace"), name);
        }
        put_subject(writer, plan->row->subject_kind, NULL, plan->row->subject);
        nb_json_close(writer);
}

static void put_strings(struct nb_json_writer *writer, const char *key, const char *value) {
        nb_json_open(writer, key, '[');
        nb_json_put_string(writer, NULL, value);
        nb_json_close(writer);
}

static void put_rule(struct nb_json_writer *writer, const struct row *row) {
        nb_json_open(writer, "rules", '[');
        nb_json_open(writer, NULL, '{');
        put_strings(writer, "verbs", "get");
        put_strings(writer, "apiGroups", "");
        put_strings(writer, "resources", row->resource);
        if (row->resource_name)
                put_strings(writer, "resourceNames", row->resource_name);
        nb_json_close(writer);
        nb_json_close(writer);
}

/* The whole object, or a merge patch of the field that differs. resourceVersion makes the patch
 * fail with 409 if somebody has changed the object in the meantime. */
static int format_body(struct plan *plan, const char *kubeconfig, struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret };
        const struct row *row = plan->row;

        nb_json_open(&writer, NULL, '{');
        if (plan->state == CREATED) {
                nb_json_put_string(&writer, "kind", row->kind);
                nb_json_put_string(&writer, "apiVersion",
                                   row->role || row->resource ? RBAC "/v1" : "v1");
        }
        nb_json_open(&writer, "metadata", '{');
        if (plan->state == CREATED)
                nb_json_put_string(&writer, "name", row->name);
        else
                nb_json_put_string(&writer, "resourceVersion",
                                   nb_json_string(&plan->found, "metadata.resourceVersion"));
        nb_json_close(&writer);
        if (row->role && plan->state == CREATED) {
                nb_json_open(&writer, "roleRef", '{');
                nb_json_put_string(&writer, "apiGroup", RBAC);
                nb_json_put_string(&writer, "kind", row->role_kind);
                nb_json_put_string(&writer, "name", row->role);
                nb_json_close(&writer);
        }
        if (row->role) {
                put_subjects(&writer, plan);
        } else if (row->resource) {
                put_rule(&writer, row);
        } else {
                nb_json_open(&writer, "data", '{');
                nb_json_put_string(&writer, "kubeconfig", kubeconfig);
        }
        return nb_json_finish(&writer);
}

static int apply_plan(struct nb_admin *admin, struct plan *plan, const char *kubeconfig,
                      struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(OBJECT_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        bool is_new = plan->state == CREATED;
        char what[192], path[NB_ADMIN_PATH_MAX];
        struct nb_admin_call call = { .method = is_new ? "POST" : "PATCH",
                                      .what = what,
                                      .path = path };
        int r = format_body(plan, kubeconfig, &body);

        if (plan->found.r < 0)
                return plan->found.r;
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format the %s: %m", plan->title);
        snprintf(what, sizeof(what), "%s the %s", is_new ? "creating" : "changing", plan->title);
        snprintf(path, sizeof(path), "%s%s%s", plan->row->collection, is_new ? "" : "/",
                 is_new ? "" : plan->row->name);
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(admin, &call, &answer, f);
        if (r == 409)
                return nb_failure_set_http(f, NB_ADMIN_CONFLICT, r, "%s: it was %s meanwhile", what,
                                           is_new ? "created" : "changed");
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r, "%s: %s was deleted meanwhile",
                                           what, is_new ? "its namespace" : "it");
        if (r < 0)
                return r;
        printf("%s %s\n", plan->title, is_new ? "created" : "changed");
        return 0;
}

static int plan_and_apply(struct nb_admin *admin, const struct nb_publication *publication,
                          const struct nb_cluster *cluster, struct plan *plans,
                          struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer kubeconfig = NB_BUFFER_INIT(OBJECT_MAX);
        unsigned n = 0, n_done = 0;
        int r;

        format_kubeconfig(cluster, &kubeconfig);
        if (kubeconfig.error < 0)
                return nb_failure_set(f, NB_INTERNAL, kubeconfig.error,
                                      "cannot format the kubeconfig of cluster-info: %m");
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                plans[i].row = &rows[i];
                r = plan_object(admin, publication, cluster, kubeconfig.data, &plans[i], f);
                if (r < 0)
                        return r;
                n += plans[i].state == CREATED || plans[i].state == CHANGED;
        }
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                print_plan(&plans[i]);
        if (publication->is_dry_run || n == 0)
                return 0;
        putchar('\n');
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                if (plans[i].state != CREATED && plans[i].state != CHANGED)
                        continue;
                r = apply_plan(admin, &plans[i], kubeconfig.data, f);
                if (r < 0 && n_done > 0)
                        nb_failure_add(f, "; %u of %u changes were made before", n_done, n);
                if (r < 0)
                        return r;
                n_done++;
        }
        return 0;
}

int nb_publication_apply(struct nb_admin *admin, const struct nb_publication *publication,
                         struct nb_failure *f) {
        struct nb_cluster cluster = admin->cluster; /* a copy for another server; owns nothing */
        struct plan plans[N_ELEMENTS(rows)] = { 0 };
        int r;

        if (publication->server)
                cluster.server = *publication->server;
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
