/*
 * answer.c - what the functions of the schema have in common: how they answer. See verbs.h.
 *
 * A function that refuses does not raise an error: it answers a status and a sentence, and has
 * written nothing. So a raised error means trouble of the server's, or one of ours (HF001 to
 * HF011): the namespace is gone and nothing will work any more (HF003), or what was asked
 * for in SQL's own words cannot be (a schedule's job, for one). round.c can tell whether to try
 * again by its code alone. What else a function has to say stands in the columns after these two.
 */
#include "base/err.h"
#include "store/postgres/verbs.h"
#include "store/postgres/wire/row.h"

hf_status postgres_answer(const PGresult *result, int row, int column)
{
    if (row < 0 || row >= PQntuples(result)) {
        return fail(HF_CORRUPT, "a function of the schema holdfast answered nothing");
    }
    hf_status status = (hf_status)result_int8(result, row, column, HF_CORRUPT);
    if (!status) {
        return HF_OK;
    }
    return fail(status, "%" TEXT_PRI, TEXT_ARG(result_text(result, row, column + 1)));
}

hf_status postgres_read_ringing(struct postgres_engine *engine, struct change *change,
                                const PGresult *result, bool *ret_ring)
{
    (void)engine;
    (void)change;
    hf_status status = postgres_answer(result, 0, 0);
    *ret_ring = status == HF_OK;
    return status;
}
