/*
 * support_scene.c - see support_scene.h.
 *
 * Ownership: doors, recorders and buses are linked to their scene. The teardown opens every door
 * first, so that no handler is left waiting, then closes the buses, and frees recorders only if
 * every close said that no handler runs any more; otherwise it leaks them and fails.
 */
#include "support_scene.h"

#include "support/server.h"
#include "support/sqlite.h"

#include <errno.h>
#include <ftw.h>
#include <time.h>

/* ---- Time and waiting ------------------------------------------------------------------------ */

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t mono_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

void rest_since(int64_t begin_us)
{
    int64_t rest_us = (mono_us() - begin_us) / 8;

    rest_us = rest_us < 1000 ? 1000 : rest_us;
    usleep(rest_us > 50000 ? 50000 : (useconds_t)rest_us);
}

bool wait_until(bool (*condition)(void *ctx), void *ctx)
{
    int64_t begin_us = mono_us();

    while (!condition(ctx)) {
        if (mono_us() > begin_us + DEADLINE_MS * 1000) {
            return false;
        }
        rest_since(begin_us);
    }
    return true;
}

static void cond_make(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

static struct timespec deadline_end(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += DEADLINE_MS / 1000;
    return end;
}

/* ---- Doors ----------------------------------------------------------------------------------- */

/* A thread that waits at a door; on its own stack. */
struct visitor {
    struct visitor *next;
};

void door_pass(struct door *door)
{
    struct visitor self = {NULL};
    struct visitor **at;

    pthread_mutex_lock(&door->mutex);
    for (at = &door->queue; *at; at = &(*at)->next) {
        continue;
    }
    *at = &self;
    door->inside++;
    door->entered++;
    pthread_cond_broadcast(&door->changed);
    while (!door->open && (door->let == 0 || door->queue != &self)) {
        pthread_cond_wait(&door->changed, &door->mutex);
    }
    if (!door->open) {
        door->let--;
    }
    for (at = &door->queue; *at != &self; at = &(*at)->next) {
        continue;
    }
    *at = self.next;
    door->inside--;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->mutex);
}

static void door_set(struct door *door, bool open)
{
    pthread_mutex_lock(&door->mutex);
    door->open = open;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->mutex);
}

void door_open(struct door *door)
{
    door_set(door, true);
}

void door_shut(struct door *door)
{
    door_set(door, false);
}

void door_let(struct door *door, int count)
{
    pthread_mutex_lock(&door->mutex);
    door->let += count;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->mutex);
}

bool door_wait_inside(struct door *door, int count)
{
    struct timespec end = deadline_end();
    bool enough;

    pthread_mutex_lock(&door->mutex);
    while (door->inside < count &&
           pthread_cond_timedwait(&door->changed, &door->mutex, &end) != ETIMEDOUT) {
        continue;
    }
    enough = door->inside >= count;
    pthread_mutex_unlock(&door->mutex);
    return enough;
}

int door_entered(struct door *door)
{
    int entered;

    pthread_mutex_lock(&door->mutex);
    entered = door->entered;
    pthread_mutex_unlock(&door->mutex);
    return entered;
}

/* ---- Recorders ------------------------------------------------------------------------------- */

/* Under the mutex. */
static struct seen *recorder_add(struct recorder *recorder)
{
    if (recorder->count == recorder->capacity) {
        recorder->capacity = recorder->capacity ? recorder->capacity * 2 : 64;
        recorder->seen = realloc(recorder->seen, recorder->capacity * sizeof *recorder->seen);
        if (!recorder->seen) {
            abort();
        }
    }
    memset(&recorder->seen[recorder->count], 0, sizeof *recorder->seen);
    return &recorder->seen[recorder->count++];
}

