/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of the programs as JSON, with which the tests compare documents and scripts. */
#include <stdio.h>

#include "admin/policy/verdict.h"
#include "join_method/method.h"
#include "kube_objects/token.h"
#include "metadata/cloud_internal.h"
#include "platform/guestinfo.h"
#include "settings/settings.h"
#include "settings/types.h"
#include "systemd/log.h"

static const char *separator = "";

static void begin(const char *name, const char *bracket) {
        printf("%s\n\"%s\": %s", separator, name, bracket);
        separator = "";
}

static void end(const char *bracket) {
        printf("%s", bracket);
        separator = ",";
}

/* No text in the tables contains a character that JSON escapes. */
static void put(const char *text) {
        if (text)
                printf("%s\"%s\"", separator, text);
        else
                printf("%snull", separator);
        separator = ", ";
}

static void put_member(const char *name, const char *text) {
        printf("%s\"%s\": ", separator, name);
        separator = "";
        put(text);
}

static void put_settings(void) {
        static const char *const metadata[] = {
                [NB_SETTING_METADATA_NEVER] = "never",
                [NB_SETTING_METADATA_ALWAYS] = "always",
                [NB_SETTING_METADATA_URL] = "url",
                [NB_SETTING_METADATA_HARMLESS] = "harmless",
        };

        begin("settings", "{");
        for (size_t i = 0; i < _NB_SETTING_N; i++) {
                const struct nb_setting_row *row = &nb_setting_rows[i];
                bool is_boolean = row->type == &nb_setting_type_boolean;

                begin(row->key, "{");
                put_member("type", row->max > 0 ? "list of strings" : is_boolean ? "boolean" : "");
                put_member("default", row->initial);
                put_member("metadata", metadata[row->metadata]);
                end("}");
        }
        end("}");
}

static void put_providers(void) {
        begin("providers", "{");
        for (size_t i = 0; i < _NB_PROVIDER_N; i++) {
                const struct nb_cloud_row *row = &nb_cloud_rows[i];

                if (i == NB_PROVIDER_NONE || i == NB_PROVIDER_AUTO)
                        continue;
                begin(nb_provider_names[i], "{");
                put_member("title", nb_provider_titles[i]);
                put_member("address", row->address);
                put_member("token_place", row->token_place);
                put_member("id_form", row->id_form);
                begin("dmi", "[");
                for (size_t j = 0; row->dmi[j].field; j++) {
                        printf("%s[\"%s\", \"%s\"]", separator, row->dmi[j].field,
                               row->dmi[j].pattern);
                        separator = ", ";
                }
                end("]");
                end("}");
        }
        end("}");
}

static void put_methods(void) {
        begin("methods", "[");
        for (size_t i = NB_METHOD_NONE + 1; i < _NB_METHOD_N; i++)
                put(nb_method((enum nb_method_id)i)->name);
        end("]");
}

static void put_fields(void) {
        begin("fields", "[");
        for (size_t i = 0; i < _NB_FIELD_N; i++)
                put(nb_field_name((enum nb_field)i));
        end("]");
}

static void put_refused(void) {
        begin("refused", "[");
        for (size_t i = 0; i < _NB_REASON_N; i++)
                if (nb_reason_verdict((enum nb_reason)i) == NB_VERDICT_REFUSE)
                        put(nb_reason_name((enum nb_reason)i));
        end("]");
}

int main(void) {
        printf("{");
        put_settings();
        put_providers();
        put_methods();
        put_fields();
        put_refused();
        begin("groups", "[");
        put(NB_TOKEN_GROUP_NODE);
        put(NB_TOKEN_GROUP_ENROLLED);
        end("]");
        begin("guestinfo", "[");
        put(NB_GUESTINFO_USER_DATA);
        put(NB_GUESTINFO_TOKEN);
        end("]");
        printf("\n}\n");
        return 0;
}
