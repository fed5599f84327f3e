/*
 * event_cancel.c - the command `event cancel`: an event is settled for one subscription without a
 * handler.
 */
#include "base/banned.h"
#include "cli/command/event_find.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

/* What is said of the cancelled event. */
struct outcome {
    const struct cli *cli;
    const char *subscription;
    const struct event_name *name;
};

static void outcome_json(const struct outcome *outcome, const hf_event_state *state)
{
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    show_string(json, "id", outcome->name->id);
    show_int(json, "position", outcome->name->position);
    show_string(json, "subscription", outcome->subscription);
    show_string(json, "state", hf_state_name(state->state));
    show_time(json, "cancelled_at", state->cancelled_at_us);
    show_string(json, "cancelled_by", state->cancelled_by);
    show_string(json, "cancel_reason", state->cancel_reason);
    show_line_end(&line);
}

static int say_state(const hf_event_state *state, void *ctx)
{
    const struct outcome *outcome = ctx;

    if (strcmp(state->subscription, outcome->subscription) != 0) {
        return 0;
    }
    if (outcome->cli->json) {
        outcome_json(outcome, state);
    } else if (state->cancelled_at_us >= 0 &&
               state->cancelled_at_us < outcome->cli->started_at_us) {
        char words[OUT_WORDS_BYTES];
        out_say("Event %s was cancelled for %s before, %s, by %s.", outcome->name->id,
                outcome->subscription,
                out_ago(state->cancelled_at_us, outcome->cli->started_at_us, words),
                state->cancelled_by ? state->cancelled_by : "someone");
    } else {
        out_say("Event %s is cancelled for %s.", outcome->name->id, outcome->subscription);
    }
    return 1;
}

static int run_cancel(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *subscription = args_text(args, "subscription");
    const char *by = args_text(args, "by");
    hf_cancel_options options = HF_CANCEL_OPTIONS_INIT;
    struct event_name name;
    int code;

    if (!subscription) {
        return args_usage(args, "--subscription says for which subscription; give it");
    }
    options.by = by ? by : getenv("USER");
    options.reason = args_text(args, "reason");
    options.wait_ms = args_number(args, "wait", -1);
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (code) {
        return code;
    }
    options.position = event_position(args->words[0]);
    code = cli_fail(
        hf_cancel(cli->bus, subscription, options.position < 0 ? args->words[0] : NULL, &options));
    if (!code) {
        code = event_find(cli, args->words[0], &name);
    }
    if (!code) {
        struct outcome outcome = {cli, subscription, &name};
        code = cli_fail(hf_event_states(cli->bus, name.id, say_state, &outcome));
    }
    return code;
}

static const struct option_row cancel_options[] = {
    {"subscription", 's', OPTION_TEXT, "NAME", NULL, 0, 0,
     "for which subscription it is cancelled; others get it as before"},
    {"reason", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "why; event show says it"},
    {"by", 0, OPTION_TEXT, "NAME", NULL, 0, 0, "who does it ($USER)"},
    {"wait", 0, OPTION_DURATION, "TIME", NULL, 0, INT64_MAX / 2000000,
     "how long to wait for a process that has the event (5s)"},
    OPTION_END,
};

const struct command command_event_cancel = {
    .name = "event cancel",
    .usage = "ID|POSITION --subscription NAME",
    .summary = "cancels an event for a subscription, which does not get it",
    .examples = "  holdfast event cancel 4711 --subscription mailer\n"
                "  holdfast event cancel 0190c1f2-4c3a-7b11-8e0d-2f6d3a9b1c55 \\\n"
                "    --subscription mailer --reason 'sent by hand'\n",
    .details = "An event that is done, or a dead letter, stays so: the command says it and\n"
               "exits with 4. One whose handler runs is waited for: if the handler succeeds the\n"
               "command exits with 4, if it fails the event is cancelled, and if it is not over\n"
               "in time nothing is changed and the command exits with 5. A seek back over a\n"
               "cancelled event delivers it again.\n",
    .options = cancel_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_cancel,
};
