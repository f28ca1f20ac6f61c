/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/parts/parts.h"
#include "admin/policy/data_fields.h"
#include "base/macro.h"
#include "settings/types.h"

/* Each part of the controller. They run in this order. */
static const struct nb_part *const all_parts[] = {
        &nb_part_approve_client,
        &nb_part_approve_serving,
        &nb_part_signer,
        &nb_part_cleaner,
};
_Static_assert(N_ELEMENTS(all_parts) <= NB_CONTROLLER_PARTS_MAX, "a place for each part");

static bool is_part(const char *name) {
        bool found = false;

        for (size_t i = 0; i < N_ELEMENTS(all_parts); i++)
                found |= strcmp(all_parts[i]->name, name) == 0;
        return found;
}

/* Signer and cleaner have nothing to say in a dry run. */
static int choose_parts(struct nb_controller *controller, struct nb_failure *f) {
        const char *list = controller->settings.parts;
        char name[NB_ITEM_SIZE];

        for (const char *next = list; nb_list_next(&next, name);)
                if (!is_part(name))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "--parts: unknown part; the parts are "
                                              "approve-client, approve-serving, signer and "
                                              "cleaner");
        for (size_t i = 0; i < N_ELEMENTS(all_parts); i++) {
                const struct nb_part *part = all_parts[i];

                if (!(list ? nb_list_has(list, part->name) : part->is_default) ||
                    (controller->settings.is_dry_run && !part->is_wanted))
                        continue;
                controller->parts[controller->n_parts++] = part;
                if (part->is_wanted)
                        controller->deciders[part->kind] = part;
                if (part->on_token)
                        controller->signing = part;
                if (part->begin)
                        part->begin(controller);
        }
        return 0;
}

static int apply_settings(struct nb_controller *controller, struct nb_failure *f) {
        const struct nb_controller_settings *settings = &controller->settings;

        if (nb_setting_duration_parse(settings->grace ? settings->grace : "10m", false,
                                      &controller->grace_ms) < 0)
                return nb_failure_set(f, NB_USAGE, 0, "--grace: expected a duration such as 10m");
        return choose_parts(controller, f);
}

int nb_admin_command_controller(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_controller_end) struct nb_controller controller = { 0 };
        struct nb_controller_settings *settings = &controller.settings;
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(controller.admin.place),
                { "parts", "LIST",
                  "run these parts: approve-client, approve-serving, signer, cleaner; default: all "
                  "but approve-serving",
                  .ret_value = &settings->parts },
                { "deny", NULL,
                  "deny requests for client certificates that can never be approved as they are; "
                  "default: leave them pending",
                  .ret_switch = &settings->is_denying },
                { "dry-run", NULL,
                  "change nothing; Events, log and metrics say what would be decided",
                  .ret_switch = &settings->is_dry_run },
                { "grace", "DURATION",
                  "revoke a bound token this long after the certificate was issued, if the Node "
                  "does not appear; default: 10m",
                  .ret_value = &settings->grace },
                { "listen", "[ADDRESS]:PORT",
                  "serve /healthz, /readyz and /metrics with HTTP; without an address, on "
                  "127.0.0.1",
                  .ret_value = &settings->listen },
                { 0 },
        };
        int r = nb_options_read(options, rows, f);

        if (r >= 0)
                r = apply_settings(&controller, f);
        return r < 0 ? r : nb_controller_run(&controller, f);
}
