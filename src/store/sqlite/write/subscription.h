/*
 * subscription.h - what other verbs need to know of a subscription before they begin.
 */
#ifndef HF_STORE_SQLITE_WRITE_SUBSCRIPTION_H
#define HF_STORE_SQLITE_WRITE_SUBSCRIPTION_H

#include "store/sqlite/file/conn.h"
#include "store/store.h"

struct sqlite_engine;

struct about {
    int64_t id;
    hf_mode mode;
    int32_t partitions;
    int64_t start;
    int64_t created_at_us;
    char name[HF_NAME_BYTES_MAX + 1];
};

/* HF_NOTFOUND: there is no such subscription in this namespace. */
hf_status subscription_about(struct sqlite_engine *engine, struct conn *conn, int64_t id,
                             struct about *ret_about);

#endif
