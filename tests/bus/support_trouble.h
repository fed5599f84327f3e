/*
 * support_trouble.h - a bus on a store that fails when it is told to (support/faulty.h).
 */
#ifndef TESTS_BUS_SUPPORT_TROUBLE_H
#define TESTS_BUS_SUPPORT_TROUBLE_H

#include "support_scene.h"

#include "support/faulty.h"

/* A scene without a bus, to be opened with trouble_open; afterwards nothing fails any more. */
#define trouble_test(test) cmocka_unit_test_setup_teardown(test, trouble_setup, trouble_teardown)
int trouble_setup(void **state);
int trouble_teardown(void **state);

/* Opens the scene's bus on the store that may fail. */
void trouble_open(struct scene *scene);

/* "bad" events always fail, "once" events the first time. */
hf_verdict trouble_handle(const hf_event *event, hf_delivery *delivery, struct recorder *recorder);

#endif
