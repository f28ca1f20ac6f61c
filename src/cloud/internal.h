/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of cloud/ share. */

#include "base/secret.h"
#include "cloud/cloud.h"
#include "net/http.h"

#define NB_CLOUD_DOCUMENT_MAX (256 * 1024) /* bytes of a metadata document in JSON */
#define NB_CLOUD_TOKEN_MAX 4096            /* bytes of the token in the narrower place */
#define NB_CLOUD_VALUE_MAX 1024            /* bytes of any other value */
#define NB_CLOUD_ID_PARTS 3

struct nb_cloud_call;

/* What a provider is, as far as data can say it. A path is that of the URL; a value is a path, or a key in `document`. */
struct nb_cloud_row {
        const char *address;     /* in figures, as in a URL, unless is_https; NULL: no HTTP, or find_address */
        const char *address6;    /* asked where there is no connection to the first; NULL for none */
        const char *lines[2];    /* headers of every request */
        bool is_https;           /* a name, and TLS */
        bool is_low_port;        /* answers source ports below 1024 alone */
        bool is_patient;         /* 404 and 410 may mean "not yet" */
        const char *session;     /* path to PUT to for a session token; NULL for none */
        const char *session_ttl; /* header of that */
        const char *session_header;
        const char *token;       /* path of the narrower place; NULL for none, or another way to it */
        const char *token_place; /* for people: "instance tag 'node-bootstrap-token'"; NULL for none */
        const char *user_data;
        const char *document;  /* path of a JSON document */
        const char *node_name; /* value; NULL where the cloud does not tell */
        const char *id_form;   /* "aws:///" "*" "/" "*": each '*' is the last component of the value in id_parts; NULL as above */
        const char *id_parts[NB_CLOUD_ID_PARTS];
        int (*find_address)(char *ret_address, size_t size, struct nb_failure *f);
        int (*read)(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f); /* instead of nb_cloud_read_row() */
};

/* NB_PROVIDER_NONE and _AUTO have empty ones. */
extern const struct nb_cloud_row nb_cloud_rows[_NB_PROVIDER_N];

/* The requests of one attempt, over one set of connections. */
struct nb_cloud_call {
        const struct nb_cloud_request *request;
        const struct nb_cloud_row *row;
        const char *title;
        const char *address; /* of the row, or found */
        const char *address6;
        char found[64];
        struct nb_http *http;
        struct nb_secret session;  /* a whole header line; empty before it is asked for */
        struct nb_secret document; /* empty before it is asked for, or when there is none */
        bool is_session_renewed;
        bool is_document_read;
};

int nb_cloud_call_init(struct nb_cloud_call *ret_call, const struct nb_cloud_request *request, struct nb_failure *f);
void nb_cloud_call_done(struct nb_cloud_call *call);

/* 1; 0 when there is nothing, also for an empty answer; or a failure of nb_cloud_read(). `accept` NULL: anything. */
int nb_cloud_get(struct nb_cloud_call *call, const char *path, const char *accept, size_t max, struct nb_secret *ret, struct nb_failure *f);

/* A value as text on one line, without the white space around it. 1, 0, or a failure, also for what is not one printable line. */
int nb_cloud_get_value(struct nb_cloud_call *call, const char *value, char ret[static NB_CLOUD_VALUE_MAX + 1], struct nb_failure *f);

/* Reads `document` of the row into the member, if that was not done before. */
int nb_cloud_load_document(struct nb_cloud_call *call, struct nb_failure *f);

/* Steps of nb_cloud_read_row(), for those that need only some of them. */
int nb_cloud_read_token(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_user_data(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_node_name(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_provider_id(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_row(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);

/* What was read, checked and put into its member. */
int nb_cloud_take_token(const struct nb_cloud_call *call, const char *text, size_t len, const char *place, struct nb_metadata *metadata,
                        struct nb_failure *f);
int nb_cloud_take_user_data(const struct nb_cloud_call *call, const struct nb_secret *data, struct nb_metadata *metadata,
                            struct nb_failure *f);
int nb_cloud_take_node_name(const struct nb_cloud_call *call, const char *text, size_t len, struct nb_metadata *metadata,
                            struct nb_failure *f);

int nb_cloud_take_provider_id(const struct nb_cloud_call *call, const char *id, struct nb_metadata *metadata, struct nb_failure *f);

/* A file that node-bootstrap-platform.service left. 1, 0 for none or an empty one. NB_PLATFORM_UNREADABLE. */
int nb_cloud_read_file(const char *path, size_t max, struct nb_secret *ret, struct nb_failure *f);

/* Those that need more than a row. */
int nb_cloud_read_azure(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_openstack(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_nocloud(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_read_vmware(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f);
int nb_cloud_find_cloudstack(char *ret_address, size_t size, struct nb_failure *f);
