/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "join/refresh.h"
#include "kube/kubeconfig_format.h"
#include "method/documents.h"
#include "state/handoff.h"

/* Loads the settings and the node's own files that the installer has passed on. */
static int load_installed(struct nb_sources *sources, struct nb_settings *ret_settings,
                          struct nb_cluster *ret_present, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT, pem = NB_SECRET_INIT;
        char link[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        struct nb_kubeconfig_input input = { .origin = ret_settings->kubeconfig };
        int r;

        r = nb_sources_receive(sources, f);
        if (r < 0)
                return r;
        r = nb_documents_merge(sources, NULL, NULL, ret_settings, f);
        if (r < 0)
                return r;
        r = nb_sources_read(sources, ret_settings->kubeconfig, NB_KUBECONFIG_MAX, &text, NULL);
        if (r < 0)
                return nb_installed_refuse(ret_settings->kubeconfig, r, f);
        snprintf(link, sizeof(link), "%s/" NB_STORE_CURRENT, ret_settings->certificate_directory);
        input.text = text.data;
        input.len = text.len;
        r = nb_kubeconfig_parse_own(&input, ret_settings->ca_file, link, ret_present, f);
        if (r < 0)
                return r;
        r = nb_sources_read(sources, ret_settings->ca_file, NB_CA_FILE_MAX, &pem, NULL);
        if (r < 0)
                return nb_installed_refuse(ret_settings->ca_file, r, f);
        ret_present->ca = strdup(pem.data);
        if (!ret_present->ca)
                return nb_failure_set_memory(f);
        ret_present->ca_len = strlen(ret_present->ca); /* up to the first NUL byte */
        return 0;
}

static int run_refresh(struct nb_sources *sources, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_cluster_done) struct nb_cluster present = { 0 }, newer = { 0 };
        _cleanup_(nb_closep) int state_fd = -1;
        uint64_t timeout_ms = NB_REFRESH_TIMEOUT_MS;
        struct nb_settings settings;
        char server[NB_URL_MAX];
        int r;

        r = nb_sources_folder("STATE_DIRECTORY", &state_fd, f);
        if (r < 0)
                return r;
        r = nb_state_file_clear(state_fd, NB_REFRESH_FILE, f);
        if (r < 0)
                return r;
        r = load_installed(sources, &settings, &present, f);
        nb_sources_done(sources);
        if (r < 0)
                return r;
        if (timeout_ms > settings.timeout_ms)
                timeout_ms = settings.timeout_ms;
        nb_url_format(&present.server, server);
        nb_log_status("Asking %s for the cluster's CA and server", server);
        r = nb_refresh_run(&present, nb_now_ms() + timeout_ms, &newer, f);
        if (r < 0)
                return r;
        if (r == 0) {
                nb_log(LOG_INFO, NB_REFRESH_UNCHANGED,
                       "the cluster at %s has the same CA and server as this node", server);
                nb_log_status("The cluster's CA and server have not changed");
                return 0;
        }
        r = nb_state_file_format(&nb_refresh_file, &newer, &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format '" NB_REFRESH_FILE "': %m");
        return nb_state_file_write(state_fd, NB_REFRESH_FILE, &text, f);
}

int nb_command_refresh(struct nb_options *options, struct nb_failure *f) {
        struct nb_sources sources;
        int r;

        r = nb_options_read(options, NULL, f);
        if (r < 0)
                return r;
        if (nb_stop_init() < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        nb_sources_init(&sources, options->config_directory);
        nb_log_field(NB_FIELD_STAGE, "refresh");
        r = run_refresh(&sources, f);
        if (r >= 0)
                return 0;
        if (r == -ECANCELED && f->code == NB_NONE) {
                nb_log(LOG_NOTICE, NB_NONE, "stopped before the cluster answered");
                return NB_EXIT_STOPPED;
        }
        if (f->code == NB_REFRESH_INAPPLICABLE || f->code == NB_REFRESH_NOT_SHOWN) {
                nb_log(f->code == NB_REFRESH_NOT_SHOWN ? LOG_WARNING : LOG_DEBUG, f->code,
                       "nothing is refreshed: %s", f->detail);
                return 0;
        }
        nb_log_status("Not refreshed (%s): %s", nb_failure_info(f->code)->slug, f->detail);
        return r;
}
