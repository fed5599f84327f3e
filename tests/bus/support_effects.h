/*
 * support_effects.h - a table of the application, and handlers that write to it in the
 * transaction of their delivery.
 */
#ifndef TESTS_BUS_SUPPORT_EFFECTS_H
#define TESTS_BUS_SUPPORT_EFFECTS_H

#include "support_tables.h"

/* Makes the table: effects (position, attempt). */
void effects_make(struct scene *scene);
/* Writes one row; whether that worked. */
bool effects_write(hf_delivery *delivery, const hf_event *event);
/* For a recorder: writes one row, or the event is dead. */
hf_verdict effects_handle(const hf_event *event, hf_delivery *delivery, struct recorder *recorder);
/* Quick options of a transactional subscription. */
hf_subscription_options effects_options(void);

#endif
