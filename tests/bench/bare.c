/* SPDX-License-Identifier: Apache-2.0 */

/*
 * bare SERVER TOKEN PIN NODE FOLDER: the least that a join costs, to compare node-bootstrap with.
 * Without arguments it prints the versions of the libraries.
 *
 * One process makes the same two connections and the three necessary requests with libcurl and
 * GnuTLS, and writes what kubelet needs: ca.crt, client.pem and kubelet.conf. It expects what a
 * healthy API server answers, understands no more of JSON than that, never retries, has no sandbox,
 * and does not wait for the disk.
 */

#include <curl/curl.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CSRS "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define ANSWER_MAX ((size_t)1024 * 1024)
#define TIMEOUT_SEC 60L

struct answer {
        char text[ANSWER_MAX];
        size_t len;
        const char *until; /* the transfer ends after a line with this text; NULL: never early */
};

static struct answer answer;
static char curl_error[CURL_ERROR_SIZE];

static _Noreturn void fail(const char *what) {
        (void)fprintf(stderr, "bare: %s: %.*s\n", what, answer.len < 300 ? (int)answer.len : 300,
                      answer.text);
        exit(1);
}

static char *format(const char *format, ...) {
        va_list arguments;
        char *text;

        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0)
                fail("memory");
        va_end(arguments);
        return text;
}

static bool is_complete(void) {
        const char *found = answer.until ? strstr(answer.text, answer.until) : NULL;

        return found && strchr(found, '\n');
}

static size_t on_body(const char *data, size_t size, size_t count, void *userdata) {
        size_t len = size * count;

        (void)userdata;
        if (answer.len + len >= sizeof(answer.text))
                return 0;
        memcpy(answer.text + answer.len, data, len);
        answer.len += len;
        answer.text[answer.len] = '\0';
        return is_complete() ? 0 : len;
}

static void request(CURL *easy, const char *url, const char *body, const char *until) {
        long status = 0;
        CURLcode result;

        answer.len = 0;
        answer.until = until;
        (void)curl_easy_setopt(easy, CURLOPT_URL, url);
        if (body)
                (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
        else
                (void)curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        result = curl_easy_perform(easy);
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        if (result != CURLE_OK && !is_complete())
                fail(curl_error);
        if (status != 200 && status != 201)
                fail(url);
}

/* The certificates that the server's has to chain to; NULL: any server is accepted. */
static CURL *connection(const char *ca_file) {
        CURL *easy = curl_easy_init();

        if (!easy)
                fail("libcurl");
        (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT, TIMEOUT_SEC);
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, ca_file ? 1L : 0L);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, ca_file ? 2L : 0L);
        (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, curl_error);
        return easy;
}

/* The value of the first `"key":"..."` after the text `after`, without the escapes of JSON. */
static char *string(const char *after, const char *key) {
        char *quoted = format("\"%s\":\"", key), *value, *to;
        const char *from = strstr(answer.text, after);

        from = from ? strstr(from, quoted) : NULL;
        if (!from)
                fail(key);
        from += strlen(quoted);
        value = to = strdup(from);
        if (!value)
                fail("memory");
        for (; *from && *from != '"'; from++) {
                if (*from == '\\')
                        *to++ = *++from == 'n' ? '\n' : *from;
                else
                        *to++ = *from;
        }
        *to = '\0';
        free(quoted);
        return value;
}

static gnutls_datum_t decoded(const char *base64) {
        const gnutls_datum_t text = { (unsigned char *)(size_t)base64, (unsigned)strlen(base64) };
        gnutls_datum_t data;

        if (gnutls_base64_decode2(&text, &data) < 0)
                fail("base64");
        return data;
}

