/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "kube_calls/cluster_calls.h"
#include "kube_calls/csr_calls.h"
#include "kube_calls/k3s_calls.h"
#include "os/clock.h"
#include "systemd/unit.h"

/* --- The certificate of a machine that has joined --- */

#define START_SIZE 128

/* False if kubelet had the time to answer, and to create its Node. */
static bool is_starting(const struct nb_check *check, char ret_text[static START_SIZE]) {
        const struct nb_unit_state *kubelet = &check->units.kubelet.state;
        uint64_t age_usec = nb_unit_active_usec(kubelet);

        if (nb_unit_is(kubelet, "active"))
                snprintf(ret_text, START_SIZE, "kubelet was started %" PRIu64 " s ago",
                         age_usec / 1000000);
        else
                snprintf(ret_text, START_SIZE, NB_KUBELET_UNIT " is %s (%s)", kubelet->active,
                         kubelet->sub);
        return (kubelet->active[0] && !nb_unit_is_at_rest(kubelet)) ||
               (nb_unit_is(kubelet, "active") && age_usec < NB_KUBELET_SETTLED_USEC);
}

int nb_check_health(struct nb_check *check, struct nb_failure *f) {
        struct nb_failure why = { 0 };
        char start[START_SIZE];
        int r;

        if (!check->health[0])
                return 0;
        r = nb_kubelet_ask_health(check->health, &why);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "kubelet: healthy (http://%s/healthz)",
                             check->health);
        else if (why.code != NB_NONE && is_starting(check, start)) {
                nb_check_row(check, NB_CHECK_DOUBT, "%s; %s", why.detail, start);
                return 0;
        }
        *f = why;
        return r;
}

/* Servers reach kubelet at this address, and verify its certificate. */
static void check_address(struct nb_check *check, const struct nb_node_object *node) {
        char names[NB_CHECK_NAMES_SIZE];

        if (!check->serving || !node->address[0] ||
            nb_certificate_is_for(check->serving, node->address))
                return;
        nb_certificate_names(check->serving, 0, names, sizeof(names));
        nb_check_row(check, NB_CHECK_DOUBT,
                     "kubelet's serving certificate is for %s, but the Node's address is %s: logs "
                     "and exec fail; `systemctl start node-bootstrap-refresh.service` renews it if "
                     "this machine no longer has one of its addresses",
                     names, node->address);
}

/* Only that there is none is a failure: kubelet creates its Node when it starts, and not again. */
static int find_node(struct nb_check *check, struct nb_api *api, struct nb_failure *ret_why) {
        const char *name = check->client.node_name;
        struct nb_node_object node;
        char start[START_SIZE];
        int r = nb_node_client_find(&check->client, api, &node, ret_why);

        if (r >= 0) {
                nb_check_row(check, node.is_ready ? NB_CHECK_GOOD : NB_CHECK_DOUBT,
                             "Node '%s': %sReady", name, node.is_ready ? "" : "not ");
                check_address(check, &node);
        } else if (ret_why->http_status == 404) {
                if (!is_starting(check, start))
                        return r;
                nb_check_row(check, NB_CHECK_DOUBT, "Node '%s': does not exist yet; %s", name,
                             start);
        }
        nb_failure_clear(ret_why);
        return 0;
}

/* With NO_PROXY, the endpoint and the API server can differ. */
static void print_route(struct nb_check *check, const struct nb_api *api) {
        struct nb_http_connection connection;

        if (api->http && nb_http_take_connection(api->http, &connection) && connection.route[0])
                nb_check_row(check, NB_CHECK_NOTE, "proxy: %s is reached %s", api->name,
                             connection.route);
}

/* kubelet starts without the API server, so a missing answer is no failure. */
static int check_certificate(struct nb_check *check, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        time_t not_after = check->client.not_after;
        struct nb_failure why = { 0 };
        char when[NB_RFC3339_SIZE];
        int r;

        /* The API server would refuse it like a certificate of another cluster. */
        if (not_after > 0 && not_after <= time(NULL)) {
                nb_time_format(not_after, when);
                nb_check_row(check, NB_CHECK_DOUBT,
                             "certificate: expired on %s; this machine joins again when "
                             "node-bootstrap.service starts",
                             when);
                return 0;
        }
        r = nb_node_client_connect(&check->client, NB_TIME_INFINITE, &api, &why);
        if (r >= 0) {
                nb_check_row(check, NB_CHECK_GOOD, "certificate: accepted by the API server (%s)",
                             api.name);
                print_route(check, &api);
                r = check->client.node_name[0] ? find_node(check, &api, &why) : 0;
        }
        if (r >= 0 || why.code == NB_NONE)
                return r;
        if (why.code == NB_NODE_ACCESS_REVOKED || why.code == NB_NODE_DELETED) {
                *f = why;
                return r;
        }
        nb_check_row(check, NB_CHECK_DOUBT,
                     "certificate: cannot verify it with the API server: %s%s", why.detail,
                     check->client.failure.errnum == EACCES ? ": run as root" : "");
        return 0;
}

