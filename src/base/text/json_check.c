/*
 * json_check.c - see json_check.h. The parser is that of json_scan.c.
 */
#include "base/text/json_check.h"
#include "base/err.h"
#include "base/text/json_scan.h"

hf_status json_check(const char *bytes, size_t length, const struct json_limits *limits,
                     const char *what)
{
    size_t bytes_max = limits ? limits->bytes_max : 0;
    struct json_scan scan;

    if (bytes && bytes_max > 0 && length > bytes_max) {
        return fail(HF_INVALID, "%s is %zu bytes; the limit is %zu", what, length, bytes_max);
    }
    json_scan_begin(&scan, (struct text){bytes, length}, limits ? limits->depth_max : 0);
    return json_scan_end(&scan) ? HF_OK : json_scan_failure(&scan, what);
}

hf_status json_check_object(const char *bytes, size_t length, const struct json_limits *limits,
                            const char *what)
{
    hf_status status = json_check(bytes, length, limits, what);

    if (!status && json_kind((struct text){bytes, length}) != JSON_OBJECT) {
        return fail(HF_INVALID, "%s is JSON but not an object; it must begin with '{'", what);
    }
    return status;
}
