/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A CertificateSigningRequest of a node, for `requests` and the controller: the requestor as the
 * API server recorded it, and the content of the request. Only `pem` is allocated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "codec/json.h"
#include "crypto/pkcs10_facts.h"
#include "kube_objects/csr.h"
#include "kube_objects/node_name.h"
#include "kube_objects/pin.h"
#include "kube_objects/token.h"

#define NB_SIGNER_SERVING "kubernetes.io/kubelet-serving"
#define NB_APPROVED_REASON \
        "NodeBootstrapApproved" /* in the condition of what the controller approves */
#define NB_APPROVED_BY_COMMAND "ApprovedByAdministrator" /* the same for `requests approve` */
#define NB_BOOTSTRAP_USER_PREFIX "system:bootstrap:"

enum nb_node_request_kind {
        NB_NODE_REQUEST_OTHER, /* of another signer; nothing below but name, uid and state is set */
        NB_NODE_REQUEST_CLIENT,
        NB_NODE_REQUEST_SERVING,
        _NB_NODE_REQUEST_KIND_N,
};

/* "client" and "serving", for people and metrics. */
extern const char *const nb_node_request_kinds[_NB_NODE_REQUEST_KIND_N];

struct nb_node_request {
        enum nb_node_request_kind kind;
        char name[NB_CSR_NAME_MAX + 1]; /* "uid/UID", which none has, if it is unusable */
        char uid[64];
        char resource_version[64];
        time_t created;
        time_t approved; /* 0: not approved, or at an unknown time */
        bool is_approved_by_controller, is_approved_by_command;
        enum nb_csr_state state;
        bool has_certificate;
        char username[256];                 /* who submitted it */
        char token_id[NB_TOKEN_ID_LEN + 1]; /* of system:bootstrap:ID; "" for another user */
        bool is_in_bound_group, is_in_enrolled_group; /* NB_TOKEN_GROUP_NODE, _ENROLLED */
        bool is_group_exact;             /* the requestor's groups include "system:nodes"; for
                                            serving certificates */
        char node[NB_NODE_NAME_MAX + 1]; /* from the common name system:node:NAME, if it is a
                                            valid node name; otherwise "" */
        struct nb_pkcs10_facts facts;
        char *pem; /* spec.request, decoded: the request and further PEM blocks; NULL if the request
                      cannot be read */
        size_t pem_len;
        char proof_key[NB_PIN_TEXT_SIZE]; /* the key that, it says, signs it; "": it names none */
        char flaw[192]; /* why it is not a correct request of its kind, as the end of a sentence; ""
                           if it is. "the organization is not 'system:nodes'" */
};

/*
 * Reads a CSR object. A request that cannot be parsed is not a failure of the document, but has a
 * flaw. In a correct request, subject, usages and alternative names are exactly those that
 * kube-controller-manager requires (pkg/apis/certificates/helpers.go, ValidateKubeletClientCSR and
 * ValidateKubeletServingCSR): organization system:nodes, common name system:node:NAME; client: no
 * alternative names, usages client auth and digital signature, with or without key encipherment;
 * serving: only DNS names and addresses, at least one, usages server auth instead, and the
 * requestor is the node itself.
 */
void nb_node_request_read(struct nb_json *json, struct nb_node_request *ret_request);

/* Any holder of a token chooses the name of a request, and Kubernetes accepts any text that can be
 * a segment of a path (apimachinery path.ValidatePathSegmentName), at any length. Only a name with
 * NB_CSR_NAME_MAX bytes or less is used in calls; other requests are known by what a list or a
 * watch says of them. */
bool nb_csr_name_is_usable(const char *name);

void nb_node_request_done(struct nb_node_request *request);
