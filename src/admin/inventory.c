/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/inventory.h"

void nb_inventory_done(struct nb_inventory *inventory) {
        inventory->path = NULL;
}
