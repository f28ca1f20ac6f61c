/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509-ext.h>
#include <gnutls/x509.h>

#include "base/macro.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"

/*
 * Name constraints as in Go (crypto/x509, checkNameConstraints). gnutls_x509_name_constraints_
 * check_crt() also compares the common name, does not support constraints that begin with a dot,
 * and accepts a wildcard that matches an excluded name.
 */

typedef int get_constraint(gnutls_x509_name_constraints_t, unsigned, unsigned *, gnutls_datum_t *);

static void constraints_deinitp(gnutls_x509_name_constraints_t *constraints) {
        if (*constraints)
                gnutls_x509_name_constraints_deinit(*constraints);
}

static void names_deinitp(gnutls_subject_alt_names_t *names) {
        if (*names)
                gnutls_subject_alt_names_deinit(*names);
}

/* Also refuses a dot at the end, with which a name would be below no other one. */
static bool is_domain(const gnutls_datum_t *name) {
        unsigned char before = '.';

        for (unsigned i = 0; i < name->size; i++) {
                if (name->data[i] <= ' ' || name->data[i] > '~' ||
                    (before == '.' && name->data[i] == '.'))
                        return false;
                before = name->data[i];
        }
        return before != '.';
}

static bool is_equal(const unsigned char *a, size_t a_len, const unsigned char *b, size_t b_len) {
        return a_len == b_len && strncasecmp((const char *)a, (const char *)b, a_len) == 0;
}

/* "*.example" is also a name for "test.example": excluded as well (Go since 1.24.11 and 1.25.5). */
static bool stands_for(const gnutls_datum_t *name, const unsigned char *domain, size_t len) {
        const unsigned char *dot = memchr(domain, '.', len);

        return dot && name->size > 2 && memcmp(name->data, "*.", 2) == 0 &&
               is_equal(name->data + 1, name->size - 1, dot, len - (size_t)(dot - domain));
}

/* A domain constrains itself and the names below it; with a dot before it, only these. */
static bool is_within(const gnutls_datum_t *name, const gnutls_datum_t *constraint,
                      bool is_excluded) {
        const bool is_strict = constraint->size > 0 && constraint->data[0] == '.';
        const unsigned char *domain = constraint->data + is_strict;
        const size_t len = constraint->size - is_strict;

        if (len == 0 || (!is_strict && is_equal(name->data, name->size, domain, len)) ||
            (is_excluded && stands_for(name, domain, len)))
                return true;
        return name->size > len && name->data[name->size - len - 1] == '.' &&
               is_equal(name->data + name->size - len, len, domain, len);
}

static bool is_domain_permitted(gnutls_x509_name_constraints_t constraints,
                                const gnutls_datum_t *name) {
        bool is_constrained = false, is_found = false;
        gnutls_datum_t constraint;
        unsigned type;

        if (!is_domain(name))
                return false;
        for (unsigned i = 0;
             gnutls_x509_name_constraints_get_excluded(constraints, i, &type, &constraint) >= 0;
             i++)
                if (type == GNUTLS_SAN_DNSNAME && is_within(name, &constraint, true))
                        return false;
        for (unsigned i = 0;
             gnutls_x509_name_constraints_get_permitted(constraints, i, &type, &constraint) >= 0;
             i++) {
                is_constrained |= type == GNUTLS_SAN_DNSNAME;
                is_found |= type == GNUTLS_SAN_DNSNAME && is_within(name, &constraint, false);
        }
        return !is_constrained || is_found;
}

static bool are_permitted(gnutls_x509_name_constraints_t constraints, gnutls_x509_crt_t crt) {
        _cleanup_(names_deinitp) gnutls_subject_alt_names_t names = NULL;
        _cleanup_(nb_datum_done) gnutls_datum_t extension = { 0 };
        gnutls_datum_t name;
        unsigned type;
        int r;

        r = gnutls_x509_crt_get_extension_by_oid2(crt, GNUTLS_X509EXT_OID_SAN, 0, &extension, NULL);
        if (r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
                return true;
        if (r < 0 || gnutls_subject_alt_names_init(&names) < 0 ||
            gnutls_x509_ext_import_subject_alt_names(&extension, names, 0) < 0)
                return false;
        for (unsigned i = 0;; i++) {
                r = gnutls_subject_alt_names_get(names, i, &type, &name, NULL);
                if (r < 0)
                        return r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
                if (type == GNUTLS_SAN_DNSNAME
                            ? !is_domain_permitted(constraints, &name)
                            : (type == GNUTLS_SAN_IPADDRESS || type == GNUTLS_SAN_RFC822NAME ||
                               type == GNUTLS_SAN_URI) &&
                                      !gnutls_x509_name_constraints_check(
                                              constraints, (gnutls_x509_subject_alt_name_t)type,
                                              &name))
                        return false;
        }
}

/* Counts constraints. Returns whether all are on names that are compared. */
static bool are_known(gnutls_x509_name_constraints_t constraints, get_constraint *get,
                      unsigned *n) {
        gnutls_datum_t constraint;
        bool is_known = true;
        unsigned type;

        for (unsigned i = 0; get(constraints, i, &type, &constraint) >= 0; i++, (*n)++)
                is_known &= type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_IPADDRESS ||
                            type == GNUTLS_SAN_RFC822NAME || type == GNUTLS_SAN_URI;
        return is_known;
}

bool nb_crt_permits_names(gnutls_x509_crt_t ca, const gnutls_x509_crt_t *below, size_t n) {
        _cleanup_(constraints_deinitp) gnutls_x509_name_constraints_t constraints = NULL;
        unsigned is_critical = 0, count = 0;
        bool is_known;
        int r;

        if (gnutls_x509_name_constraints_init(&constraints) < 0)
                return false;
        r = gnutls_x509_crt_get_name_constraints(ca, constraints, 0, &is_critical);
        if (r < 0)
                return r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
        is_known = are_known(constraints, gnutls_x509_name_constraints_get_permitted, &count);
        is_known &= are_known(constraints, gnutls_x509_name_constraints_get_excluded, &count);
        if (count == 0 || (!is_known && is_critical))
                return false;
        for (size_t i = 0; i < n; i++)
                if (!are_permitted(constraints, below[i]))
                        return false;
        return true;
}
