/*
 * page.c - see page.h.
 */
#include "server/page/page.h"

#include "base/banned.h"
#include "base/text/buf.h"
#include "server/http/members.h"
#include "server/live/sampler.h"
#include "server/page/assets.h"
#include "json/fields.h"

#include <microhttpd.h>

#define ASSETS "/assets/"
#define FIRST_BYTES_MAX 16777216 /* of what the page begins with */
#define OLD_MS 10000             /* numbers that are older than this say so; as in web/app.js */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "                    \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "            \
    "require-trusted-types-for 'script'; trusted-types 'none'"

/* ---- Files ----------------------------------------------------------------------------------- */

static void add_policies(struct exchange *exchange)
{
    answer_header(exchange, "Content-Security-Policy", "%s", POLICY);
    answer_header(exchange, "Referrer-Policy", "no-referrer");
    answer_header(exchange, "X-Frame-Options", "DENY");
    answer_header(exchange, "Cross-Origin-Opener-Policy", "same-origin");
    answer_header(exchange, "Cross-Origin-Resource-Policy", "same-origin");
}

/* Whether the client takes what gzip has packed. */
static bool takes_gzip(const struct exchange *exchange)
{
    const char *encodings = exchange_header(exchange, "Accept-Encoding");
    const char *gzip = encodings ? strstr(encodings, "gzip") : NULL;

    return gzip && strncmp(gzip, "gzip;", 5) != 0; /* with a weight, such as 0: rather not */
}

/* A file, or 304 if the browser has it. */
static void answer_asset(struct exchange *exchange, const struct asset *asset, const char *caching)
{
    const char *has = exchange_header(exchange, "If-None-Match");
    bool packed = takes_gzip(exchange);
    char tag[64];

    if (!exchange_is_get(exchange)) {
        return;
    }
    snprintf(tag, sizeof tag, "\"%s%s\"", assets_digest(), packed ? "-gzip" : "");
    add_policies(exchange);
    answer_header(exchange, "Cache-Control", "%s", caching);
    answer_header(exchange, "ETag", "%s", tag);
    answer_header(exchange, "Vary", "Accept-Encoding");
    if (has && strcmp(has, tag) == 0) {
        answer_empty(exchange, MHD_HTTP_NOT_MODIFIED);
        return;
    }
    if (packed) {
        answer_header(exchange, "Content-Encoding", "gzip");
    }
    answer_static(exchange, asset->content_type,
                  packed ? (struct text){(const char *)asset->packed, asset->packed_length}
                         : (struct text){(const char *)asset->bytes, asset->length});
}

/* "DIGEST/NAME" */
static void answer_file(struct exchange *exchange, const char *path)
{
    size_t length = strlen(assets_digest());
    const struct asset *asset = NULL;

    if (strncmp(path, assets_digest(), length) == 0 && path[length] == '/') {
        asset = asset_find(path + length + 1);
    }
    if (asset) {
        answer_asset(exchange, asset, "public, max-age=31536000, immutable");
    } else {
        answer_problem(exchange, MHD_HTTP_NOT_FOUND, "there is nothing at this path");
    }
}

/* ---- Sessions -------------------------------------------------------------------------------- */

struct grants {
    struct json_out *json;
    bool all;       /* a grant is for all namespaces */
    enum role role; /* if `all`: of that grant */
};

static void list_one(struct json_out *json, const char *name, enum role role)
{
    json_object_begin(json);
    show_string(json, "name", name);
    show_string(json, "role", role_name(role));
    json_object_end(json);
}

static void list_grant(const char *namespace_name, enum role role, void *ctx)
{
    struct grants *grants = ctx;

    if (strcmp(namespace_name, "*") == 0) {
        grants->all = true;
        grants->role = role > grants->role ? role : grants->role;
    } else {
        list_one(grants->json, namespace_name, role);
    }
}

static int list_namespace(const hf_namespace_info *info, void *ctx)
{
    struct grants *grants = ctx;

    if (info->removing_at_us == -1) {
        list_one(grants->json, info->name, grants->role);
    }
    return 0;
}

/* Whether the request has a session, which is noted in exchange->bearer. */
static bool find_session(const struct access *access, struct exchange *exchange,
                         char ret_id[SESSION_ID_BYTES])
{
    if (!session_id_of(exchange, ret_id) ||
        !sessions_find(access->sessions, ret_id, &exchange->bearer)) {
        return false;
    }
    tokens_role_of(access->tokens, exchange->bearer.token, NULL, exchange->actor);
    return exchange->actor[0] != '\0'; /* else the token was taken out of the file */
}

/* The scheme of "postgresql://..." as people name the engine. */
static const char *engine_of(const char *url)
{
    return strncmp(url, "postgres", 8) == 0 ? "PostgreSQL" : "SQLite";
}

/* Who asks and what they may see, as one object. `whole`: with all namespaces that there are, for
 * which the database is asked; else of these only the server's own. */
