/*
 * errors.h - what goes wrong while connecting; the rest is in session.h.
 */
#ifndef HF_STORE_POSTGRES_WIRE_ERRORS_H
#define HF_STORE_POSTGRES_WIRE_ERRORS_H

#include "store/postgres/wire/session.h"

/* Why the present attempt to connect has failed. */
hf_status errors_connect(struct session *session);

#endif
