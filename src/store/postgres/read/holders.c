/*
 * holders.c - which transactions may fill a gap, described for people. See verbs.h.
 *
 * A transaction that has drawn a position and has not ended holds a lock on the namespace's
 * sequence, so these are the only ones that can still publish below what is visible. They are
 * described by what their administrator can look for: the server's process, the name that the
 * application gave itself, what the session does and for how long it has been in its transaction;
 * or the name of the prepared transaction.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/buf.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/pg_lookup.h"
#include "store/postgres/wire/row.h"

#define HOLDERS_TOLD_MAX 3

enum holder_column {
    HOLDER_PID,  /* NULL: prepared */
    HOLDER_NAME, /* application_name, or name and role of the prepared transaction */
    HOLDER_STATE,
    HOLDER_AGE_MS /* NULL: not for this role to see */
};

static void tell_one(struct buf *out, const PGresult *result, int row)
{
    struct text name = result_text(result, row, HOLDER_NAME);
    struct text state = result_text(result, row, HOLDER_STATE);
    int64_t age_ms = result_int8(result, row, HOLDER_AGE_MS, -1);
    buf_printf(out, "%s", row > 0 ? ", " : "");
    if (result_is_null(result, row, HOLDER_PID)) {
        buf_printf(out, "prepared transaction %.300s",
                   name.bytes ? name.bytes : "(it has just ended)");
    } else {
        buf_printf(out, "pid %" PRId64, result_int8(result, row, HOLDER_PID, 0));
        if (name.length > 0) {
            buf_printf(out, " (%.64s)", name.bytes);
        }
    }
    if (age_ms >= 0) {
        buf_printf(out, ", %s for %" PRId64 " s", state.length > 0 ? state.bytes : "open",
                   age_ms / 1000);
    }
}

/* The oldest come first. */
static void tell_all(const PGresult *result, struct gap_facts *facts)
{
    struct buf out;
    int count = PQntuples(result);
    buf_init(&out, sizeof facts->holders);
    for (int row = 0; row < count && row < HOLDERS_TOLD_MAX; row++) {
        tell_one(&out, result, row);
    }
    if (count > HOLDERS_TOLD_MAX) {
        buf_printf(&out, " and %d more", count - HOLDERS_TOLD_MAX);
    }
    snprintf(facts->holders, sizeof facts->holders, "%s", count > 0 ? buf_terminate(&out) : "");
    buf_release(&out);
}

hf_status postgres_holders(struct engine *engine, struct gap_facts *facts)
{
    struct pg_lookup lookup;
    pg_lookup_begin(&lookup, engine, POSTGRES_QUERY_GAP_HOLDERS);
    if (pg_lookup_run(&lookup)) {
        const PGresult *result = lookup.result;
        facts->held_ms = 0;
        if (lookup.rows > 0) {
            facts->held_ms = result_int8(result, 0, HOLDER_AGE_MS, -1);
            facts->pid = result_int8(result, 0, HOLDER_PID, -1);
        }
        tell_all(result, facts);
    }
    return pg_lookup_end(&lookup);
}
