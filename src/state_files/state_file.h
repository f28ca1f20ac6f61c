/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * State files are JSON objects with a version, in which our programs pass results to each other.
 * A struct and a table of its fields describe each file; one writer and one reader handle all of
 * them.
 *
 * The reader treats the file as hostile: it refuses a key that is not in the table, a missing
 * field, a wrong type, and text that is too long or not of the field's form.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"

/* The state files, and other files of the same programs. */
#define NB_HANDOFF_FILE "joined.json"        /* state directory: join to install */
#define NB_REFRESH_FILE "refreshed.json"     /* state directory: refresh to install */
#define NB_PENDING_KEY_FILE "pending.key"    /* state directory: the key of the pending CSR */
#define NB_RECORD_FILE "node-bootstrap.json" /* certificateDirectory: the last join */
#define NB_STORE_CURRENT "kubelet-client-current.pem" /* certificateDirectory: kubelet's link */
#define NB_STORE_SERVING "kubelet-serving.pem" /* certificateDirectory: both links lead to it */
#define NB_SERVING_CERTIFICATE "kubelet.crt"   /* kubelet's default for --tls-cert-file */
#define NB_SERVING_KEY "kubelet.key"

#define NB_HANDOFF_MAX (512 * 1024) /* bytes of any state file */
#define NB_PENDING_KEY_MAX 4096

/* What the member of the struct is. In JSON, all but the last three are strings. */
enum nb_state_kind {
        NB_STATE_TEXT, /* char[] */
        NB_STATE_URL,  /* struct nb_url */
        NB_STATE_PEM,  /* char *, allocated; NULL if it is optional and missing or "" */
        NB_STATE_PINS, /* uint8_t[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE] */
        NB_STATE_BOOL,
        NB_STATE_NUMBER, /* uint64_t */
};

enum nb_state_presence {
        NB_STATE_REQUIRED,     /* text is not empty */
        NB_STATE_MAY_BE_EMPTY, /* the key is required */
        NB_STATE_OPTIONAL,     /* not written if "", false or 0; "", false or 0 if missing */
};

/* What a value looks like. */
struct nb_state_form {
        enum nb_state_kind kind;
        const char *expected; /* for messages */
        /* Of text or PEM that is not empty: 0 or -errno; or the only allowed characters (NULL:
         * any), and the minimum length. */
        int (*verify)(const char *text);
        const char *characters;
        size_t len_min;
        size_t len_max;     /* of NB_STATE_PEM; 0: NB_HANDOFF_MAX */
        bool is_connection; /* if malformed, the failure is the file's `connection_code` */
};

struct nb_state_field {
        const char *key;
        const struct nb_state_form *form;
        enum nb_state_presence presence;
        size_t offset, size; /* of the struct member */
        size_t n_offset;     /* of the unsigned with the number of NB_STATE_PINS, or the size_t
                                with the length of NB_STATE_PEM; 0: none */
};

struct nb_state_file {
        const char *name;             /* for messages */
        enum nb_code code;            /* of a malformed file */
        enum nb_code connection_code; /* of a malformed URL, TLS server name or proxy in it */
        const struct nb_state_field *fields;
        size_t n_fields, size; /* of the struct */
        bool is_open;          /* no version; all fields are written; unknown keys are ignored */
};

/* 0, -E2BIG, -ENOMEM, -EINVAL for text that is not UTF-8. */
int nb_state_file_format(const struct nb_state_file *file, const void *from, struct nb_buffer *ret);

/* The caller must free NB_STATE_PEM members. After a failure, all of `ret` is zero. */
int nb_state_file_parse(const struct nb_state_file *file, const char *text, size_t len, void *ret,
                        struct nb_failure *f);

/* Write (with mode 0600) and remove a file of the network side in the state directory.
 * nb_state_file_clear() also removes a temporary file that a crash left. NB_STATE_UNWRITABLE. */
int nb_state_file_write(int state_fd, const char *name, const struct nb_buffer *text,
                        struct nb_failure *f);
int nb_state_file_clear(int state_fd, const char *name, struct nb_failure *f);
