/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of cloud/ share. */

#include "cloud/cloud.h"
#include "codec/json.h"
#include "net/http.h"

#define NB_CLOUD_DOCUMENT_MAX (256 * 1024) /* bytes of a metadata document */
#define NB_CLOUD_VALUE_MAX 4096            /* bytes of a single value */
#define NB_CLOUD_URL_MAX 256
#define NB_CLOUD_DMI_MAX 8
#define NB_CLOUD_ID_PARTS 3

struct nb_cloud_call;

/* Reads one value: 1, 0 if the cloud has none, or a failure of nb_cloud_read(). */
typedef int nb_cloud_reader(struct nb_cloud_call *call, struct nb_secret *ret,
                            struct nb_failure *f);

/*
 * All about one provider, from settings/provider.def. A path is that of a URL, or that of a file in
 * NB_PLATFORM_DIRECTORY; a value is a path, or a path in `document` (codec/json.h). NULL: the cloud
 * has none.
 */
struct nb_cloud_row {
        /* Recognition. */
        struct {
                const char *field, *pattern; /* fnmatch(3) */
                size_t offset;               /* in struct nb_dmi */
        } dmi[NB_CLOUD_DMI_MAX + 1];
        const char *platform_ids[2]; /* of Ignition and afterburn */
        const char *data_sources[2]; /* of cloud-init */
        const char *volume;          /* label; its files replace the user data and the document */
        bool has_guestinfo;

        /* HTTP. */
        const char *address;     /* as in a URL: numeric, unless is_https. NULL: find_address, or no
                                    HTTP */
        const char *address6;    /* used if the first one does not accept connections */
        const char *lines[2];    /* headers of every request; none for a cloud with sessions */
        bool is_https;           /* a DNS name, and TLS */
        bool is_patient;         /* 404 and 410 may mean "not yet" */
        const char *session;     /* path of the PUT for a session token */
        const char *session_ttl; /* header of the PUT, with the lifetime in seconds: longer than an
                                    attempt, and no longer than necessary */
        const char *session_header;

        /* Values. */
        const char *token;       /* value: the token alone */
        const char *token_place; /* for people: "instance tag 'node-bootstrap-token'" */
        const char *user_data;   /* path */
        const char *document;    /* path of a JSON document */
        const char *node_name;   /* value */
        const char *id_form;     /* "aws:///" "*" "/" "*": each '*' is the last component of the
                                    value in id_parts */
        const char *id_parts[NB_CLOUD_ID_PARTS];

        /* Code in readers.c, where data is not enough. */
        int (*find_address)(struct nb_cloud_call *call, struct nb_failure *f);
        nb_cloud_reader *read_node_name;
        void (*edit_id)(char *part); /* in place; the whole value is then the part */
};

/* NB_PROVIDER_NONE and _AUTO have empty ones. */
extern const struct nb_cloud_row nb_cloud_rows[_NB_PROVIDER_N];

/* The requests of one attempt, over one set of connections. */
struct nb_cloud_call {
        const struct nb_cloud_request *request;
        struct nb_metadata *metadata; /* where values go */
        const struct nb_cloud_row *row;
        const char *title;
        const char *address; /* of the row, or `found` */
        const char *address6;
        char found[64];
        struct nb_http *http;
        struct nb_secret session; /* a whole header line; empty before it was requested */
        struct nb_json document;  /* empty before it was requested, or if there is none */
        char document_what[NB_CLOUD_URL_MAX];
        bool is_session_renewed;
        bool is_document_read;
        bool is_unverified; /* the last answer is from neither a file nor a server that TLS verified
                             */
};

int nb_cloud_call_init(struct nb_cloud_call *ret_call, const struct nb_cloud_request *request,
                       struct nb_metadata *metadata, struct nb_failure *f);
void nb_cloud_call_done(struct nb_cloud_call *call);

/* Reads all values that are requested. */
int nb_cloud_read_values(struct nb_cloud_call *call, struct nb_failure *f);

/* 1; 0 for not found, and for an empty answer; or a failure of nb_cloud_read(). `accept` NULL:
 * anything. */
int nb_cloud_get(struct nb_cloud_call *call, const char *path, const char *accept, size_t max,
                 struct nb_secret *ret, struct nb_failure *f);

/* A value, which must be one printable line, without the white space around it. As above. */
int nb_cloud_get_value(struct nb_cloud_call *call, const char *value, struct nb_secret *ret,
                       struct nb_failure *f);

/* CloudStack: sets call->address. */
int nb_cloud_find_cloudstack(struct nb_cloud_call *call, struct nb_failure *f);
nb_cloud_reader nb_cloud_read_nocloud_name, nb_cloud_read_openstack_name;
void nb_cloud_edit_azure_id(char *id);