static size_t recorder_begin(struct recorder *recorder, const hf_event *event,
                             hf_delivery *delivery)
{
    struct seen *seen;
    size_t index;

    pthread_mutex_lock(&recorder->mutex);
    if (event->key) {
        for (size_t i = 0; i < recorder->count; i++) {
            if (!recorder->seen[i].end_us && strcmp(recorder->seen[i].key, event->key) == 0) {
                recorder->overlaps++;
            }
        }
    }
    index = recorder->count;
    seen = recorder_add(recorder);
    snprintf(seen->id, sizeof seen->id, "%s", event->id);
    snprintf(seen->type, sizeof seen->type, "%s", event->type);
    snprintf(seen->key, sizeof seen->key, "%s", event->key ? event->key : "");
    snprintf(seen->payload, sizeof seen->payload, "%s", event->payload);
    seen->position = event->position;
    seen->attempt = hf_delivery_attempt(delivery);
    seen->begin_us = mono_us();
    seen->tag = recorder->tag;
    if (++recorder->running > recorder->running_max) {
        recorder->running_max = recorder->running;
    }
    pthread_cond_broadcast(&recorder->changed);
    pthread_mutex_unlock(&recorder->mutex);
    return index;
}

hf_verdict recorder_handle(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    struct recorder *recorder = ctx;
    size_t index = recorder_begin(recorder, event, delivery);
    hf_verdict verdict = HF_ACK;

    if (recorder->door) {
        door_pass(recorder->door);
    }
    if (recorder->decide) {
        verdict = recorder->decide(event, delivery, recorder);
    }
    pthread_mutex_lock(&recorder->mutex);
    recorder->seen[index].end_us = mono_us();
    recorder->ended++;
    recorder->running--;
    pthread_cond_broadcast(&recorder->changed);
    pthread_mutex_unlock(&recorder->mutex);
    return verdict;
}

static bool recorder_wait_for(struct recorder *recorder, const size_t *number, size_t count)
{
    struct timespec end = deadline_end();
    bool enough;

    pthread_mutex_lock(&recorder->mutex);
    while (*number < count &&
           pthread_cond_timedwait(&recorder->changed, &recorder->mutex, &end) != ETIMEDOUT) {
        continue;
    }
    enough = *number >= count;
    pthread_mutex_unlock(&recorder->mutex);
    return enough;
}

hf_verdict wait_at_first(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)delivery;
    if (event->position == 1) {
        door_pass(recorder->extra);
    }
    return HF_ACK;
}

hf_verdict fail_always(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)delivery;
    (void)recorder;
    return HF_RETRY;
}

hf_verdict until_cancelled(const hf_event *event, hf_delivery *delivery, struct recorder *recorder)
{
    (void)event;
    (void)recorder;
    for (int i = 0; i < DEADLINE_MS && !hf_delivery_cancelled(delivery); i++) {
        usleep(1000);
    }
    return HF_RETRY_UNCOUNTED;
}

bool recorder_wait_begun(struct recorder *recorder, size_t count)
{
    return recorder_wait_for(recorder, &recorder->count, count);
}

bool recorder_wait(struct recorder *recorder, size_t count)
{
    return recorder_wait_for(recorder, &recorder->ended, count);
}

size_t recorder_count(struct recorder *recorder)
{
    size_t count;

    pthread_mutex_lock(&recorder->mutex);
    count = recorder->count;
    pthread_mutex_unlock(&recorder->mutex);
    return count;
}

struct seen recorder_get(struct recorder *recorder, size_t index)
{
    struct seen seen;

    pthread_mutex_lock(&recorder->mutex);
    if (index >= recorder->count) {
        size_t count = recorder->count;

        pthread_mutex_unlock(&recorder->mutex);
        fail_msg("the handler was called %zu times, not %zu", count, index + 1);
    }
    seen = recorder->seen[index];
    pthread_mutex_unlock(&recorder->mutex);
    return seen;
}

size_t recorder_calls(struct recorder *recorder, int64_t position, const char *key)
{
    size_t calls = 0;

    pthread_mutex_lock(&recorder->mutex);
    for (size_t i = 0; i < recorder->count; i++) {
        calls += (position == 0 || recorder->seen[i].position == position) &&
                 (!key || strcmp(recorder->seen[i].key, key) == 0);
    }
    pthread_mutex_unlock(&recorder->mutex);
    return calls;
}

int recorder_running_max(struct recorder *recorder)
{
    int most;

    pthread_mutex_lock(&recorder->mutex);
    most = recorder->running_max;
    pthread_mutex_unlock(&recorder->mutex);
    return most;
}

