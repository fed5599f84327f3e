/*
 * tokens.c - see tokens.h.
 */
#include "server/access/tokens.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text/hex.h"
#include "base/thread.h"
#include "server/access/guarded.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define BLANK " \t"

struct token {
    char name[HF_NAME_BYTES_MAX + 1];
    char namespace_name[HF_NAMESPACE_BYTES_MAX + 1];
    enum role role;
    unsigned char hash[TOKEN_HASH_BYTES];
};

/* The tokens of one reading of the file. */
struct token_list {
    size_t count;
    struct token tokens[];
};

struct tokens {
    char *path;
    hf_log_fn log;
    void *log_ctx;
    pthread_mutex_t mutex; /* protects what follows */
    struct token_list *list;
    struct guarded file;
    uint64_t version; /* how often the file was read */
};

/* ---- Roles and hashes ------------------------------------------------------------------------ */

static const char *const role_names[] = {"none", "viewer", "operator", "admin"};

const char *role_name(enum role role)
{
    return role_names[role];
}

enum role role_of(const char *name)
{
    for (int role = ROLE_VIEWER; role <= ROLE_ADMIN; role++) {
        if (strcmp(role_names[role], name) == 0) {
            return (enum role)role;
        }
    }
    return ROLE_NONE;
}

hf_status token_hash(const char *token, unsigned char ret_hash[TOKEN_HASH_BYTES])
{
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, token, strlen(token), ret_hash) != 0) {
        return fail(HF_NOMEM, "cannot hash a token");
    }
    return HF_OK;
}

