/*
 * sessions.c - see sessions.h.
 *
 * A table of a fixed size that is looked through from one end to the other, in the same time for
 * every id: a thousand comparisons of 32 bytes take less than the rest of a request.
 */
#include "server/access/sessions.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/hex.h"
#include "base/thread.h"
#include "base/time/clock.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define HASH_BYTES TOKEN_HASH_BYTES
#define SECOND_US INT64_C(1000000)
#define SECRET_PREFIX "secret of the session "

struct session {
    unsigned char id[HASH_BYTES]; /* the hash of it */
    unsigned char token[HASH_BYTES];
    int64_t begun_us; /* 0: the entry is free */
    int64_t used_us;
};

struct sessions {
    pthread_mutex_t mutex; /* protects the entries */
    struct session entries[SESSIONS_MAX];
    uint64_t version; /* how many were ended before their time */
};

struct sessions *sessions_new(void)
{
    struct sessions *sessions = mem_calloc(1, sizeof *sessions);

    if (!sessions) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    if (mutex_init(&sessions->mutex)) {
        mem_free(sessions);
        return NULL;
    }
    return sessions;
}

void sessions_free(struct sessions *sessions)
{
    if (sessions) {
        pthread_mutex_destroy(&sessions->mutex);
        mem_free(sessions);
    }
}

static void to_hex(const unsigned char hash[HASH_BYTES], char ret_text[SESSION_ID_BYTES])
{
    *hex_write(ret_text, hash, HASH_BYTES) = '\0';
}

static bool is_over(const struct session *session, int64_t now_us)
{
    return session->begun_us == 0 || now_us - session->used_us > SESSION_IDLE_S * SECOND_US ||
           now_us - session->begun_us > SESSION_AGE_S * SECOND_US;
}

/* Orders entries by their tokens. */
static int compare_tokens(const void *a, const void *b)
{
    const struct session *const *one = a;
    const struct session *const *other = b;

    return memcmp((*one)->token, (*other)->token, HASH_BYTES);
}

static struct session *older(struct session *one, struct session *other)
{
    return !one || other->used_us < one->used_us ? other : one;
}

/* The entry that was not used for the longest time, of the token that has the most of them. All are
 * in use. */
static struct session *find_most(struct sessions *sessions)
{
    struct session *sorted[SESSIONS_MAX];
    struct session *found = NULL;
    size_t most = 0;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        sorted[i] = &sessions->entries[i];
    }
    qsort(sorted, SESSIONS_MAX, sizeof sorted[0], compare_tokens);
    for (size_t begin = 0, end; begin < SESSIONS_MAX; begin = end) {
        struct session *oldest = sorted[begin];
        for (end = begin; end < SESSIONS_MAX && !compare_tokens(&sorted[begin], &sorted[end]);
             end++) {
            oldest = older(oldest, sorted[end]);
        }
        if (end - begin > most) {
            most = end - begin;
            found = oldest;
        }
    }
    return found;
}

/* An entry for another session of the token. */
static struct session *find_room(struct sessions *sessions, const unsigned char token[HASH_BYTES],
                                 int64_t now_us)
{
    struct session *unused = NULL;
    struct session *own = NULL; /* of the token: the one that was not used for the longest time */
    size_t own_count = 0;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->entries[i];
        if (is_over(session, now_us)) {
            unused = session;
        } else if (gnutls_memcmp(session->token, token, HASH_BYTES) == 0) {
            own = older(own, session);
            own_count++;
        }
    }
    if (own_count >= SESSIONS_PER_TOKEN_MAX) {
        return own;
    }
    return unused ? unused : find_most(sessions);
}

