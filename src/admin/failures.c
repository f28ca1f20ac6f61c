/* SPDX-License-Identifier: Apache-2.0 */
#include "base/failure.h"

extern const struct nb_failure_info nb_admin_failures[];

const struct nb_failure_info nb_admin_failures[_NB_CODE_ADMIN_N - _NB_CODE_N] = {
#include "admin/failure-table.h"
};
