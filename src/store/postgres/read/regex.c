/*
 * regex.c - patterns for the server. See regex.h and base/text/glob.h.
 */
#include "store/postgres/read/regex.h"

#include "store/postgres/postgres.h"
#include "store/postgres/wire/row.h"

static bool is_everything(struct text pattern)
{
    return text_equal(pattern, text_of("*")) || text_equal(pattern, text_of("**"));
}

hf_status regex_patterns(struct buf *out, const struct filter *filter)
{
    buf_clear(out);
    for (size_t i = 0; i < filter->count && !filter->unhandled_too; i++) {
        if (is_everything(filter->patterns[i])) {
            buf_clear(out);
            return HF_OK;
        }
        buf_append_text(out, filter->patterns[i]);
        buf_char(out, '\n');
    }
    return buf_status(out);
}

hf_status regex_ask(struct session *session, const struct filter *filter, struct buf *out)
{
    PGresult *result;
    struct params *params = session_params(session);
    buf_clear(out);
    param_array(params, PARAM_TEXT, filter->count);
    for (size_t i = 0; i < filter->count; i++) {
        element_text(params, filter->patterns[i]);
    }
    hf_status status = session_query(session, POSTGRES_QUERY_READ_REGEX, &result);
    if (status) {
        return status;
    }
    struct text regex = result_text(result, 0, 0);
    if (regex.length <= REGEX_BYTES_MAX) {
        buf_append_text(out, regex);
    }
    PQclear(result);
    return buf_status(out);
}
