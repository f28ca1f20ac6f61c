/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "http/http.h"
#include "join/other_server.h"
#include "join/retry.h"
#include "kube_calls/api.h"
#include "kube_calls/k3s_calls.h"
#include "os/clock.h"
#include "systemd/log.h"

#define PATIENCE_MS 60000 /* of a server that restarts */
#define ANSWER_MAX ((size_t)16 * 1024)

struct asking {
        const struct nb_cluster *server;
        uint64_t deadline_ms;
};

static int ask_server(void *userdata, struct nb_failure *f) {
        static const struct nb_call call = { "an answer from", "/ping", ANSWER_MAX, NULL };
        const struct asking *asking = userdata;
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r = nb_api_init(&api, asking->server, NULL, asking->deadline_ms, f);

        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        return nb_api_get(&api, &call, NULL, &answer, f);
}

int nb_find_other_server(const struct nb_cluster *present, const struct nb_settings *settings,
                         uint64_t deadline_ms, struct nb_cluster *ret_other, struct nb_failure *f) {
        const uint64_t patience_ms = nb_now_ms() + PATIENCE_MS,
                       end_ms = deadline_ms < patience_ms ? deadline_ms : patience_ms;
        struct asking asking = { present, end_ms };
        int r = nb_retry_until(NB_RETRY_STAGE, end_ms, ask_server, &asking, f);

        if (r >= 0 || !nb_http_is_unanswered(f->code))
                return r < 0 ? r : 0;
        for (unsigned i = 0; i < settings->n_endpoints; i++) {
                struct nb_cluster other = *present; /* borrows the CAs */
                struct nb_failure why = { 0 };

                other.server = settings->endpoints[i];
                if (other.server.port == NB_RKE2_SUPERVISOR_PORT)
                        other.server.port = NB_API_SERVER_PORT;
                if (nb_url_is_equal(&other.server, &present->server))
                        continue;
                asking = (struct asking){ &other, nb_now_ms() + NB_HTTP_REQUEST_TIMEOUT_MS };
                r = ask_server(&asking, &why);
                if (r == -ECANCELED && why.code == NB_NONE)
                        return r;
                if (r < 0)
                        continue;
                nb_failure_clear(f);
                other.ca = strdup(present->ca);
                if (!other.ca)
                        return nb_failure_set_memory(f);
                *ret_other = other;
                return 1;
        }
        f->code = NB_REFRESH_UNFINISHED;
        return -EPROTO;
}
