/*
 * pull.c - the commands `claim`, `ack`, `nack`, `release`, `bury` and `touch`: pulling for scripts.
 *
 * A claim of the command line is detached: the process that claims ends at once, so the lease ends
 * by time alone and its text is the right to settle. If the claimed events cannot be written to
 * stdout the lease is given back, because no worker knows of it.
 */
#include "base/banned.h"
#include "base/time/deadline.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/stop.h"

#define WAIT_STEP_MS 250 /* how long a claim waits before it looks for Ctrl-C */
#define DAY_MS INT64_C(86400000)

/* ---- claim ----------------------------------------------------------------------------------- */

static hf_status claim_some(struct cli *cli, hf_batch **ret_batch)
{
    const struct args *args = &cli->args;
    struct deadline deadline = deadline_after_ms(args_number(args, "wait", 0));
    hf_claim_options options = HF_CLAIM_OPTIONS_INIT;

    options.max = (int32_t)args_number(args, "max", -1);
    options.lease_ms = args_number(args, "lease", -1);
    options.detached = HF_ON;
    for (;;) {
        int64_t left_ms = deadline_left_ms(deadline);
        hf_status status;

        options.wait_ms = left_ms < WAIT_STEP_MS ? left_ms : WAIT_STEP_MS;
        status = hf_claim(cli->bus, args->words[0], &options, ret_batch);
        if (status || hf_batch_count(*ret_batch) > 0 || deadline_passed(deadline) ||
            stop_requested()) {
            return status;
        }
        hf_batch_free(*ret_batch);
        *ret_batch = NULL;
    }
}

static void print_json(const hf_batch *batch)
{
    for (size_t i = 0; i < hf_batch_count(batch); i++) {
        struct show_line line;

        show_claimed(show_line_begin(&line), batch, i);
        show_line_end(&line);
    }
}

static void print_text(const struct cli *cli, const hf_batch *batch)
{
    char words[OUT_WORDS_BYTES];

    printf("lease %s  expires %s\n", hf_batch_lease(batch),
           out_when(hf_batch_expires_at_us(batch), cli->started_at_us, words));
    for (size_t i = 0; i < hf_batch_count(batch); i++) {
        show_event_line(hf_batch_event(batch, i));
    }
}

static int say_nothing(const hf_subscription_info *info, void *ctx)
{
    (void)ctx;
    if (info->not_moving) {
        out_say("Nothing to claim: %s.", info->not_moving);
    } else {
        out_say("Nothing to claim.");
    }
    return 0;
}

static int run_claim(struct cli *cli)
{
    hf_batch *batch = NULL;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    stop_catch();
    code = cli_fail(claim_some(cli, &batch));
    if (code) {
        return code;
    }
    if (hf_batch_count(batch) == 0) {
        code = cli_fail(hf_subscription_get(cli->bus, cli->args.words[0], say_nothing, NULL));
        code = code ? code : EXIT_TIMEOUT;
    } else {
        if (cli->json) {
            print_json(batch);
        } else {
            print_text(cli, batch);
        }
        if (!out_finish()) {
            hf_release(cli->bus, cli->args.words[0], hf_batch_lease(batch), NULL, 0);
            code = EXIT_ERROR;
        }
    }
    hf_batch_free(batch);
    return code;
}

static const struct option_row claim_options[] = {
    {"max", 'n', OPTION_NUMBER, "N", NULL, 1, HF_CLAIM_MAX,
     "at most so many events (the subscription's batch)"},
    {"lease", 0, OPTION_DURATION, "TIME", NULL, 1, 7 * DAY_MS,
     "how long the lease lasts (the subscription's lease)"},
    {"wait", 0, OPTION_DURATION, "TIME", NULL, 0, 0,
     "how long to wait for an event if there is none (0)"},
    OPTION_END,
};

const struct command command_claim = {
    .name = "claim",
    .usage = "SUB",
    .word_names = "subscriptions",
    .summary = "takes events of a shared subscription under a lease",
    .examples = "  holdfast claim mailer --max 10 --lease 1m --json\n"
                "  holdfast claim mailer --wait 20s\n"
                "  while event=$(holdfast claim mailer --max 1 --json); do\n"
                "      lease=$(echo \"$event\" | jq -r .lease)\n"
                "      ./send-mail \"$event\" && holdfast ack mailer \"$lease\"\n"
                "  done\n",
    .details = "If no event is available it prints nothing and exits with 5. Events that are not\n"
               "settled (ack, nack, release, bury) before the lease ends become available to all\n"
               "workers again.\n",
    .options = claim_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_claim,
};

/* ---- Settling -------------------------------------------------------------------------------- */

enum settle_kind { SETTLE_ACK, SETTLE_NACK, SETTLE_RELEASE, SETTLE_BURY };

static hf_status answer(struct cli *cli, enum settle_kind kind, const int64_t *named, size_t count)
{
    const struct args *args = &cli->args;
    const char *subscription = args->words[0];
    const char *lease = args->words[1];

    switch (kind) {
    case SETTLE_ACK:
        return hf_ack(cli->bus, subscription, lease, named, count);
    case SETTLE_NACK:
        return hf_nack(cli->bus, subscription, lease, named, count, args_number(args, "delay", -1),
                       args_text(args, "error"));
    case SETTLE_RELEASE:
        return args_given(args, "delay") ? hf_release_after(cli->bus, subscription, lease, named,
                                                            count, args_number(args, "delay", 0))
                                         : hf_release(cli->bus, subscription, lease, named, count);
    case SETTLE_BURY:
        return hf_bury(cli->bus, subscription, lease, named, count, args_text(args, "error"));
    }
    return HF_MISUSE;
}

