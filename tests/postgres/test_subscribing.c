/*
 * test_subscribing.c - subscriptions that SQL makes (functions/deliver/subscribing.sql) are those
 * that the library makes: both are given the same names, patterns, options and places, and must
 * answer the same status with the same words, or store the same row to the byte.
 *
 * Each side works on an empty name: what one has made is read and dropped before the other's turn.
 */
#include "postgres/support_side.h"
#include "support/fixture.h"
#include "support/option_fields.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

struct scene {
    struct fixture *f;
    hf_bus *bus;
    PGconn *pg;
};

/* What became of a call: its status and words, and the row of the subscription afterwards. */
struct answer {
    hf_status status;
    char message[TEXT_MAX];
    char row[TEXT_MAX];
};

static struct scene scene_of(struct fixture *f)
{
    if (f->sqlite) {
        skip();
    }
    struct scene s = {.f = f, .pg = side_open(f)};
    hf_options options = HF_OPTIONS_INIT;
    options.namespace_name = f->namespace_name;
    must_answer(HF_OK, hf_open(f->url, &options, &s.bus));
    return s;
}

static void scene_end(struct scene *s)
{
    PQfinish(s->pg);
    must_answer(HF_OK, hf_close(&s->bus));
}

static void note(char text[TEXT_MAX], const char *value)
{
    must_hold(strlen(value) < TEXT_MAX);
    snprintf(text, TEXT_MAX, "%s", value);
}

/* Runs a statement whose $1 is the namespace. The first value that it answers goes to `ret_value`
 * (NULL: it does not matter). */
