/*
 * namespace.c - the commands about namespaces: `namespace create`, `list`, `show`, `set`, `rm`.
 *
 * They open the database as a whole, so none of them makes a namespace in passing, and the last one
 * can be removed, too. rm loses everything that is in it: it asks, and says how much that is.
 */
#include "base/banned.h"
#include "cli/args_value.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/show.h"
#include "cli/table.h"

#define LINE_BYTES_MAX 1048576
#define RETAIN_AGE_MAX_MS (INT64_C(86400000) * 366 * 1000)

static int open_whole(struct cli *cli, hf_open_mode mode)
{
    hf_options options = cli_options(cli, mode);

    options.namespace_name = NULL;
    options.no_namespace = 1;
    return cli_open_with(cli, &options);
}

/* ---- create, set ----------------------------------------------------------------------------- */

static hf_namespace_options read_options(const struct args *args)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;

    options.metadata_json = args_text(args, "metadata");
    options.retention_ms = args_number(args, "retain-age", -1);
    options.retention_bytes = args_number(args, "retain-bytes", -1);
    options.lagging = (hf_lagging)args_number(args, "lagging", HF_LAGGING_DEFAULT);
    return options;
}

static int run_create(struct cli *cli)
{
    const char *name = cli->args.words[0];
    hf_namespace_options options = read_options(&cli->args);
    int32_t created = 0;
    int code;

    options.gapless = args_given(&cli->args, "gapless") ? HF_ON : HF_TOGGLE_DEFAULT;
    code = open_whole(cli, HF_OPEN_CREATE);
    if (!code)
        code = cli_fail(hf_namespace_create(cli->bus, name, &options, &created));
    if (code)
        return code;
    if (!cli->json) {
        out_say("Namespace %s %s.", name, created ? "created" : "exists");
        return EXIT_OK;
    }
    show_created(name, created != 0);
    return EXIT_OK;
}

#define OPTION_METADATA                                                                            \
    {"metadata", 0, OPTION_TEXT, "JSON", NULL, 0, 0, "an object that is kept with it"}

#define LAGGING_CHOICES "keep|drop"

/* What create and set have in common. */
#define OPTION_RETENTION                                                                           \
    {"retain-age", 0, OPTION_DURATION, "TIME", NULL, 0, RETAIN_AGE_MAX_MS,                         \
     "how long events stay (184d); 0: for ever"},                                                  \
        {"retain-bytes", 0, OPTION_SIZE, "BYTES", NULL, 0, INT64_MAX,                              \
         "how large the log may become; 0: no limit"},                                             \
        {"lagging", 0, OPTION_CHOICE, "WHAT", LAGGING_CHOICES, 0, 0,                               \
         "what becomes of old events that a subscription has not finished (keep)"}

static const struct option_row create_options[] = {
    OPTION_METADATA,
    OPTION_RETENTION,
    {"gapless", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "leave no position out; on PostgreSQL publishers then wait for each other"},
    OPTION_END,
};

const struct command command_namespace_create = {
    .name = "namespace create",
    .usage = "NAME",
    .summary = "makes a namespace, and the database if it is missing",
    .examples = "  holdfast namespace create shop\n"
                "  holdfast namespace create ledger --gapless --metadata '{\"team\": \"money\"}'\n",
    .details = "Publishing makes a missing namespace by itself; this makes one with settings. Of\n"
               "one that exists, what is given replaces what is stored.\n",
    .options = create_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_create,
};

static int run_set(struct cli *cli)
{
    hf_namespace_options options = read_options(&cli->args);
    int code;

    if (!options.metadata_json && options.retention_ms < 0 && options.retention_bytes < 0 &&
        options.lagging == HF_LAGGING_DEFAULT)
        return args_usage(&cli->args, "set what? --metadata, --retain-age, --retain-bytes or "
                                      "--lagging");
    code = open_whole(cli, HF_OPEN_EXISTING);
    if (code)
        return code;
    return cli_fail(hf_namespace_set(cli->bus, cli->args.words[0], &options));
}

static const struct option_row set_options[] = {OPTION_METADATA, OPTION_RETENTION, OPTION_END};

const struct command command_namespace_set = {
    .name = "namespace set",
    .usage = "NAME",
    .summary = "changes the settings of a namespace",
    .examples = "  holdfast namespace set shop --metadata '{\"team\": \"web\"}'\n"
                "  holdfast namespace set shop --retain-age 30d --retain-bytes 10GiB\n",
    .details = "Older events go, but never those that a subscription has not finished, unless\n"
               "--lagging is drop. PostgreSQL removes whole months. See holdfast retention run.\n",
    .options = set_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_set,
};

/* ---- list, show ------------------------------------------------------------------------------ */

static void print_json(const hf_namespace_info *info)
{
    struct buf line;
    struct json_out json;

    buf_init(&line, LINE_BYTES_MAX);
    json_out_init(&json, &line);
    json_object_begin(&json);
    show_string(&json, "name", info->name);
    show_int(&json, "head", info->head);
    show_int(&json, "subscriptions", info->subscriptions);
    show_bool(&json, "gapless", info->gapless != 0);
    show_int(&json, "retention_ms", info->retention_ms);
    show_int(&json, "retention_bytes", info->retention_bytes);
    show_choice(&json, "lagging", LAGGING_CHOICES, (int)info->lagging);
    show_time(&json, "created_at", info->created_at_us);
    show_time(&json, "removing_at", info->removing_at_us);
    show_raw(&json, "metadata", info->metadata_json,
             info->metadata_json ? strlen(info->metadata_json) : 0);
    json_object_end(&json);
    out_json_line(&line);
    buf_release(&line);
}

