/*
 * support_consumer.h - a process that handles events of several subscriptions and writes every call
 * into the ledger (ledger.h), to be killed and started again.
 *
 * Each subscription is one letter, and exists: r ordered, x in strict order, s shared, n ordered.
 * The process is this program, started again by consumer_start; its main function hands over to
 * consumer_main if consumer_is_asked_for.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_CONSUMER_H
#define HF_TESTS_POSTGRES_SUPPORT_CONSUMER_H

#include <holdfast.h>
#include <stdbool.h>
#include <sys/types.h>

/* How long a call may take on a slow machine: what is published and consumed is to be judged. */
#define CONSUMER_TIMEOUT_MS 60000

bool consumer_is_asked_for(int argc, char **argv);
int consumer_main(int argc, char **argv);

/* Starts one that is called `name` as a node. handler_us: how long a handler takes. */
pid_t consumer_start(const char *url, const char *ledger, const char *letters, const char *name,
                     int handler_us);
/* Kills it at once, waits for its end, and notes that in the ledger. */
void consumer_kill(pid_t pid, int ledger_fd);

/* Options of the subscription with this letter; `from` is the start. */
hf_subscription_options consumer_options(char letter);
/* Creates it. */
hf_status consumer_subscribe(hf_bus *bus, char letter, hf_place from);

#endif
