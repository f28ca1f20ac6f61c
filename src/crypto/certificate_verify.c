/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/text.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"
#include "crypto/pkcs10.h"
#include "os/clock.h"

#define OID_SIZE 128

/* A common name whose node name fits. */
#define ATTRIBUTE_SIZE (sizeof(NB_NODE_COMMON_NAME_PREFIX) - 1 + NB_CERTIFICATE_NODE_SIZE)

int nb_certificate_verify_key(const struct nb_certificates *certificates,
                              const struct nb_key *key) {
        uint8_t id[NB_SHA256_SIZE];
        size_t size = sizeof(id);

        if (gnutls_x509_crt_get_key_id(certificates->entries[0].crt, GNUTLS_KEYID_USE_SHA256, id,
                                       &size) < 0)
                return -EKEYREJECTED;
        return nb_digest_is_equal(id, key->id) ? 0 : -EKEYREJECTED;
}

struct subject {
        char node_name[NB_CERTIFICATE_NODE_SIZE]; /* from the last common name, which Go uses */
        bool is_in_group;
        bool has_more; /* more than two attributes */
};

/* Copies attribute `i` of this type, in the order of all RDNs, as Kubernetes flattens them. The
 * text is escaped as in RFC 4514, so a value with a special character, or one that is not text
 * ("#..."), never equals an expected one. "" if it is too long. Returns whether there is one. */
static bool read_attribute(const struct nb_certificates *chain, const char *oid, unsigned i,
                           char ret[static ATTRIBUTE_SIZE]) {
        size_t len = ATTRIBUTE_SIZE;
        int r = gnutls_x509_crt_get_dn_by_oid(chain->entries[0].crt, oid, i, 0, ret, &len);

        if (r < 0 || !nb_text_is_printable(ret, len))
                ret[0] = '\0';
        return r >= 0 || r == GNUTLS_E_SHORT_MEMORY_BUFFER;
}

static struct subject read_subject(const struct nb_certificates *chain) {
        static const char prefix[] = NB_NODE_COMMON_NAME_PREFIX;
        struct subject subject = { 0 };
        char text[ATTRIBUTE_SIZE], oid[OID_SIZE];
        size_t size = sizeof(oid);

        for (unsigned i = 0; read_attribute(chain, GNUTLS_OID_X520_COMMON_NAME, i, text); i++)
                NB_TEXT_COPY(subject.node_name, strncmp(text, prefix, strlen(prefix)) == 0
                                                        ? text + strlen(prefix)
                                                        : "");
        for (unsigned i = 0; read_attribute(chain, GNUTLS_OID_X520_ORGANIZATION_NAME, i, text); i++)
                subject.is_in_group |= strcmp(text, NB_NODE_ORGANIZATION) == 0;
        subject.has_more = gnutls_x509_crt_get_dn_oid(chain->entries[0].crt, 2, oid, &size) !=
                           GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
        return subject;
}

void nb_certificate_node_name(const struct nb_certificates *chain,
                              char ret[static NB_CERTIFICATE_NODE_SIZE]) {
        struct subject subject = read_subject(chain);

        memcpy(ret, subject.node_name, sizeof(subject.node_name));
}

bool nb_certificate_is_for_node(const struct nb_certificates *chain, const char *node_name,
                                bool is_exact) {
        struct subject subject = read_subject(chain);

        return subject.node_name[0] && strcmp(subject.node_name, node_name) == 0 &&
               subject.is_in_group && !(is_exact && subject.has_more);
}

/* GnuTLS accepts a certificate without extended key usage for every purpose, so require at least
 * one usage. */
static bool is_for_client_auth(gnutls_x509_crt_t crt) {
        char oid[OID_SIZE];
        size_t size = sizeof(oid);

        return gnutls_x509_crt_get_key_purpose_oid(crt, 0, oid, &size, NULL) >= 0 &&
               gnutls_x509_crt_check_key_purpose(crt, GNUTLS_KP_TLS_WWW_CLIENT,
                                                 GNUTLS_KP_FLAG_DISALLOW_ANY);
}

static int refuse_issued(struct nb_failure *f, int errnum, const char *found) {
        return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, errnum, "the issued certificate %s",
                              found);
}

static int refuse_serving(struct nb_failure *f, int errnum, const char *found) {
        return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, errnum, "the serving certificate %s",
                              found);
}

