/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/records.h"

/* --- Sorted arrays --- */

size_t nb_sorted_place(const struct nb_sorted *sorted, nb_compare *compare, const void *item) {
        size_t low = 0, high = sorted->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(sorted->items[middle], item) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

int nb_sorted_add(struct nb_sorted *sorted, nb_compare *compare, void *item) {
        const size_t i = nb_sorted_place(sorted, compare, item);

        if (sorted->n == sorted->allocated) {
                size_t n = sorted->allocated > 0 ? 2 * sorted->allocated : 64;
                void **grown = reallocarray(sorted->items, n, sizeof(void *));

                if (!grown)
                        return -ENOMEM;
                sorted->items = grown;
                sorted->allocated = n;
        }
        memmove(&sorted->items[i + 1], &sorted->items[i], (sorted->n - i) * sizeof(void *));
        sorted->items[i] = item;
        sorted->n++;
        return 0;
}

void nb_sorted_remove(struct nb_sorted *sorted, nb_compare *compare, const void *item) {
        const size_t i = nb_sorted_place(sorted, compare, item);

        if (i == sorted->n || sorted->items[i] != item)
                return;
        sorted->n--;
        memmove(&sorted->items[i], &sorted->items[i + 1], (sorted->n - i) * sizeof(void *));
}

/* --- Records --- */

static int compare_keys(const void *one, const void *other) {
        return strcmp(((const struct nb_record *)one)->key, ((const struct nb_record *)other)->key);
}

void *nb_records_at(const struct nb_records *records, size_t i) {
        return records->sorted.items[i];
}

void *nb_records_find(const struct nb_records *records, const char *key) {
        const struct nb_record wanted = { .key = key };
        const size_t i = nb_sorted_place(&records->sorted, compare_keys, &wanted);

        return i < records->sorted.n && !compare_keys(records->sorted.items[i], &wanted)
                       ? records->sorted.items[i]
                       : NULL;
}

void *nb_records_put(struct nb_records *records, const char *key, size_t size) {
        struct nb_record *record = nb_records_find(records, key);
        const size_t key_size = strlen(key) + 1;

        if (!record) {
                record = calloc(1, size + key_size);
                if (!record)
                        return NULL;
                record->key = memcpy((char *)record + size, key, key_size);
                if (nb_sorted_add(&records->sorted, compare_keys, record) < 0) {
                        free(record);
                        return NULL;
                }
        }
        record->generation = records->generation;
        return record;
}

void nb_records_drop(struct nb_records *records, struct nb_record *record) {
        nb_sorted_remove(&records->sorted, compare_keys, record);
        free(record);
}

void nb_records_list(struct nb_records *records, bool is_complete,
                     void (*drop)(void *userdata, struct nb_record *record), void *userdata) {
        records->generation += !is_complete;
        for (size_t i = records->sorted.n; i > 0 && is_complete; i--) {
                struct nb_record *record = records->sorted.items[i - 1];

                if (record->generation != records->generation)
                        drop(userdata, record);
        }
}

void nb_records_done(struct nb_records *records) {
        for (size_t i = 0; i < records->sorted.n; i++)
                free(records->sorted.items[i]);
        free(records->sorted.items);
        *records = (struct nb_records){ 0 };
}
