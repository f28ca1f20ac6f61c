/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/commands.h"
#include "join_method/settings_documents.h"
#include "prover/proof_key.h"
#include "prover/prover.h"
#include "settings/settings.h"

/* Without settings, the key is the one that every TPM has: whoever commissions a machine boots a
 * rescue system. */
static int choose_key(struct nb_sources *sources, const char *option, struct nb_settings *settings,
                      struct nb_failure *f) {
        int r;

        nb_settings_init(settings);
        if (!option) {
                if (nb_sources_is_sealed(sources, NB_CREDENTIAL_CONFIG_NAME))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "the settings are in the encrypted credential '%s', "
                                              "which only the service can read; --key is required",
                                              NB_CREDENTIAL_CONFIG_NAME);
                r = nb_documents_merge(sources, NULL, settings, f);
                if (r < 0)
                        return r;
        } else if (nb_setting_parse(settings, NB_SETTING_PROOF_KEY, option, strlen(option)) < 0) {
                return nb_failure_set(f, NB_USAGE, 0, "--key=%s: expected %s",
                                      nb_text_shown(option), nb_setting_type_proof_key.expected);
        }
        if (!settings->proof_key[0])
                NB_TEXT_COPY(settings->proof_key, NB_PROOF_KEY_TPM);
        return 0;
}

/* systemd decrypts it for the prover only. */
static int verify_readable(const struct nb_sources *sources, const char *key,
                           struct nb_failure *f) {
        static const char name[] = NB_CREDENTIAL_ATTESTATION_KEY_NAME;

        if (strcmp(key, NB_PROOF_KEY_CREDENTIAL) != 0 || sources->credentials_directory ||
            !nb_sources_is_sealed(sources, name))
                return 0;
        return nb_failure_set(f, NB_ATTESTATION_KEY_UNUSABLE, 0,
                              "the key in %s is encrypted, and only the prover gets it decrypted; "
                              "'systemd-creds decrypt %s/%s - | openssl pkey -pubout' prints its "
                              "public key",
                              nb_store_find(name)->folder, nb_store_find(name)->folder, name);
}

/* The key signs a request that is thrown away, so that this fails if a join would. Not through the
 * prover, whose socket is up only during a join. */
int nb_command_proof_key(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer request = NB_BUFFER_INIT(2 * NB_PKCS10_PEM_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX);
        const char *option = NULL;
        const struct nb_option rows[] = {
                { "key", "KEY", "as proof.key in the settings; default: this setting, or tpm",
                  .ret_value = &option },
                { NULL },
        };
        char id[NB_PIN_TEXT_SIZE];
        struct nb_settings settings;
        struct nb_sources sources;
        int r = nb_options_read(options, rows, f);

        if (r < 0)
                return r;
        nb_sources_init(&sources, options->config_directory);
        if (!sources.credentials_directory)
                nb_sources_find_stores(&sources);
        r = choose_key(&sources, option, &settings, f);
        if (r >= 0)
                r = verify_readable(&sources, settings.proof_key, f);
        if (r >= 0)
                r = nb_prover_make_trial(&request, f);
        if (r >= 0)
                r = nb_proof_key_use(settings.proof_key, &sources, "", &request, f);
        if (r >= 0)
                r = nb_prover_find_key(request.data, &pem, id);
        if (r < 0)
                return r;
        fputs(pem.data, stdout);
        fflush(stdout);
        fprintf(stderr, "proof.key: %s\n%s\n", settings.proof_key, id);
        return 0;
}
