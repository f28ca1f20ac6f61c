/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "case.h"
#include "os/sources.h"

#define NAME "node-bootstrap.token"
#define STORE "/run/credstore"
#define SEALED "/run/credstore.encrypted"

struct stored_case {
        const char *name;
        const char *stored, *sealed; /* NULL: none */
        const char *delivered;
        const char *folder; /* that is found */
};

static struct stored_case cases[] = {
        { "the store that has it", "secret", NULL, "secret", STORE },
        { "another value", "secret", NULL, "Secret", NULL },
        { "a longer value", "secrets", NULL, "secret", NULL },
        { "a shorter value", "secre", NULL, "secret", NULL },
        { "an empty value tells nothing", "", NULL, "", NULL },
        { "an encrypted store has no plain text", NULL, "secret", "secret", NULL },
        { "nothing", NULL, NULL, "secret", NULL },
};

static bool put(const char *folder, const char *text) {
        int fd = -1;
        bool is_put;

        if (mkdir(folder, 0755) < 0 || nb_folder_open(folder, &fd) < 0)
                return false;
        is_put = !text || nb_file_write(fd, NAME, 0644, text, strlen(text)) == 0;
        (void)close(fd);
        return is_put;
}

/* In a mount namespace of its own, whose /run is empty. */
static int find(const struct stored_case *c) {
        struct nb_secret delivered = NB_SECRET_INIT;
        const char *found;
        struct stat st;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", "/run", "tmpfs", 0, "mode=0755") < 0)
                return 77;
        if (!put(STORE, c->stored) || !put(SEALED, c->sealed) ||
            nb_secret_copy(&delivered, c->delivered, strlen(c->delivered)) < 0)
                return 2;
        found = nb_sources_find_stored(NAME, &delivered, &st);
        if (!found || !c->folder)
                return found || c->folder ? 3 : 0;
        return strcmp(found, c->folder) != 0 || (st.st_mode & 07777) != 0644 ? 4 : 0;
}

static void finds_the_store_of_a_value(void **state) {
        int status;
        pid_t pid;

        if (geteuid() != 0)
                skip();
        pid = fork();
        if (pid == 0)
                _exit(find(*state));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip(); /* a container without this right */
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
        CASES(cases, finds_the_store_of_a_value);
        return case_run("os stores");
}
