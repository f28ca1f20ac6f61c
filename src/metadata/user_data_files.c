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
#include "codec/json.h"
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

static int pass_file(const struct nb_user_data_files *files, const char *path, unsigned mode,
                     const struct nb_secret *text, struct nb_failure *f) {
        const struct nb_user_data_file file = { .path = path, .mode = mode & 07777, .text = text };

        return path[0] == '/' ? files->each(files->userdata, &file, f) : 0;
}

/* --- write_files of cloud-init (modules/cc_write_files) --- */

/* "" for none. */
static const char *scalar(const struct nb_yaml_node *entry, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(entry, key);

        return node && node->type == NB_YAML_SCALAR && !nb_yaml_is_null(node) ? node->value : "";
}

static int take_entry(const char *where, const struct nb_yaml_node *entry,
                      const struct nb_user_data_files *files, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *encoding = scalar(entry, "encoding"), *content = scalar(entry, "content"),
                   *permissions = scalar(entry, "permissions");
        bool is_gzip = strncasecmp(encoding, "gz", strlen("gz")) == 0,
             is_base64 = strcasestr(encoding, "b64") || strcasestr(encoding, "base64"),
             is_plain = !encoding[0] || strcasecmp(encoding, "text/plain") == 0;
        int r = -EBADMSG;

        /* The result of appending to a file of the image, or of a download, is unknown here. */
        if (nb_yaml_get(entry, "source") || strcmp(scalar(entry, "append"), "true") == 0)
                return 0;
        if (is_gzip || is_base64 || is_plain)
                r = decode(content, strlen(content), is_base64, is_gzip, &text);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s:%u: write_files: content: expected what encoding says "
                                      "(b64, gzip, gz+b64 or none); cannot decode it",
                                      where, entry->line);
        return pass_file(files, scalar(entry, "path"),
                         permissions[0] ? (unsigned)strtoul(permissions, NULL, 8) : DEFAULT_MODE,
                         &text, f);
}

int nb_user_data_files_of_cloud_config(const char *where, const char *data, size_t len,
                                       const struct nb_user_data_files *files,
                                       struct nb_failure *f) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *list = NULL;
        int r;

        r = nb_yaml_parse_key(where, data, len, NB_METADATA_MALFORMED, "write_files", &list, f);
        if (r < 0 || !list || list->type != NB_YAML_SEQUENCE)
                return r;
        for (const struct nb_yaml_node *entry = list->first; entry && r >= 0; entry = entry->next)
                if (entry->type == NB_YAML_MAPPING)
                        r = take_entry(where, entry, files, f);
        return r;
}

/* --- storage.files of Ignition (config-v3_5) --- */

/* "%41" and plain characters, as url.PathUnescape() of Go. 0; -EBADMSG. */
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

/* RFC 2397: "data:[type][;base64],DATA". */
static int read_data_url(const char *url, bool is_gzip, struct nb_secret *ret) {
        static const char base64[] = ";base64";
        _cleanup_(nb_secret_done) struct nb_secret bytes = NB_SECRET_INIT;
        const char *comma = strchr(url, ',');
        int r;

        if (!comma)
                return -EBADMSG;
        r = unescape(comma + 1, &bytes);
        if (r < 0)
                return r;
        return decode(bytes.data, bytes.len,
                      memmem(url, (size_t)(comma - url), base64, strlen(base64)), is_gzip, ret);
}

static int take_file(const struct nb_json *config, size_t i, const struct nb_user_data_files *files,
                     struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = "", *source = "", *compression = "";
        struct nb_json file = { NULL, config->what, config->code };
        int64_t mode = DEFAULT_MODE;
        char place[64];
        size_t len;
        int r;

        snprintf(place, sizeof(place), "storage.files[%zu]", i);
        r = nb_json_object(config, place, &file.root, f);
        if (r <= 0)
                return r;
        if (nb_json_string(&file, "path", &path, &len, f) < 0 ||
            nb_json_string(&file, "contents.compression", &compression, &len, f) < 0 ||
            nb_json_string(&file, "contents.source", &source, &len, f) < 0 ||
            nb_json_integer(&file, "mode", &mode, f) < 0)
                return -EBADMSG;
        /* Files that Ignition downloads are unknown here. */
        if (strncmp(source, "data:", strlen("data:")) != 0)
                return 0;
        r = read_data_url(source, !strcmp(compression, "gzip"), &text);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, r,
                                      "%s: %s.contents.source: expected a data URL, compressed as "
                                      "its compression says; cannot decode it",
                                      config->what, place);
        return pass_file(files, path, (unsigned)mode, &text, f);
}

int nb_user_data_files_of_ignition(const char *where, const char *data, size_t len,
                                   const struct nb_user_data_files *files, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct json_object *ignition = NULL;
        size_t n = 0;
        int r;

        if (!memmem(data, len, "\"ignition\"", strlen("\"ignition\"")))
                return 0;
        r = nb_json_parse(data, len, where, NB_METADATA_MALFORMED, &json, f);
        if (r < 0)
                return r;
        r = nb_json_object(&json, "ignition", &ignition, f);
        if (r <= 0)
                return r;
        r = nb_json_array(&json, "storage.files", &n, f);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = take_file(&json, i, files, f);
        return r < 0 ? r : 0;
}
