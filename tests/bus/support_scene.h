/*
 * support_scene.h - what a delivery test needs: a database of its own, an open bus, handlers that
 * remember what they saw, doors that hold handlers back, and short ways to publish and to look.
 *
 * A scene is made before a test and removed after it. Everything that bus threads may touch belongs
 * to the scene and not to the test's stack, because a failed assertion jumps out of the test while
 * handlers still run. Handlers never assert: they record, and the test's thread judges.
 *
 * Tests wait for conditions with a generous limit and never sleep to force an order: a handler that
 * must be inside at a certain moment waits at a door.
 */
#ifndef TESTS_BUS_SUPPORT_SCENE_H
#define TESTS_BUS_SUPPORT_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED(array) (sizeof(array) / sizeof((array)[0]))
#define DEADLINE_MS 60000 /* how long a test waits for what must happen: a slow machine's minute */
#define SCENE_BUSES_MAX 8

/* ---- Doors ----------------------------------------------------------------------------------- */

/* Closed at first: handlers that come wait inside until it is opened. */
struct door {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open;
    int let;     /* so many may pass although it is shut */
    int inside;  /* waiting now */
    int entered; /* ever came */
    struct visitor *queue;
    struct door *next;
};

void door_pass(struct door *door); /* waits until it is open */
void door_open(struct door *door);
void door_shut(struct door *door);
/* So many pass, now or later, and no more: who came first goes first. */
void door_let(struct door *door, int count);
bool door_wait_inside(struct door *door, int count); /* false after DEADLINE_MS */
int door_entered(struct door *door);

/* ---- Recorders ------------------------------------------------------------------------------- */

/* One call of a handler. */
struct seen {
    char id[HF_ID_BYTES];
    char type[64];
    char key[64]; /* "" if it has none */
    char payload[64];
    int64_t position;
    int32_t attempt;
    int64_t begin_us; /* monotonic */
    int64_t end_us;   /* 0: it still runs */
    const void *tag;
};

struct recorder;
typedef hf_verdict (*decide_fn)(const hf_event *event, hf_delivery *delivery,
                                struct recorder *recorder);

/* The ctx of recorder_handle. Set decide, door and extra before the first event comes. */
struct recorder {
    decide_fn decide;  /* NULL: HF_ACK */
    struct door *door; /* NULL, or every call passes it before decide */
    void *extra;       /* for decide */
    const void *tag;   /* copied into seen */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct seen *seen; /* in the order of beginning */
    size_t count;
    size_t capacity;
    size_t ended;
    int running;
    int running_max;
    int overlaps; /* calls that began while another of the same key ran */
    struct recorder *next;
};

hf_verdict recorder_handle(const hf_event *event, hf_delivery *delivery, void *ctx);
/* A decide_fn: the event at position 1 waits at the door in `extra`, all are done. */
hf_verdict wait_at_first(const hf_event *event, hf_delivery *delivery, struct recorder *recorder);
/* A decide_fn: every attempt fails. */
hf_verdict fail_always(const hf_event *event, hf_delivery *delivery, struct recorder *recorder);
/* A decide_fn: waits until it is told to return, and is undecided. */
hf_verdict until_cancelled(const hf_event *event, hf_delivery *delivery, struct recorder *recorder);
bool recorder_wait_begun(struct recorder *recorder, size_t count);
bool recorder_wait(struct recorder *recorder, size_t count); /* so many ended */
size_t recorder_count(struct recorder *recorder);            /* so many began */
/* A copy of the call number `index`, which must exist. */
struct seen recorder_get(struct recorder *recorder, size_t index);
/* How many calls had this position; position 0: any, key NULL: any. */
size_t recorder_calls(struct recorder *recorder, int64_t position, const char *key);
int recorder_running_max(struct recorder *recorder);
int recorder_overlaps(struct recorder *recorder);

/* ---- The log of a bus ------------------------------------------------------------------------ */

struct logged {
    hf_log_level level;
    char message[256];
    char subscription[64];
    char event_id[HF_ID_BYTES];
    char event_type[64];
    int64_t position;
    int32_t attempt;
    int32_t attempts_max;
    int64_t delay_ms;
    char error[128];
};

/* ---- Scenes ---------------------------------------------------------------------------------- */

struct scene {
    char dir[400];
    char url[440];    /* "sqlite:DIR/bus.db", or a database of HOLDFAST_TEST_URLS */
    const char *path; /* of the database, in url; NULL: it is on a server */
    hf_bus *bus;      /* opened by scene_setup */
    hf_bus *others[SCENE_BUSES_MAX];
    hf_options options; /* of scene_setup and of scene_open(scene, NULL) */
    struct door *doors;
    struct recorder *recorders;
    pthread_mutex_t mutex; /* guards the log */
    struct logged *log;
    size_t logged;
    size_t log_capacity;
};

