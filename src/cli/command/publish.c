/*
 * publish.c - the command `publish`: one event from the command line, or a file of them.
 */
#include "base/banned.h"
#include "base/mem.h"
#include "base/text/json_check.h"
#include "base/text/utf8.h"
#include "cli/command/import.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/core/moment.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"

#define TEXT_JSON_BYTES_MAX (CLI_PAYLOAD_BYTES_MAX * (size_t)6 + 2) /* each byte as \\u00XX */
#define UNIQUE_MS_MAX (INT64_C(86400000) * 366)
#define DELAY_MS_MAX (INT64_C(86400000) * 366 * 1000)

static const struct option_row options[] = {
    {"key", 0, OPTION_TEXT, "KEY", NULL, 0, 0, "ordering key: a user, an account, a stream"},
    {"tenant", 0, OPTION_TEXT, "TENANT", NULL, 0, 0, "what partitions are hashed by"},
    {"id", 0, OPTION_TEXT, "UUID", NULL, 0, 0, "the event's id; the same id is stored only once"},
    {"metadata", 0, OPTION_TEXT, "JSON", NULL, 0, 0, "a JSON object to go with the event"},
    {"producer", 0, OPTION_TEXT, "NAME", NULL, 0, 0, "name of the publisher (HOST:PID)"},
    {"emitted-at", 0, OPTION_MOMENT, "TIME", NULL, 0, 0, "when it happened (now)"},
    {"delay", 0, OPTION_DURATION, "TIME", NULL, 0, DELAY_MS_MAX,
     "keep it, and let it enter the log so much later (10m, 1h30m, 2w)"},
    {"at", 0, OPTION_TIME, "TIME", NULL, 0, 0,
     "the same, at this time: 18:00, 2026-11-20, '2026-11-20 18:00' (local), "
     "2026-11-20T17:00:00Z"},
    {"expect-version", 0, OPTION_NUMBER, "N", NULL, 0, INT64_MAX,
     "publish only if the key's version is N; 0: the key is new"},
    {"unique", 0, OPTION_TEXT, "KEY", NULL, 0, 0,
     "store it only if no other event has this key: within --unique-for, or waiting"},
    {"unique-for", 0, OPTION_DURATION, "TIME", NULL, 1, UNIQUE_MS_MAX,
     "how long the key of --unique counts (as long as it waits, with --delay or --at)"},
    {"replace", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "take the place of the event with this --unique that waits for its time"},
    {"text", 0, OPTION_TEXT, "TEXT", NULL, 0, 0,
     "the payload is this text (- is stdin), as a JSON string"},
    {"payload-file", 0, OPTION_TEXT, "FILE", NULL, 0, 0, "the payload is the JSON of this file"},
    {"file", 'f', OPTION_TEXT, "FILE", NULL, 0, 0,
     "publish the events of a file (- is stdin), one JSON object per line"},
    {"from-line", 0, OPTION_NUMBER, "N", NULL, 1, INT64_MAX,
     "begin with this line of the file (1)"},
    {"payload-max", 0, OPTION_SIZE, "SIZE", NULL, 1, CLI_PAYLOAD_BYTES_MAX,
     "the largest payload (1M)"},
    {"durability", 0, OPTION_CHOICE, "WHAT", "power|process", 0, 0,
     "what the event survives once published: power loss, or only a crash (power)"},
    OPTION_END,
};

/* A time may have been meant for another zone or day, so the answer says when it is. */
static void say_when(const struct cli *cli, int64_t at_us)
{
    char when[OUT_WORDS_BYTES];
    char local[MOMENT_BYTES];

    if (at_us <= cli->started_at_us) {
        out_say("It is due: it enters the log when a process brings it (`holdfast tick`).");
        return;
    }
    out_say("It enters the log %s, at %s.", out_when(at_us, cli->started_at_us, when),
            moment_format(at_us, local));
}