static bool read_hash(const char *word, unsigned char ret_hash[TOKEN_HASH_BYTES])
{
    return strlen(word) == (size_t)TOKEN_HASH_BYTES * 2 &&
           hex_read(word, TOKEN_HASH_BYTES, ret_hash);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Cuts the next word off a line; NULL at its end. */
static const char *next_word(char **line)
{
    char *word = *line + strspn(*line, BLANK);
    char *end = word + strcspn(word, BLANK);

    *line = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

static hf_status read_line(char *line, struct token *ret_token)
{
    const char *name = next_word(&line);
    const char *role = next_word(&line);
    const char *namespace_name = next_word(&line);
    const char *hash = next_word(&line);

    if (!hash || next_word(&line)) {
        return fail(HF_INVALID, "a line has four words: NAME ROLE NAMESPACE SHA256");
    }
    if (strlen(name) > HF_NAME_BYTES_MAX || strlen(namespace_name) > HF_NAMESPACE_BYTES_MAX) {
        return fail(HF_INVALID, "a name is at most %d bytes, a namespace at most %d",
                    HF_NAME_BYTES_MAX, HF_NAMESPACE_BYTES_MAX);
    }
    ret_token->role = role_of(role);
    if (ret_token->role == ROLE_NONE) {
        return fail(HF_INVALID, "'%s' is no role: viewer, operator or admin", role);
    }
    if (!read_hash(hash, ret_token->hash)) {
        return fail(HF_INVALID, "the last word is 64 hexadecimal digits, the SHA-256 of the token");
    }
    snprintf(ret_token->name, sizeof ret_token->name, "%s", name);
    snprintf(ret_token->namespace_name, sizeof ret_token->namespace_name, "%s", namespace_name);
    return HF_OK;
}

static hf_status read_lines(char *text, const char *path, struct token_list **ret_list)
{
    struct token_list *list;
    size_t lines = 1;
    int number = 0;

    for (const char *at = text; *at; at++) {
        lines += *at == '\n';
    }
    list = mem_calloc(1, sizeof *list + lines * sizeof list->tokens[0]);
    if (!list) {
        return fail(HF_NOMEM, "out of memory");
    }
    for (char *line = text; line; number++) {
        char *end = strchr(line, '\n');
        char *next = end ? end + 1 : NULL;
        if (end) {
            *end = '\0';
        }
        line += strspn(line, BLANK);
        if (*line && *line != '#') {
            hf_status status = read_line(line, &list->tokens[list->count]);
            if (status) {
                mem_free(list);
                return fail(status, "%s, line %d: %s", path, number + 1, err_message());
            }
            list->count++;
        }
        line = next;
    }
    *ret_list = list;
    return HF_OK;
}

static hf_status read_file(struct guarded *file, struct token_list **ret_list)
{
    char *text = NULL;
    hf_status status = guarded_read(file, &text);

    if (!status) {
        status = read_lines(text, file->path, ret_list);
    }
    mem_free(text);
    return status;
}

/* Reads the file again if it has changed. The mutex is held. */
static void look(struct tokens *tokens)
{
    struct token_list *list = NULL;

    if (!guarded_has_changed(&tokens->file)) {
        return;
    }
    if (read_file(&tokens->file, &list)) {
        guarded_tell(tokens->log, tokens->log_ctx, HF_LOG_ERROR, err_message());
        return;
    }
    mem_free(tokens->list);
    tokens->list = list;
    tokens->version++;
    guarded_tell(tokens->log, tokens->log_ctx, HF_LOG_INFO,
                 "the file of tokens has changed and was read again");
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

enum role tokens_role(struct tokens *tokens, const char *token, const char *namespace_name,
                      struct bearer *ret_bearer, char ret_name[HF_NAME_BYTES_MAX + 1])
{
    ret_bearer->via = VIA_TOKEN;
    if (strlen(token) > TOKEN_BYTES_MAX || token_hash(token, ret_bearer->token)) {
        return ROLE_NONE;
    }
    return tokens_role_of(tokens, ret_bearer->token, namespace_name, ret_name);
}

enum role tokens_role_of(struct tokens *tokens, const unsigned char hash[TOKEN_HASH_BYTES],
                         const char *namespace_name, char ret_name[HF_NAME_BYTES_MAX + 1])
{
    enum role role = ROLE_NONE;

    pthread_mutex_lock(&tokens->mutex);
    look(tokens);
    for (size_t i = 0; i < tokens->list->count; i++) {
        const struct token *one = &tokens->list->tokens[i];
        bool is_it = gnutls_memcmp(one->hash, hash, TOKEN_HASH_BYTES) == 0;
        bool is_for = strcmp(one->namespace_name, "*") == 0 ||
                      (namespace_name && strcmp(one->namespace_name, namespace_name) == 0);
        if (is_it) {
            snprintf(ret_name, HF_NAME_BYTES_MAX + 1, "%s", one->name);
        }
        if (is_it && is_for && one->role > role) {
            role = one->role;
        }
    }
    pthread_mutex_unlock(&tokens->mutex);
    return role;
}

void tokens_grants(struct tokens *tokens, const unsigned char hash[TOKEN_HASH_BYTES],
                   token_grant_fn found, void *ctx)
{
    pthread_mutex_lock(&tokens->mutex);
    look(tokens);
    for (size_t i = 0; i < tokens->list->count; i++) {
        const struct token *one = &tokens->list->tokens[i];
        if (gnutls_memcmp(one->hash, hash, TOKEN_HASH_BYTES) == 0) {
            found(one->namespace_name, one->role, ctx);
        }
    }
    pthread_mutex_unlock(&tokens->mutex);
}

uint64_t tokens_version(struct tokens *tokens)
{
    uint64_t version;

    pthread_mutex_lock(&tokens->mutex);
    look(tokens);
    version = tokens->version;
    pthread_mutex_unlock(&tokens->mutex);
    return version;
}

hf_status tokens_open(const char *path, hf_log_fn log, void *log_ctx, struct tokens **ret_tokens)
{
    struct tokens *tokens = mem_calloc(1, sizeof *tokens);
    hf_status status;

    if (!tokens) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = mutex_init(&tokens->mutex);
    if (status) {
        mem_free(tokens);
        return status;
    }
    tokens->log = log;
    tokens->log_ctx = log_ctx;
    tokens->path = mem_dup(path, strlen(path));
    tokens->file.path = tokens->path;
    status =
        tokens->path ? read_file(&tokens->file, &tokens->list) : fail(HF_NOMEM, "out of memory");
    if (status) {
        tokens_close(tokens);
        return status;
    }
    *ret_tokens = tokens;
    return HF_OK;
}

void tokens_close(struct tokens *tokens)
{
    if (tokens) {
        pthread_mutex_destroy(&tokens->mutex);
        mem_free(tokens->list);
        mem_free(tokens->path);
        mem_free(tokens);
    }
}
