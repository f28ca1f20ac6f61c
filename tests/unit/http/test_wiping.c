/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "case.h"

#include "connection.h"

#define STACK_SIZE ((size_t)1024 * 1024)
#define SECRET "S3cret!"
#define ROOM 4096 /* for the body */

/* What a worker sends; `len` bytes follow the head, which may say otherwise. */
struct row {
        const char *name;
        struct nb_http_reply head;
        size_t len;
        bool is_done; /* the transfer */
};

static struct {
        struct nb_http_reply head;
        char data[NB_HTTP_PIECE_MAX + 1];
} message;

static void *take_reply(void *userdata) {
        nb_http_transfer_take_reply(userdata);
        return NULL;
}

/* Whether the stack of a thread that has received the message has a copy of the body. `secret`: of
 * the request; NULL if the body is not one. */
static bool leaves_copy(const struct row *row, struct nb_secret *secret) {
        char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);
        const size_t size = sizeof(message.head) + row->len;
        struct fixture fixture;
        pthread_attr_t attributes;
        pthread_t thread;
        bool is_found;
        int fd;

        assert_ptr_not_equal(stack, MAP_FAILED);
        begin(&fixture);
        fixture.transfer->secret = secret;
        fd = play_worker(fixture.transfer);
        message.head = row->head;
        assert_int_equal(send(fd, &message, size, 0), size);
        assert_int_equal(pthread_attr_init(&attributes), 0);
        assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_SIZE), 0);
        assert_int_equal(pthread_create(&thread, &attributes, take_reply, fixture.transfer), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)pthread_attr_destroy(&attributes);
        if (fixture.transfer->is_done != row->is_done)
                fail_msg("%s", row->name);
        is_found = memmem(stack, STACK_SIZE, SECRET, strlen(SECRET)) != NULL;
        (void)munmap(stack, STACK_SIZE);
        (void)close(fd);
        end(&fixture);
        return is_found;
}

/* Also if the message is refused, which a server can bring about that controls the worker. */
static void a_secret_body_leaves_no_copy(void **state) {
        static const struct row rows[] = {
                { "a piece", { .kind = NB_HTTP_BODY, .status = 200, .len = 64 }, 64, false },
                { "a piece of an error",
                  { .kind = NB_HTTP_BODY, .status = 404, .len = 64 },
                  64,
                  false },
                { "more than there is room for",
                  { .kind = NB_HTTP_BODY, .status = 200, .len = ROOM + 1 },
                  ROOM + 1,
                  true },
                { "a message that is cut off",
                  { .kind = NB_HTTP_BODY, .status = 200, .len = NB_HTTP_PIECE_MAX + 1 },
                  NB_HTTP_PIECE_MAX + 1,
                  true },
                { "more than it says",
                  { .kind = NB_HTTP_BODY, .status = 200, .len = 63 },
                  64,
                  true },
                { "an unknown kind", { .kind = _NB_HTTP_REPLY_N, .len = 64 }, 64, true },
                { "an invalid status",
                  { .kind = NB_HTTP_BODY, .status = 1000, .len = 64 },
                  64,
                  true },
        };

        for (size_t i = 0; i + strlen(SECRET) < sizeof(message.data); i += strlen(SECRET))
                memcpy(message.data + i, SECRET, strlen(SECRET));
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_secret secret = NB_SECRET_INIT;

                assert_int_equal(nb_secret_init(&secret, ROOM), 0);
                if (leaves_copy(&rows[i], &secret))
                        fail_msg("%s", rows[i].name);
                nb_secret_done(&secret);
                /* Otherwise, this test would find nothing. */
                if (!leaves_copy(&rows[i], NULL))
                        fail_msg("%s, which is no secret", rows[i].name);
        }
}

int main(void) {
        CASE(a_secret_body_leaves_no_copy);
        return case_run("http/wiping");
}