static int verify_leaf(const struct nb_certificates *chain, const struct nb_key *key,
                       const char *node_name, struct nb_failure *f) {
        char subject[NB_SUBJECT_SIZE];

        if (nb_certificate_verify_key(chain, key) < 0)
                return refuse_issued(f, EKEYREJECTED,
                                     "is for another key; expected that of the pending request");
        if (!nb_certificate_is_for_node(chain, node_name, true)) {
                nb_certificate_subject(chain, 0, subject);
                return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, EPERM,
                                      "the issued certificate is for the subject '%.200s'; "
                                      "expected O=" NB_NODE_ORGANIZATION
                                      " and CN=" NB_NODE_COMMON_NAME_PREFIX "%s alone",
                                      subject, node_name);
        }
        if (nb_certificate_is_ca(chain, 0))
                return refuse_issued(f, EPERM, "is a CA; expected an end-entity certificate");
        if (!is_for_client_auth(chain->entries[0].crt))
                return refuse_issued(
                        f, EPERM,
                        "is not for client authentication; expected that extended key usage");
        return 0;
}

/* `which` names the certificate in messages: "issued". */
static int verify_time(const struct nb_certificates *chain, size_t i, const char *which, time_t now,
                       struct nb_failure *f) {
        time_t not_after = nb_certificate_not_after(chain, i);
        char at[NB_RFC3339_SIZE], clock[NB_RFC3339_SIZE];

        if (not_after >= now)
                return 0;
        nb_time_format(now, clock);
        nb_time_format(not_after, at);
        return nb_failure_set(
                f, NB_CERTIFICATE_UNUSABLE, EKEYEXPIRED,
                "the %s certificate expired at %s; by the clock of this machine it is "
                "%s",
                which, at, clock);
}

int nb_certificate_verify_node(const struct nb_certificates *chain, const struct nb_key *key,
                               const char *node_name, time_t now, struct nb_failure *f) {
        int r;

        r = verify_leaf(chain, key, node_name, f);
        if (r < 0)
                return r;
        for (size_t i = 0; i < chain->n; i++) {
                r = verify_time(chain, i, i == 0 ? "issued" : "intermediate", now, f);
                if (r < 0)
                        return r;
                if (i > 0 &&
                    !(nb_certificate_is_ca(chain, i) &&
                      nb_crt_is_issued_by(chain->entries[i - 1].crt, chain->entries[i].crt)))
                        return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, EPERM,
                                              "certificate %zu of the issued chain is not the CA "
                                              "that issued the previous one",
                                              i + 1);
        }
        return 0;
}

/* --- Serving certificates --- */

#define NAMES_SIZE 1024

static bool is_address(const char *name) {
        uint8_t bytes[sizeof(struct in6_addr)];

        return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Copies the next name of a list. Returns what follows it; NULL at the end. */
static const char *next_name(const char *list, char ret[static NAMES_SIZE]) {
        size_t len;

        list += strspn(list, ", ");
        len = strcspn(list, ", ");
        snprintf(ret, NAMES_SIZE, "%.*s", (int)len, list);
        return len > 0 ? list + len : NULL;
}

static bool has_name(const char *list, const char *name) {
        char found[NAMES_SIZE];

        while ((list = next_name(list, found)))
                if (strcmp(found, name) == 0)
                        return true;
        return false;
}

/* A name of another machine, or a list that is too long to be read, is refused. */
static bool has_serving_names(const char *names, const char *node_name, const char *ips) {
        char name[NAMES_SIZE];

        if (!has_name(names, node_name) || !has_name(names, "localhost"))
                return false;
        for (const char *p = names; (p = next_name(p, name));)
                if (strcmp(name, node_name) != 0 && strcmp(name, "localhost") != 0 &&
                    !is_address(name))
                        return false;
        for (const char *p = ips; (p = next_name(p, name));)
                if (!has_name(names, name))
                        return false;
        return true;
}

int nb_certificate_verify_serving(const struct nb_certificates *chain,
                                  const struct nb_certificates *ca, const struct nb_key *key,
                                  const char *node_name, const char *ips, time_t now,
                                  struct nb_failure *f) {
        char names[NAMES_SIZE];

        if (nb_certificate_verify_key(chain, key) < 0)
                return refuse_serving(f, EKEYREJECTED, "is for another key");
        if (nb_certificate_is_ca(chain, 0) || !nb_certificate_may_serve(chain, 0))
                return refuse_serving(f, EPERM, "is not for server authentication");
        if (!nb_certificate_is_trusted(chain, ca))
                return refuse_serving(f, EPERM, "is not issued by a CA of the cluster");
        nb_certificate_names(chain, 0, names, sizeof(names));
        if (!has_serving_names(names, node_name, ips))
                return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, EPERM,
                                      "the serving certificate is for '%.160s'; expected '%.100s', "
                                      "localhost and the addresses of this node (%s)",
                                      names, node_name, ips);
        return verify_time(chain, 0, "serving", now, f);
}
