/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/parts/parts.h"

#include "case.h"

#define NOW 2000     /* seconds of the clock */
#define NOW_MS 70000 /* since the machine started */

struct token {
        const char *id;
        time_t expires;
        uint64_t due_ms;
};

static struct {
        const char *name;
        struct token tokens[3];
        const char *asked_with; /* the token of a request */
        enum nb_csr_state state;
        const char *expected; /* NULL: none is deleted */
} rows[] = {
        { "just before it expires", { { "aaaaaa", NOW + 1, 0 } }, NULL, 0, NULL },
        { "when it expires", { { "aaaaaa", NOW, 0 } }, NULL, 0, "aaaaaa" },
        { "one that never expires", { { "aaaaaa", 0, 0 } }, NULL, 0, NULL },
        { "just before the next attempt", { { "aaaaaa", NOW, NOW_MS + 1 } }, NULL, 0, NULL },
        { "at the next attempt", { { "aaaaaa", NOW, NOW_MS } }, NULL, 0, "aaaaaa" },
        { "one that cannot be deleted keeps no other",
          { { "aaaaaa", NOW - 100, NOW_MS + 60000 }, { "bbbbbb", NOW, 0 } },
          NULL,
          0,
          "bbbbbb" },
        { "the one that was due first",
          { { "aaaaaa", NOW - 100, NOW_MS },
            { "bbbbbb", NOW, NOW_MS - 1 },
            { "cccccc", 1, NOW_MS } },
          NULL,
          0,
          "bbbbbb" },
        { "not while a request of it is decided",
          { { "aaaaaa", NOW, 0 }, { "bbbbbb", NOW, 1 } },
          "aaaaaa",
          NB_CSR_STATE_PENDING,
          "bbbbbb" },
        { "a request that is decided keeps no token",
          { { "aaaaaa", NOW, 0 } },
          "aaaaaa",
          NB_CSR_STATE_APPROVED,
          "aaaaaa" },
        { "a Secret that has no token's name is not of a request without a token",
          { { "", NOW, 0 } },
          "",
          NB_CSR_STATE_PENDING,
          "" },
};

static void chooses(void **state) {
        const __typeof__(rows[0]) *row = *state;
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_request_record *request;
        const struct nb_token_record *found;

        assert_non_null(controller);

        for (size_t i = 0; i < N_ELEMENTS(row->tokens) && row->tokens[i].id; i++) {
                const struct token *token = &row->tokens[i];
                struct nb_token_record *added;
                char name[16];

                snprintf(name, sizeof(name), "x%s", token->id);
                added = nb_records_put(&controller->tokens, name, sizeof(*added));
                assert_non_null(added);
                snprintf(added->id, sizeof(added->id), "%s", token->id);
                added->expires = token->expires;
                added->due_ms = token->due_ms;
        }
        if (row->asked_with) {
                request = nb_controller_add_request(controller, NB_NODE_REQUEST_CLIENT, "u", "csr",
                                                    "n", row->asked_with);
                assert_non_null(request);
                request->state = row->state;
        }
        found = nb_expired_choose(controller, NOW, NOW_MS);
        if (row->expected)
                assert_string_equal(found ? found->id : "none", row->expected);
        else
                assert_null(found);
        /* The clocks differ. */
        assert_null(nb_expired_choose(controller, 0, NOW_MS));
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        free(controller);
}

int main(void) {
        CASES(rows, chooses);
        return case_run("cleaner");
}
