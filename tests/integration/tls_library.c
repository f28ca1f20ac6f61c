/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Preloaded into the programs:
 *
 * Without TLS_LIBRARY in the environment, a handshake that OpenSSL refuses costs CPU time without
 * an end. OpenSSL refuses the keys with which GnuTLS takes that long; with GnuTLS, nothing changes.
 *
 * With TLS_LIBRARY=no-certificates, libcurl is one whose TLS library does not return certificates.
 */

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>

#define CURLOPT_CERTINFO 172
#define CURLE_NOT_BUILT_IN 4

int SSL_connect(void *ssl);
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
