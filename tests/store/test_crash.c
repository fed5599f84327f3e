/*
 * test_crash.c - death at every fault point of the engine leaves a whole number of changes.
 *
 * A child runs the script of support/script.h and tells after each step that it was answered. It is
 * killed at one named point, each time that it comes by. What the next process finds must be
 * exactly the picture after the steps that were answered, or after one more: nothing acknowledged
 * is lost, nothing is half done.
 */
#include "base/point.h"
#include "support/make.h"
#include "support/script.h"

#ifdef HF_FAULTS

#define STEPS_MAX 40
#define POINTS_MAX 128

static char pictures[STEPS_MAX + 1][SCRIPT_PICTURE_BYTES]; /* after so many steps */

/* A database that no run has used yet. */
static void fresh_database(struct fixture *f)
{
    static int runs;
    if (f->sqlite) {
        snprintf(f->url, sizeof f->url, "sqlite:%s/run-%d.db", f->dir, ++runs);
    } else {
        snprintf(f->namespace_name, sizeof f->namespace_name, "test-%d-crash-%d", (int)getpid(),
                 ++runs);
    }
}

/* Runs the script to its end. argument: "NAME NTH" is where to die, "" is nowhere. */
static int script_role(struct fixture *f, const char *argument)
{
    char *name = strdup(argument);
    must_hold(name);
    char *space = strchr(name, ' ');
    if (space) {
        *space = '\0';
        point_arm(name, strtoll(space + 1, NULL, 10), POINT_KILL);
    }
    struct store *store = fixture_open(f, "mortal");
    struct script script;
    script_init(&script, f, store);
    for (size_t i = 0; i < script_count(); i++) {
        must_answer(HF_OK, script_step(&script, i));
        role_report("step", (int64_t)i + 1);
    }
    script_release(&script);
    fixture_close(f, store);
    const char *names[POINTS_MAX];
    size_t count = point_list(names, POINTS_MAX);
    for (size_t i = 0; i < count && i < POINTS_MAX; i++) {
        role_report(names[i], point_hits(names[i]));
    }
    role_report("end", 0);
    free(name);
    return 0;
}

/* Runs it here, without dying, and takes the picture after each step. */
static void take_pictures(struct fixture *f)
{
    fresh_database(f);
    must_hold(script_count() <= STEPS_MAX);
    struct store *store = fixture_open(f, "immortal");
    struct script script;
    script_init(&script, f, store);
    script_picture(store, pictures[0]);
    for (size_t i = 0; i < script_count(); i++) {
        hf_status status = script_step(&script, i);
        if (status) {
            check_fail(__FILE__, __LINE__, "step %s: %s", script_name(i), err_message());
        }
        script_picture(store, pictures[i + 1]);
    }
    script_release(&script);
    fixture_close(f, store);
}

struct points {
    size_t count;
    struct point {
        char name[128];
        int64_t hits;
    } points[POINTS_MAX];
};

/* A child that lives to the end tells which points it came by, and how often. */
static void find_points(struct fixture *f, struct points *points)
{
    char line[CHILD_LINE_BYTES];
    fresh_database(f);
    struct child *child = fixture_child(f, "script", "");
    for (size_t i = 0; i < script_count(); i++) {
        child_hear(child, "step");
    }
    while (child_line(child, line, DEADLINE_MS) && strncmp(line, "end ", 4) != 0) {
        must_hold(points->count < POINTS_MAX);
        struct point *point = &points->points[points->count++];
        char *space = strchr(line, ' ');
        must_hold(space);
        *space = '\0';
        snprintf(point->name, sizeof point->name, "%.100s", line);
        point->hits = strtoll(space + 1, NULL, 10);
    }
    child_finish(child);
    f->child_count = 0;
}

