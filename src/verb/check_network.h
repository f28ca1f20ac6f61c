/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the steps of `check` on the network hand to one another. */

#include <sys/socket.h>
#include <time.h>

#include "stage/join.h"

#define NB_CHECK_ADDRESSES_MAX 8
#define NB_CHECK_PATIENCE_MS 10000 /* for one question */

/* Who is asked first of all: an endpoint, or the server of a document or URL. */
struct nb_check_endpoint {
        struct nb_url url;
        char name[NB_URL_MAX];
        struct {
                struct sockaddr_storage address;
                socklen_t len;
                char text[64]; /* without the port */
        } addresses[NB_CHECK_ADDRESSES_MAX];
        unsigned n_addresses;
        time_t date; /* of its answer; 0 while there is none */
        uint64_t date_ms;
        time_t not_before, not_after; /* of the certificate that it shows */
};

/* How far the discovery at an endpoint came. */
enum nb_check_depth {
        NB_CHECK_DEPTH_ANSWER,
        NB_CHECK_DEPTH_SIGNATURE,
        NB_CHECK_DEPTH_CA,
        NB_CHECK_DEPTH_VERIFIED,
};

struct nb_check_network {
        struct nb_check_endpoint endpoints[NB_SETTINGS_ENDPOINTS_MAX];
        unsigned n;
        bool is_proxied;             /* by the environment: what is found directly need not matter */
        struct nb_settings settings; /* of a join that knows of one endpoint alone */
        struct nb_join join;         /* of the endpoint that proved good; its cluster is empty before */
        bool is_proven;
        enum nb_check_depth depth; /* where it ended, with `failure` */
        struct nb_failure failure;
        int may_request; /* nb_csr_right_read() */
};

/* NULL is fine. */
void nb_check_network_free(struct nb_check_network *network);
