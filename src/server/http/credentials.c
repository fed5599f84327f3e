/*
 * credentials.c - see credentials.h.
 */
#include "server/http/credentials.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <string.h>

struct credentials {
    gnutls_certificate_credentials_t pair;
    atomic_int users;
};

static gnutls_datum_t datum_of(const char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)text,
                            .size = (unsigned)strlen(text)};
}

/* What two PEM texts hold, while it is looked at. */
struct pair {
    gnutls_x509_crt_t *certificates; /* the server's own first */
    unsigned count;
    gnutls_x509_privkey_t key;
};

static void pair_release(struct pair *pair)
{
    for (unsigned i = 0; i < pair->count; i++) {
        gnutls_x509_crt_deinit(pair->certificates[i]);
    }
    gnutls_free(pair->certificates);
    if (pair->key) {
        gnutls_x509_privkey_deinit(pair->key);
    }
}

/* 0, or what gnutls says is wrong. */
static int pair_read(const char *certificate, const char *key, struct pair *ret_pair)
{
    gnutls_datum_t certificate_datum = datum_of(certificate);
    gnutls_datum_t key_datum = datum_of(key);
    int result = gnutls_x509_privkey_init(&ret_pair->key);

    result = result < 0 ? result
                        : gnutls_x509_privkey_import2(ret_pair->key, &key_datum,
                                                      GNUTLS_X509_FMT_PEM, NULL, 0);
    return result < 0 ? result
                      : gnutls_x509_crt_list_import2(&ret_pair->certificates, &ret_pair->count,
                                                     &certificate_datum, GNUTLS_X509_FMT_PEM,
                                                     GNUTLS_X509_CRT_LIST_SORT);
}

/* Is the key that of the certificate? gnutls_certificate_set_x509_key looks, too, but forgets to
 * free its copy of a certificate that it refuses. */
static int pair_check(const struct pair *pair)
{
    unsigned char of_certificate[64];
    unsigned char of_key[64];
    size_t certificate_bytes = sizeof of_certificate;
    size_t key_bytes = sizeof of_key;
    int result = gnutls_x509_crt_get_key_id(pair->certificates[0], GNUTLS_KEYID_USE_SHA256,
                                            of_certificate, &certificate_bytes);

    result = result < 0 ? result
                        : gnutls_x509_privkey_get_key_id(pair->key, GNUTLS_KEYID_USE_SHA256, of_key,
                                                         &key_bytes);
    if (result < 0) {
        return result;
    }
    return certificate_bytes == key_bytes && memcmp(of_certificate, of_key, key_bytes) == 0
               ? 0
               : GNUTLS_E_CERTIFICATE_KEY_MISMATCH;
}

hf_status credentials_new(const char *certificate, const char *key,
                          struct credentials **ret_credentials)
{
    struct credentials *credentials = mem_calloc(1, sizeof *credentials);
    struct pair pair = {.count = 0};
    int result;

    if (!credentials || gnutls_certificate_allocate_credentials(&credentials->pair) != 0) {
        mem_free(credentials);
        return fail(HF_NOMEM, "out of memory");
    }
    atomic_init(&credentials->users, 1);
    result = pair_read(certificate, key, &pair);
    result = result < 0 ? result : pair_check(&pair);
    result = result < 0 ? result
                        : gnutls_certificate_set_x509_key(credentials->pair, pair.certificates,
                                                          (int)pair.count, pair.key);
    pair_release(&pair);
    if (result < 0) {
        credentials_put(credentials);
        return fail(HF_INVALID, "the certificate cannot be used with its key: %s",
                    gnutls_strerror(result));
    }
    *ret_credentials = credentials;
    return HF_OK;
}

struct credentials *credentials_take(struct credentials *credentials)
{
    atomic_fetch_add(&credentials->users, 1);
    return credentials;
}

void credentials_put(struct credentials *credentials)
{
    if (credentials && atomic_fetch_sub(&credentials->users, 1) == 1) {
        gnutls_certificate_free_credentials(credentials->pair);
        mem_free(credentials);
    }
}

bool credentials_use(struct credentials *credentials, void *session)
{
    return gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials->pair) == 0;
}
