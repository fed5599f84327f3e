/*
 * puppet.h - a child process that does with a store what its parent says, one command at a time.
 *
 * It opens one store as the node of the given name, then obeys:
 *
 *     append TYPE KEY COUNT            "-" is no key; the number is the first position
 *     publish ID                       one event with this id; the position, negative if duplicate
 *     refresh SUBSCRIPTION             the number is how many members there are
 *     acquire SUBSCRIPTION PARTITION   the number is the epoch
 *     settle CHECKPOINT                of what was acquired last
 *     note SLOT SUBSCRIPTION POSITION ATTEMPT
 *     clear SLOT
 *     alive
 *     claim SUBSCRIPTION MAX LEASE_MS BOUND KEPT    at T0; the number is how many there are
 *     ack                              everything of the last claim
 *     enter POSITION                   a transaction on what was acquired last, and into the event
 *     leave, commit                    of that transaction
 *     txappend KEY                     inside it; the number is the position
 *     exit                             without closing anything, as a crash does
 *
 * puppet_do fails the test unless the command answers HF_OK; puppet_try answers the status.
 */
#ifndef HF_TESTS_SUPPORT_PUPPET_H
#define HF_TESTS_SUPPORT_PUPPET_H

#include "support/fixture.h"

/* Starts a puppet and waits until its store is open. */
struct child *puppet_start(struct fixture *fixture, const char *node_name);

/* Sends a command and answers its number. */
int64_t puppet_do(struct child *puppet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sends a command and answers its status. */
hf_status puppet_try(struct child *puppet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The role. */
int puppet_run(struct fixture *fixture, const char *node_name);

#endif
