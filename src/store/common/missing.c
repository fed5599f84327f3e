/*
 * missing.c - see missing.h. PostgreSQL's functions have the same words in missing_subscription().
 */
#include "store/common/missing.h"

#include "base/err.h"

hf_status missing_subscription(int64_t id)
{
    return fail(HF_NOTFOUND, "there is no subscription with id %lld", (long long)id);
}