struct list {
    const struct cli *cli;
    struct out_table table;
};

static int list_one(const hf_namespace_info *info, void *ctx)
{
    struct list *list = ctx;
    char words[OUT_WORDS_BYTES];

    if (list->cli->json) {
        print_json(info);
        return out_failed();
    }
    out_table_cell(&list->table, info->name);
    out_table_cell(&list->table, info->removing_at_us == -1 ? "" : "being removed");
    out_table_cell(&list->table, out_number(info->head, words));
    out_table_cell(&list->table, out_number(info->subscriptions, words));
    out_table_cell(&list->table, out_ago(info->created_at_us, list->cli->started_at_us, words));
    return out_failed();
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"NAME", false, 0},         {"STATE", false, 0},   {"HEAD", true, 0},
        {"SUBSCRIPTIONS", true, 0}, {"CREATED", false, 0},
    };
    struct list list = {.cli = cli};
    int code = open_whole(cli, HF_OPEN_EXISTING);

    if (code)
        return code;
    out_table_init(&list.table, columns, sizeof(columns) / sizeof(columns[0]));
    code = cli_fail(hf_namespace_list(cli->bus, list_one, &list));
    out_table_end(&list.table);
    return code;
}

const struct command command_namespace_list = {
    .name = "namespace list",
    .usage = "",
    .summary = "lists the namespaces of the database",
    .examples = "  holdfast namespace list\n"
                "  holdfast namespace list --json | jq -r .name\n",
    .run = run_list,
};

static int show_one(const hf_namespace_info *info, void *ctx)
{
    const struct cli *cli = ctx;
    char words[OUT_WORDS_BYTES];

    if (cli->json) {
        print_json(info);
        return 0;
    }
    show_field("name", info->name);
    if (info->removing_at_us != -1)
        show_field("removing since", out_time(info->removing_at_us, words));
    show_field("head", out_number(info->head, words));
    show_field("subscriptions", out_number(info->subscriptions, words));
    show_field("gapless", info->gapless ? "yes" : "no");
    show_field("retained", info->retention_ms == 0 ? "for ever"
                                                   : out_duration(info->retention_ms, words));
    if (info->retention_bytes > 0)
        show_field("up to", out_bytes(info->retention_bytes, words));
    show_field("lagging", info->lagging == HF_LAGGING_DROP ? "drop" : "keep");
    show_field("created", out_time(info->created_at_us, words));
    show_field("metadata", info->metadata_json);
    return 0;
}

static int run_show(struct cli *cli)
{
    int code = open_whole(cli, HF_OPEN_EXISTING);

    if (code)
        return code;
    return cli_fail(hf_namespace_get(cli->bus, cli->args.words[0], show_one, cli));
}

const struct command command_namespace_show = {
    .name = "namespace show",
    .usage = "NAME",
    .summary = "shows one namespace",
    .examples = "  holdfast namespace show shop\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};

/* ---- rm -------------------------------------------------------------------------------------- */

struct contents {
    int64_t head;
    int64_t subscriptions;
};

static int note_contents(const hf_namespace_info *info, void *ctx)
{
    struct contents *contents = ctx;

    contents->head = info->head;
    contents->subscriptions = info->subscriptions;
    return 0;
}

static int run_rm(struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *name = args->words[0];
    struct contents contents = {0, 0};
    char head[OUT_WORDS_BYTES];
    hf_status status;
    int code = open_whole(cli, HF_OPEN_EXISTING);

    if (!code)
        code = cli_fail(hf_namespace_get(cli->bus, name, note_contents, &contents));
    if (code)
        return code;
    code = cli_confirm(cli,
                       "Remove namespace %s for ever, with its log up to position %s, its dead "
                       "letters and %" PRId64 " subscriptions",
                       name, out_number(contents.head, head), contents.subscriptions);
    if (code)
        return code;
    status = hf_namespace_remove(cli->bus, name, args_given(args, "force") ? HF_ON : HF_OFF);
    code = cli_fail(status);
    if (status == HF_CONFLICT)
        out_hint("Stop them first, or repeat with --force.");
    if (!code)
        out_say("Namespace %s removed.", name);
    return code;
}

static const struct option_row rm_options[] = {
    {"force", 0, OPTION_FLAG, NULL, NULL, 0, 0, "also while processes have it open"},
    CLI_OPTION_YES,
    OPTION_END,
};

const struct command command_namespace_rm = {
    .name = "namespace rm",
    .usage = "NAME",
    .summary = "removes a namespace and everything that is in it",
    .examples = "  holdfast namespace rm trial\n"
                "  holdfast namespace rm trial --yes --force\n",
    .details = "Goes in small steps, so that publishers of other namespaces do not wait. If it is\n"
               "interrupted, the namespace cannot be opened any more; repeat it to go on.\n",
    .options = rm_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
};