/* Dies at the nth time at the point; true if it died there at all. */
static bool die_at(struct fixture *f, const char *name, int64_t nth)
{
    char argument[160];
    char line[CHILD_LINE_BYTES];
    static char picture[SCRIPT_PICTURE_BYTES];
    snprintf(argument, sizeof argument, "%s %" PRId64, name, nth);
    fresh_database(f);
    struct child *child = fixture_child(f, "script", argument);
    int64_t answered = 0;
    bool ended = false;
    while (child_line(child, line, DEADLINE_MS)) {
        if (strncmp(line, "step ", 5) == 0) {
            answered = strtoll(line + 5, NULL, 10);
        }
        ended = ended || strncmp(line, "end ", 4) == 0;
    }
    child_kill(child); /* a server may still be at what it was told last */
    f->child_count = 0;

    struct store *store = fixture_open(f, "heir");
    script_picture(store, picture);
    bool before = strcmp(picture, pictures[answered]) == 0;
    bool after = (size_t)answered < script_count() && strcmp(picture, pictures[answered + 1]) == 0;
    if (!before && !after) {
        check_fail(__FILE__, __LINE__,
                   "death at %s (%" PRId64 ") after %" PRId64 " answered steps (next: %s) left\n%s"
                   "# instead of\n%s",
                   name, nth, answered,
                   (size_t)answered < script_count() ? script_name((size_t)answered) : "none",
                   picture, pictures[answered]);
    }
    append_one(store, "t", NULL); /* and life goes on */
    fixture_close(f, store);
    return !ended;
}

static void death_at_any_point_leaves_a_whole_number_of_changes(void **state)
{
    static struct points points;
    points.count = 0;
    take_pictures(*state);
    find_points(*state, &points);
    int deaths = 0;
    for (size_t i = 0; i < points.count; i++) {
        const struct point *point = &points.points[i];
        for (int64_t nth = 1; nth <= point->hits; nth++) {
            deaths += die_at(*state, point->name, nth);
        }
    }
    must_hold(deaths >= (int)script_count()); /* a run without windows would be too weak */
}

/* ---- In the middle of a checkpoint ----------------------------------------------------------- */

/* Appends large events, so that the engine has to bring its journal home, and dies doing so. */
static int heavy_role(struct fixture *f, const char *argument)
{
    static char payload[100000];
    point_arm("mid_checkpoint", strtoll(argument, NULL, 10), POINT_KILL);
    memset(payload, '1', sizeof payload);
    struct store *store = fixture_open(f, "heavy");
    for (int i = 0; i < 400; i++) {
        struct new_event event = event_of("t", NULL);
        event.payload = (struct text){payload, sizeof payload};
        must_answer(HF_OK, append_event(store, &event));
        role_report("acked", event.position);
    }
    role_report("end", 0);
    return 0;
}

static void death_in_the_middle_of_a_checkpoint_loses_nothing(void **state)
{
    struct fixture *f = *state;
    fixture_sqlite_only(f);
    int64_t acknowledged = 0;
    for (int nth = 1; nth <= 3; nth++) {
        char argument[16];
        char line[CHILD_LINE_BYTES];
        snprintf(argument, sizeof argument, "%d", nth);
        struct child *child = fixture_child(f, "heavy", argument);
        while (child_line(child, line, DEADLINE_MS)) {
            must_hold(strncmp(line, "acked ", 6) == 0); /* it never comes to its end */
            acknowledged = strtoll(line + 6, NULL, 10);
        }
        child_discard(child);
        struct store *store = fixture_open(f, "heir");
        int64_t head = head_of(store);
        must_hold(head == acknowledged || head == acknowledged + 1);
        for (int64_t p = 1; p <= head; p++) {
            const struct entry *entry = entry_at(f, store, p);
            must_equal(100000, entry->event.payload_bytes);
            must_equal('1', entry->event.payload[99999]);
            batch_release(&f->batches[--f->batch_count]);
        }
        acknowledged = head;
        fixture_close(f, store);
    }
}

/* Every step changes the picture, or a test of pictures would prove nothing about it. */
static void every_step_shows(void **state)
{
    struct fixture *f = *state;
    /* who owns a partition depends on who lives when one looks */
    const char *invisible = f->sqlite ? " acquire give_back " : " acquire give_back join ";
    take_pictures(f);
    for (size_t i = 0; i < script_count(); i++) {
        if (!strstr(invisible, script_name(i)) && strcmp(pictures[i], pictures[i + 1]) == 0) {
            check_fail(__FILE__, __LINE__, "step %s changes nothing that shows", script_name(i));
        }
    }
}

static const struct role roles[] = {{"script", script_role}, {"heavy", heavy_role}, {NULL, NULL}};

static const struct CMUnitTest claims[] = {
    CLAIM(every_step_shows),
    CLAIM(death_at_any_point_leaves_a_whole_number_of_changes),
    CLAIM(death_in_the_middle_of_a_checkpoint_loses_nothing),
};

FIXTURE_MAIN("crash", claims, roles)

#else

int main(void)
{
    puts("1..0 # SKIP there are no fault points in this build");
    return 0;
}

#endif