static void write_file(const char *folder, const char *name, mode_t mode, gnutls_datum_t first,
                       gnutls_datum_t second) {
        char *path = format("%s/%s", folder, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

        if (fd < 0 || write(fd, first.data, first.size) != (ssize_t)first.size ||
            write(fd, second.data, second.size) != (ssize_t)second.size || close(fd) < 0)
                fail(path);
        free(path);
}

static gnutls_datum_t discover(const char *server, const char *pin) {
        static const char before[] = "certificate-authority-data: ";
        unsigned char id[32];
        size_t id_len = sizeof(id);
        char hex[2 * sizeof(id) + 1], *url, *kubeconfig, *encoded;
        gnutls_x509_crt_t certificate;
        gnutls_datum_t ca;
        CURL *easy = connection(NULL);

        url = format("https://%s/api/v1/namespaces/kube-public/configmaps/cluster-info", server);
        request(easy, url, NULL, NULL);
        curl_easy_cleanup(easy);
        kubeconfig = string("\"data\":", "kubeconfig");
        encoded = strstr(kubeconfig, before);
        if (!encoded)
                fail("no CA in cluster-info");
        encoded += strlen(before);
        encoded[strcspn(encoded, "\n")] = '\0';
        ca = decoded(encoded);
        if (gnutls_x509_crt_init(&certificate) < 0 ||
            gnutls_x509_crt_import(certificate, &ca, GNUTLS_X509_FMT_PEM) < 0 ||
            gnutls_x509_crt_get_key_id(certificate, GNUTLS_KEYID_USE_SHA256, id, &id_len) < 0)
                fail("the CA");
        gnutls_x509_crt_deinit(certificate);
        for (size_t i = 0; i < sizeof(id); i++)
                (void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
        if (strcmp(hex, pin) != 0)
                fail("another CA");
        free(kubeconfig);
        free(url);
        return ca;
}

static gnutls_datum_t make_request(const char *node, gnutls_datum_t *ret_key) {
        char *name = format("system:node:%s", node);
        gnutls_datum_t der, pem, base64;
        gnutls_x509_privkey_t key;
        gnutls_x509_crq_t crq;

        if (gnutls_x509_privkey_init(&key) < 0 || gnutls_x509_crq_init(&crq) < 0 ||
            gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) < 0 ||
            gnutls_x509_crq_set_version(crq, 1) < 0 ||
            gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, "system:nodes",
                                          strlen("system:nodes")) < 0 ||
            gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                          (unsigned)strlen(name)) < 0 ||
            gnutls_x509_crq_set_key(crq, key) < 0 ||
            gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_SHA256, 0) < 0 ||
            gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &der) < 0 ||
            gnutls_pem_base64_encode2("CERTIFICATE REQUEST", &der, &pem) < 0 ||
            gnutls_base64_encode2(&pem, &base64) < 0 ||
            gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, ret_key) < 0)
                fail("the request");
        gnutls_free(der.data);
        gnutls_free(pem.data);
        gnutls_x509_crq_deinit(crq);
        gnutls_x509_privkey_deinit(key);
        free(name);
        return base64;
}

/* Returns the chain of certificates. */
static gnutls_datum_t obtain(const char *server, const char *token, const char *node,
                             const char *ca_file, gnutls_datum_t *ret_key) {
        const gnutls_datum_t crq = make_request(node, ret_key);
        char *authorization = format("Authorization: Bearer %s", token);
        struct curl_slist *lines = curl_slist_append(NULL, "Content-Type: application/json");
        char *url = format("https://%s" CSRS, server), *body, *watch;
        CURL *easy = connection(ca_file);

        lines = curl_slist_append(lines, authorization);
        (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
        body = format("{\"apiVersion\":\"certificates.k8s.io/v1\","
                      "\"kind\":\"CertificateSigningRequest\",\"metadata\":{\"name\":\"csr-%s\"},"
                      "\"spec\":{\"request\":\"%.*s\","
                      "\"signerName\":\"kubernetes.io/kube-apiserver-client-kubelet\","
                      "\"usages\":[\"digital signature\",\"key encipherment\",\"client auth\"]}}",
                      node, (int)crq.size, (const char *)crq.data);
        request(easy, url, body, NULL);
        watch = format("%s?watch=true&timeoutSeconds=300&fieldSelector=metadata.name%%3Dcsr-%s"
                       "&resourceVersion=%s",
                       url, node, string("\"metadata\":", "resourceVersion"));
        request(easy, watch, NULL, "\"certificate\":\"");
        curl_easy_cleanup(easy);
        return decoded(string("\"status\":", "certificate"));
}

int main(int argc, char **argv) {
        const gnutls_datum_t none = { (unsigned char[]){ 0 }, 0 };
        gnutls_datum_t ca, key, chain, text = { 0 };
        const char *server, *folder;

        if (argc != 6)
                return puts(curl_version()), 64;
        server = argv[1];
        folder = argv[5];
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                fail("libcurl");
        ca = discover(server, argv[3]);
        /* libcurl 7.88 has CURLOPT_CAINFO_BLOB, but not with GnuTLS. */
        write_file(folder, "ca.crt", 0644, ca, none);
        chain = obtain(server, argv[2], argv[4], format("%s/ca.crt", folder), &key);
        text.data = (unsigned char *)format(
                "apiVersion: v1\nkind: Config\ncurrent-context: default\n"
                "clusters:\n- name: default\n  cluster:\n    server: https://%s\n"
                "    certificate-authority: %s/ca.crt\n"
                "users:\n- name: default\n  user:\n    client-certificate: %s/client.pem\n"
                "    client-key: %s/client.pem\n"
                "contexts:\n- name: default\n  context:\n    cluster: default\n    user: default\n",
                server, folder, folder, folder);
        text.size = (unsigned)strlen((char *)text.data);
        write_file(folder, "client.pem", 0600, chain, key);
        write_file(folder, "kubelet.conf", 0600, text, none);
        return 0;
}
