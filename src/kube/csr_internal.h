/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/answer.h"

#define NB_CSR_PATH "/apis/certificates.k8s.io/v1/certificatesigningrequests"

extern const struct nb_answer_codes nb_csr_answer_codes;