int recorder_overlaps(struct recorder *recorder)
{
    int overlaps;

    pthread_mutex_lock(&recorder->mutex);
    overlaps = recorder->overlaps;
    pthread_mutex_unlock(&recorder->mutex);
    return overlaps;
}

/* ---- The log --------------------------------------------------------------------------------- */

#define KEEP(to, from) snprintf(to, sizeof(to), "%s", (from) ? (from) : "")

static void scene_log(const hf_log_record *record, void *ctx)
{
    struct scene *scene = ctx;
    struct logged *logged;

    pthread_mutex_lock(&scene->mutex);
    if (scene->logged == scene->log_capacity) {
        scene->log_capacity = scene->log_capacity ? scene->log_capacity * 2 : 64;
        scene->log = realloc(scene->log, scene->log_capacity * sizeof *scene->log);
        if (!scene->log) {
            abort();
        }
    }
    logged = &scene->log[scene->logged++];
    logged->level = record->level;
    KEEP(logged->message, record->message);
    KEEP(logged->subscription, record->subscription);
    KEEP(logged->event_id, record->event_id);
    KEEP(logged->event_type, record->event_type);
    KEEP(logged->error, record->error);
    logged->position = record->position;
    logged->attempt = record->attempt;
    logged->attempts_max = record->attempts_max;
    logged->delay_ms = record->delay_ms;
    pthread_mutex_unlock(&scene->mutex);
    if (getenv("SCENE_LOG")) {
        fprintf(stderr, "# log %d: %s [%s %s #%d] %s\n", (int)record->level, record->message,
                record->subscription ? record->subscription : "",
                record->event_id ? record->event_id : "", (int)record->attempt,
                record->error ? record->error : "");
    }
}

size_t scene_logged(struct scene *scene, const char *event_id, struct logged *ret, size_t max)
{
    size_t count = 0;

    pthread_mutex_lock(&scene->mutex);
    for (size_t i = 0; i < scene->logged; i++) {
        const struct logged *logged = &scene->log[i];

        if (logged->attempt < 1 || (*event_id && strcmp(logged->event_id, event_id) != 0)) {
            continue;
        }
        if (count < max) {
            ret[count] = *logged;
        }
        count++;
    }
    pthread_mutex_unlock(&scene->mutex);
    return count;
}

bool scene_said(struct scene *scene, const char *text)
{
    bool said = false;

    pthread_mutex_lock(&scene->mutex);
    for (size_t i = 0; i < scene->logged; i++) {
        said |= strstr(scene->log[i].message, text) != NULL;
    }
    pthread_mutex_unlock(&scene->mutex);
    return said;
}

struct awaited {
    struct scene *scene;
    const char *event_id;
    size_t count;
};

static bool is_logged(void *ctx)
{
    const struct awaited *awaited = ctx;

    return scene_logged(awaited->scene, awaited->event_id, NULL, 0) >= awaited->count;
}

bool scene_wait_logged(struct scene *scene, const char *event_id, size_t count)
{
    return wait_until(is_logged, &(struct awaited){scene, event_id, count});
}

/* ---- Scenes ---------------------------------------------------------------------------------- */

/* ready: the database may have its schema already, and that of a server the namespace `default`. */
static int scene_make(void **state, bool ready)
{
    struct scene *scene = calloc(1, sizeof *scene);
    const char *temp = getenv("TMPDIR");

    if (!scene) {
        return -1;
    }
    snprintf(scene->dir, sizeof scene->dir, "%s/scene.XXXXXX", temp ? temp : "/tmp");
    if (!mkdtemp(scene->dir)) {
        return -1;
    }
    const char *pattern = getenv("HOLDFAST_TEST_URLS");
    if (pattern && server_is(pattern)) {
        (ready ? server_make_default : server_make)(pattern, scene->url, sizeof scene->url);
    } else {
        snprintf(scene->url, sizeof scene->url, "sqlite:%s/bus.db", scene->dir);
        scene->path = scene->url + strlen("sqlite:");
        if (ready) {
            sqlite_make_ready(scene->path);
        }
    }
    pthread_mutex_init(&scene->mutex, NULL);
    scene->options = (hf_options)HF_OPTIONS_INIT;
    scene->options.shutdown_ms = DEADLINE_MS;
    scene->options.timeout_ms = DEADLINE_MS / 2;
    scene->options.log_level = HF_LOG_DEBUG;
    scene->options.log = scene_log;
    scene->options.log_ctx = scene;
    *state = scene;
    return 0;
}

