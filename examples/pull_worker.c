/*
 * pull_worker.c - taking work instead of being called: for programs with their own event loop.
 *
 * A shared subscription hands every event to one of its workers. This one asks for jobs when the
 * descriptor of the bus becomes readable, does them, and says what became of each:
 *
 *     ack      done
 *     nack     failed: again later, until attempts_max
 *     bury     will never work: to the dead letters now
 *     release  not now: for another worker; the attempt does not count
 *     touch    takes longer: let me keep the lease
 *
 * Events that it does not answer for go to another worker when the lease ends, or at once when the
 * process dies. Among the jobs are one that fails the first time, one that is slow, and one that is
 * nonsense.
 */
#include "temp.h"
#include <errno.h>
#include <holdfast.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define JOBS 12
#define LEASE_MS 400
#define SLOW_MS 600 /* longer than the lease */
#define LOOK_MS 50  /* look this often without being told: a retry may have become due */

static void check(hf_status status, const char *doing)
{
    if (status != HF_OK) {
        fprintf(stderr, "pull_worker: %s: %s (%s)\n", doing, hf_errmsg(), hf_status_name(status));
        exit(1);
    }
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

struct work {
    int done;
    int nacked;
    int buried;
    int touched;
    int stolen; /* slow jobs that another worker got while this one had them */
};

/* Another worker takes all it can get meanwhile, and gives it back: no attempt is counted. */
static void let_another_look(hf_bus *bus, struct work *work)
{
    hf_batch *batches[JOBS] = {NULL};
    size_t taken = 0;
    do {
        check(hf_claim(bus, "jobs", NULL, &batches[taken]), "claim");
        for (size_t i = 0; i < hf_batch_count(batches[taken]); i++) {
            const hf_event *event = hf_batch_event(batches[taken], i);
            work->stolen += strcmp(event->type, "job.slow") == 0;
        }
    } while (hf_batch_count(batches[taken]) > 0 && ++taken < JOBS);
    for (size_t i = 0; i < taken; i++) {
        check(hf_release(bus, "jobs", hf_batch_lease(batches[i]), NULL, 0), "release");
    }
    for (size_t i = 0; i < JOBS; i++) {
        hf_batch_free(batches[i]);
    }
}

/* One job; the lease is that of its batch. */
static void do_job(hf_bus *bus, const hf_batch *batch, size_t index, struct work *work)
{
    const hf_event *event = hf_batch_event(batch, index);
    const char *lease = hf_batch_lease(batch);
    const int64_t *position = &event->position;
    int32_t attempt = hf_batch_attempt(batch, index);

    if (strcmp(event->type, "job.flaky") == 0 && attempt == 1) {
        check(hf_nack(bus, "jobs", lease, position, 1, 20, "the printer is out of paper"), "nack");
        printf("%s %s: attempt 1 failed, again in 20 ms\n", event->type, event->payload);
        work->nacked++;
        return;
    }
    if (strcmp(event->type, "job.nonsense") == 0) {
        check(hf_bury(bus, "jobs", lease, position, 1, "no worker can do this"), "bury");
        printf("%s %s: buried\n", event->type, event->payload);
        work->buried++;
        return;
    }
    if (strcmp(event->type, "job.slow") == 0) {
        for (int i = 0; i < 3; i++) {
            sleep_ms(SLOW_MS / 3);
            check(hf_touch(bus, "jobs", lease, -1), "touch");
            work->touched++;
        }
        let_another_look(bus, work);
    }
    check(hf_ack(bus, "jobs", lease, position, 1), "ack");
    printf("%s %s: done in attempt %d\n", event->type, event->payload, (int)attempt);
    work->done++;
}

/* Claims and works until there is nothing more to claim. */
static void drain(hf_bus *bus, struct work *work)
{
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;
    options.max = 4;
    for (;;) {
        hf_batch *batch = NULL;
        check(hf_claim(bus, "jobs", &options, &batch), "claim");
        size_t count = hf_batch_count(batch);
        for (size_t i = 0; i < count; i++) {
            do_job(bus, batch, i, work);
        }
        hf_batch_free(batch);
        if (count == 0) {
            return;
        }
    }
}

static void publish_jobs(hf_bus *bus)
{
    for (int i = 1; i <= JOBS; i++) {
        char payload[16];
        snprintf(payload, sizeof payload, "%d", i);
        hf_new_event event = HF_NEW_EVENT_INIT;
        event.type = i == 3   ? "job.flaky"
                     : i == 5 ? "job.nonsense"
                     : i == 7 ? "job.slow"
                              : "job.plain";
        event.payload = payload;
        check(hf_publish(bus, &event, NULL), "publish");
    }
}

static int keep_error(const hf_dead_letter *letter, void *ctx)
{
    snprintf(ctx, 64, "%s", letter->error);
    return 0;
}

int main(int argc, char **argv)
{
    hf_bus *bus = NULL;
    check(hf_open(temp_database(argc, argv), NULL, &bus), "open");
    hf_subscription_options options = HF_SUBSCRIPTION_OPTIONS_INIT;
    options.from.kind = HF_PLACE_NOW;
    options.mode = HF_MODE_SHARED;
    options.lease_ms = LEASE_MS;
    const char *patterns[] = {"job.*"};
    check(hf_subscription_create(bus, "jobs", patterns, 1, &options, NULL), "create");
    publish_jobs(bus);

    struct pollfd ready = {.events = POLLIN};
    check(hf_fd(bus, &ready.fd), "fd");
    struct work work = {0};
    for (int rounds = 0; work.done + work.buried < JOBS && rounds < 200; rounds++) {
        uint64_t rings;
        if (poll(&ready, 1, LOOK_MS) > 0 && read(ready.fd, &rings, sizeof rings) < 0) {
            perror("read");
        }
        drain(bus, &work);
    }

    char error[64] = "";
    hf_dead_filter filter = HF_DEAD_FILTER_INIT;
    filter.subscription = "jobs";
    filter.limit = 1;
    check(hf_wait(bus, "jobs", -1, 10000), "wait");
    check(hf_dead_list(bus, &filter, keep_error, error), "list the dead letters");
    check(hf_close(&bus), "close");
    printf("%d done, %d of them in a second attempt; 1 dead: %s\n", work.done, work.nacked, error);
    return work.done == JOBS - 1 && work.nacked == 1 && work.buried == 1 && work.touched == 3 &&
                   work.stolen == 0 && strcmp(error, "no worker can do this") == 0
               ? 0
               : 1;
}
