/*
 * support_stage.h - a bus with three subscriptions on a server, and sessions beside it that publish
 * in transactions of their own.
 *
 * "loose" is ordered, "strict" is ordered in the order of positions, "shared" has no order. Their
 * handlers record (support_scene.h). The bus is started.
 */
#ifndef HF_TESTS_POSTGRES_SUPPORT_STAGE_H
#define HF_TESTS_POSTGRES_SUPPORT_STAGE_H

#include "bus/support_scene.h"
#include "postgres/support_side.h"

#define STAGE_NAMESPACE "default"

struct stage {
    struct scene *scene;
    hf_bus *bus;
    struct recorder *loose;
    struct recorder *strict;
    struct recorder *shared;
    PGconn *a;
    PGconn *b;
    PGconn *c;
};

/* Skips the test unless the scene is on a server. */
struct stage stage_of(struct scene *scene);
void stage_end(struct stage *stage);

/* Publishes an event of type "t" without key in the session's transaction; its position. */
int64_t stage_publish(PGconn *pg);
/* The number of the namespace. */
int64_t stage_namespace(PGconn *pg);
/* Draws a position, and nothing else. */
int64_t stage_draw(PGconn *pg);
/* Writes the event of a position that was drawn before. */
void stage_insert(PGconn *pg, int64_t position);

/* The positions of the calls, in the order in which they began: "1 2 4". */
const char *stage_list(struct recorder *recorder);
/* Waits until a recorder has so many calls, and gives others time to come; the list. */
const char *stage_await(struct recorder *recorder, size_t count);
/* Waits until the subscription's stored checkpoint is there. */
void stage_await_checkpoint(struct stage *stage, const char *subscription, int64_t checkpoint);
/* Long enough for the prober to look several times: whatever would be decided wrongly is decided
 * now. */
void stage_let_it_look(void);

#endif
