/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to metadata/. */

#include "codec/json.h"
#include "http/http.h"
#include "metadata/cloud.h"

#define NB_CLOUD_DOCUMENT_MAX (256 * 1024) /* bytes of a metadata document */
#define NB_CLOUD_VALUE_MAX 4096            /* bytes of a single value */
#define NB_CLOUD_URL_MAX 256
#define NB_CLOUD_DMI_MAX 8
#define NB_CLOUD_ID_PARTS 3

struct nb_cloud_call;

/* Reads one value. 1; 0 if the cloud has none; or a failure of nb_cloud_read(). */
typedef int nb_cloud_reader(struct nb_cloud_call *call, struct nb_secret *ret,
                            struct nb_failure *f);

/*
 * The properties of one provider, from metadata/clouds.def. A "path" is the path of a URL or of
 * a file in NB_PLATFORM_DIRECTORY. A "value" is such a path, or the path of a member of `document`
 * (codec/json.h). NULL: the cloud has none.
 */
struct nb_cloud_row {
        /* Recognition. */
        struct {
                const char *field, *pattern; /* fnmatch(3) */
                size_t offset;               /* in struct nb_dmi */
        } dmi[NB_CLOUD_DMI_MAX + 1];
        const char *platform_ids[2]; /* of Ignition and afterburn */
        const char *data_sources[2]; /* of cloud-init */
        /* label of a volume whose files replace the user data and the document */
        const char *volume;
        bool has_guestinfo;

        /* HTTP. */
        const char *address;     /* numeric, as in a URL; NULL: no HTTP */
        const char *address6;    /* used if the first one does not accept connections */
        const char *lines[2];    /* headers of every request; none for a cloud with sessions */
        bool is_patient;         /* 404 and 410 may mean "not yet" */
        const char *session;     /* path of the PUT for a session token */
        const char *session_ttl; /* header of the PUT, with the lifetime in seconds: longer than an
                                    attempt, and no longer than necessary */
        const char *session_header;

        /* Values. */
        const char *token;       /* value that is only the token */
        const char *token_place; /* for messages: "instance tag 'node-bootstrap-token'" */
        const char *user_data;   /* path */
        const char *document;    /* path of a JSON document */
        const char *node_name;   /* value */
        const char *id_form;     /* "aws:///" "*" "/" "*": each '*' is replaced by the last path
                                    component of the next value in id_parts */
        const char *id_parts[NB_CLOUD_ID_PARTS];

        /* Code in cloud_readers.c, for what the other members cannot describe. */
        nb_cloud_reader *read_node_name;
        /* changes the value in place; the whole value is then used for '*' */
        void (*edit_id)(char *part);
};

/* The rows of NB_PROVIDER_NONE and _AUTO are empty. */
extern const struct nb_cloud_row nb_cloud_rows[_NB_PROVIDER_N];

/* The requests of one attempt, over one set of connections. */
struct nb_cloud_call {
        const struct nb_cloud_request *request;
        struct nb_metadata *metadata; /* the result */
        const struct nb_cloud_row *row;
        const char *title;
        const char *address;
        const char *address6;
        struct nb_http *http;
        struct nb_secret session; /* a whole header line; empty until it is requested */
        struct nb_json document;  /* empty until it is requested, or if there is none */
        char document_what[NB_CLOUD_URL_MAX];
        bool is_session_renewed;
        bool is_document_read;
        bool is_unverified; /* the last answer or failure was from the network */
};

int nb_cloud_call_init(struct nb_cloud_call *ret_call, const struct nb_cloud_request *request,
                       struct nb_metadata *metadata, struct nb_failure *f);
void nb_cloud_call_done(struct nb_cloud_call *call);

/* Reads all values that are requested. */
int nb_cloud_read_values(struct nb_cloud_call *call, struct nb_failure *f);

/* Reads a path. 1; 0 if it is not found or empty; or a failure of nb_cloud_read(). `accept`: a
 * media type; NULL: any. */
int nb_cloud_get(struct nb_cloud_call *call, const char *path, const char *accept, size_t max,
                 struct nb_secret *ret, struct nb_failure *f);

/* The same for a document, of at most NB_CLOUD_DOCUMENT_MAX bytes, without a byte order mark and
 * NULs at its end. */
int nb_cloud_get_document(struct nb_cloud_call *call, const char *path, const char *accept,
                          struct nb_secret *ret, struct nb_failure *f);

/* Reads a value, which must be one printable line, and removes the white space around it. Returns
 * the same as nb_cloud_get(). */
int nb_cloud_get_value(struct nb_cloud_call *call, const char *value, struct nb_secret *ret,
                       struct nb_failure *f);

nb_cloud_reader nb_cloud_read_nocloud_name, nb_cloud_read_openstack_name;
void nb_cloud_edit_azure_id(char *id);
