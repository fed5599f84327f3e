/*
 * change.c - from one plan to another while it works: the file was changed, and is to be carried
 * out as a whole or not at all.
 *
 *     plan (plan.c)   the file has no mistake
 *     compare         nothing has changed that needs a restart
 *     prepare         all that new handlers need is there
 *     check           what is stored may become what the file says
 *     carry out       it is stored, then handlers are exchanged
 *     declare         schedules and retention
 *     leave           subscriptions that the file does not have any more
 *
 * Up to the check nothing has changed. If the database fails after it, what was done is undone by
 * carrying out the plan before. A subscription of which the file says what it said before keeps its
 * item, with its connections and secrets, and only its stored options are made the file's again.
 */
#include "base/banned.h"
#include "cli/config/setting.h"
#include "cli/terminal/out.h"
#include "cli/work/handlers.h"

/* ---- What has changed ------------------------------------------------------------------------ */

static struct work_item *find_item(const struct work *work, const char *name)
{
    for (size_t i = 0; i < work->count; i++) {
        if (strcmp(work->items[i]->name, name) == 0) {
            return work->items[i];
        }
    }
    return NULL;
}

/* Complains about a key that cannot change while it works. */
static int refuse_key(const struct work *work, const char *section, const char *name,
                      const struct config_difference *found)
{
    char line[24] = "";

    if (found->setting.line) {
        snprintf(line, sizeof line, "%d:", found->setting.line);
    }
    out_complain("%s:%s %s%s%s.%s: it cannot change while the server runs; restart it", work->file,
                 line, section, name[0] ? "." : "", name, found->key.path);
    return EXIT_CONFLICT;
}

static int compare_section(struct work *work, struct work *next, enum config_scope scope)
{
    struct config *before = &work->source->config;
    struct config *after = &next->source->config;
    bool database = scope == CONFIG_DATABASE;
    struct config_difference found = {.index = 0};

    if (!config_differs(before, database ? before->database : before->serve, after,
                        database ? after->database : after->serve, &work->cli->args, scope,
                        &found)) {
        return EXIT_OK;
    }
    return refuse_key(work, database ? "database" : "serve", "", &found);
}

