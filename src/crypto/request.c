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
#include "crypto/request.h"
#include "crypto/request_internal.h"

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

int nb_request_create(const struct nb_key *key, const char *node_name, bool is_pem,
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

int nb_request_name(const struct nb_key *key, const char *node_name,
                    char ret[static NB_REQUEST_NAME_SIZE]) {
        _cleanup_(nb_buffer_done) struct nb_buffer stream = NB_BUFFER_INIT(STREAM_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_REQUEST_NAME_SIZE - 1);
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

static bool is_key_bounded(gnutls_x509_crq_t crq) {
        unsigned bits = 0;

        return gnutls_x509_crq_get_pk_algorithm(crq, &bits) < 0 || bits <= NB_KEY_BITS_MAX;
}

int nb_request_import(const gnutls_datum_t *text, gnutls_x509_crt_fmt_t format,
                      gnutls_x509_crq_t *ret_crq) {
        _cleanup_(nb_crq_deinitp) gnutls_x509_crq_t crq = NULL;

        if (gnutls_x509_crq_init(&crq) < 0)
                return -ENOMEM;
        if (gnutls_x509_crq_import(crq, text, format) < 0 || !is_key_bounded(crq) ||
            gnutls_x509_crq_verify(crq, 0) < 0)
                return -EINVAL;
        *ret_crq = TAKE(crq);
        return 0;
}

static int import_first_block(const char *pem, size_t len, gnutls_x509_crq_t *ret_crq) {
        struct nb_pem_block block;
        gnutls_datum_t datum;
        size_t offset = 0;

        if (nb_pem_next(pem, len, &offset, &block) <= 0 ||
            !nb_pem_block_is(&block, NB_PEM_REQUEST) || block.len > NB_PEM_BLOCK_MAX)
                return -EINVAL;
        datum = nb_datum_const(block.text, block.len);
        return nb_request_import(&datum, GNUTLS_X509_FMT_PEM, ret_crq);
}

static int verify_request_key(gnutls_x509_crq_t crq, const struct nb_key *key) {
        uint8_t id[NB_SHA256_SIZE];
        size_t size = sizeof(id);

        if (gnutls_x509_crq_get_key_id(crq, GNUTLS_KEYID_USE_SHA256, id, &size) < 0)
                return -EKEYREJECTED;
        return nb_digest_is_equal(id, key->id) ? 0 : -EKEYREJECTED;
}

/* An RFC 4514 string begins with the last attribute. Separators in values are escaped, so that a
 * value cannot imitate another attribute. */
static int verify_request_subject(gnutls_x509_crq_t crq, const char *node_name) {
        _cleanup_(nb_datum_done) gnutls_datum_t found = { 0 };
        char expected[COMMON_NAME_SIZE];

        snprintf(expected, sizeof(expected),
                 "CN=" NB_NODE_COMMON_NAME_PREFIX "%s,O=" NB_NODE_ORGANIZATION, node_name);
        return gnutls_x509_crq_get_dn3(crq, &found, 0) >= 0 && found.size == strlen(expected) &&
                               memcmp(found.data, expected, found.size) == 0
                       ? 0
                       : -EPERM;
}

int nb_request_verify(const char *pem, size_t len, const struct nb_key *key,
                      const char *node_name) {
        _cleanup_(nb_crq_deinitp) gnutls_x509_crq_t crq = NULL;
        int r;

        r = import_first_block(pem, len, &crq);
        if (r < 0)
                return r;
        r = verify_request_key(crq, key);
        if (r < 0)
                return r;
        return verify_request_subject(crq, node_name);
}
