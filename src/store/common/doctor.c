/*
 * doctor.c - see doctor.h.
 */
#include "store/common/doctor.h"

void doctor_say(struct doctor *doctor, const char *name, const char *value, const char *advice)
{
    if (!doctor->stopped) {
        hf_log_level level = advice ? HF_LOG_WARN : HF_LOG_INFO;
        doctor->stopped = doctor->found(name, value, level, advice, doctor->ctx) != 0;
    }
}
