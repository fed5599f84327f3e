/*
 * support_mates.c - see support_mates.h.
 */
#include "support_mates.h"

#include "base/point.h"

#define SHORT_LEASES "MATES_HAVE_SHORT_LEASES" /* in the environment, which children inherit */

static const char *diary;
static const char *self;

static hf_verdict write_down(const hf_event *event, hf_delivery *delivery, void *ctx)
{
    (void)delivery;
    (void)ctx;
    diary_write(diary, "D %s %s %lld", self, event->key ? event->key : "-",
                (long long)event->position);
    return HF_ACK;
}

hf_subscription_options mates_share(int32_t partitions, int32_t concurrency)
{
    hf_subscription_options options = quick_options();

    options.partitions = partitions;
    options.concurrency = concurrency;
    options.lease_ms = getenv(SHORT_LEASES) ? 4000 : 60000;
    return options;
}

void mates_have_short_leases(void)
{
    setenv(SHORT_LEASES, "1", 1);
}

int mates_work(int argc, char **argv)
{
    hf_subscription_options options;
    hf_options bus_options = HF_OPTIONS_INIT;
    char stop[64];
    hf_bus *bus = NULL;

    if (argc < 5) {
        return 2;
    }
    diary = argv[1];
    self = argv[2];
    options = mates_share((int32_t)strtol(argv[3], NULL, 10), (int32_t)strtol(argv[4], NULL, 10));
    bus_options.node_name = self;
    if (hf_open(argv[0], &bus_options, &bus) != HF_OK ||
        hf_subscribe(bus, "a", "*", write_down, NULL, &options, NULL) != HF_OK ||
        hf_start(bus) != HF_OK) {
        diary_write(diary, "E %s %s", self, hf_errmsg());
        return 1;
    }
    if (argc > 5) {
        point_arm(argv[5], 1, POINT_KILL);
    }
    diary_write(diary, "R %s", self);
    snprintf(stop, sizeof stop, "STOP %s", self);
    while (diary_count(diary, stop) == 0) {
        usleep(5000);
    }
    return hf_close(&bus) == HF_OK ? 0 : 1;
}

const char *mates_diary(struct scene *scene)
{
    static char path[512];

    snprintf(path, sizeof path, "%s", scene_file(scene, "diary"));
    return path;
}

pid_t mates_start(struct scene *scene, const char *name, int32_t partitions, int32_t concurrency,
                  const char *point)
{
    char ready[64];
    char parts[16];
    char workers[16];
    pid_t pid;

    snprintf(parts, sizeof parts, "%d", partitions);
    snprintf(workers, sizeof workers, "%d", concurrency);
    pid = actor_start("work", scene->url, mates_diary(scene), name, parts, workers, point, NULL);
    snprintf(ready, sizeof ready, "R %s", name);
    if (!diary_wait(mates_diary(scene), ready, 1)) {
        actor_kill(pid);
        fail_msg("%s did not start", name);
    }
    return pid;
}

void mates_stop(struct scene *scene, const char *name)
{
    diary_write(mates_diary(scene), "STOP %s", name);
}

void mates_publish(hf_bus *bus, int keys, int each)
{
    for (int i = 0; i < each; i++) {
        for (int k = 0; k < keys; k++) {
            char key[16];

            snprintf(key, sizeof key, "k%d", k);
            publish(bus, "x", key, "1");
        }
    }
}

size_t mates_assert_done(struct scene *scene, int64_t last)
{
    FILE *file = fopen(mates_diary(scene), "r");
    unsigned char *seen = calloc((size_t)last + 1, 1);
    int64_t newest[MATES_KEYS_MAX] = {0};
    size_t lines = 0;
    char line[256];

    assert_non_null(file);
    assert_non_null(seen);
    while (fgets(line, sizeof line, file)) {
        long long position;
        unsigned key;

        if (sscanf(line, "D %*s k%u %lld", &key, &position) != 2 || position > last) {
            continue;
        }
        assert_in_range(key, 0, MATES_KEYS_MAX - 1);
        assert_true(seen[position] || position > newest[key]);
        newest[key] = position > newest[key] ? position : newest[key];
        seen[position] = 1;
        lines++;
    }
    fclose(file);
    for (int64_t i = 1; i <= last; i++) {
        if (!seen[i]) {
            fail_msg("position %lld was not delivered", (long long)i);
        }
    }
    free(seen);
    return lines;
}
