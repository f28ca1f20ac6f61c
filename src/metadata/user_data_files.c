/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "codec/gunzip.h"
#include "codec/mime.h"
#include "codec/yaml.h"
#include "metadata/user_data_files.h"

#define DEFAULT_MODE 0644 /* in cloud-init and in Ignition */

/* Decodes base64, then gzip. 0; -EBADMSG, -E2BIG, -ENOMEM. */
static int decode(const char *data, size_t len, bool is_base64, bool is_gzip,
                  struct nb_secret *ret) {
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        int r;

        if (is_base64) {
                r = nb_mime_decode_base64(data, len, &bytes);
                if (r < 0)
                        return r;
                data = bytes.data;
                len = bytes.len;
        }
        if (is_gzip)
                return nb_gunzip(data, len, NB_USER_DATA_TEXT_MAX, ret);
        return nb_secret_copy(ret, data, len);
}

/* "" for none. */
static const char *scalar(const struct nb_yaml_node *mapping, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(mapping, key);

        return node && node->type == NB_YAML_SCALAR && !nb_yaml_is_null(node) ? node->value : "";
}

/* Decodes an entry of cloud-init's write_files (modules/cc_write_files). 0, and *ret stays empty if
 * the text of the file is unknown here: a download, or text that is appended to another file.
 * -EBADMSG, -E2BIG, -ENOMEM. */
static int read_entry(const struct nb_yaml_node *entry, struct nb_secret *ret) {
        const char *encoding = scalar(entry, "encoding"), *content = scalar(entry, "content");
        bool is_gzip = strncasecmp(encoding, "gz", strlen("gz")) == 0,
             is_base64 = strcasestr(encoding, "b64") || strcasestr(encoding, "base64"),
             is_plain = !encoding[0] || strcasecmp(encoding, "text/plain") == 0;

        if (nb_yaml_get(entry, "source") || strcmp(scalar(entry, "append"), "true") == 0)
                return 0;
        if (!is_gzip && !is_base64 && !is_plain)
                return -EBADMSG;
        return decode(content, strlen(content), is_base64, is_gzip, ret);
}

/* Decodes "%41", like Go's url.PathUnescape(). 0; -EBADMSG; -ENOMEM. */
static int unescape(const char *data, struct nb_secret *ret) {
        int r = nb_secret_init(ret, strlen(data));

        for (; *data && r >= 0; data++) {
                uint8_t byte = (uint8_t)*data;

                if (*data == '%') {
                        if (!data[1] || !data[2] || nb_hex_decode(data + 1, 2, &byte, 1) < 0)
                                return -EBADMSG;
                        data += 2;
                }
                r = nb_secret_append(ret, &byte, 1);
        }
        return r;
}

/* Decodes an entry of Ignition's storage.files (config-v3_5), which has a URL of RFC 2397:
 * "data:[type][;base64],DATA". Returns the same as read_entry(). */
static int read_file(const struct nb_yaml_node *file, struct nb_secret *ret) {
        static const char base64[] = ";base64";
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        const struct nb_yaml_node *contents = nb_yaml_get(file, "contents");
        const char *url = scalar(contents, "source"), *comma = strchr(url, ',');
        int r;

        if (strncmp(url, "data:", strlen("data:")) != 0)
                return 0;
        if (!comma)
                return -EBADMSG;
        r = unescape(comma + 1, &bytes);
        if (r < 0)
                return r;
        return decode(bytes.data, bytes.len,
                      memmem(url, (size_t)(comma - url), base64, strlen(base64)),
                      strcmp(scalar(contents, "compression"), "gzip") == 0, ret);
}

static const struct kind {
        const char *key, *list; /* where the files are: the list `key`, or the list `list` in the
                                   mapping `key` */
        const char *name;       /* for messages: the list, and the text in an entry */
        const char *text;
        const char *mode;
        int mode_base;
        int (*read)(const struct nb_yaml_node *entry, struct nb_secret *ret);
} kinds[] = {
        [NB_USER_DATA_CLOUD_CONFIG] = { "write_files", NULL, "write_files", "content",
                                        "permissions", 8, read_entry },
        /* JSON is valid YAML, except for escaped characters above U+FFFF, which a data URL does not
         * have. */
        [NB_USER_DATA_IGNITION] = { "storage", "files", "storage.files", "contents.source", "mode",
                                    10, read_file },
};

static int pass_file(const struct kind *kind, const char *where, size_t i,
                     const struct nb_yaml_node *entry, const struct nb_user_data_files *files,
                     struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *mode = scalar(entry, kind->mode);
        struct nb_user_data_file file = { .path = scalar(entry, "path"),
                                          .mode = DEFAULT_MODE,
                                          .text = &text };
        int r = kind->read(entry, &text);

        if (r < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, r,
                                      "%s: %s[%zu].%s: cannot be decoded according to its URL, "
                                      "encoding or compression",
                                      where, kind->name, i, kind->text);
        if (!text.data || file.path[0] != '/')
                return 0;
        if (mode[0])
                file.mode = (unsigned)strtoul(mode, NULL, kind->mode_base) & 07777;
        return files->each(files->userdata, &file, f);
}

int nb_user_data_pass_files(enum nb_user_data_tool tool, const char *where, const char *data,
                            size_t len, const struct nb_user_data_files *files,
                            struct nb_failure *f) {
        const struct kind *kind = &kinds[tool];
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        const struct nb_yaml_node *list;
        size_t i = 0;
        int r;

        r = nb_yaml_parse_key(where, data, len, NB_METADATA_MALFORMED, kind->key, &root, f);
        list = kind->list ? nb_yaml_get(root, kind->list) : root;
        if (r < 0 || !list || list->type != NB_YAML_SEQUENCE)
                return r;
        for (const struct nb_yaml_node *entry = list->first; entry && r >= 0; entry = entry->next)
                r = pass_file(kind, where, i++, entry, files, f);
        return r;
}