static hf_status show_session(struct exchange *exchange, const struct access *access,
                              const struct page_facts *facts, bool whole, struct json_out *json)
{
    struct grants grants = {.json = json, .all = !access->tokens, .role = ROLE_ADMIN};
    char id[SESSION_ID_BYTES];
    char secret[SESSION_ID_BYTES] = "";
    bool in = access->tokens && find_session(access, exchange, id);
    hf_status status = in ? session_secret(id, secret) : HF_OK;
    bool known = in || !access->tokens;

    json_object_begin(json);
    show_bool(json, "login", access->tokens != NULL);
    show_string(json, "actor", in ? exchange->actor : NULL);
    show_string(json, "secret", in ? secret : NULL);
    show_string(json, "namespace", known ? facts->namespace_name : NULL);
    show_string(json, "version", known ? HF_VERSION : NULL);
    show_string(json, "engine", known ? engine_of(facts->url) : NULL);
    json_key(json, "namespaces");
    json_array_begin(json);
    if (in) {
        grants.role = ROLE_NONE;
        tokens_grants(access->tokens, exchange->bearer.token, list_grant, &grants);
    }
    if (!status && grants.all && whole) {
        status = hf_namespace_list(exchange->bus, list_namespace, &grants);
    } else if (grants.all) {
        list_one(json, facts->namespace_name, grants.role);
    }
    json_array_end(json);
    json_object_end(json);
    return status;
}

static void answer_session(struct exchange *exchange, const struct access *access,
                           const struct page_facts *facts)
{
    struct json_out json = answer_json(exchange, MHD_HTTP_OK);
    hf_status status;

    answer_header(exchange, "Cache-Control", "no-store");
    status = show_session(exchange, access, facts, true, &json);
    if (status) {
        answer_failure(exchange, status);
    }
}

static void set_cookie(struct exchange *exchange, const struct page_facts *facts, const char *id,
                       int64_t age_s)
{
    answer_header(exchange, "Set-Cookie",
                  SESSION_COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%" PRId64 "%s",
                  id, age_s, facts->secure ? "; Secure" : "");
    answer_header(exchange, "Cache-Control", "no-store");
}

static void log_in(struct exchange *exchange, const struct access *access,
                   const struct page_facts *facts)
{
    struct members members;
    const char *token;
    char id[SESSION_ID_BYTES];
    hf_status status;

    members_begin(&members, exchange);
    token = members_text(&members, "token");
    if (!token) {
        members_mistake(&members, "\"token\" is missing");
    }
    if (!members_end(&members)) {
        return;
    }
    if (!access->tokens) {
        answer_problem(exchange, MHD_HTTP_CONFLICT,
                       "this server has no tokens, so there is no login");
        return;
    }
    tokens_role(access->tokens, token, NULL, &exchange->bearer, exchange->actor);
    if (!exchange->actor[0]) {
        answer_problem(exchange, MHD_HTTP_UNAUTHORIZED, "the token is not known");
        return;
    }
    status = sessions_begin(access->sessions, exchange->bearer.token, id);
    if (status) {
        answer_failure(exchange, status);
        return;
    }
    answer_empty(exchange, MHD_HTTP_NO_CONTENT);
    set_cookie(exchange, facts, id, SESSION_AGE_S);
}

/* Without the secret a page of others could log its visitor out, which is no more than a nuisance;
 * it is asked for all the same, so that every change is protected alike. */
static void log_out(struct exchange *exchange, const struct access *access,
                    const struct page_facts *facts)
{
    char id[SESSION_ID_BYTES];

    if (!access->tokens || !find_session(access, exchange, id)) {
        answer_problem(exchange, MHD_HTTP_UNAUTHORIZED, "the request has no session");
    } else if (!session_secret_is(exchange, id)) {
        answer_problem(exchange, MHD_HTTP_FORBIDDEN,
                       "the header " SESSION_SECRET_HEADER " is not that of the session");
    } else {
        sessions_end(access->sessions, id);
        answer_empty(exchange, MHD_HTTP_NO_CONTENT);
        set_cookie(exchange, facts, "", 0);
    }
}

/* ---- The page -------------------------------------------------------------------------------- */

/* Whether the caller may look at the server's own namespace. */
static bool may_look(const struct access *access, struct exchange *exchange,
                     const struct page_facts *facts)
{
    char id[SESSION_ID_BYTES];

    return !access->tokens || (find_session(access, exchange, id) &&
                               tokens_role_of(access->tokens, exchange->bearer.token,
                                              facts->namespace_name, exchange->actor) != ROLE_NONE);
}

/*
 * What the page shows before it has asked for anything: the session, and the last numbers of the
 * server's own namespace as the overview asks for them (null: there are none, or the caller may not
 * see them). The database is not asked, so that the page comes at once, and also while the database
 * does not answer.
 */
