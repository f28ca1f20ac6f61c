/* SPDX-License-Identifier: Apache-2.0 */

/* replay FOLDER: gives each file of the folder to the target, in place of libFuzzer's main. */

#include <dirent.h>
#include <fcntl.h>

#include "base/file.h"
#include "fuzz.h"

#define INPUT_MAX (4 * 1024 * 1024)

static int is_visible(const struct dirent *entry) {
        return entry->d_name[0] != '.';
}

static void replay(int folder_fd, const char *name) {
        struct nb_buffer input = NB_BUFFER_INIT(INPUT_MAX);

        if (nb_file_read(folder_fd, name, &input, NULL) < 0) {
                (void)fprintf(stderr, "%s: cannot be read\n", name);
                exit(1);
        }
        (void)fprintf(stderr, "%s\n", name);
        (void)LLVMFuzzerTestOneInput((const uint8_t *)(input.data ? input.data : ""), input.len);
        nb_buffer_done(&input);
}

int main(int argc, char **argv) {
        struct dirent **entries;
        int n, folder_fd;

        if (argc != 2 || (n = scandir(argv[1], &entries, is_visible, alphasort)) <= 0) {
                (void)fprintf(stderr, "usage: %s FOLDER, with files in it\n", argv[0]);
                return 1;
        }
        folder_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < n; i++) {
                replay(folder_fd, entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        nb_closep(&folder_fd);
        return 0;
}
