/*
 * resolver.c - a resolver that changes its mind: the name "turncoat.test" is 127.0.0.2 at the first
 * look and 127.0.0.1 at every later one, and "sleeper.test" is not answered for a minute. All other
 * names are the real one's business.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

typedef int resolve_fn(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_found);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    static atomic_int looks;
    resolve_fn *real = (resolve_fn *)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo only = hints ? *hints : (struct addrinfo){0};

    if (node && strcmp(node, "turncoat.test") == 0) {
        only.ai_family = AF_INET;
        return real(atomic_fetch_add(&looks, 1) == 0 ? "127.0.0.2" : "127.0.0.1", service, &only,
                    ret_found);
    }
    if (node && strcmp(node, "sleeper.test") == 0) {
        sleep(60);
        return EAI_AGAIN;
    }
    return real(node, service, hints, ret_found);
}
