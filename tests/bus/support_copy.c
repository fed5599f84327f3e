/*
 * support_copy.c - see support_copy.h.
 */
#include "support_copy.h"

#include "base/hash.h"
#include "support/server.h"

char there[COPY_URL_BYTES];
char back[COPY_URL_BYTES];

int copy_setup(void **state)
{
    const char *pattern = getenv("HOLDFAST_TEST_URLS");
    int failed = scene_setup(state);

    if (failed) {
        return failed;
    }
    snprintf(there, sizeof there, "sqlite:%s", scene_file(*state, "there.db"));
    if (pattern && strstr(pattern, "{database}")) {
        server_make(pattern, back, sizeof back);
    } else {
        snprintf(back, sizeof back, "sqlite:%s", scene_file(*state, "back.db"));
    }
    return 0;
}

int copy_teardown(void **state)
{
    server_remove(back);
    return scene_teardown(state);
}

/* ---- Short ways ------------------------------------------------------------------------------ */

hf_bus *open_whole(const char *url)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_bus *bus = NULL;

    options.no_namespace = 1;
    options.timeout_ms = DEADLINE_MS;
    assert_ok(hf_open(url, &options, &bus));
    return bus;
}

hf_status open_default(const char *url, hf_bus **ret_bus)
{
    hf_options options = HF_OPTIONS_INIT;

    options.timeout_ms = DEADLINE_MS;
    return hf_open(url, &options, ret_bus);
}

hf_status copy_with(const char *from, const char *to, const hf_copy_options *options,
                    hf_copy_progress_fn progress, void *ctx, hf_copy_report *ret_report)
{
    hf_bus *source = open_whole(from);
    hf_bus *target = open_whole(to);
    hf_status status = hf_copy(source, target, options, progress, ctx, ret_report);
    char said[1024];

    snprintf(said, sizeof said, "%s", hf_errmsg());
    assert_ok(hf_close(&source));
    assert_ok(hf_close(&target));
    if (status) {
        print_message("# %s\n", said);
    }
    return status;
}

hf_copy_report copy_all(const char *from, const char *to)
{
    hf_copy_report report = HF_COPY_REPORT_INIT;

    assert_ok(copy_with(from, to, NULL, NULL, NULL, &report));
    assert_int_equal(report.complete, 1);
    return report;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void add(struct content *content, const void *bytes, size_t length)
{
    uint8_t md5[MD5_BYTES];
    uint64_t part;

    hash_md5(bytes, length, md5);
    memcpy(&part, md5, sizeof part);
    content->hash = hash_mix(content->hash ^ part) + 1;
}

static int add_event(const hf_event *event, void *ctx)
{
    struct content *content = ctx;
    char line[1024];
    int length = snprintf(
        line, sizeof line, "%lld %s %s %s %s %lld %lld %lld", (long long)event->position, event->id,
        event->type, event->key ? event->key : "-", event->payload, (long long)event->emitted_at_us,
        (long long)event->entered_at_us, (long long)event->key_version);

    add(content, line, (size_t)length);
    content->count++;
    content->last = event->position;
    return 0;
}

static int add_dead(const hf_dead_letter *letter, void *ctx)
{
    struct content *content = ctx;
    char line[4096];
    int length = snprintf(line, sizeof line, "%lld %s %s %lld %s %s", (long long)letter->dead_id,
                          letter->subscription, letter->event.id, (long long)letter->failed_at_us,
                          letter->error, letter->attempts_json);

    add(content, line, (size_t)length);
    return 0;
}

static int add_subscription(const hf_subscription_info *info, void *ctx)
{
    struct content *content = ctx;
    char line[1024];
    int length = snprintf(line, sizeof line, "%s %s %lld %lld %lld %lld %lld %lld %lld %lld %lld",
                          info->name, info->patterns[0], (long long)info->start_position,
                          (long long)info->checkpoint, (long long)info->checkpoint_at_us,
                          (long long)info->cursor, (long long)info->head, (long long)info->retrying,
                          (long long)info->held, (long long)info->blocked, (long long)info->dead);

    add(content, line, (size_t)length);
    return 0;
}

/* What a consumer could tell apart. */
struct content content_of(const char *url)
{
    struct content content = {0};
    int64_t cursor = 0;
    int64_t before;
    hf_bus *bus = NULL;

    assert_ok(open_default(url, &bus));
    do {
        before = content.count;
        assert_ok(hf_read(bus, NULL, 10000, 0, &cursor, add_event, &content));
    } while (content.count > before);
    assert_ok(hf_dead_list(bus, NULL, add_dead, &content));
    assert_ok(hf_subscription_list(bus, add_subscription, &content));
    assert_ok(hf_close(&bus));
    return content;
}

static int count_finding(const char *name, const char *value, hf_log_level level,
                         const char *advice, void *ctx)
{
    (void)level;
    (void)advice;
    print_message("# %s: %s\n", name, value);
    (*(int *)ctx)++;
    return 0;
}

void assert_sound(const char *url)
{
    int findings = 0;
    hf_bus *bus = NULL;

    assert_ok(open_default(url, &bus));
    assert_ok(hf_verify(bus, count_finding, NULL, &findings));
    assert_ok(hf_close(&bus));
    assert_int_equal(findings, 0);
}

void assert_same(const char *a, const char *b)
{
    struct content one = content_of(a);
    struct content other = content_of(b);

    assert_int_equal(one.count, other.count);
    assert_int_equal(one.last, other.last);
    assert_true(one.hash == other.hash);
    assert_sound(b);
}

void close_bus(struct scene *scene)
{
    scene_close(scene, scene->bus);
    scene->bus = NULL;
}
