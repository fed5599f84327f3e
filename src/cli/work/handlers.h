/*
 * handlers.h - what the bus runs for the plan: handlers that can be given another item while they
 * are registered. All of it is called by one thread at a time.
 */
#ifndef HF_CLI_WORK_HANDLERS_H
#define HF_CLI_WORK_HANDLERS_H

#include "cli/work/work.h"

/* Makes the handlers of the item's subscription those of the item: for its patterns and no others.
 * 0, or the exit code after a complaint. */
int work_attach(struct work *work, struct work_item *item);

/* Unregisters the handlers of a subscription. If one of them still runs after the timeout of the
 * bus, its item is used on. */
void work_detach(struct work *work, const char *name);

/* Whether a handler runs the item, or may. */
bool work_runs(const struct work *work, const struct work_item *item);

/* Frees what the handlers needed, when the bus is closed. */
void work_forget_handlers(struct work *work);

#endif