static struct answer ask(struct scene *s, const char *sql, const char *const *values, int count,
                         char ret_value[TEXT_MAX])
{
    const char *params[8] = {s->f->namespace_name};
    struct answer answer = {0};
    must_hold(count < 8);
    for (int i = 0; i < count; i++) {
        params[i + 1] = values[i];
    }
    PGresult *result = PQexecParams(s->pg, sql, count + 1, NULL, params, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        note(answer.message, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
        if (strncmp(state, "HF", 2) != 0) {
            check_fail(__FILE__, __LINE__, "%s: %s", state, answer.message);
        }
        answer.status = (hf_status)strtol(state + 2, NULL, 10);
    } else if (ret_value) {
        note(ret_value, PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    }
    PQclear(result);
    return answer;
}

/* All that is stored of the subscription, but for what tells one making from the other. */
static void read_row(struct scene *s, const char *name, char row[TEXT_MAX])
{
    ask(s,
        "SELECT concat_ws(' ', s.patterns, s.options, s.mode, s.partitions, s.wanted, s.generation,"
        "                 s.start, (SELECT string_agg(concat(c.partition, '@', c.checkpoint), ' '"
        "                                             ORDER BY c.partition)"
        "                           FROM holdfast_private.checkpoints c"
        "                           WHERE c.subscription_id = s.id AND c.partition < 3)) "
        "FROM holdfast_private.subscriptions s JOIN holdfast_private.namespaces n ON "
        "n.id = s.namespace_id "
        "WHERE n.name = $1 AND s.name = $2",
        &name, 1, row);
}

/* If it is there, or can be. */
static void drop(struct scene *s, const char *name)
{
    struct answer answer = ask(s, "SELECT holdfast.drop_subscription($1, $2)", &name, 1, NULL);
    must_hold(answer.status == HF_OK || answer.status == HF_NOTFOUND ||
              answer.status == HF_INVALID);
}

/* ---- One call, both ways --------------------------------------------------------------------- */

/* What to ask for: the same for C and for SQL. */
struct request {
    const char *name;
    const char *const *patterns; /* NULL ends them */
    hf_subscription_options options;
    const char *place;        /* of options.from */
    const char *options_json; /* all else that options has */
};

static const char *const any[] = {"**", NULL};

static struct request request_of(const char *name)
{
    struct request request = {.name = name,
                              .patterns = any,
                              .options = HF_SUBSCRIPTION_OPTIONS_INIT,
                              .place = "start",
                              .options_json = "{}"};
    request.options.from.kind = HF_PLACE_START;
    return request;
}

static struct answer request_by_c(struct scene *s, const struct request *request)
{
    struct answer answer = {0};
    size_t count = 0;
    while (request->patterns[count]) {
        count++;
    }
    answer.status = hf_subscription_create(s->bus, request->name, request->patterns, count,
                                           &request->options, NULL);
    note(answer.message, answer.status ? hf_errmsg() : "");
    read_row(s, request->name, answer.row);
    return answer;
}

static struct answer request_by_sql(struct scene *s, const struct request *request)
{
    char patterns[TEXT_MAX] = "{";
    size_t length = 1;
    for (size_t i = 0; request->patterns[i]; i++) {
        patterns[length++] = i ? ',' : ' ';
        patterns[length++] = '"';
        for (const char *at = request->patterns[i]; *at; at++) {
            if (*at == '"' || *at == '\\') {
                patterns[length++] = '\\';
            }
            patterns[length++] = *at;
            must_hold(length < TEXT_MAX - 8);
        }
        patterns[length++] = '"';
    }
    snprintf(patterns + length, sizeof patterns - length, "}");
    const char *values[] = {request->name, patterns, request->place, request->options_json};
    struct answer answer =
        ask(s,
            "SELECT holdfast.create_subscription($1, $2, $3::text[], $4, options => $5::jsonb,"
            " mode => CASE WHEN $5::jsonb ? 'mode' OR EXISTS (SELECT FROM"
            " holdfast.subscription_list l WHERE l.namespace = $1 AND l.name = $2)"
            " THEN NULL ELSE 'ordered' END)",
            values, 4, NULL);
    read_row(s, request->name, answer.row);
    return answer;
}

static void must_be_alike(const struct request *request, const struct answer *c,
                          const struct answer *sql)
{
    if (c->status != sql->status || strcmp(c->message, sql->message) != 0 ||
        strcmp(c->row, sql->row) != 0) {
        check_fail(__FILE__, __LINE__, "%s %s %s\nC:   %s: %s\n     %s\nSQL: %s: %s\n     %s",
                   request->name, request->patterns[0] ? request->patterns[0] : "",
                   request->options_json, hf_status_name(c->status), c->message, c->row,
                   hf_status_name(sql->status), sql->message, sql->row);
    }
}

/* Both on an empty name, or both on what `first` has made. */
static struct answer both(struct scene *s, const struct request *first,
                          const struct request *request)
{
    struct answer answers[2];
    for (int i = 0; i < 2; i++) {
        if (first) {
            must_answer(HF_OK, request_by_c(s, first).status);
        }
        answers[i] = i ? request_by_sql(s, request) : request_by_c(s, request);
        drop(s, request->name);
    }
    must_be_alike(request, &answers[0], &answers[1]);
    return answers[0];
}

/* ---- Names and patterns ---------------------------------------------------------------------- */

static void fill(char *text, size_t bytes, const char *unit)
{
    for (size_t at = 0; at < bytes; at++) {
        text[at] = unit[at % strlen(unit)];
    }
    text[bytes] = '\0';
}

static void sql_and_c_accept_the_same_names(void **state)
{
    struct scene s = scene_of(*state);
    static const char *const names[] = {
        "a",
        "a b",
        "*",
        "\xC3\xA4.\xE2\x82\xAC",
        "it's \"quoted\" \\",
        "%s",
        "NULL", /* good */
        "",
        " a",
        "a ",
        "\xC2\xA0"
        "a",
        "a\xE3\x80\x80",
        "a\tb",
        "\ta",
        "a\n",
        " \x01",
        "\x01 ",
        "\xC2\x85",
        "\xC3\xA4\xC2\x9F"
        "b",
        "a\x7F",
        "a\xE2\x80\xA8",
        " ",
    };
    int good = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct request request = request_of(names[i]);
        good += both(&s, NULL, &request).status == HF_OK;
    }
    must_equal(7, good);
    for (size_t bytes = HF_NAME_BYTES_MAX - 1; bytes <= HF_NAME_BYTES_MAX + 2; bytes++) {
        char name[HF_NAME_BYTES_MAX + 3];
        fill(name, bytes, "\xC3\xA4");
        if (bytes % 2) {
            name[bytes - 1] = 'a';
        }
        struct request request = request_of(name);
        must_equal(bytes > HF_NAME_BYTES_MAX ? HF_INVALID : HF_OK, both(&s, NULL, &request).status);
    }
    scene_end(&s);
}

static void sql_and_c_accept_the_same_patterns(void **state)
{
    struct scene s = scene_of(*state);
    static const char *const patterns[] = {
        "a",
        "*",
        "**",
        "a.*",
        "a.**",
        "*.a.*.**",
        "\xC3\xA4.\xE2\x82\xAC",
        "q\"uote\\.'", /* good */
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        "a*",
        "*a",
        "***",
        "a.b*c",
        "**.a",
        "a.**.b",
        "*.**.",
        "a b",
        "a.\xC3\xA4*",
        "\xC3\xA4.**.b",
        "a\tb",
        "\xC3\xA4 \x01",
        "\x01 ",
        "a\xC2\xA0",
        "\xC2\x85",
        "a\xE2\x80\x83*",
        "\xE3\x80\x80",
        "a..*b",
    };
    int good = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        const char *list[] = {"first", patterns[i], NULL};
        struct request request = request_of("p");
        request.patterns = list;
        good += both(&s, NULL, &request).status == HF_OK;
    }
    must_equal(8, good);
    for (size_t bytes = HF_TYPE_BYTES_MAX - 1; bytes <= HF_TYPE_BYTES_MAX + 1; bytes++) {
        char pattern[HF_TYPE_BYTES_MAX + 2];
        const char *list[] = {pattern, NULL};
        fill(pattern, bytes, "abc.d");
        pattern[bytes - 1] = '*';
        pattern[bytes - 2] = '.';
        pattern[bytes - 3] = 'x';
        struct request request = request_of("p");
        request.patterns = list;
        must_equal(bytes > HF_TYPE_BYTES_MAX ? HF_INVALID : HF_OK, both(&s, NULL, &request).status);
    }
    scene_end(&s);
}

