/*
 * namespace.c - the commands about namespaces: `namespace create`, `list`, `show`, `set`, `rm`,
 * `grant`, `revoke`, `grants`.
 *
 * They open the database as a whole, so none of them makes a namespace in passing, and the last one
 * can be removed, too. rm loses everything that is in it: it asks, and says how much that is.
 */
#include "base/banned.h"
#include "base/text/json_read.h"
#include "cli/config/schedule_options.h"
#include "cli/core/args_value.h"
#include "cli/core/cli.h"
#include "cli/core/commands.h"
#include "cli/terminal/out.h"
#include "cli/terminal/show.h"
#include "cli/terminal/table.h"

#define GRANT_BYTES_MAX 1048576

/* ---- create, set ----------------------------------------------------------------------------- */

static hf_namespace_options read_options(const struct args *args)
{
    hf_namespace_options options = HF_NAMESPACE_OPTIONS_INIT;

    options.metadata_json = args_text(args, "metadata");
    options.retention_ms = args_number(args, "retain-age", -1);
    options.retention_bytes = args_number(args, "retain-bytes", -1);
    options.lagging = (hf_lagging)args_number(args, "lagging", HF_LAGGING_DEFAULT);
    options.type_index = (hf_toggle)args_number(args, "type-index", HF_TOGGLE_DEFAULT);
    return options;
}

/* Whether the command line says something about the settings that create and set share. */
static bool says_settings(const hf_namespace_options *options)
{
    return options->metadata_json || options->retention_ms >= 0 || options->retention_bytes >= 0 ||
           options->lagging != HF_LAGGING_DEFAULT || options->type_index != HF_TOGGLE_DEFAULT;
}

static int run_create(struct cli *cli)
{
    const char *name = cli->args.words[0];
    hf_namespace_options options = read_options(&cli->args);
    int32_t created = 0;
    int code;

    options.gapless = args_given(&cli->args, "gapless") ? HF_ON : HF_TOGGLE_DEFAULT;
    code = cli_open_whole(cli, HF_OPEN_CREATE);
    if (!code) {
        code = cli_fail(hf_namespace_create(cli->bus, name, &options, &created));
    }
    if (code) {
        return code;
    }
    if (!cli->json) {
        out_say("Namespace %s %s.", name,
                created                   ? "created"
                : says_settings(&options) ? "changed"
                                          : "exists");
        return EXIT_OK;
    }
    show_created(name, created != 0);
    return EXIT_OK;
}

#define OPTION_METADATA                                                                            \
    {                                                                                              \
        "metadata", 0, OPTION_TEXT, "JSON", NULL, 0, 0, "an object that is kept with it"           \
    }

/* What create and set have in common. */
#define OPTION_RETENTION RETENTION_OPTION_AGE, RETENTION_OPTION_BYTES, RETENTION_OPTION_LAGGING

#define OPTION_TYPE_INDEX                                                                          \
    {                                                                                              \
        "type-index", 0, OPTION_CHOICE, "WHAT", "off|on", 0, 0,                                    \
            "find events of rare types without reading the log (off); publishing pays for it"      \
    }

static const struct option_row create_options[] = {
    OPTION_METADATA,
    OPTION_RETENTION,
    OPTION_TYPE_INDEX,
    {"gapless", 0, OPTION_FLAG, NULL, NULL, 0, 0,
     "leave no position out; on PostgreSQL publishers then wait for each other"},
    OPTION_END,
};

const struct command command_namespace_create = {
    .name = "namespace create",
    .usage = "NAME",
    .word_names = "namespaces",
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

    if (!says_settings(&options)) {
        return args_usage(&cli->args, "set what? --metadata, --retain-age, --retain-bytes, "
                                      "--lagging or --type-index");
    }
    code = cli_open_whole(cli, HF_OPEN_EXISTING);
    if (code) {
        return code;
    }
    code = cli_fail(hf_namespace_set(cli->bus, cli->args.words[0], &options));
    if (!code && cli->json) {
        show_changed(cli->args.words[0], "changed", true);
    }
    return code;
}

static const struct option_row set_options[] = {OPTION_METADATA, OPTION_RETENTION,
                                                OPTION_TYPE_INDEX, OPTION_END};

