/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records of objects of the cluster by name: a sorted list of pointers. Each record is a struct
 * whose first member is a struct nb_record.
 *
 * After all objects were listed again, the generation shows which records belong to objects that
 * were deleted: nb_records_begin(), nb_records_touch() for each object, nb_records_sweep().
 */

#include <stddef.h>
#include <stdint.h>

struct nb_record {
        const char *key; /* belongs to the record */
        uint32_t generation;
};

struct nb_records {
        struct nb_record **records;
        size_t n, allocated;
        uint32_t generation;
};

/* NULL if there is none. */
struct nb_record *nb_records_find(const struct nb_records *records, const char *key);

/* The key must be new. The record gets the current generation. 0, -ENOMEM. */
int nb_records_add(struct nb_records *records, struct nb_record *record);

/* Does not free the record. */
void nb_records_remove(struct nb_records *records, struct nb_record *record);

void nb_records_begin(struct nb_records *records);
void nb_records_touch(struct nb_records *records, struct nb_record *record);

/* Calls `drop` for each record of an older generation. `drop` may remove this record, and no
 * other. */
void nb_records_sweep(struct nb_records *records,
                      void (*drop)(void *userdata, struct nb_record *record), void *userdata);

/* Frees the list, but not the records. */
void nb_records_done(struct nb_records *records);