static void sql_and_c_allow_as_many_patterns(void **state)
{
    struct scene s = scene_of(*state);
    static const size_t counts[] = {0, 1, HF_PATTERNS_MAX, HF_PATTERNS_MAX + 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const char *list[HF_PATTERNS_MAX + 2] = {NULL};
        for (size_t j = 0; j < counts[i]; j++) {
            list[j] = "a.*";
        }
        struct request request = request_of("p");
        request.patterns = list;
        must_equal(counts[i] < 1 || counts[i] > HF_PATTERNS_MAX ? HF_INVALID : HF_OK,
                   both(&s, NULL, &request).status);
    }
    scene_end(&s);
}

/* ---- Options --------------------------------------------------------------------------------- */

static const struct option_field *field_of(const char *name)
{
    for (size_t i = 0; i < OPTION_FIELDS; i++) {
        if (strcmp(option_fields[i].name, name) == 0) {
            return &option_fields[i];
        }
    }
    check_fail(__FILE__, __LINE__, "there is no option %s", name);
    return NULL;
}

/* A row of the table that SQL has. */
struct option {
    const char *name;
    double low;
    double high;
};

static struct request request_for(const struct option *option, double value, char json[TEXT_MAX])
{
    const struct option_field *field = field_of(option->name);
    struct request request = request_of("o");
    option_field_set(&request.options, field, value);
    snprintf(json, TEXT_MAX, "{\"%s\": %.15g}", option->name, value);
    request.options_json = json;
    return request;
}

/* Numbers: the limits, and one beyond them. In C -1 says that nothing is given. */
static void number_is_judged_alike(struct scene *s, const struct option *option)
{
    const double values[] = {option->low, option->high, option->low - 1, option->high + 1};
    char json[TEXT_MAX];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct request request = request_for(option, values[i], json);
        bool inside = values[i] >= option->low && values[i] <= option->high;
        if (values[i] == -1) {
            struct answer answer = request_by_sql(s, &request);
            must_equal(HF_INVALID, answer.status);
            must_contain(" is -1; it must be 0 to ", answer.message);
            continue;
        }
        struct answer answer = both(s, NULL, &request);
        must_equal(inside,
                   answer.status == HF_OK || strstr(answer.message, "at least retry_base_ms"));
    }
}

