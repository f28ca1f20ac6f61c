/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The pin of a CA, `sha256:<64 hex digits>`, as kubeadm writes it (kubernetes
 * cmd/kubeadm/app/util/pubkeypin). */

#include <stddef.h>
#include <stdint.h>

#define NB_PIN_SIZE 32 /* SHA-256 of a SubjectPublicKeyInfo in DER */

/* Accepts upper-case and lower-case hex digits. 0 or -EINVAL. */
int nb_pin_parse(const char *text, size_t len, uint8_t ret_pin[static NB_PIN_SIZE]);

/* Why the text is not a pin, as the end of a sentence: "it has 63 hex digits"; "" for a valid
 * pin. */
#define NB_PIN_FLAW_SIZE 112
void nb_pin_find_flaw(const char *text, size_t len, char ret[static NB_PIN_FLAW_SIZE]);

#define NB_PIN_TEXT_SIZE (7 + 2 * NB_PIN_SIZE + 1)
void nb_pin_format(const uint8_t pin[static NB_PIN_SIZE], char ret[static NB_PIN_TEXT_SIZE]);
