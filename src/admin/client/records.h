/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records of objects of the cluster by name. Each record is a struct whose first member is a struct
 * nb_record.
 *
 * After all objects have been listed again, the generation shows which records belong to deleted
 * objects. Call nb_records_list() before the first object and after the last one, and
 * nb_records_put() for each.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nb_record {
        const char *key; /* belongs to the record */
        uint32_t generation;
};

struct nb_records {
        void **items; /* each begins with a struct nb_record; sorted by their keys */
        size_t n, allocated;
        uint32_t generation;
};

/* NULL if there is none. */
void *nb_records_find(const struct nb_records *records, const char *key);

/* The same, but adds one of `size` bytes, which are zero after the struct nb_record. The record
 * gets the current generation. NULL without memory. */
void *nb_records_put(struct nb_records *records, const char *key, size_t size);

/* Removes and frees a record. */
void nb_records_drop(struct nb_records *records, struct nb_record *record);

/* After the last object, calls `drop` for each record of an older generation. `drop` may remove
 * this record, and no other. */
void nb_records_list(struct nb_records *records, bool is_complete,
                     void (*drop)(void *userdata, struct nb_record *record), void *userdata);

/* Frees all records. */
void nb_records_done(struct nb_records *records);