/* Words: each of them, and a number that no word has, which C tells as such. */
static void word_is_judged_alike(struct scene *s, const struct option *option)
{
    char json[TEXT_MAX];
    char begin[TEXT_MAX];
    for (int number = 1; number <= (int)option->high; number++) {
        char text[16];
        const char *values[] = {option->name, text};
        struct request request = request_for(option, number, json);
        snprintf(text, sizeof text, "%d", number);
        ask(s,
            "SELECT jsonb_build_object($2::text, r.words[$3::integer]) "
            "FROM holdfast.option_rows() r "
            "WHERE r.name = $2 AND $1 <> ''",
            values, 2, json);
        must_equal(HF_OK, both(s, NULL, &request).status);
    }
    struct request request = request_for(option, option->high + 1, json);
    struct answer c = request_by_c(s, &request);
    struct answer sql = request_by_sql(s, &request);
    snprintf(begin, sizeof begin, "%s is %.0f; it must be one of ", option->name, option->high + 1);
    must_equal(HF_INVALID, c.status);
    must_equal(HF_INVALID, sql.status);
    must_contain(begin, c.message);
    must_contain(begin, sql.message);
}

static void sql_and_c_have_the_same_limits_of_options(void **state)
{
    struct scene s = scene_of(*state);
    PGresult *result = PQexec(s.pg, "SELECT name, low, high FROM holdfast.option_rows()");
    must_equal((int)OPTION_FIELDS, PQntuples(result));
    for (int row = 0; row < PQntuples(result); row++) {
        struct option option = {PQgetvalue(result, row, 0),
                                strtod(PQgetvalue(result, row, 1), NULL),
                                strtod(PQgetvalue(result, row, 2), NULL)};
        must_equal((int64_t)field_of(option.name)->min, (int64_t)option.low);
        must_equal((int64_t)field_of(option.name)->max, (int64_t)option.high);
        if (field_of(option.name)->kind == OPTION_WORD) {
            word_is_judged_alike(&s, &option);
        } else {
            number_is_judged_alike(&s, &option);
        }
    }
    PQclear(result);
    scene_end(&s);
}

/* Every option with a value of another type, which the library's struct cannot even hold. */
static void a_value_of_the_wrong_type_is_refused_by_name(void **state)
{
    struct scene s = scene_of(*state);
    for (size_t i = 0; i < OPTION_FIELDS; i++) {
        const struct option_field *field = &option_fields[i];
        const char *const wrong[] = {field->words ? "1" : "\"1\"", "true", "[1]", "{}"};
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            char json[TEXT_MAX];
            char begin[TEXT_MAX];
            struct request request = request_of("o");
            snprintf(json, sizeof json, "{\"%s\": %s}", field->name, wrong[j]);
            request.options_json = json;
            struct answer answer = request_by_sql(&s, &request);
            must_equal(HF_INVALID, answer.status);
            snprintf(begin, sizeof begin, "%s is ", field->name);
            must_contain(begin, answer.message);
        }
    }
    scene_end(&s);
}

static void sql_and_c_store_the_same_options_in_the_same_order(void **state)
{
    struct scene s = scene_of(*state);
    struct request request = request_of("o");
    must_answer(HF_OK, request_by_c(&s, &request).status);
    must_equal(1, side_number(s.pg,
                              "SELECT ((SELECT array_agg(k.name ORDER BY k.place) FROM "
                              "holdfast_private.subscriptions s, json_object_keys(s.options::json) "
                              "WITH ORDINALITY k (name, place) WHERE s.name = 'o') = "
                              "(SELECT array_agg(r.name ORDER BY r.place) FROM "
                              "holdfast.option_rows() r))::integer"));
    scene_end(&s);
}

