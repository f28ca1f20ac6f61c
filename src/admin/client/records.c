/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "admin/client/records.h"

/* Returns whether a record has this key; *ret is its index, or where it would be added. */
static bool find_place(const struct nb_records *records, const char *key, size_t *ret) {
        size_t low = 0, high = records->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(((const struct nb_record *)records->items[middle])->key, key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret = low;
        return low < records->n &&
               strcmp(((const struct nb_record *)records->items[low])->key, key) == 0;
}

void *nb_records_find(const struct nb_records *records, const char *key) {
        size_t i;

        return find_place(records, key, &i) ? records->items[i] : NULL;
}

static void *add_record(struct nb_records *records, size_t i, const char *key, size_t size) {
        const size_t key_size = strlen(key) + 1;
        struct nb_record *record;

        if (records->n == records->allocated) {
                size_t n = records->allocated > 0 ? 2 * records->allocated : 64;
                void **grown = reallocarray(records->items, n, sizeof(void *));

                if (!grown)
                        return NULL;
                records->items = grown;
                records->allocated = n;
        }
        record = calloc(1, size + key_size);
        if (!record)
                return NULL;
        record->key = memcpy((char *)record + size, key, key_size);
        memmove(&records->items[i + 1], &records->items[i], (records->n - i) * sizeof(void *));
        records->items[i] = record;
        records->n++;
        return record;
}

void *nb_records_put(struct nb_records *records, const char *key, size_t size) {
        size_t i;
        struct nb_record *record = find_place(records, key, &i) ? records->items[i]
                                                                : add_record(records, i, key, size);

        if (record)
                record->generation = records->generation;
        return record;
}

void nb_records_drop(struct nb_records *records, struct nb_record *record) {
        size_t i;

        if (find_place(records, record->key, &i)) {
                records->n--;
                memmove(&records->items[i], &records->items[i + 1],
                        (records->n - i) * sizeof(void *));
        }
        free(record);
}

void nb_records_list(struct nb_records *records, bool is_complete,
                     void (*drop)(void *userdata, struct nb_record *record), void *userdata) {
        records->generation += !is_complete;
        for (size_t i = records->n; i > 0 && is_complete; i--) {
                struct nb_record *record = records->items[i - 1];

                if (record->generation != records->generation)
                        drop(userdata, record);
        }
}

void nb_records_done(struct nb_records *records) {
        for (size_t i = 0; i < records->n; i++)
                free(records->items[i]);
        free(records->items);
        *records = (struct nb_records){ 0 };
}
