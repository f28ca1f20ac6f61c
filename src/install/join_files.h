/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of a join: one table, and one pass over it that compares, stages, publishes and, if a
 * step fails, undoes. A join, a refresh and a repair use it; reset removes the same files in
 * reverse order. Except for what came from the network (certificates, kubelet's configuration),
 * every file is built from the record of the join, so that a lost one can be written again. (The
 * client CA of k3s is beside kubelet's certificate.)
 *
 * Each step is durable before the next:
 *
 *      kubelet-client-<time>.pem; everything else under a    nothing refers to it
 *      temporary name
 *      join, repair: kubeconfig, CA files and what is not    from here on kubelet has no kubeconfig
 *      a link where kubelet needs one are renamed (swap.h)
 *      refresh: the renewed certificate; then all files in   each exchanged with the existing file
 *      the order of the table
 *      the kubeconfig                                        joined
 *      the previous files are removed
 *
 * The record has the SHA-256 of each file that a pass writes, and of the file of ours that it
 * replaces. So after a crash between record and file, either is known as ours (kubeadm-flags.env,
 * on a machine that has joined, by its arguments). After a power cut, kubelet has the old
 * kubeconfig with all files that it refers to, or none, or the new one.
 *
 * If a step fails, the ones before it are undone, and the old kubeconfig comes back last: a node
 * that worked continues to work. That is impossible only if a file system cannot exchange files.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "install/accept.h"
#include "install/certificate_store.h"
#include "install/swap.h"
#include "node_state/context.h"
#include "node_state/present.h"

#define NB_REFRESH_RESTART_FILE "node-bootstrap.restart"

/* In the order in which they are published. */
enum nb_join_file {
        NB_FILE_RESTART, /* kubelet must restart after a refresh */
        NB_FILE_RECORD,  /* early, so that after a crash reset knows the files of the join */
        NB_FILE_ENV,
        NB_FILE_MARK, /* never written here (refresh_install.h) */
        NB_FILE_CLIENT_CA,
        NB_FILE_SERVING,
        NB_FILE_SERVING_KEY,
        NB_FILE_SERVING_CERTIFICATE,
        NB_FILE_CA,
        NB_FILE_FLAGS,
        NB_FILE_INSTANCE,
        NB_FILE_LINK,
        NB_FILE_KUBECONFIG, /* last: the commit point */
        _NB_FILE_N,
};

enum nb_join_pass {
        NB_PASS_JOIN,
        NB_PASS_REFRESH,
        NB_PASS_REPAIR, /* writes only what is lost or damaged */
};

struct nb_join_files {
        const struct nb_context *context;
        enum nb_join_pass pass;
        const struct nb_accepted *accepted; /* NULL: nothing came from the network */
        const struct nb_node *node;         /* what is on disk; NULL for a join */
        bool is_env_only;                   /* writes only node-bootstrap.env */
        bool is_serving_copied; /* kubelet has signed its serving certificate on another machine,
                                   of which this one is a copy */
        const struct nb_record *previous; /* of the last join, as it was read; empty without one */
        struct nb_record record; /* as it will be written; begins as a copy, and borrows the CA */
        struct nb_buffer ca; /* for record.ca, if it is neither the previous nor the accepted one */
        struct nb_swap files[_NB_FILE_N];
        struct nb_secret present[_NB_FILE_N]; /* what is there; of a link, its target */
        int found[_NB_FILE_N];                /* 0; -ENOENT; -errno if it cannot be read */
        char pem_name[NB_STORE_NAME_SIZE];    /* the new dated file; "" before it exists */
        int store_fd;
        uint64_t begun_usec; /* nb_now_usec() */
};

struct nb_join_file_row {
        size_t folder; /* offset of a path in struct nb_settings; 0: the name is the whole path */
        const char *name;
        mode_t mode;
        /* Appends the contents: 1; 0 if this pass does not write it; -errno. */
        int (*build)(struct nb_join_files *files, struct nb_swap *file);
        bool is_own;          /* of node-bootstrap: a reset always removes it */
        bool is_supervised;   /* from a supervisor of k3s */
        bool is_set_aside;    /* an existing one is renamed, not replaced */
        bool is_foreign_kept; /* an existing one that is not ours stays */
};

extern const struct nb_join_file_row nb_join_file_rows[_NB_FILE_N];

/* `previous` is borrowed, and may be NULL. NULL without memory. */
struct nb_join_files *nb_join_files_new(const struct nb_context *context, enum nb_join_pass pass,
                                        const struct nb_record *previous);
void nb_join_files_freep(struct nb_join_files **files);

/* Reads what is there into `present` and `found`. -ENOMEM. */
int nb_join_files_read(struct nb_join_files *files, enum nb_join_file i);

/* Whether what was read is what the last join, or a later pass, has written. */
bool nb_join_files_is_ours(const struct nb_join_files *files, enum nb_join_file i);

/* Whether kubelet.crt, which was read, leads to the serving certificate of a join. */
bool nb_join_files_has_serving_link(const struct nb_join_files *files);

/* One pass: writes each file that the table wants and that differs, and returns 1; 0 if a refresh
 * has nothing to write. NB_TARGET_UNWRITABLE, NB_DIRECTORY_MISSING. */
int nb_join_files_write(struct nb_join_files *files, struct nb_failure *f);