/* cmocka fixtures: *state is the scene. scene_bare opens no bus. */
int scene_setup(void **state);
int scene_bare(void **state);
int scene_teardown(void **state);
#define scene_test(test) cmocka_unit_test_setup_teardown(test, scene_setup, scene_teardown)
#define bare_test(test) cmocka_unit_test_setup_teardown(test, scene_bare, scene_teardown)

/* Another bus on the scene's file, closed by the teardown unless scene_close did. */
hf_bus *scene_open(struct scene *scene, const hf_options *options);
/* Closes one of the scene's buses and expects HF_OK. */
void scene_close(struct scene *scene, hf_bus *bus);
/* Closes scene->bus and opens it again. */
void scene_reopen(struct scene *scene);
struct door *scene_door(struct scene *scene);
struct recorder *scene_recorder(struct scene *scene, decide_fn decide);
/* The path of the SQLite database; skips the test if it is on a server. */
const char *scene_sqlite(struct scene *scene);
/* A path in the scene's directory; static memory, overwritten by the next call. */
const char *scene_file(struct scene *scene, const char *name);
/* Log records with this event id and subscription ("" : any) that have an attempt. */
size_t scene_logged(struct scene *scene, const char *event_id, struct logged *ret, size_t max);
/* Waits until there are so many: what is settled may be seen a moment before it is logged. False
 * after DEADLINE_MS. */
bool scene_wait_logged(struct scene *scene, const char *event_id, size_t count);
/* Whether some record's message holds this text. */
bool scene_said(struct scene *scene, const char *text);

/* ---- Short ways ------------------------------------------------------------------------------ */

int64_t mono_us(void);
int64_t wall_us(void);
/* Rests between two looks of a wait that began then: an eighth of the time that it has lasted, 1 to
 * 50 ms. A look costs a server more than the test, and a long wait need not end at once. */
void rest_since(int64_t begin_us);
/* Waits until the condition holds; false after DEADLINE_MS. */
bool wait_until(bool (*condition)(void *ctx), void *ctx);

/* Fails the test with the status' name and message unless it is the expected one. */
#define assert_status(call, expected) assert_status_at(call, expected, #call, __FILE__, __LINE__)
#define assert_ok(call) assert_status(call, HF_OK)
void assert_status_at(hf_status status, hf_status expected, const char *call, const char *file,
                      int line);

/* Publishes and expects HF_OK; the receipt is in static memory of the thread. key may be NULL. */
const hf_receipt *publish(hf_bus *bus, const char *type, const char *key, const char *payload);
/* Options of a new subscription that begins at the start and retries fast. */
hf_subscription_options quick_options(void);
/* Subscribes recorder_handle and expects HF_OK. */
hf_handler_id subscribe(hf_bus *bus, const char *name, const char *pattern,
                        struct recorder *recorder, const hf_subscription_options *options);
/* hf_wait for everything published so far; expects HF_OK. */
void settle_all(hf_bus *bus, const char *subscription);

/* What hf_subscription_get says, copied. */
struct info {
    hf_subscription_options options;
    char patterns[4][64];
    size_t pattern_count;
    int64_t checkpoint, head, lag, in_flight, retrying, held, blocked, dead, paused_at_us, cursor;
    int64_t start_position;
    double rate;
    char checkpoint_event_id[HF_ID_BYTES];
    char paused_reason[256];
    char paused_by[64];
    char breaker[16];
    int64_t breaker_until_us;
    char owner[64];
    int owner_alive;
    char not_moving[256];
};
struct info info_of(hf_bus *bus, const char *subscription);

/* Where an event is in a subscription, with the number of failed attempts. */
hf_state state_of(hf_bus *bus, const char *subscription, const char *id, int32_t *ret_attempts);

/* Open dead letters of a subscription, newest first. */
struct dead {
    int64_t dead_id;
    char event_id[HF_ID_BYTES];
    char type[64];
    char payload[128];
    char reason[16];
    char cause[16]; /* "" if it has none */
    char error[128];
    int32_t attempts;
    char story[4096]; /* attempts_json */
    int64_t position;
    int64_t failed_at_us;
};
size_t dead_of(hf_bus *bus, const char *subscription, struct dead *ret, size_t max);
/* How often a text occurs in another. */
size_t occurrences(const char *text, const char *part);

/* The main function of a program without parts: runs the tests, or those that match argv[1]. */
#define SCENE_MAIN(tests)                                                                          \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif
