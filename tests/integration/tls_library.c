/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Preloaded into the programs:
 *
 * Without TLS_LIBRARY in the environment, a handshake that OpenSSL refuses costs CPU time without
 * an end. OpenSSL refuses the keys with which GnuTLS takes that long; with GnuTLS, nothing changes.
 *
 * With TLS_LIBRARY=no-certificates, libcurl is one whose TLS library does not return certificates.
 *
 * With RECEIVED=N, the kernel has received N bytes before the first one is read, as with a large
 * net.ipv4.tcp_rmem.
 */

#include <dlfcn.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>

#define CURLINFO_TLS_SSL_PTR 0x40002d
#define CURLOPT_CERTINFO 172
#define CURLE_NOT_BUILT_IN 4

int SSL_connect(void *ssl);
int curl_easy_getinfo(void *easy, int info, ...);
int curl_easy_setopt(void *easy, int option, ...);

int SSL_connect(void *ssl) {
        int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "SSL_connect");
        unsigned long (*error)(void) = (unsigned long (*)(void))dlsym(RTLD_NEXT, "ERR_peek_error");
        int r = next(ssl);

        for (volatile int i = 1; r != 1 && error() != 0 && !getenv("TLS_LIBRARY") && i;)
                ;
        return r;
}

int curl_easy_setopt(void *easy, int option, ...) {
        int (*next)(void *, int, ...) = (int (*)(void *, int, ...))dlsym(RTLD_NEXT,
                                                                         "curl_easy_setopt");
        va_list arguments;
        void *value;

        va_start(arguments, option);
        value = va_arg(arguments, void *);
        va_end(arguments);
        return option == CURLOPT_CERTINFO && getenv("TLS_LIBRARY") ? CURLE_NOT_BUILT_IN
                                                                   : next(easy, option, value);
}

/* The backend is the first member of what CURLINFO_TLS_SSL_PTR returns. */
int curl_easy_getinfo(void *easy, int info, ...) {
        int (*next)(void *, int, ...) = (int (*)(void *, int, ...))dlsym(RTLD_NEXT,
                                                                         "curl_easy_getinfo");
        va_list arguments;
        int **value, r;

        va_start(arguments, info);
        value = va_arg(arguments, int **);
        va_end(arguments);
        r = next(easy, info, value);
        if (info == CURLINFO_TLS_SSL_PTR && getenv("TLS_LIBRARY"))
                **value = 0;
        return r;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len) {
        int (*next)(int, int, int, void *, socklen_t *) = (int (*)(
                int, int, int, void *, socklen_t *))dlsym(RTLD_NEXT, "getsockopt");
        const char *received = getenv("RECEIVED");
        int r = next(fd, level, name, value, len);

        if (r == 0 && received && level == IPPROTO_TCP && name == TCP_INFO)
                ((struct tcp_info *)value)->tcpi_bytes_received = (unsigned)atoi(received);
        return r;
}
