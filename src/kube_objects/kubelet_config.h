/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that a cluster provides for its nodes.
 * Some of its keys give root on the machine: they set the source of pods without an API server
 * (staticPodPath), programs to execute (volumePluginDir), or the socket of the container runtime.
 * Only keys in the table in kubelet_config.c are kept; the comment there explains why others are
 * dropped.
 */

#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_KUBELET_CONFIG_MAX (256 * 1024)           /* kubeadm's is 1 KiB */
#define NB_KUBELET_CONFIG_FILE "kubelet-config.yaml" /* in the state directory */
#define NB_KUBELET_CONFIG_DROPPED_SIZE 256
#define NB_STATIC_POD_DIRECTORY "/etc/kubernetes/manifests" /* staticPodPath of kubeadm */

/* Appends data.kubelet of a ConfigMap. NB_ANSWER_MALFORMED, NB_KUBELET_CONFIG_MISSING if the
 * ConfigMap has none, NB_KUBELET_CONFIG_UNACCEPTABLE if it is too large. */
int nb_kubelet_config_map_parse(const char *text, size_t len, struct nb_buffer *ret_text,
                                struct nb_failure *f);

struct nb_kubelet_config_source {
        const char *origin;  /* for messages */
        const char *ca_file; /* replaces authentication.x509.clientCAFile; NULL drops it */
        enum nb_code code;   /* the failure for a document that is refused */
};

/*
 * Appends the document with only the keys that are kept; filtering its output changes nothing.
 * ret_dropped lists the others ("featureGates, volumePluginDir"), except kubeadm's staticPodPath,
 * which matters only to a machine with files there; it ends with "..." if not all fit.
 * Refuses a document that is not a KubeletConfiguration, a value of another type than kubelet
 * expects, and an authorization mode other than Webhook, with which anyone could run commands on
 * this machine.
 */
int nb_kubelet_config_filter(const struct nb_kubelet_config_source *source, const char *yaml,
                             size_t len, struct nb_buffer *ret,
                             char ret_dropped[static NB_KUBELET_CONFIG_DROPPED_SIZE],
                             struct nb_failure *f);