hf_status sessions_begin(struct sessions *sessions, const unsigned char token[HASH_BYTES],
                         char ret_id[SESSION_ID_BYTES])
{
    unsigned char random[HASH_BYTES];
    unsigned char hash[HASH_BYTES];
    char id[SESSION_ID_BYTES];
    int64_t now_us = clock_mono_us();
    hf_status status;

    if (gnutls_rnd(GNUTLS_RND_KEY, random, sizeof random) != 0) {
        return fail(HF_IO, "the system has no random numbers");
    }
    to_hex(random, id);
    status = token_hash(id, hash);
    if (status) {
        return status;
    }
    pthread_mutex_lock(&sessions->mutex);
    struct session *session = find_room(sessions, token, now_us);
    sessions->version += !is_over(session, now_us);
    memcpy(session->id, hash, HASH_BYTES);
    memcpy(session->token, token, HASH_BYTES);
    session->begun_us = now_us;
    session->used_us = now_us;
    pthread_mutex_unlock(&sessions->mutex);
    memcpy(ret_id, id, sizeof id);
    return HF_OK;
}

/* The mutex is held. NULL: none. */
static struct session *find(struct sessions *sessions, const unsigned char hash[HASH_BYTES],
                            int64_t now_us)
{
    struct session *found = NULL;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->entries[i];
        bool is_it = gnutls_memcmp(session->id, hash, HASH_BYTES) == 0;
        found = is_it && !is_over(session, now_us) ? session : found;
    }
    return found;
}

/* Uses the session that bearer->session names, and notes its token. */
static bool use(struct sessions *sessions, struct bearer *bearer)
{
    int64_t now_us = clock_mono_us();
    struct session *session;

    pthread_mutex_lock(&sessions->mutex);
    session = find(sessions, bearer->session, now_us);
    if (session) {
        session->used_us = now_us;
        memcpy(bearer->token, session->token, HASH_BYTES);
    }
    pthread_mutex_unlock(&sessions->mutex);
    return session != NULL;
}

bool sessions_find(struct sessions *sessions, const char *id, struct bearer *ret_bearer)
{
    struct bearer bearer = {.via = VIA_SESSION};

    if (token_hash(id, bearer.session) || !use(sessions, &bearer)) {
        return false;
    }
    *ret_bearer = bearer;
    return true;
}

bool sessions_go_on(struct sessions *sessions, const struct bearer *bearer)
{
    struct bearer same = *bearer;

    return use(sessions, &same);
}

uint64_t sessions_version(struct sessions *sessions)
{
    uint64_t version;

    pthread_mutex_lock(&sessions->mutex);
    version = sessions->version;
    pthread_mutex_unlock(&sessions->mutex);
    return version;
}

void sessions_end(struct sessions *sessions, const char *id)
{
    unsigned char hash[HASH_BYTES];
    struct session *session;

    if (token_hash(id, hash)) {
        return;
    }
    pthread_mutex_lock(&sessions->mutex);
    session = find(sessions, hash, clock_mono_us());
    if (session) {
        *session = (struct session){.begun_us = 0};
        sessions->version++;
    }
    pthread_mutex_unlock(&sessions->mutex);
}

hf_status session_secret(const char *id, char ret_secret[SESSION_ID_BYTES])
{
    char text[sizeof SECRET_PREFIX + SESSION_ID_BYTES];
    unsigned char hash[HASH_BYTES];
    hf_status status;

    snprintf(text, sizeof text, SECRET_PREFIX "%s", id);
    status = token_hash(text, hash);
    if (!status) {
        to_hex(hash, ret_secret);
    }
    return status;
}

bool session_id_of(const struct exchange *exchange, char ret_id[SESSION_ID_BYTES])
{
    const char *id = exchange_cookie(exchange, SESSION_COOKIE);

    if (!id || strlen(id) != SESSION_ID_BYTES - 1) {
        return false;
    }
    memcpy(ret_id, id, SESSION_ID_BYTES);
    return true;
}

bool session_secret_is(const struct exchange *exchange, const char *id)
{
    const char *said = exchange_header(exchange, SESSION_SECRET_HEADER);
    char secret[SESSION_ID_BYTES];

    return said && strlen(said) == SESSION_ID_BYTES - 1 && !session_secret(id, secret) &&
           gnutls_memcmp(said, secret, SESSION_ID_BYTES) == 0;
}