/* The later steps parse what unverified servers send, without kubelet's key in memory. */
int nb_check_node_access(struct nb_check *check, struct nb_failure *f) {
        int r = check->client.is_missing ? 0 : check_certificate(check, f);

        nb_identity_done(&check->client.identity);
        return r;
}

static bool is_name_own(const struct nb_check *check) {
        return check->fixed_name[0] && !strcmp(check->fixed_name, check->node_name);
}

/* --- Join: whether it could begin --- */

static int print_node_name(struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->load.settings;
        const char *origin = settings->node_name[0] ? settings->origin[NB_SETTING_NODE_NAME]
                             : check->fixed_name[0] ? "that of its certificate"
                                                    : "the host name";
        int r;

        /* With --user-data, this machine's host name and cloud are not those of the new machine. */
        if (check->user_data && !settings->node_name[0]) {
                snprintf(check->node_name, sizeof(check->node_name), "localhost");
                nb_check_row(check, NB_CHECK_NOTE, "node name: %s",
                             settings->metadata_node_name ? "that of the cloud (metadata.nodeName)"
                                                          : "the host name of the machine");
                return 0;
        }
        r = nb_load_node_name(settings, check->fixed_name, check->node_name, f);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_NOTE, "node name: %s (%s)", check->node_name, origin);
        return r;
}

/* Prints why a missing value is not a failure here: the administrator may have removed the token
 * after the join, as the manual recommends, or this user cannot read the source. */
static bool is_excused(struct nb_check *check, const struct nb_failure *f) {
        const char *unknown = check->unknown;

        if (f->code != NB_TOKEN_MISSING && f->code != NB_SETTINGS_INCOMPLETE)
                return false;
        /* systemd may deliver what this user cannot see. */
        if (!check->is_root && nb_systemd_is_running())
                unknown = "run as root";
        if (check->needs_no_join && f->code == NB_TOKEN_MISSING)
                nb_check_row(check, NB_CHECK_GOOD,
                             "no token required: kubelet's certificate is valid until %s",
                             check->valid_until);
        else if (check->needs_no_join)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: only needed when this machine has to join again", f->detail);
        else if (unknown)
                nb_check_row(check, NB_CHECK_DOUBT, "cannot determine whether a join can start: %s",
                             unknown);
        return check->needs_no_join || unknown;
}

int nb_check_join(struct nb_check *check, struct nb_failure *f) {
        const struct nb_bootstrap *bootstrap = &check->load.bootstrap;
        const struct nb_identity *identity = &bootstrap->identity;
        int r;

        if (check->is_joined)
                nb_check_row(check, NB_CHECK_NOTE,
                             "this machine has joined (see `node-bootstrap status`); the rest "
                             "applies when it has to join again");
        r = print_node_name(check, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_NODE, "%s", check->node_name);
        nb_log_field(NB_FIELD_TOKEN_ID, "%s",
                     identity->token_id[0] ? identity->token_id : bootstrap->token.token_id);
        nb_log_field(NB_FIELD_TOKEN_SOURCE, "%s", identity->source);
        r = nb_load_verify(&check->load, f);
        if (r < 0) {
                check->is_undecided = is_excused(check, f);
                if (!check->is_undecided)
                        return r;
                nb_failure_clear(f);
                return 0;
        }
        nb_check_row(check, NB_CHECK_NOTE, "cluster: %s", nb_method(bootstrap->method)->summary);
        nb_check_row(check, NB_CHECK_NOTE, "identity: %s", identity->source);
        nb_check_row(check, NB_CHECK_GOOD, "a join can start");
        return 0;
}

/* --- Cluster --- */

static void print_clock(struct nb_check *check, const struct nb_join *join, const char *name) {
        int64_t ahead = -nb_join_clock_behind_sec(join);
        char duration[NB_DURATION_SIZE];

        if (join->server_date_ms == 0)
                return;
        nb_duration_format((uint64_t)(ahead < 0 ? -ahead : ahead) * 1000, duration);
        nb_check_row(check,
                     ahead < -NB_CLOCK_SKEW_MAX_SEC || ahead > NB_CLOCK_SKEW_MAX_SEC
                             ? NB_CHECK_DOUBT
                             : NB_CHECK_GOOD,
                     "clock: %s %s that of %s", duration, ahead < 0 ? "behind" : "ahead of", name);
}

