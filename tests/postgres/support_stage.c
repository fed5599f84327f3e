/*
 * support_stage.c - see support_stage.h.
 */
#include "postgres/support_stage.h"

#define LOOKS_US 300000

struct stage stage_of(struct scene *scene)
{
    if (scene->path) {
        skip();
    }
    hf_subscription_options options = quick_options();
    struct stage stage = {
        .scene = scene,
        .bus = scene->bus,
        .loose = scene_recorder(scene, NULL),
        .strict = scene_recorder(scene, NULL),
        .shared = scene_recorder(scene, NULL),
        .a = side_open_url(scene->url),
        .b = side_open_url(scene->url),
        .c = side_open_url(scene->url),
    };
    subscribe(scene->bus, "loose", "*", stage.loose, &options);
    options.order = HF_ORDER_STRICT;
    subscribe(scene->bus, "strict", "*", stage.strict, &options);
    options.order = HF_ORDER_DEFAULT;
    options.mode = HF_MODE_SHARED;
    subscribe(scene->bus, "shared", "*", stage.shared, &options);
    assert_ok(hf_start(scene->bus));
    return stage;
}

void stage_end(struct stage *stage)
{
    PQfinish(stage->a);
    PQfinish(stage->b);
    PQfinish(stage->c);
}

int64_t stage_publish(PGconn *pg)
{
    return side_publish_in(pg, STAGE_NAMESPACE, "t", NULL);
}

int64_t stage_namespace(PGconn *pg)
{
    return side_number(
        pg, "SELECT id FROM holdfast_private.namespaces WHERE name = '" STAGE_NAMESPACE "'");
}

int64_t stage_draw(PGconn *pg)
{
    return side_number(pg, "SELECT holdfast_private.draw(%lld)", (long long)stage_namespace(pg));
}

void stage_insert(PGconn *pg, int64_t position)
{
    side_must(
        pg,
        "INSERT INTO holdfast_private.events (position, hash, checksum, emitted_at, "
        "entered_at, id, "
        "namespace_id, type, payload) SELECT e.position, 1, holdfast_private.checksum_of("
        "holdfast_private.content_of(e.id, now(), 't', NULL, NULL, NULL, NULL, NULL, '{}'), 1, "
        "e.position, now(), NULL), now(), now(), e.id, %lld, 't', '{}' "
        "FROM (SELECT %lld::bigint AS position, gen_random_uuid() AS id) e",
        (long long)stage_namespace(pg), (long long)position);
}

const char *stage_list(struct recorder *recorder)
{
    static char text[4096];
    size_t used = 0;
    size_t count = recorder_count(recorder);
    text[0] = '\0';
    for (size_t i = 0; i < count && used < sizeof text - 24; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? " " : "",
                                 (long long)recorder_get(recorder, i).position);
    }
    return text;
}

const char *stage_await(struct recorder *recorder, size_t count)
{
    assert_true(recorder_wait(recorder, count));
    return stage_list(recorder);
}

struct awaited {
    hf_bus *bus;
    const char *subscription;
    int64_t checkpoint;
};

static bool is_there(void *ctx)
{
    struct awaited *awaited = ctx;
    return info_of(awaited->bus, awaited->subscription).checkpoint >= awaited->checkpoint;
}

void stage_await_checkpoint(struct stage *stage, const char *subscription, int64_t checkpoint)
{
    struct awaited awaited = {stage->bus, subscription, checkpoint};
    if (!wait_until(is_there, &awaited)) {
        fail_msg("the checkpoint of %s stays at %lld, wanted %lld", subscription,
                 (long long)info_of(stage->bus, subscription).checkpoint, (long long)checkpoint);
    }
}

void stage_let_it_look(void)
{
    usleep(LOOKS_US);
}