static void sql_and_c_store_fractions_alike(void **state)
{
    struct scene s = scene_of(*state);
    static const char *const values[] = {
        "1",   "1.5",   "1.1",  "2.0", "99.99", "3.3333333333333335", "1.0000000000000002",
        "1e1", "0.999", "100.5"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char json[64];
        struct request request = request_of("o");
        snprintf(json, sizeof json, "{\"retry_multiplier\": %s}", values[i]);
        request.options_json = json;
        request.options.retry_multiplier = strtod(values[i], NULL);
        both(&s, NULL, &request);
    }
    scene_end(&s);
}

static void sql_and_c_refuse_the_same_combinations_of_options(void **state)
{
    struct scene s = scene_of(*state);
    struct request request = request_of("o");
    request.options.retry_base_ms = 60000;
    request.options_json = "{\"retry_base_ms\": 60000}";
    must_equal(HF_INVALID, both(&s, NULL, &request).status);

    request = request_of("o");
    request.options.mode = HF_MODE_SHARED;
    request.options.partitions = 2;
    request.options_json = "{\"mode\": \"shared\", \"partitions\": 2}";
    must_equal(HF_INVALID, both(&s, NULL, &request).status);

    request = request_of("o");
    request.options.mode = HF_MODE_SHARED;
    request.options.order = HF_ORDER_STRICT;
    request.options_json = "{\"mode\": \"shared\", \"order\": \"strict\"}";
    must_equal(HF_INVALID, both(&s, NULL, &request).status);

    request = request_of("o");
    request.options.partitions = 2;
    request.options.order = HF_ORDER_STRICT;
    request.options_json = "{\"partitions\": 2, \"order\": \"strict\"}";
    must_equal(HF_INVALID, both(&s, NULL, &request).status);

    request = request_of("o");
    request.options.on_batch_failure = HF_BATCH_SPLIT;
    request.options.on_poison = HF_POISON_BLOCK_KEY;
    request.options_json = "{\"on_batch_failure\": \"split\", \"on_poison\": \"block_key\"}";
    must_equal(HF_INVALID, both(&s, NULL, &request).status);

    request = request_of("o");
    request.options.mode = HF_MODE_SHARED;
    request.options.on_poison = HF_POISON_BLOCK_KEY;
    request.options_json = "{\"mode\": \"shared\", \"on_poison\": \"block_key\"}";
    must_equal(HF_INVALID, both(&s, NULL, &request).status);
    scene_end(&s);
}

/* ---- Changing -------------------------------------------------------------------------------- */

static void sql_and_c_change_an_existing_subscription_alike(void **state)
{
    struct scene s = scene_of(*state);
    static const char *const others[] = {"x.*", "y", NULL};
    struct request first = request_of("o");
    first.options.batch = 7;
    first.options.partitions = 3;
    first.options_json = NULL; /* by C alone */
    must_equal(HF_OK, both(&s, &first,
                           &(struct request){.name = "o",
                                             .patterns = others,
                                             .options = HF_SUBSCRIPTION_OPTIONS_INIT,
                                             .options_json = "{}"})
                          .status);
    struct request request = request_of("o"); /* nothing changes, not even the generation */
    both(&s, &first, &request);

    request.options.attempts_max = 9;
    request.options_json = "{\"attempts_max\": 9}";
    must_contain("\"batch\":7", both(&s, &first, &request).row);

    request = request_of("o");
    request.options.partitions = 5;
    request.options_json = "{\"partitions\": 5}";
    both(&s, &first, &request);

    request = request_of("o");
    request.options.mode = HF_MODE_SHARED;
    request.options_json = "{\"mode\": \"shared\"}";
    must_equal(HF_CONFLICT, both(&s, &first, &request).status);

    request = request_of("o");
    request.options.order = HF_ORDER_STRICT;
    request.options_json = "{\"order\": \"strict\"}";
    must_equal(HF_CONFLICT, both(&s, &first, &request).status);

    request = request_of("o");
    request.options.retry_max_ms = 10;
    request.options_json = "{\"retry_max_ms\": 10}";
    must_equal(HF_INVALID, both(&s, &first, &request).status);
    scene_end(&s);
}