/* Keys of a subscription that say which handlers and which partitions this process has. */
static bool is_fixed(const struct config_key *key)
{
    static const char *const fixed[] = {"mode", "order", "partition", "total_partitions",
                                        "batch_by"};

    for (size_t i = 0; key->path && i < sizeof fixed / sizeof fixed[0]; i++) {
        if (strcmp(key->path, fixed[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds out whether the file says something else about a subscription. 0, or the exit code. */
static int compare_item(struct work *work, const struct work_item *before,
                        const struct work_item *after, bool *ret_changed)
{
    struct config_difference found = {.index = 0};

    *ret_changed = false;
    while (config_differs(&before->source->config, before->entry->values, &after->source->config,
                          after->entry->values, &work->cli->args, CONFIG_SUBSCRIPTION, &found)) {
        if (is_fixed(&found.key)) {
            return refuse_key(work, "subscriptions", after->name, &found);
        }
        *ret_changed = true;
        found.index++;
    }
    return EXIT_OK;
}

/* Puts items that go on into the plan. */
static int compare(struct work *work, struct work *next, struct work_changes *changes)
{
    int code = compare_section(work, next, CONFIG_DATABASE);

    code = code ? code : compare_section(work, next, CONFIG_SERVE);
    for (size_t i = 0; i < next->count && !code; i++) {
        struct work_item *before = find_item(work, next->items[i]->name);
        bool changed = true;
        if (before) {
            code = compare_item(work, before, next->items[i], &changed);
        }
        if (!code && !changed) {
            work_item_free(next->items[i]);
            next->items[i] = before;
        }
        changes->added += !before;
        changes->changed += before && changed;
    }
    changes->removed = work->count + changes->added - next->count;
    return code;
}

/* ---- Carrying it out ------------------------------------------------------------------------- */

static bool goes_on(const struct work *work, const struct work_item *item)
{
    return find_item(work, item->name) == item;
}

static int prepare(struct work *work, struct work *next)
{
    int code = EXIT_OK;

    for (size_t i = 0; i < next->count && !code; i++) {
        if (!goes_on(work, next->items[i])) {
            code = work_prepare_item(work, next->items[i]);
        }
    }
    for (size_t i = 0; i < next->count && !code; i++) {
        code = work_check_item(work, next->items[i]);
    }
    return code;
}

/* One that goes on is stored again, in case somebody has changed it, and nothing else: its handlers
 * run. */
static int carry_out(struct work *work, struct work_item *item)
{
    int code = work_store_item(work, item);

    if (code) {
        return code;
    }
    return goes_on(work, item) ? work_attach(work, item) : work_register_item(work, item);
}

/* The first `count` items of a plan that could not be carried out become what they were. */
static void undo(struct work *work, struct work *next, size_t count)
{
    int worst = EXIT_OK;

    for (size_t i = 0; i < count; i++) {
        struct work_item *before = find_item(work, next->items[i]->name);
        int code = EXIT_OK;
        if (before) {
            code = carry_out(work, before);
        } else {
            work_detach(work, next->items[i]->name);
        }
        if (!before && !next->items[i]->stored.exists) {
            code = cli_fail(hf_subscription_remove(work->cli->bus, next->items[i]->name));
        }
        worst = code && code != EXIT_NOT_FOUND ? code : worst;
    }
    worst = worst ? worst : work_declare(work);
    if (worst) {
        out_complain("what had been begun could not all be undone; the next reload or start makes "
                     "everything what the file says");
    }
}

/* Stores and registers everything, or nothing. */
static int carry_out_all(struct work *work, struct work *next)
{
    size_t done = 0;
    int code = EXIT_OK;

    while (done < next->count && !code) {
        bool existed = next->items[done]->stored.exists;
        code = carry_out(work, next->items[done]);
        next->items[done]->stored.exists = existed; /* for undo */
        done++;
    }
    if (!code) {
        struct work_source *before = work->source;
        work->source = next->source;
        code = work_declare(work);
        work->source = before;
    }
    if (code) {
        undo(work, next, done);
    }
    return code;
}

/* ---- Letting go of the plan before ----------------------------------------------------------- */

static void retire(struct work *work, struct work_item *item)
{
    item->next = work->retired;
    work->retired = item;
}

void work_sweep(struct work *work)
{
    struct work_item **at = &work->retired;

    while (*at) {
        struct work_item *item = *at;
        if (work_runs(work, item)) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        work_item_free(item);
    }
}

/* The plan becomes that of `next`, all of whose items run. */
static void take_over(struct work *work, struct work *next)
{
    for (size_t i = 0; i < work->count; i++) {
        const struct work_item *after = find_item(next, work->items[i]->name);
        if (!after) {
            work_detach(work, work->items[i]->name);
        }
        if (after != work->items[i]) {
            retire(work, work->items[i]);
        }
    }
    memcpy(work->items, next->items, sizeof work->items);
    work->count = next->count;
    if (work->first) {
        work_source_put(work->source);
    } else {
        work->first = work->source;
    }
    work->source = next->source;
    next->source = NULL;
    next->count = 0;
}

int work_change(struct work *work, struct work *next, struct work_changes *ret_changes)
{
    int code;

    *ret_changes = (struct work_changes){.added = 0};
    code = compare(work, next, ret_changes);
    code = code ? code : prepare(work, next);
    code = code ? code : carry_out_all(work, next);
    if (!code) {
        take_over(work, next);
    } else {
        for (size_t i = 0; i < next->count; i++) {
            if (goes_on(work, next->items[i])) {
                next->items[i--] = next->items[--next->count];
            } else {
                retire(work, next->items[i]); /* a handler may have begun with it */
            }
        }
        next->count = 0;
    }
    work_sweep(work);
    return code;
}
