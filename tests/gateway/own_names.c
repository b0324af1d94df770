/* Names of one domain lead to this machine: OWN_NAMES=.kafka.example.com LD_PRELOAD=own_names.so PROGRAM */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    const char *domain = getenv("OWN_NAMES");
    size_t length = host == NULL ? 0 : strlen(host), suffix = domain == NULL ? 0 : strlen(domain);
    int ours = suffix > 0 && length > suffix && strcmp(host + length - suffix, domain) == 0;
    return real(ours ? "127.0.0.1" : host, service, hints, found);
}
