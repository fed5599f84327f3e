/*
 * secrets.c - see secrets.h. What is signed is "ID.TIMESTAMP.BODY", by HMAC-SHA256.
 */
#include "server/webhook/secrets.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "server/access/guarded.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define PREFIX "whsec_"
#define DIGEST_BYTES 32

struct secret {
    unsigned char bytes[SECRET_BYTES_MAX];
    size_t length;
};

struct secret_list {
    size_t count;
    struct secret secrets[SECRETS_MAX];
};

struct secrets {
    hf_log_fn log;
    void *log_ctx;
    pthread_mutex_t mutex; /* protects what follows */
    struct guarded file;
    struct secret_list list;
};

/* ---- The file -------------------------------------------------------------------------------- */

static hf_status read_secret(const char *line, struct secret *ret_secret)
{
    gnutls_datum_t encoded;
    gnutls_datum_t bytes = {NULL, 0};
    size_t prefix = strlen(PREFIX);
    hf_status status = HF_OK;

    if (strncmp(line, PREFIX, prefix) != 0) {
        return fail(HF_INVALID, "a secret begins with " PREFIX);
    }
    encoded.data = (unsigned char *)(uintptr_t)(line + prefix);
    encoded.size = (unsigned)strlen(line + prefix);
    if (gnutls_base64_decode2(&encoded, &bytes) != 0) {
        return fail(HF_INVALID, "what follows " PREFIX " is no base64");
    }
    if (bytes.size < SECRET_BYTES_MIN || bytes.size > SECRET_BYTES_MAX) {
        status = fail(HF_INVALID, "a secret has from %d to %d bytes; this one has %u",
                      SECRET_BYTES_MIN, SECRET_BYTES_MAX, bytes.size);
    } else {
        memcpy(ret_secret->bytes, bytes.data, bytes.size);
        ret_secret->length = bytes.size;
    }
    gnutls_memset(bytes.data, 0, bytes.size);
    gnutls_free(bytes.data);
    return status;
}

static hf_status read_lines(char *text, const char *path, struct secret_list *ret_list)
{
    struct secret_list list = {.count = 0};
    hf_status status = HF_OK;
    int number = 0;

    for (char *line = text; line && !status; number++) {
        char *end = strchr(line, '\n');
        char *next = end ? end + 1 : NULL;
        line[strcspn(line, " \t\r\n")] = '\0';
        if (*line && *line != '#') {
            status = list.count < SECRETS_MAX
                         ? read_secret(line, &list.secrets[list.count++])
                         : fail(HF_INVALID, "there are more than %d secrets", SECRETS_MAX);
        }
        line = next;
    }
    if (status) {
        status = fail(status, "%s, line %d: %s", path, number, err_message());
    } else if (list.count == 0) {
        status = fail(HF_INVALID, "%s has no secret", path);
    } else {
        *ret_list = list;
    }
    explicit_bzero(&list, sizeof list);
    return status;
}

static hf_status read_file(struct secrets *secrets)
{
    char *text = NULL;
    hf_status status = guarded_read(&secrets->file, &text);

    if (!status) {
        size_t length = strlen(text);
        status = read_lines(text, secrets->file.path, &secrets->list);
        explicit_bzero(text, length);
    }
    mem_free(text);
    return status;
}

/* Those of now. */
static void take_list(struct secrets *secrets, struct secret_list *ret_list)
{
    pthread_mutex_lock(&secrets->mutex);
    if (guarded_has_changed(&secrets->file)) {
        hf_status status = read_file(secrets);
        guarded_tell(secrets->log, secrets->log_ctx, status ? HF_LOG_ERROR : HF_LOG_INFO,
                     status ? err_message() : "the file of secrets has changed and was read again");
    }
    *ret_list = secrets->list;
    pthread_mutex_unlock(&secrets->mutex);
}

/* ---- Signing --------------------------------------------------------------------------------- */

static hf_status sign_with(const struct secret *secret, struct text head, struct text body,
                           struct buf *value)
{
    unsigned char digest[DIGEST_BYTES];
    gnutls_datum_t bytes = {digest, sizeof digest};
    gnutls_datum_t encoded = {NULL, 0};
    gnutls_hmac_hd_t hmac;

    if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, secret->bytes, secret->length) != 0) {
        return fail(HF_NOMEM, "cannot sign");
    }
    gnutls_hmac(hmac, head.bytes, head.length);
    gnutls_hmac(hmac, body.bytes, body.length);
    gnutls_hmac_deinit(hmac, digest);
    if (gnutls_base64_encode2(&bytes, &encoded) != 0) {
        return fail(HF_NOMEM, "out of memory");
    }
    buf_printf(value, "%sv1,%.*s", value->length ? " " : "", (int)encoded.size,
               (const char *)encoded.data);
    gnutls_free(encoded.data);
    return buf_status(value);
}

hf_status secrets_sign(struct secrets *secrets, const char *id, int64_t timestamp_s,
                       struct text body, struct buf *value)
{
    struct secret_list list;
    char head[128];
    hf_status status = HF_OK;

    snprintf(head, sizeof head, "%s.%" PRId64 ".", id, timestamp_s);
    take_list(secrets, &list);
    for (size_t i = 0; i < list.count && !status; i++) {
        status = sign_with(&list.secrets[i], text_of(head), body, value);
    }
    explicit_bzero(&list, sizeof list);
    return status;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

hf_status secrets_open(const char *path, hf_log_fn log, void *log_ctx, struct secrets **ret_secrets)
{
    struct secrets *secrets = mem_calloc(1, sizeof *secrets);
    hf_status status;

    if (!secrets) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = mutex_init(&secrets->mutex);
    if (status) {
        mem_free(secrets);
        return status;
    }
    secrets->log = log;
    secrets->log_ctx = log_ctx;
    secrets->file = (struct guarded){.path = path, .is_secret = true};
    status = read_file(secrets);
    if (status) {
        secrets_close(secrets);
        return status;
    }
    *ret_secrets = secrets;
    return HF_OK;
}

void secrets_close(struct secrets *secrets)
{
    if (secrets) {
        pthread_mutex_destroy(&secrets->mutex);
        explicit_bzero(secrets, sizeof *secrets);
        mem_free(secrets);
    }
}