static void print_trust(struct nb_check *check) {
        const struct nb_settings *settings = &check->load.settings;
        const struct nb_bootstrap *bootstrap = &check->load.bootstrap;

        if (nb_method(bootstrap->method)->is_signed)
                nb_check_row(check, NB_CHECK_GOOD, "signature: valid for the token %s",
                             bootstrap->token.token_id);
        nb_check_row(check, NB_CHECK_GOOD, "CA: %s",
                     bootstrap->has_hash    ? "matches the hash in the token"
                     : settings->n_pins > 0 ? "matches discovery.caCertHashes"
                     : settings->unsafe_skip_ca_verification
                             ? "not verified (discovery.unsafeSkipCAVerification)"
                             : "from the kubeconfig");
}

/* Runs the first stage of the join with one endpoint. Keeps the result if this is the first
 * endpoint to be verified. */
static int try_endpoint(struct nb_check *check, const struct nb_url *endpoint,
                        struct nb_failure *ret_why) {
        struct nb_settings alone = check->load.settings;
        struct nb_join join = {
                .settings = &alone,
                .bootstrap = &check->load.bootstrap,
                .node_name = check->node_name,
                .is_name_own = is_name_own(check),
                .state_fd = -1,
                .deadline_ms = NB_TIME_INFINITE, /* each request has a time limit */
                .is_rehearsal = true,
        };
        char name[NB_URL_MAX];
        int r;

        alone.endpoints[0] = *endpoint;
        alone.n_endpoints = 1;
        nb_endpoint_format(endpoint, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        r = nb_stage_discover(&join, ret_why);
        if (r == -ECANCELED && ret_why->code == NB_NONE)
                return r;
        if (r < 0 && ret_why->code == NB_NONE)
                (void)nb_failure_set_memory(ret_why);
        if (r >= 0 || !nb_http_is_unanswered(ret_why->code))
                nb_check_row(check, NB_CHECK_GOOD, "%s accepts connections", name);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "%s: %s is verified", name,
                             nb_method(join.bootstrap->method)->object);
        print_clock(check, &join, name);
        if (r < 0 || check->is_verified) {
                nb_join_done(&join);
                return r < 0 ? 0 : 1;
        }
        join.settings = &check->load.settings;
        check->join = join;
        check->is_verified = true;
        return 1;
}

/* Tries each endpoint separately, since a join falls back on the others. One that works is enough.
 * If none works, returns the failure of an endpoint that answered, if there is one. */
int nb_check_discover(struct nb_check *check, struct nb_failure *f) {
        const struct nb_url *origin = nb_bootstrap_origin(&check->load.bootstrap);
        const struct nb_settings *settings = &check->load.settings;
        unsigned n = origin ? 1 : settings->n_endpoints;

        for (unsigned i = 0; i < n; i++) {
                struct nb_failure why = { 0 };
                int r = try_endpoint(check, origin ? origin : &settings->endpoints[i], &why);

                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                if (n > 1)
                        nb_check_row(check, NB_CHECK_DOUBT, "%s: %s",
                                     nb_failure_info(why.code)->slug, why.detail);
                if (f->code == NB_NONE ||
                    (nb_http_is_unanswered(f->code) && !nb_http_is_unanswered(why.code)))
                        *f = why;
        }
        if (check->is_verified) {
                nb_failure_clear(f);
                print_trust(check);
        }
        return f->code == NB_NONE ? 0 : -EPROTO;
}