const struct command command_namespace_set = {
    .name = "namespace set",
    .usage = "NAME",
    .word_names = "namespaces",
    .summary = "changes the settings of a namespace",
    .examples = "  holdfast namespace set shop --metadata '{\"team\": \"web\"}'\n"
                "  holdfast namespace set shop --retain-age 30d --retain-bytes 10GiB\n"
                "  holdfast namespace set shop --type-index on\n",
    .details = "Older events go, but never those that a subscription has not finished, unless\n"
               "--lagging is drop. PostgreSQL removes whole months. See holdfast retention run.\n"
               "With --type-index on, event list --type and tail PATTERN find rare types fast,\n"
               "and so do subscriptions that are far behind.\n"
               "The command builds the index, beside publishers; if it is cut off, run it again.\n",
    .options = set_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_set,
};

/* ---- list, show ------------------------------------------------------------------------------ */

static void print_json(const hf_namespace_info *info)
{
    struct show_line line;

    show_namespace(show_line_begin(&line), info);
    show_line_end(&line);
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
    out_table_cell(&list->table, info->removing_at_us != -1 ? "being removed"
                                 : info->copying            ? "being copied"
                                                            : "");
    out_table_mark(&list->table, OUT_YELLOW);
    out_table_cell(&list->table, out_number(info->head, words));
    out_table_cell(&list->table, out_number(info->subscriptions, words));
    out_table_cell(&list->table, info->type_index);
    out_table_cell(&list->table, out_ago(info->created_at_us, list->cli->started_at_us, words));
    return out_failed();
}

