/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/digest.h"
#include "crypto/key_internal.h"
#include "crypto/pem.h"
#include "crypto/pkcs10.h"
#include "crypto/pkcs10_facts.h"

#define COMMON_NAME_SIZE 512
#define STREAM_MAX 4096

/* The result is never cut, since a node name is much shorter than the size. */
static void format_common_name(const char *node_name, char ret[static COMMON_NAME_SIZE]) {
        snprintf(ret, COMMON_NAME_SIZE, NB_NODE_COMMON_NAME_PREFIX "%s", node_name);
}

/* The order of the attributes matters to Kubernetes. */
static int set_subject(gnutls_x509_crq_t crq, const char *node_name) {
        char common_name[COMMON_NAME_SIZE];
        int r;

        r = gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_ORGANIZATION_NAME, 0,
                                          NB_NODE_ORGANIZATION,
                                          (unsigned)strlen(NB_NODE_ORGANIZATION));
        if (r < 0)
                return r;
        format_common_name(node_name, common_name);
        return gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_COMMON_NAME, 0, common_name,
                                             (unsigned)strlen(common_name));
}

static int make_request(const struct nb_key *key, const char *node_name, gnutls_datum_t *ret_der) {
        _cleanup_(nb_crq_deinitp) gnutls_x509_crq_t crq = NULL;
        int r;

        r = gnutls_x509_crq_init(&crq);
        if (r >= 0)
                r = gnutls_x509_crq_set_version(crq, 1);
        if (r >= 0)
                r = set_subject(crq, node_name);
        if (r >= 0)
                r = gnutls_x509_crq_set_key(crq, key->key);
        if (r >= 0)
                r = gnutls_x509_crq_sign2(crq, key->key, GNUTLS_DIG_SHA256, 0);
        if (r >= 0)
                r = gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, ret_der);
        return r < 0 ? nb_gnutls_to_errno(r) : 0;
}

int nb_pkcs10_create(const struct nb_key *key, const char *node_name, bool is_pem,
                     struct nb_buffer *ret) {
        _cleanup_(nb_datum_done) gnutls_datum_t der = { 0 }, pem = { 0 };
        int r;

        r = make_request(key, node_name, &der);
        if (r < 0)
                return r;
        r = is_pem ? gnutls_pem_base64_encode2(NB_PEM_REQUEST, &der, &pem) : 0;
        if (r < 0)
                return nb_gnutls_to_errno(r);
        nb_buffer_append(ret, is_pem ? pem.data : der.data, is_pem ? pem.size : der.size);
        return ret->error;
}

static void append_item(struct nb_buffer *stream, const void *item, size_t len) {
        nb_base64url_encode(item, len, stream);
        nb_buffer_append(stream, "|", 1);
}

int nb_pkcs10_csr_name(const struct nb_key *key, const char *node_name,
                       char ret[static NB_PKCS10_NAME_SIZE]) {
        _cleanup_(nb_buffer_done) struct nb_buffer stream = NB_BUFFER_INIT(STREAM_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_PKCS10_NAME_SIZE - 1);
        char common_name[COMMON_NAME_SIZE];
        const char *const items[] = { common_name, NB_NODE_ORGANIZATION, "digital signature",
                                      "key encipherment", "client auth" };
        uint8_t digest[NB_SHA256_SIZE];
        int r;

        format_common_name(node_name, common_name);
        append_item(&stream, key->spki.data, key->spki.size);
        for (size_t i = 0; i < N_ELEMENTS(items); i++)
                append_item(&stream, items[i], strlen(items[i]));
        r = stream.error < 0 ? stream.error : nb_sha256(stream.data, stream.len, digest);
        if (r < 0)
                return r;
        nb_buffer_append_string(&text, "node-csr-");
        nb_base64url_encode(digest, sizeof(digest), &text);
        if (text.error < 0)
                return text.error;
        memcpy(ret, text.data, text.len + 1);
        return 0;
}

static bool is_for_node(const struct nb_pkcs10_facts *facts, const char *node_name) {
        char expected[COMMON_NAME_SIZE];

        format_common_name(node_name, expected);
        return facts->is_subject_plain && strcmp(facts->common_name, expected) == 0 &&
               strcmp(facts->organization, NB_NODE_ORGANIZATION) == 0;
}

int nb_pkcs10_verify(const char *pem, size_t len, const struct nb_key *key, const char *node_name) {
        struct nb_pkcs10_facts facts;
        int r;

        r = nb_pkcs10_facts_read(pem, len, &facts);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (!nb_digest_is_equal(facts.key, key->id))
                return -EKEYREJECTED;
        return is_for_node(&facts, node_name) ? 0 : -EPERM;
}

int nb_pkcs10_verify_node(const char *pem, size_t len, const char *node_name) {
        struct nb_pkcs10_facts facts;
        int r = nb_pkcs10_facts_look(pem, len, &facts);

        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (!is_for_node(&facts, node_name) || !facts.is_p256 || facts.end != len ||
            facts.n_names > 0 || facts.has_other_extensions)
                return -EPERM;
        r = nb_pkcs10_facts_read(pem, len, &facts);
        return r < 0 && r != -ENOMEM ? -EINVAL : r;
}
