/*
 * prerecord.h - attempts that are recorded before they run.
 *
 * Where the store has no notes of what ran (store_takes_notes; or they were lost), it is not known
 * what a process did when it died. What it may have had in its hands is then run carefully: just
 * before a delivery runs, its attempt is recorded as one that the process died in. If the process
 * does die, the record stands; if it does not, what became of the attempt replaces it.
 *
 * The record that would be the last one is made only while nothing else runs in the process
 * (exclusive.h), so that an event does not die for what another one did.
 */
#ifndef HF_BUS_DELIVER_WORK_PRERECORD_H
#define HF_BUS_DELIVER_WORK_PRERECORD_H

#include "bus/bus.h"

/* Records the attempt that is about to be made of a delivery that is ours by `hold`. An ordered one
 * must have a row in retries. Anything but HF_OK: it must not run. Any thread. */
hf_status prerecord_begin(hf_bus *bus, const struct hold *hold, const struct entry *entry);

#endif