static int run_list(struct cli *cli)
{
    static const struct out_column columns[] = {
        {"NAME", false, 48, 0},        {"STATE", false, 0, 0},      {"HEAD", true, 0, 0},
        {"SUBSCRIPTIONS", true, 0, 0}, {"TYPE INDEX", false, 0, 1}, {"CREATED", false, 0, 0},
    };
    struct list list = {.cli = cli};
    int code = cli_open_whole(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    out_table_init(&list.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_namespace_list(cli->bus, list_one, &list));
    out_table_end(&list.table);
    if (!code && !cli->json && out_table_was_empty(&list.table)) {
        out_say("No namespaces. `holdfast namespace create` makes one.");
    }
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
    if (info->removing_at_us != -1) {
        show_field("removing since", out_time(info->removing_at_us, words));
    }
    if (info->copying) {
        show_field("being copied", "it is the target of a copy that is not complete");
    }
    show_field("head", out_number(info->head, words));
    show_field("subscriptions", out_number(info->subscriptions, words));
    show_field("gapless", info->gapless ? "yes" : "no");
    show_field("retained",
               info->retention_ms == 0 ? "for ever" : out_duration(info->retention_ms, words));
    if (info->retention_bytes > 0) {
        show_field("up to", out_bytes(info->retention_bytes, words));
    }
    show_field("lagging", info->lagging == HF_LAGGING_DROP ? "drop" : "keep");
    show_field("type index", info->type_index);
    show_field("created", out_time(info->created_at_us, words));
    show_field("metadata", info->metadata_json);
    return 0;
}

static int run_show(struct cli *cli)
{
    int code = cli_open_whole(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    return cli_fail(hf_namespace_get(cli->bus, cli->args.words[0], show_one, cli));
}

const struct command command_namespace_show = {
    .name = "namespace show",
    .usage = "NAME",
    .word_names = "namespaces",
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
    int code = cli_open_whole(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(hf_namespace_get(cli->bus, name, note_contents, &contents));
    }
    if (code) {
        return code;
    }
    code = cli_confirm(cli,
                       "Remove namespace %s for ever, with its log up to position %s, its dead "
                       "letters and %" PRId64 " subscriptions",
                       name, out_number(contents.head, head), contents.subscriptions);
    if (code) {
        return code;
    }
    status = hf_namespace_remove(cli->bus, name, args_given(args, "force") ? HF_ON : HF_OFF);
    code = cli_fail(status);
    if (status == HF_CONFLICT) {
        out_hint("Stop them first, or repeat with --force.");
    }
    if (!code && cli->json) {
        show_changed(name, "removed", true);
    } else if (!code) {
        out_say("Namespace %s removed.", name);
    }
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
    .word_names = "namespaces",
    .summary = "removes a namespace and everything that is in it",
    .examples = "  holdfast namespace rm trial\n"
                "  holdfast namespace rm trial --yes --force\n",
    .details = "Goes in small steps, so that publishers of other namespaces do not wait. If it\n"
               "is interrupted, the namespace cannot be opened any more; repeat it to go on.\n",
    .options = rm_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
};

/* ---- grant, revoke, grants ------------------------------------------------------------------- */

typedef hf_status grant_fn(hf_bus *bus, const char *name, const char *role, const char *grantee,
                           int32_t *ret_changed);

static int change_grant(struct cli *cli, grant_fn *change, const char *done, const char *was_so)
{
    const char *const *words = cli->args.words;
    int32_t changed = 0;
    int code = cli_open_whole(cli, HF_OPEN_EXISTING);

    if (!code) {
        code = cli_fail(change(cli->bus, words[1], words[0], words[2], &changed));
    }
    if (!code && cli->json) {
        show_granted(words, change == hf_namespace_grant, changed != 0);
    } else if (!code) {
        out_say("%s %s %s of namespace %s.", words[2], changed ? done : was_so, words[0], words[1]);
    }
    return code;
}

static int run_grant(struct cli *cli)
{
    return change_grant(cli, hf_namespace_grant, "is now", "is already");
}

static int run_revoke(struct cli *cli)
{
    return change_grant(cli, hf_namespace_revoke, "is no longer", "was not");
}

const struct command command_namespace_grant = {
    .name = "namespace grant",
    .usage = "ROLE NAMESPACE DBROLE",
    .summary = "lets a role of the PostgreSQL server work in a namespace",
    .examples = "  holdfast namespace grant publisher shop web\n"
                "  holdfast namespace grant consumer shop mailer\n",
    .details = "ROLE is one of\n"
               "  viewer     reads the log, subscriptions, dead letters and numbers\n"
               "  publisher  publishes, now or later, makes schedules; does not read the log\n"
               "  consumer   reads, subscribes, delivers, resolves dead letters\n"
               "  owner      all of these\n"
               "DBROLE and its members may do that in this namespace and nothing in any other.\n"
               "For the owner of the schema; PostgreSQL 15 or newer.\n",
    .words_min = 3,
    .words_max = 3,
    .run = run_grant,
};

const struct command command_namespace_revoke = {
    .name = "namespace revoke",
    .usage = "ROLE NAMESPACE DBROLE",
    .summary = "takes back what was granted",
    .examples = "  holdfast namespace revoke consumer shop mailer\n",
    .words_min = 3,
    .words_max = 3,
    .run = run_revoke,
};

/* One of [{"role", "to"}, ...] as a row, or as a line of JSON. */
static void list_grant(struct list *list, struct text grant, struct buf *text)
{
    static const char *const keys[] = {"role", "to"};
    struct show_line line;
    struct json_out *json = show_line_begin(&line);

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        buf_clear(text);
        json_find_string(grant, keys[i], text);
        if (list->cli->json) {
            show_string(json, keys[i], buf_terminate(text));
        } else {
            out_table_cell(&list->table, buf_terminate(text));
        }
    }
    if (list->cli->json) {
        show_line_end(&line);
    } else {
        show_line_drop(&line);
    }
}

static int list_grants(const hf_namespace_info *info, void *ctx)
{
    struct list *list = ctx;
    struct json_iter iter;
    struct text grant;
    struct buf text;

    if (!info->grants_json) {
        return 0;
    }
    buf_init(&text, GRANT_BYTES_MAX);
    if (json_iter_init(&iter, text_of(info->grants_json))) {
        while (json_iter_next(&iter, NULL, &grant)) {
            list_grant(list, grant, &text);
        }
    }
    buf_release(&text);
    return out_failed();
}

static int run_grants(struct cli *cli)
{
    static const struct out_column columns[] = {{"ROLE", false, 0, 0}, {"TO", false, 0, 0}};
    struct list list = {.cli = cli};
    int code = cli_open_whole(cli, HF_OPEN_NOMIGRATE);

    if (code) {
        return code;
    }
    out_table_init(&list.table, columns, sizeof columns / sizeof columns[0]);
    code = cli_fail(hf_namespace_get(cli->bus, cli->args.words[0], list_grants, &list));
    out_table_end(&list.table);
    if (!code && !cli->json && out_table_was_empty(&list.table)) {
        out_say("No grants.");
    }
    return code;
}

const struct command command_namespace_grants = {
    .name = "namespace grants",
    .usage = "NAME",
    .word_names = "namespaces",
    .summary = "shows which roles may do what in a namespace",
    .examples = "  holdfast namespace grants shop\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_grants,
};
