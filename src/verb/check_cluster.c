/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "kube/api.h"
#include "verb/check_internal.h"

#define VERSION_MAX ((size_t)64 * 1024)

static const struct {
        int (*run)(struct nb_join *join, struct nb_failure *f);
        const char *what;
} discoveries[_NB_DISCOVERY_N] = {
        [NB_DISCOVERY_TOKEN] = { nb_stage_discover_token, "cluster-info" },
        [NB_DISCOVERY_DOCUMENT] = { nb_stage_discover_document, "the document" },
        [NB_DISCOVERY_URL] = { nb_stage_discover_url, "the document of the URL" },
        [NB_DISCOVERY_CACERTS] = { nb_stage_discover_cacerts, "/cacerts" },
};

bool nb_check_has_signature(const struct nb_check *check) {
        return nb_check_is_online(check) && check->load.bootstrap.discovery == NB_DISCOVERY_TOKEN;
}

static enum nb_check_depth depth_of(enum nb_code code) {
        switch ((int)code) {
        case NB_SIGNATURE_MISSING:
        case NB_TOKEN_UNKNOWN:
        case NB_SIGNATURE_INVALID:
                return NB_CHECK_DEPTH_SIGNATURE;
        case NB_CA_PIN_MISMATCH:
        case NB_CA_HASH_MISMATCH:
                return NB_CHECK_DEPTH_CA;
        case NB_CLUSTER_INFO_CHANGED:
        case NB_CACERTS_CHANGED:
        case NB_CLOCK_WRONG:
                return NB_CHECK_DEPTH_VERIFIED;
        default:
                return nb_http_is_untrusted(code) ? NB_CHECK_DEPTH_VERIFIED : NB_CHECK_DEPTH_ANSWER;
        }
}

/* The stage of the join, which has nothing to leave on disk. */
static void begin_join(struct nb_check *check, const struct nb_check_endpoint *endpoint) {
        struct nb_check_network *network = check->network;

        nb_join_done(&network->join);
        network->settings = check->load.settings;
        if (check->load.bootstrap.discovery == NB_DISCOVERY_TOKEN || check->load.bootstrap.discovery == NB_DISCOVERY_CACERTS) {
                network->settings.endpoints[0] = endpoint->url;
                network->settings.n_endpoints = 1;
        }
        network->join = (struct nb_join){
                .settings = &network->settings,
                .bootstrap = &check->load.bootstrap,
                .node_name = check->node_name,
                .is_name_own = check->is_joined,
                .state_fd = -1,
                .deadline_ms = nb_now_ms() + NB_CHECK_PATIENCE_MS,
                .is_rehearsal = true,
                .server_date = endpoint->date,
                .server_date_ms = endpoint->date > 0 ? endpoint->date_ms : 0,
        };
        nb_log_field(NB_FIELD_ENDPOINT, "%s", endpoint->name);
}

/* That of the endpoint that came farthest says most. */
static void remember(struct nb_check_network *network, const struct nb_failure *why) {
        enum nb_check_depth depth = depth_of(why->code);

        if (network->failure.code != NB_NONE && (nb_http_is_unanswered(why->code) || depth <= network->depth) &&
            !(nb_http_is_unanswered(network->failure.code) && !nb_http_is_unanswered(why->code)))
                return;
        network->failure = *why;
        network->depth = depth;
}

static int fail(const struct nb_check *check, struct nb_failure *f) {
        *f = check->network->failure;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

/* By each endpoint until one proves good, as the others are what a join falls back on; but all are looked at. */
static int discover(struct nb_check *check, const struct nb_check_endpoint *endpoint, struct nb_failure *ret_why) {
        enum nb_discovery discovery = check->load.bootstrap.discovery;
        struct nb_check_network *network = check->network;
        int r;

        assert(discoveries[discovery].run);
        begin_join(check, endpoint);
        r = discoveries[discovery].run(&network->join, ret_why);
        if (r == -ECANCELED && ret_why->code == NB_NONE)
                return r;
        if (r < 0 && ret_why->code == NB_NONE)
                (void)nb_failure_set_memory(ret_why);
        return r >= 0;
}

int nb_check_discover(struct nb_check *check, struct nb_failure *f) {
        struct nb_check_network *network = check->network;
        unsigned good = NB_SETTINGS_ENDPOINTS_MAX;

        for (unsigned i = 0; i < network->n; i++) {
                struct nb_failure why = { 0 };
                int r = discover(check, &network->endpoints[i], &why);

                if (r == -ECANCELED)
                        return r;
                if (r > 0 || depth_of(why.code) != NB_CHECK_DEPTH_ANSWER)
                        nb_check_row(check, NB_CHECK_GOOD, "discovery: %s has %s", network->endpoints[i].name, discoveries[check->load.bootstrap.discovery].what);
                if (r > 0) {
                        good = i;
                        continue;
                }
                remember(network, &why);
                if (network->n > 1)
                        nb_check_row(check, NB_CHECK_DOUBT, "%s: %s", nb_failure_info(why.code)->slug, why.detail);
        }
        if (good < network->n) {
                struct nb_failure why = { 0 };

                /* The others have taken its place. */
                if (!network->join.endpoint[0] && discover(check, &network->endpoints[good], &why) <= 0) {
                        *f = why;
                        return why.code == NB_NONE ? -ECANCELED : -EPROTO;
                }
                network->is_proven = true;
                return 0;
        }
        return network->depth == NB_CHECK_DEPTH_ANSWER ? fail(check, f) : 0;
}

int nb_check_signature(struct nb_check *check, struct nb_failure *f) {
        const struct nb_check_network *network = check->network;

        if (!network->is_proven && network->depth == NB_CHECK_DEPTH_SIGNATURE)
                return fail(check, f);
        nb_check_row(check, NB_CHECK_GOOD, "signature: made with the token %s", check->load.bootstrap.token.id);
        return 0;
}

static const char *describe_trust(const struct nb_check *check) {
        const struct nb_settings *settings = &check->load.settings;

        if (check->load.bootstrap.has_hash)
                return "the hash in the token fits";
        if (settings->n_pins > 0)
                return "a hash of discovery.caCertHashes fits";
        return settings->unsafe_skip_ca_verification ? "taken without a hash (discovery.unsafeSkipCAVerification)" : "that of the document";
}

int nb_check_ca(struct nb_check *check, struct nb_failure *f) {
        const struct nb_check_network *network = check->network;

        if (!network->is_proven && network->depth == NB_CHECK_DEPTH_CA)
                return fail(check, f);
        nb_check_row(check, NB_CHECK_GOOD, "CA: %s", describe_trust(check));
        return 0;
}

/* It may be another one than where it was asked for: a name or an address that this machine does not reach. */
int nb_check_api_server(struct nb_check *check, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_check_network *network = check->network;
        struct nb_join *join = &network->join;
        char what[NB_URL_MAX + 32];
        int r;

        if (!network->is_proven)
                return fail(check, f);
        r = nb_api_init(&join->api, &join->cluster, join->ca.data, join->ca.len, &join->bootstrap->identity, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", join->api.name);
        (void)snprintf(what, sizeof(what), "the API server %s", join->api.name);
        r = nb_api_get_public(&join->api, "/version", what, VERSION_MAX, nb_now_ms() + NB_CHECK_PATIENCE_MS, &answer, f);
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        nb_check_row(check, NB_CHECK_GOOD, "API server: %s answers, and the proven CA has issued its certificate", join->api.name);
        return 0;
}