static hf_status show_first(struct exchange *exchange, const struct access *access,
                            const struct page_facts *facts, struct json_out *json,
                            struct headline *ret_headline)
{
    const struct live_view view = {.range_ms = 900000, .rows = 12, .flow = true};
    hf_status status;

    *ret_headline = (struct headline){.sentence = ""};
    json_object_begin(json);
    json_key(json, "session");
    status = show_session(exchange, access, facts, false, json);
    json_key(json, "live");
    if (may_look(access, exchange, facts)) {
        sampler_show_own(sampler_of(exchange), &view, json, ret_headline);
    } else {
        json_null(json);
    }
    json_object_end(json);
    return status;
}

/* Writes JSON so that nothing of it ends the element of HTML that it is in. In JSON a "<" stands in
 * texts only. */
static void append_in_element(struct buf *answer, struct text json)
{
    while (json.length > 0) {
        struct text part = text_cut(&json, '<');
        buf_append_text(answer, part);
        if (part.bytes + part.length < json.bytes) {
            buf_append_text(answer, text_of("\\u003c"));
        }
    }
}

/* Appends what is before a word of index.html that stands for something, and takes both off. */
static void append_until(struct buf *answer, struct text *rest, const char *word)
{
    const char *place = memmem(rest->bytes, rest->length, word, strlen(word));
    size_t length = (size_t)(place - rest->bytes);

    buf_append(answer, rest->bytes, length);
    rest->bytes += length + strlen(word);
    rest->length -= length + strlen(word);
}

/* Light or dark, if the reader has chosen one: the page keeps that in a cookie. */
static void append_theme(struct buf *answer, const struct exchange *exchange)
{
    const char *theme = exchange_cookie(exchange, "holdfast_theme");

    if (theme && (strcmp(theme, "light") == 0 || strcmp(theme, "dark") == 0)) {
        buf_printf(answer, " data-theme=\"%s\"", theme);
    }
}

/* The page, which no cache may keep: it has the session's secret in it. Whether all is well stands
 * in its HTML, so that it is drawn before any script has run. */
static void answer_index(struct exchange *exchange, const struct access *access,
                         const struct page_facts *facts)
{
    const struct asset *asset = asset_find("index.html");
    struct text rest = {(const char *)asset->bytes, asset->length};
    struct buf *answer = &exchange->answer;
    struct headline headline;
    struct buf first;
    struct json_out json;
    hf_status status;

    if (!exchange_is_get(exchange)) {
        return;
    }
    buf_init(&first, FIRST_BYTES_MAX);
    json_out_init(&json, &first);
    status = show_first(exchange, access, facts, &json, &headline);
    if (!status) {
        status = buf_status(&first);
    }
    if (status) {
        answer_failure(exchange, status);
    } else {
        answer_static(exchange, asset->content_type, text_of(""));
        append_until(answer, &rest, "@THEME@");
        append_theme(answer, exchange);
        append_until(answer, &rest, "@STATUS@");
        if (headline.age_ms > OLD_MS) {
            buf_printf(answer, "%" PRId64 " s old, newer ones come…", headline.age_ms / 1000);
        } else {
            buf_append_text(answer, text_of("connecting…"));
        }
        append_until(answer, &rest, "@HEADLINE@");
        buf_append_text(answer, text_of(headline.sentence));
        append_until(answer, &rest, "@FIRST@");
        append_in_element(answer, buf_text(&first));
        buf_append_text(answer, rest);
        add_policies(exchange);
        answer_header(exchange, "Cache-Control", "no-store");
    }
    buf_release(&first);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void answer_session_path(struct exchange *exchange, const struct access *access,
                                const struct page_facts *facts)
{
    bool is_get = strcmp(exchange->method, "GET") == 0;

    if (strcmp(exchange->method, "POST") == 0) {
        log_in(exchange, access, facts);
    } else if (!is_get && strcmp(exchange->method, "DELETE") != 0) {
        answer_header(exchange, "Allow", "GET, POST, DELETE");
        answer_problem(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, "this path takes GET, POST, DELETE");
    } else if (exchange_has_no_body(exchange)) {
        (is_get ? answer_session : log_out)(exchange, access, facts);
    }
}

bool page_answer(struct exchange *exchange, const struct access *access,
                 const struct page_facts *facts)
{
    const char *path = exchange->path;

    if (strcmp(path, "/") == 0) {
        answer_index(exchange, access, facts);
    } else if (strncmp(path, ASSETS, strlen(ASSETS)) == 0) {
        answer_file(exchange, path + strlen(ASSETS));
    } else if (strcmp(path, "/favicon.ico") == 0) {
        answer_asset(exchange, asset_find("icon.svg"), "public, max-age=86400");
    } else if (strcmp(path, PAGE_SESSION) == 0) {
        answer_session_path(exchange, access, facts);
    } else {
        return false;
    }
    return true;
}
