/*
 * wait.c - the command `wait`: until an event is settled, in one subscription or in all.
 *
 * It waits by hf_wait in short steps, so that a signal ends it, and then says what became of the
 * event. One that waits for its time is waited for until it is in the log, and brought there when
 * it is due, as whatever looks for work does.
 */
#include "base/banned.h"
#include "base/time/deadline.h"
#include "cli/command/event_find.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"

#define STEP_MS 500

/* What became of the event. */
struct outcome_view {
    const char *subscription; /* NULL: all */
    struct json_out *json;    /* NULL: text for people */
    int64_t seen;             /* subscriptions that it is for */
    int64_t dead;
    int64_t open;
};

static bool is_settled(hf_state state)
{
    return state == HF_STATE_DONE || state == HF_STATE_DEAD || state == HF_STATE_CANCELLED;
}

static int view_state(const hf_event_state *state, void *ctx)
{
    struct outcome_view *view = ctx;
    bool other = view->subscription && strcmp(view->subscription, state->subscription) != 0;

    if (other || state->state == HF_STATE_NOT_FOR_IT) {
        return 0;
    }
    view->seen++;
    view->dead += state->state == HF_STATE_DEAD;
    view->open += !is_settled(state->state);
    if (view->json) {
        json_object_begin(view->json);
        show_string(view->json, "subscription", state->subscription);
        show_string(view->json, "state", hf_state_name(state->state));
        json_object_end(view->json);
    } else {
        out_text(state->subscription);
        printf(": %s%s%s\n", state->state == HF_STATE_DEAD ? out_on(OUT_RED) : "",
               hf_state_name(state->state), state->state == HF_STATE_DEAD ? out_off() : "");
    }
    return 0;
}

static hf_status show_states(struct cli *cli, const struct event_name *name,
                             struct outcome_view *view)
{
    return hf_event_states(cli->bus, name->id, view_state, view);
}

static hf_status show_states_json(struct cli *cli, const struct event_name *name,
                                  struct outcome_view *view)
{
    struct show_line line;
    hf_status status;

    view->json = show_line_begin(&line);
    show_string(view->json, "id", name->id);
    show_int(view->json, "position", name->position);
    json_key(view->json, "states");
    json_array_begin(view->json);
    status = hf_event_states(cli->bus, name->id, view_state, view);
    if (status) {
        show_line_drop(&line);
        return status;
    }
    json_array_end(view->json);
    show_bool(view->json, "settled", view->open == 0);
    show_line_end(&line);
    return HF_OK;
}

/* How long to wait before the next look: a step, or what is left. */
static int64_t step_ms(struct deadline deadline)
{
    int64_t left_ms = deadline_left_ms(deadline);

    return left_ms < 0 || left_ms > STEP_MS ? STEP_MS : left_ms;
}

static int see_later(const hf_later_info *info, void *ctx)
{
    (void)info;
    (void)ctx;
    return 0;
}

/* Until an event that waits for its time is in the log. HF_TIMEOUT, also if a signal came. */
static hf_status wait_for_entry(struct cli *cli, const char *word, struct deadline deadline)
{
    bool waits = hf_later_get(cli->bus, word, see_later, NULL) == HF_OK;

    while (waits && !stop_requested()) {
        hf_tick_info info = {.size = sizeof info};
        hf_status status = hf_tick(cli->bus, &info);

        if (status) {
            return status;
        }
        waits = hf_later_get(cli->bus, word, see_later, NULL) == HF_OK;
        if (waits && deadline_passed(deadline)) {
            break;
        }
        if (waits) {
            stop_wait(-1, step_ms(deadline));
        }
    }
    return waits ? HF_TIMEOUT : HF_OK;
}

/* HF_TIMEOUT also if a signal came. */
static hf_status wait_for(struct cli *cli, const struct event_name *name, const char *subscription,
                          struct deadline deadline)
{
    hf_status status = HF_TIMEOUT;

    while (status == HF_TIMEOUT && !stop_requested()) {
        bool last = deadline_passed(deadline);

        status = hf_wait(cli->bus, subscription, name->position, last ? 0 : step_ms(deadline));
        if (last) {
            break;
        }
    }
    return status;
}

/* The event is not in the log when the time is over. */
static int say_waits(const struct cli *cli, const char *id)
{
    if (cli->json) {
        struct show_line line;
        struct json_out *json = show_line_begin(&line);

        show_string(json, "id", id);
        show_int(json, "position", -1);
        json_key(json, "states");
        json_array_begin(json);
        json_array_end(json);
        show_bool(json, "settled", false);
        show_line_end(&line);
    }
    out_complain("the event waits for its time: `holdfast later show %s`", id);
    return EXIT_TIMEOUT;
}

static int run_wait(struct cli *cli)
{
    const char *word = cli->args.words[0];
    const char *subscription = args_text(&cli->args, "subscription");
    struct event_name name;
    struct outcome_view view = {.subscription = subscription};
    struct deadline deadline = deadline_after_ms(args_number(&cli->args, "timeout", -1));
    int code = cli_open(cli, HF_OPEN_NOMIGRATE);
    hf_status status;

    if (code) {
        return code;
    }
    stop_catch_reader();
    status = wait_for_entry(cli, word, deadline);
    if (status) {
        return status == HF_TIMEOUT ? say_waits(cli, word) : cli_fail(status);
    }
    code = event_find(cli, word, &name);
    if (code) {
        return code;
    }
    status = wait_for(cli, &name, subscription, deadline);
    if (status && status != HF_TIMEOUT) {
        return cli_fail(status);
    }
    status = cli->json ? show_states_json(cli, &name, &view) : show_states(cli, &name, &view);
    if (status) {
        return cli_fail(status);
    }
    if (view.open > 0) {
        out_complain("event %s is not settled yet: `holdfast event show %" PRId64 "` says why",
                     name.id, name.position);
        return EXIT_TIMEOUT;
    }
    if (view.seen == 0) {
        out_say("It is for no subscription%s.", subscription ? " of that name" : "");
    }
    return view.dead > 0 ? EXIT_FINDINGS : EXIT_OK;
}

static const struct option_row options[] = {
    {"subscription", 's', OPTION_TEXT, "SUB", NULL, 0, 0, "in this one only (all that it is for)"},
    {"timeout", 0, OPTION_DURATION, "TIME", NULL, 0, INT64_MAX / 1000,
     "give up after this time (never)"},
    OPTION_END,
};

const struct command command_wait = {
    .name = "wait",
    .usage = "ID|POSITION",
    .summary = "waits until an event is done, dead or cancelled",
    .examples = "  holdfast wait 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55\n"
                "  holdfast wait 4711 --subscription billing --timeout 1m\n",
    .details = "Exit status 0: it is done or cancelled in all that it is for. 7: it is a dead\n"
               "letter in one of them. 5: the time is over. An event for later is waited for\n"
               "until it is in the log.\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run_wait,
};