/* The API server may differ from the endpoint, and its name or address may be unreachable. */
int nb_check_api_server(struct nb_check *check, struct nb_failure *f) {
        struct nb_join *join = &check->join;
        char version[NB_VERSION_SIZE];
        int r;

        r = nb_api_init(&join->api, &join->cluster, &join->bootstrap->identity, NB_TIME_INFINITE,
                        f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", join->api.name);
        r = nb_version_read(&join->api, "gitVersion", version, f);
        if (r < 0)
                return r;
        nb_check_row(check, NB_CHECK_GOOD, "API server: %s answers with a certificate of the CA",
                     join->api.name);
        print_route(check, &join->api);
        return 0;
}

/* --- Request --- */

/* As the join would ask it. While a supervisor starts, it knows no tokens. */
static int ask_supervisor(struct nb_check *check, struct nb_failure *f) {
        const struct nb_identity *identity = &check->load.bootstrap.identity;
        struct nb_join *join = &check->join;
        struct nb_cluster supervisor = join->cluster;
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_failure why = { 0 };
        int r;

        r = nb_endpoint_parse(join->endpoint, strlen(join->endpoint), &supervisor.server);
        assert(r >= 0);
        r = nb_api_init(&api, &supervisor, identity, NB_TIME_INFINITE, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_k3s_ask_ready(&api, &supervisor.server, &why);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "identity: accepted by the supervisor (%s)",
                             identity->source);
        if (r >= 0 || why.code == NB_NONE)
                return r;
        if (why.code != NB_SUPERVISOR_FORBIDDEN && why.code != NB_SERVER_ERROR) {
                *f = why;
                return r;
        }
        nb_check_row(check, NB_CHECK_DOUBT,
                     "identity: cannot determine whether it is accepted: %s; the supervisor may be "
                     "starting, which a join waits for",
                     why.detail);
        return 0;
}

int nb_check_identity(struct nb_check *check, struct nb_failure *f) {
        const struct nb_identity *identity = &check->load.bootstrap.identity;
        struct nb_join *join = &check->join;
        int r;

        if (check->load.bootstrap.issuer == NB_ISSUER_SUPERVISOR)
                return ask_supervisor(check, f);
        r = nb_right_read(&join->api, NB_RIGHT_CREATE_CSR, f);
        if (r < 0)
                return r;
        nb_check_row(check, NB_CHECK_GOOD, "identity: accepted by the API server (%s)",
                     identity->source);
        if (r == NB_RIGHT_DENIED)
                return nb_failure_set_http(
                        f, NB_CSR_FORBIDDEN, 0,
                        "%s: the identity is not allowed to create certificate signing requests",
                        join->api.name);
        if (r == NB_RIGHT_GRANTED)
                nb_check_row(check, NB_CHECK_GOOD,
                             "identity: may create certificate signing requests");
        else
                nb_check_row(check, NB_CHECK_DOUBT,
                             "identity: cannot determine whether it may create certificate signing "
                             "requests: the API server rejects the query");
        return 0;
}

int nb_check_node_name(struct nb_check *check, struct nb_failure *f) {
        struct nb_join *join = &check->join;
        struct nb_node_object node = { 0 };
        int r;

        r = nb_node_read(&join->api, check->node_name, NULL, &node, f);
        if (r == 401 || r == 403) {
                nb_check_row(
                        check, NB_CHECK_DOUBT,
                        "node name: cannot determine whether '%s' is free: the API server answers "
                        "with status %d",
                        check->node_name, r);
                return 0;
        }
        if (r < 0)
                return r;
        if (node.is_ready && !is_name_own(check) && !join->settings->allow_existing)
                return nb_stage_node(join, f);
        nb_check_row(check, NB_CHECK_GOOD, "node name: %s Node '%s'%s",
                     r == 404 ? "there is no" : "there is a", check->node_name,
                     r == 404             ? ""
                     : !node.is_ready     ? ", but it is not Ready"
                     : is_name_own(check) ? ", and this machine has joined with this name"
                                          : ", which node.allowExisting permits");
        return 0;
}

static int print_request(struct nb_check *check, struct nb_failure *f) {
        enum nb_pending_reason reason = NB_PENDING_UNASKED;
        struct nb_join *join = &check->join;
        const struct nb_csr *csr = &join->csr;
        int r;

        if (csr->state == NB_CSR_STATE_APPROVED && csr->certificate) {
                nb_check_row(check, NB_CHECK_GOOD,
                             "request: '%s' is approved, and its certificate is issued", csr->name);
                return 0;
        }
        if (csr->state == NB_CSR_STATE_PENDING) {
                r = nb_join_ask_reason(join, &reason);
                if (r < 0)
                        return r;
        }
        return nb_pending_describe(csr, check->node_name, reason, f);
}

int nb_check_request(struct nb_check *check, struct nb_failure *f) {
        struct nb_join *join = &check->join;
        const char *name = check->last.fields[NB_FIELD_CSR];
        int r;

        /* It may be from `join`, and becomes a part of a path. */
        if (!name[0] || name[strspn(name, NB_LOWER NB_UPPER NB_DIGITS "-_.:")]) {
                nb_check_row(check, NB_CHECK_GOOD, "request: none is pending");
                return 0;
        }
        nb_log_field(NB_FIELD_CSR, "%s", name);
        r = nb_csr_read(&join->api, name, &join->csr, f);
        if (r < 0)
                return r;
        if (r > 0)
                return print_request(check, f);
        nb_check_row(check, NB_CHECK_GOOD, "request: '%s' does not exist", name);
        return 0;
}
