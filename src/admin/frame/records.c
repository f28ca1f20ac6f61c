/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/frame/records.h"

/* The index of the first record whose key is not less than `key`. */
static size_t find_place(const struct nb_records *records, const char *key) {
        size_t low = 0, high = records->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(records->records[middle]->key, key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct nb_record *nb_records_find(const struct nb_records *records, const char *key) {
        size_t i = find_place(records, key);

        return i < records->n && !strcmp(records->records[i]->key, key) ? records->records[i]
                                                                        : NULL;
}

int nb_records_add(struct nb_records *records, struct nb_record *record) {
        size_t i = find_place(records, record->key);

        if (records->n == records->allocated) {
                size_t n = records->allocated > 0 ? 2 * records->allocated : 64;
                struct nb_record **grown = reallocarray(records->records, n, sizeof(void *));

                if (!grown)
                        return -ENOMEM;
                records->records = grown;
                records->allocated = n;
        }
        memmove(&records->records[i + 1], &records->records[i], (records->n - i) * sizeof(void *));
        records->records[i] = record;
        records->n++;
        nb_records_touch(records, record);
        return 0;
}

void nb_records_remove(struct nb_records *records, struct nb_record *record) {
        size_t i = find_place(records, record->key);

        if (i == records->n || records->records[i] != record)
                return;
        records->n--;
        memmove(&records->records[i], &records->records[i + 1], (records->n - i) * sizeof(void *));
}

void nb_records_begin(struct nb_records *records) {
        records->generation++;
}

void nb_records_touch(struct nb_records *records, struct nb_record *record) {
        record->generation = records->generation;
}

void nb_records_sweep(struct nb_records *records,
                      void (*drop)(void *userdata, struct nb_record *record), void *userdata) {
        for (size_t i = records->n; i > 0; i--)
                if (records->records[i - 1]->generation != records->generation)
                        drop(userdata, records->records[i - 1]);
}

void nb_records_done(struct nb_records *records) {
        free(records->records);
        *records = (struct nb_records){ 0 };
}