static void sql_and_c_leave_each_others_subscriptions_unchanged(void **state)
{
    struct scene s = scene_of(*state);
    struct request request = request_of("o");
    request.options.retry_multiplier = 1.1;
    request.options_json = "{\"retry_multiplier\": 1.1}";
    struct answer made = request_by_c(&s, &request);
    struct answer again = request_by_sql(&s, &request);
    must_be_alike(&request, &made, &again);
    drop(&s, "o");
    made = request_by_sql(&s, &request);
    again = request_by_c(&s, &request);
    must_be_alike(&request, &made, &again);
    must_answer(HF_OK, hf_subscription_remove(s.bus, "o"));
    scene_end(&s);
}

/* ---- Places ---------------------------------------------------------------------------------- */

static void one_place_is_found_alike(struct scene *s, hf_place place, const char *text)
{
    struct answer c = {0};
    struct answer sql;
    const char *values[] = {"o", text};
    char by_sql[TEXT_MAX] = "";
    int64_t position = -1;
    int64_t count = -1;
    c.status = hf_seek(s->bus, "o", place, HF_ON, &count);
    note(c.message, c.status ? hf_errmsg() : "");
    if (!c.status) {
        must_answer(HF_OK, hf_locate(s->bus, place, &position));
        snprintf(c.row, sizeof c.row, "%" PRId64 " %" PRId64, position, count);
    }
    sql = ask(s,
              "SELECT concat(s.position, ' ', s.count) FROM holdfast.seek_subscription($1, $2, $3, "
              "dry_run => true) s",
              values, 2, by_sql);
    note(sql.row, by_sql);
    struct request request = request_of("o");
    request.options_json = text;
    must_be_alike(&request, &c, &sql);
}

static void sql_and_c_find_the_same_places(void **state)
{
    struct scene s = scene_of(*state);
    for (int i = 0; i < 5; i++) {
        side_publish(s.pg, s.f, "t", NULL);
    }
    struct request request = request_of("o");
    must_answer(HF_OK, request_by_c(&s, &request).status);
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_START, 0}, "start");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_NOW, 0}, "now");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_NOW, 0}, "end");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_POSITION, 0}, "0");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_POSITION, 3}, "3");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_POSITION, 5}, "5");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_POSITION, 6}, "6");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_POSITION, -1}, "-1");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_POSITION, INT64_MAX}, "9223372036854775807");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_TIME, 0}, "1970-01-01 00:00Z");
    one_place_is_found_alike(&s, (hf_place){HF_PLACE_TIME, INT64_C(32503680000000000)},
                             "3000-01-01 00:00Z");
    for (int position = 1; position <= 5; position++) {
        int64_t entered_us = side_number(
            s.pg,
            "SELECT (extract(epoch FROM entered_at) * 1000000)::bigint FROM holdfast.event_log "
            "WHERE namespace = '%s' AND position = %d",
            s.f->namespace_name, position);
        for (int64_t us = entered_us - 1; us <= entered_us + 1001; us += 501) {
            char text[TEXT_MAX];
            char number[32];
            const char *values[] = {number};
            snprintf(number, sizeof number, "%" PRId64, us);
            ask(&s,
                "SELECT '1970-01-01 00:00Z'::timestamptz + $2::bigint * interval '1 us' "
                "WHERE $1 <> ''",
                values, 1, text);
            one_place_is_found_alike(&s, (hf_place){HF_PLACE_TIME, us}, text);
        }
    }
    scene_end(&s);
}

static const struct CMUnitTest claims[] = {
    CLAIM(sql_and_c_accept_the_same_names),
    CLAIM(sql_and_c_accept_the_same_patterns),
    CLAIM(sql_and_c_allow_as_many_patterns),
    CLAIM(sql_and_c_have_the_same_limits_of_options),
    CLAIM(a_value_of_the_wrong_type_is_refused_by_name),
    CLAIM(sql_and_c_store_the_same_options_in_the_same_order),
    CLAIM(sql_and_c_store_fractions_alike),
    CLAIM(sql_and_c_refuse_the_same_combinations_of_options),
    CLAIM(sql_and_c_change_an_existing_subscription_alike),
    CLAIM(sql_and_c_leave_each_others_subscriptions_unchanged),
    CLAIM(sql_and_c_find_the_same_places),
};

FIXTURE_MAIN("subscribing", claims, NULL)