int scene_bare(void **state)
{
    return scene_make(state, false);
}

int scene_setup(void **state)
{
    struct scene *scene;

    if (scene_make(state, true) != 0) {
        return -1;
    }
    scene = *state;
    if (hf_open(scene->url, &scene->options, &scene->bus) != HF_OK) {
        print_error("cannot open %s: %s\n", scene->url, hf_errmsg());
        return -1;
    }
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void scene_free(struct scene *scene)
{
    while (scene->recorders) {
        struct recorder *recorder = scene->recorders;

        scene->recorders = recorder->next;
        free(recorder->seen);
        free(recorder);
    }
    while (scene->doors) {
        struct door *door = scene->doors;

        scene->doors = door->next;
        free(door);
    }
    free(scene->log);
    free(scene);
}

int scene_teardown(void **state)
{
    struct scene *scene = *state;
    hf_status closed;
    int result = 0;

    for (struct door *door = scene->doors; door; door = door->next) {
        door_open(door);
    }
    for (int i = -1; i < SCENE_BUSES_MAX; i++) {
        closed = hf_close(i < 0 ? &scene->bus : &scene->others[i]);
        if (closed) {
            print_error("closing the bus: %s: %s\n", hf_status_name(closed), hf_errmsg());
            result = -1;
        }
    }
    if (!getenv("SCENE_KEEP")) {
        server_remove(scene->url);
    }
    if (!getenv("SCENE_KEEP")) {
        nftw(scene->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    if (result == 0) {
        scene_free(scene);
    }
    return result;
}

/* The options may give it little time, which a slow machine exceeds. */
static void open_patiently(const char *url, const hf_options *options, hf_bus **ret_bus)
{
    int64_t end_us = mono_us() + DEADLINE_MS * 1000;
    hf_status status = hf_open(url, options, ret_bus);

    while ((status == HF_TIMEOUT || status == HF_UNAVAILABLE) && mono_us() < end_us) {
        status = hf_open(url, options, ret_bus);
    }
    assert_ok(status);
}

hf_bus *scene_open(struct scene *scene, const hf_options *options)
{
    for (int i = 0; i < SCENE_BUSES_MAX; i++) {
        if (scene->others[i]) {
            continue;
        }
        open_patiently(scene->url, options ? options : &scene->options, &scene->others[i]);
        return scene->others[i];
    }
    fail_msg("more than %d buses", SCENE_BUSES_MAX);
    return NULL;
}

void scene_close(struct scene *scene, hf_bus *bus)
{
    if (scene->bus == bus) {
        assert_ok(hf_close(&scene->bus));
        return;
    }
    for (int i = 0; i < SCENE_BUSES_MAX; i++) {
        if (scene->others[i] == bus) {
            assert_ok(hf_close(&scene->others[i]));
            return;
        }
    }
    fail_msg("not a bus of this scene");
}

void scene_reopen(struct scene *scene)
{
    assert_ok(hf_close(&scene->bus));
    assert_ok(hf_open(scene->url, &scene->options, &scene->bus));
}

struct door *scene_door(struct scene *scene)
{
    struct door *door = calloc(1, sizeof *door);

    assert_non_null(door);
    pthread_mutex_init(&door->mutex, NULL);
    cond_make(&door->changed);
    door->next = scene->doors;
    scene->doors = door;
    return door;
}

struct recorder *scene_recorder(struct scene *scene, decide_fn decide)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);

    assert_non_null(recorder);
    pthread_mutex_init(&recorder->mutex, NULL);
    cond_make(&recorder->changed);
    recorder->decide = decide;
    recorder->next = scene->recorders;
    scene->recorders = recorder;
    return recorder;
}

const char *scene_sqlite(struct scene *scene)
{
    if (!scene->path) {
        skip();
    }
    return scene->path;
}

const char *scene_file(struct scene *scene, const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", scene->dir, name);
    return path;
}