/* What goes with the event, and the memory that it may need. */
struct payload {
    const char *bytes;
    size_t length;
    char *owned;
    struct buf text; /* --text as JSON */
};

static void payload_release(struct payload *payload)
{
    mem_free(payload->owned);
    buf_release(&payload->text);
}

/* The payload by --text: a JSON string. */
static bool quote_text(struct payload *payload)
{
    struct text text = {payload->bytes, payload->length};
    struct json_out json;

    if (!utf8_is_valid(text)) {
        out_complain("--text is not UTF-8 from byte %zu on", utf8_valid_bytes(text));
        return false;
    }
    buf_init(&payload->text, TEXT_JSON_BYTES_MAX);
    json_out_init(&json, &payload->text);
    json_string(&json, text);
    if (buf_status(&payload->text)) {
        out_complain("out of memory for --text");
        return false;
    }
    payload->bytes = payload->text.bytes;
    payload->length = payload->text.length;
    return true;
}

/* False: it could not be had, which was explained. */
static bool get_payload(const struct args *args, struct payload *payload)
{
    const char *text = args_text(args, "text");
    const char *file = args_text(args, "payload-file");
    const char *word = text ? text : args->word_count > 1 ? args->words[1] : NULL;

    if (file) {
        return cli_payload_file(file, &payload->bytes, &payload->length, &payload->owned);
    }
    if (!word) {
        return true;
    }
    return cli_payload(word, &payload->bytes, &payload->length, &payload->owned) &&
           (!text || quote_text(payload));
}

/* A word that is no JSON is usually meant as a text. What was refused may be something else. */
static void hint_at_text(const struct args *args)
{
    const char *word = args->word_count > 1 ? args->words[1] : "";

    if (word[0] && !strchr("{[\"-", word[0]) &&
        json_check(word, strlen(word), NULL, "payload") != HF_OK) {
        out_hint("JSON is quoted for the shell: '{\"n\": 1}', '\"a text\"'; "
                 "a plain text is --text TEXT");
    }
}

static int publish_one(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_new_event event = HF_NEW_EVENT_INIT;
    hf_receipt receipt;
    hf_place emitted_at, at;
    int64_t due_us;
    hf_status status;
    struct payload payload = {0};

    event.type = args->words[0];
    event.id = args_text(args, "id");
    event.key = args_text(args, "key");
    event.tenant = args_text(args, "tenant");
    event.metadata = args_text(args, "metadata");
    event.producer = args_text(args, "producer");
    event.expected_version = args_number(args, "expect-version", -1);
    if (args_place(args, "emitted-at", &emitted_at) && emitted_at.kind == HF_PLACE_TIME) {
        event.emitted_at_us = emitted_at.value;
    }
    if (args_given(args, "delay")) {
        event.deliver_at_us = cli->started_at_us + args_number(args, "delay", 0) * 1000;
    }
    if (args_place(args, "at", &at)) {
        event.deliver_at_us = at.value;
    }
    event.unique = args_text(args, "unique");
    event.unique_for_ms = args_number(args, "unique-for", -1);
    event.replace = args_given(args, "replace");
    if (!get_payload(args, &payload)) {
        payload_release(&payload);
        return EXIT_ERROR;
    }
    event.payload = payload.bytes;
    event.payload_bytes = payload.length;
    status = hf_publish(cli->bus, &event, &receipt);
    payload_release(&payload);
    if (status) {
        int code = cli_fail(status);
        if (status == HF_INVALID) {
            hint_at_text(args);
        }
        return code;
    }
    due_us = receipt_due_us(cli->bus, &receipt, event.deliver_at_us);
    show_receipt_line(cli->json, &receipt, due_us);
    if (due_us != -1) {
        say_when(cli, due_us);
    }
    return EXIT_OK;
}