static int settle(struct cli *cli, enum settle_kind kind)
{
    static const char *const outcomes[] = {"done", "failed", "released", "dead"};
    static int64_t positions[ARGS_WORDS_MAX];
    const struct args *args = &cli->args;
    size_t count = args->word_count - 2;
    const int64_t *named = count > 0 ? positions : NULL; /* NULL: all that are left */
    int code;

    for (size_t i = 0; i < count; i++) {
        if (!args_value_number(args->words[i + 2], 1, INT64_MAX, &positions[i])) {
            return args_usage(args, "'%s' is not a position", args->words[i + 2]);
        }
    }
    code = cli_open(cli, HF_OPEN_EXISTING);
    if (code) {
        return code;
    }
    code = cli_fail(answer(cli, kind, named, count));
    if (!code && cli->json) {
        show_answered(args->words[0], args->words[1], outcomes[kind]);
    }
    return code;
}

static int run_ack(struct cli *cli)
{
    return settle(cli, SETTLE_ACK);
}

static int run_nack(struct cli *cli)
{
    return settle(cli, SETTLE_NACK);
}

static int run_release(struct cli *cli)
{
    return settle(cli, SETTLE_RELEASE);
}

static int run_bury(struct cli *cli)
{
    return settle(cli, SETTLE_BURY);
}

static int run_touch(struct cli *cli)
{
    const struct args *args = &cli->args;
    int code = cli_open(cli, HF_OPEN_EXISTING);

    if (code) {
        return code;
    }
    code = cli_fail(
        hf_touch(cli->bus, args->words[0], args->words[1], args_number(args, "lease", -1)));
    if (!code && cli->json) {
        show_answered(args->words[0], args->words[1], "extended");
    }
    return code;
}

#define ERROR_ROW                                                                                  \
    {                                                                                              \
        "error", 0, OPTION_TEXT, "TEXT", NULL, 0, 0, "what went wrong; kept with the attempt"      \
    }

static const struct option_row nack_options[] = {
    {"delay", 0, OPTION_DURATION, "TIME", NULL, 0, 366 * DAY_MS,
     "try again after this time (the retry policy)"},
    ERROR_ROW,
    OPTION_END,
};
static const struct option_row release_options[] = {
    {"delay", 0, OPTION_DURATION, "TIME", NULL, 0, 366 * DAY_MS,
     "they come again after this time (at once)"},
    OPTION_END,
};
static const struct option_row bury_options[] = {ERROR_ROW, OPTION_END};
static const struct option_row touch_options[] = {
    {"lease", 0, OPTION_DURATION, "TIME", NULL, 1, 7 * DAY_MS,
     "how long from now (the subscription's lease)"},
    OPTION_END,
};

#define ALL_LEFT                                                                                   \
    "Without positions: all events that are left in the lease. Exits with 4, and\n"                \
    "changes nothing, if the lease has ended or a position is not in it.\n"

const struct command command_ack = {
    .name = "ack",
    .usage = "SUB LEASE [POSITION...]",
    .word_names = "subscriptions",
    .summary = "settles claimed events: done",
    .examples = "  holdfast ack mailer \"$lease\"\n"
                "  holdfast ack mailer \"$lease\" 17 18\n",
    .details = ALL_LEFT,
    .words_min = 2,
    .words_max = ARGS_WORDS_MAX,
    .run = run_ack,
};

const struct command command_nack = {
    .name = "nack",
    .usage = "SUB LEASE [POSITION...]",
    .word_names = "subscriptions",
    .summary = "settles claimed events: failed, to be tried again or dead",
    .examples = "  holdfast nack mailer \"$lease\" --error 'smtp says 451'\n"
                "  holdfast nack mailer \"$lease\" 17 --delay 5m\n",
    .details = ALL_LEFT,
    .options = nack_options,
    .words_min = 2,
    .words_max = ARGS_WORDS_MAX,
    .run = run_nack,
};

const struct command command_release = {
    .name = "release",
    .usage = "SUB LEASE [POSITION...]",
    .word_names = "subscriptions",
    .summary = "gives claimed events back; the attempt does not count",
    .examples = "  holdfast release mailer \"$lease\"\n"
                "  holdfast release mailer \"$lease\" 17 --delay 10m\n",
    .details = ALL_LEFT,
    .options = release_options,
    .words_min = 2,
    .words_max = ARGS_WORDS_MAX,
    .run = run_release,
};

const struct command command_bury = {
    .name = "bury",
    .usage = "SUB LEASE [POSITION...]",
    .word_names = "subscriptions",
    .summary = "makes claimed events dead letters now",
    .examples = "  holdfast bury mailer \"$lease\" 17 --error 'no such address'\n",
    .details = ALL_LEFT,
    .options = bury_options,
    .words_min = 2,
    .words_max = ARGS_WORDS_MAX,
    .run = run_bury,
};

const struct command command_touch = {
    .name = "touch",
    .usage = "SUB LEASE",
    .word_names = "subscriptions",
    .summary = "makes a lease last longer",
    .examples = "  holdfast touch mailer \"$lease\" --lease 5m\n",
    .details = "Exits with 4 if the lease has ended.\n",
    .options = touch_options,
    .words_min = 2,
    .words_max = 2,
    .run = run_touch,
};