static int check_unique(const struct args *args)
{
    bool later = args_given(args, "at") || args_given(args, "delay");

    if (!args_given(args, "unique")) {
        return args_given(args, "unique-for") || args_given(args, "replace")
                   ? args_usage(args, "--unique-for and --replace are about a key: name it "
                                      "(--unique)")
                   : 0;
    }
    if (!later && args_given(args, "replace")) {
        return args_usage(args, "--replace is for an event that waits: give --delay or --at");
    }
    if (!later && !args_given(args, "unique-for")) {
        return args_usage(args, "--unique needs --unique-for: how long the key counts");
    }
    return 0;
}

static int check_one(const struct args *args)
{
    if (args->word_count == 0) {
        return args_usage(args, "TYPE is missing: holdfast publish TYPE [JSON|-]");
    }
    if (args->word_count == 1 && args->words[0][0] && strchr("{[\"", args->words[0][0])) {
        return args_usage(args,
                          "'%.40s' looks like a payload, and the TYPE is missing: "
                          "holdfast publish TYPE [JSON|-]",
                          args->words[0]);
    }
    if (args_given(args, "from-line")) {
        return args_usage(args, "--from-line goes with --file");
    }
    if ((args->word_count > 1) + args_given(args, "text") + args_given(args, "payload-file") > 1) {
        return args_usage(args, "the payload is a word, --text or --payload-file; give one");
    }
    if (args_given(args, "expect-version") && !args_given(args, "key")) {
        return args_usage(args, "--expect-version is about the version of a key: name it (--key)");
    }
    if (args_given(args, "at") && args_given(args, "delay")) {
        return args_usage(args, "--at and --delay say when it enters the log; give one");
    }
    return check_unique(args);
}

/* Options that belong to one event make no sense for a file of them. */
static int check_file(const struct args *args)
{
    static const char *const single[] = {
        "key",   "tenant", "id",   "metadata",     "producer", "emitted-at", "expect-version",
        "delay", "at",     "text", "payload-file", "unique",   "unique-for", "replace"};

    if (args->word_count > 0) {
        return args_usage(args, "with --file the types come from the file, not from '%s'",
                          args->words[0]);
    }
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        if (args_given(args, single[i])) {
            return args_usage(args, "--%s does not go with --file: it is a field of each line",
                              single[i]);
        }
    }
    return 0;
}

static int run_publish(struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_options open_options = cli_options(cli, HF_OPEN_CREATE);
    bool is_file = args_given(args, "file");
    int code = is_file ? check_file(args) : check_one(args);

    if (code) {
        return code;
    }
    open_options.payload_bytes_max = args_number(args, "payload-max", -1);
    open_options.brief = 1;
    open_options.durability = (hf_durability)args_number(args, "durability", 0);
    if (is_file) {
        return import_file(cli, &open_options, args_text(args, "file"),
                           args_number(args, "from-line", 1));
    }
    code = cli_open_with(cli, &open_options);
    return code ? code : publish_one(cli);
}

const struct command command_publish = {
    .name = "publish",
    .usage = "TYPE [JSON|-]",
    .summary = "publishes events; prints position and id when durable",
    .examples = "  holdfast publish user.created '{\"id\": 1}' --key user-1\n"
                "  echo '{\"total\": 12.50}' | holdfast publish order.placed -\n"
                "  holdfast publish account.opened '{}' --key acc-7 --expect-version 0\n"
                "  holdfast publish report.due --unique report --unique-for 10m\n"
                "  holdfast publish page.changed --unique page-7 --replace --delay 5m\n"
                "  holdfast publish --file events.ndjson\n"
                "  holdfast tail --from start --json | holdfast publish --file - --db copy.db\n",
    .details = "Without JSON the payload is null. A line of --file is an object with the fields\n"
               "type and payload, and optionally id, key, tenant, metadata, producer,\n"
               "emitted_at, expected_version, unique, unique_for (10m), deliver_at (a time) and\n"
               "replace (true). Lines are published in order, 1000 in one transaction; one with\n"
               "deliver_at in one of its own.\n",
    .options = options,
    .words_max = 2,
    .run = run_publish,
};
