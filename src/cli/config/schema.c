/*
 * schema.c - the table of keys. See schema.h.
 *
 * A key of the database, of a schedule, of retention, of `serve`, or one of the few of a
 * subscription that are no option of it, is a row here. All others come from suboptions_fields,
 * behind the rows of the subscription, in its order. Kind, limits, choices and help of a key that
 * is also an option of the command line are those of the option.
 */
#include "cli/config/schema.h"

#include "base/banned.h"
#include "cli/config/schedule_options.h"
#include "cli/config/serve_options.h"
#include "cli/config/webhook_options.h"
#include "cli/config/work_options.h"
#include "cli/core/args_value.h"
#include "cli/webhook/network.h"

#include <assert.h>

static const struct option_row row_pattern = SUBOPTIONS_PATTERNS;
static const struct option_row row_exec = WORK_OPTION_EXEC;
static const struct option_row row_output = WORK_OPTION_OUTPUT;
static const struct option_row row_partition = WORK_OPTION_PARTITION;
static const struct option_row row_total = WORK_OPTION_TOTAL;
static const struct option_row row_drain = WORK_OPTION_DRAIN;
static const struct option_row row_node = WORK_OPTION_NODE;
static const struct option_row row_node_id = WORK_OPTION_NODE_ID;
static const struct option_row row_node_description = WORK_OPTION_NODE_DESCRIPTION;
static const struct option_row row_node_metadata = WORK_OPTION_NODE_METADATA;
static const struct option_row row_heartbeat = WORK_OPTION_HEARTBEAT;

static const struct option_row row_http = WEBHOOK_OPTION_URL;
static const struct option_row row_http_format = WEBHOOK_OPTION_FORMAT;
static const struct option_row row_http_timeout = WEBHOOK_OPTION_TIMEOUT;
static const struct option_row row_connect = WEBHOOK_OPTION_CONNECT;
static const struct option_row row_per_host = WEBHOOK_OPTION_PER_HOST;
static const struct option_row row_secret = WEBHOOK_OPTION_SECRET;
static const struct option_row row_ca = WEBHOOK_OPTION_CA;
static const struct option_row row_network = WEBHOOK_OPTION_NETWORK;
/* An option of the command line is on if it is there. */
static const struct option_row row_private = {"", 0, OPTION_CHOICE,       "WHAT", "off|on",
                                              0,  0, WEBHOOK_PRIVATE_HELP};

static const struct option_row row_url = {"db", 0, OPTION_TEXT, "URL", NULL, 0, 0, "the database"};
static const struct option_row row_url_file = {
    "", 0, OPTION_TEXT, "FILE", NULL, 0, 0, "a file whose content is the url, instead of url"};
static const struct option_row row_password_file = {
    "",   0, OPTION_TEXT, "FILE",
    NULL, 0, 0,           "a file whose content is the password that belongs to the url"};
static const struct option_row row_namespace = {"namespace", 0, OPTION_TEXT, "NAME",
                                                NULL,        0, 0,           "the namespace"};
static const struct option_row row_durability = {
    "",
    0,
    OPTION_CHOICE,
    "WHAT",
    "power|process",
    0,
    0,
    "what a commit survives: power loss, or only the crash of a process"};
static const struct option_row row_timeout = OPTION_DB_TIMEOUT;
static const struct option_row row_name = {"",   0, OPTION_TEXT, "NAME",
                                           NULL, 0, 0,           "the subscription's name"};
static const struct option_row row_from = {
    "from", 0, OPTION_PLACE, "PLACE", NULL, 0, 0, "where a new subscription starts"};

static const struct option_row row_schedule = {"",   0, OPTION_TEXT, "NAME",
                                               NULL, 0, 0,           "the schedule's name"};
static const struct option_row row_cron = {
    "",   0, OPTION_TEXT, "EXPRESSION",
    NULL, 0, 0,           "when it fires: five fields, or six with seconds"};
static const struct option_row row_type = {"",   0, OPTION_TEXT, "TYPE",
                                           NULL, 0, 0,           "the type of its events"};
static const struct option_row row_payload = {"",   0, OPTION_TEXT, "JSON",
                                              NULL, 0, 0,           "the payload of its events"};
static const struct option_row row_active = {
    "",
    0,
    OPTION_CHOICE,
    "WHAT",
    "off|on",
    0,
    0,
    "off: it is paused; on: a pause ends; if it is not said a pause stays what it is"};
static const struct option_row row_zone = SCHEDULE_OPTION_ZONE;
static const struct option_row row_key = SCHEDULE_OPTION_KEY;
static const struct option_row row_tenant = SCHEDULE_OPTION_TENANT;
static const struct option_row row_metadata = SCHEDULE_OPTION_METADATA;
static const struct option_row row_misfire = SCHEDULE_OPTION_MISFIRE;
static const struct option_row row_cap = SCHEDULE_OPTION_CAP;
static const struct option_row row_grace = SCHEDULE_OPTION_GRACE;
static const struct option_row row_driver = SCHEDULE_OPTION_DRIVER;
static const struct option_row row_age = RETENTION_OPTION_AGE;
static const struct option_row row_bytes = RETENTION_OPTION_BYTES;
static const struct option_row row_lagging = RETENTION_OPTION_LAGGING;

static const struct option_row row_listen = SERVE_OPTION_LISTEN;
static const struct option_row row_tokens = SERVE_OPTION_TOKENS;
static const struct option_row row_tls_cert = SERVE_OPTION_TLS_CERT;
static const struct option_row row_tls_key = SERVE_OPTION_TLS_KEY;
static const struct option_row row_hosts = SERVE_OPTION_HOST;
static const struct option_row row_threads = SERVE_OPTION_THREADS;
static const struct option_row row_body = SERVE_OPTION_BODY;
static const struct option_row row_connections = SERVE_OPTION_CONNECTIONS;
static const struct option_row row_per_address = SERVE_OPTION_PER_ADDRESS;
static const struct option_row row_streams = SERVE_OPTION_STREAMS;
static const struct option_row row_streams_each = SERVE_OPTION_STREAMS_EACH;
static const struct option_row row_request = SERVE_OPTION_REQUEST;
static const struct option_row row_log_format = SERVE_OPTION_LOG_FORMAT;
static const struct option_row row_audit = SERVE_OPTION_AUDIT;

static const struct config_key database_keys[] = {
    {"url", &row_url, "sqlite:holdfast.db", "db", "HOLDFAST_URL", NULL, CONFIG_TEXT_ANY, false,
     false},
    {"url_file", &row_url_file, NULL, NULL, NULL, NULL, CONFIG_TEXT_FILE, false, false},
    {"password_file", &row_password_file, NULL, NULL, NULL, NULL, CONFIG_TEXT_FILE, false, false},
    {"namespace", &row_namespace, "default", "namespace", "HOLDFAST_NAMESPACE", NULL,
     CONFIG_TEXT_NAMESPACE, false, false},
    {"node", &row_node, NULL, "node", NULL, NULL, CONFIG_TEXT_NODE, false, false},
    {"node_id", &row_node_id, NULL, "node-id", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"node_description", &row_node_description, NULL, "node-description", NULL, NULL,
     CONFIG_TEXT_ANY, false, false},
    {"node_metadata", &row_node_metadata, NULL, "node-metadata", NULL, NULL, CONFIG_TEXT_OBJECT,
     false, false},
    {"heartbeat", &row_heartbeat, "30s", "heartbeat", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"durability", &row_durability, "power", NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"timeout", &row_timeout, "10s", "db-timeout", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"drain", &row_drain, "30s", "drain", NULL, NULL, CONFIG_TEXT_ANY, false, false},
};

static const struct config_key subscription_keys[] = {
    {"name", &row_name, NULL, NULL, NULL, NULL, CONFIG_TEXT_SUBSCRIPTION, true, false},
    {"on", &row_pattern, NULL, "on", NULL, NULL, CONFIG_TEXT_PATTERN, true, true},
    {"from", &row_from, NULL, "from", NULL, NULL, CONFIG_TEXT_ANY, true, false},
    {"handler.exec", &row_exec, NULL, "exec", NULL, NULL, CONFIG_TEXT_COMMAND, false, true},
    {"handler.output", &row_output, NULL, "output", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"handler.http", &row_http, NULL, "http", NULL, NULL, CONFIG_TEXT_URL, false, false},
    {"handler.http_format", &row_http_format, "binary", "http-format", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"handler.http_timeout", &row_http_timeout, "30s", "http-timeout", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"handler.connect_timeout", &row_connect, "5s", "connect-timeout", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"handler.max_per_host", &row_per_host, "16", "max-per-host", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"handler.secret_file", &row_secret, NULL, "secret-file", NULL, NULL, CONFIG_TEXT_FILE, false,
     false},
    {"handler.ca_file", &row_ca, NULL, "ca-file", NULL, NULL, CONFIG_TEXT_FILE, false, false},
    {"handler.allow_private", &row_private, "off", "allow-private", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"handler.allow_networks", &row_network, NULL, "allow-network", NULL, NULL, CONFIG_TEXT_NETWORK,
     false, true},
    {"partition", &row_partition, NULL, "partition", NULL, NULL, CONFIG_TEXT_PARTITIONS, false,
     false},
    {"total_partitions", &row_total, NULL, "total-partitions", NULL, NULL, CONFIG_TEXT_ANY, false,
     false},
};

static const struct config_key schedule_keys[] = {
    {"name", &row_schedule, NULL, NULL, NULL, NULL, CONFIG_TEXT_SCHEDULE, true, false},
    {"cron", &row_cron, NULL, NULL, NULL, NULL, CONFIG_TEXT_CRON, true, false},
    {"zone", &row_zone, "UTC", NULL, NULL, NULL, CONFIG_TEXT_ZONE, false, false},
    {"type", &row_type, NULL, NULL, NULL, NULL, CONFIG_TEXT_TYPE, true, false},
    {"payload", &row_payload, "null", NULL, NULL, NULL, CONFIG_TEXT_JSON, false, false},
    {"key", &row_key, NULL, NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"tenant", &row_tenant, NULL, NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"metadata", &row_metadata, NULL, NULL, NULL, NULL, CONFIG_TEXT_OBJECT, false, false},
    {"misfire", &row_misfire, "skip", NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"misfire_cap", &row_cap, "100", NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"grace", &row_grace, "60s", NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"active", &row_active, NULL, NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"driver", &row_driver, "own", NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
};

static const struct config_key retention_keys[] = {
    {"age", &row_age, NULL, NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"bytes", &row_bytes, NULL, NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"lagging", &row_lagging, NULL, NULL, NULL, NULL, CONFIG_TEXT_ANY, false, false},
};

static const struct config_key serve_keys[] = {
    {"listen", &row_listen, SERVE_LISTEN, "listen", "HOLDFAST_LISTEN", NULL, CONFIG_TEXT_LISTEN,
     false, false},
    {"tokens", &row_tokens, NULL, "tokens", "HOLDFAST_TOKENS", NULL, CONFIG_TEXT_FILE, false,
     false},
    {"tls.cert", &row_tls_cert, NULL, "tls-cert", NULL, NULL, CONFIG_TEXT_FILE, false, false},
    {"tls.key", &row_tls_key, NULL, "tls-key", NULL, NULL, CONFIG_TEXT_FILE, false, false},
    {"hosts", &row_hosts, NULL, "host", NULL, NULL, CONFIG_TEXT_HOST, false, true},
    {"threads", &row_threads, "32", "threads", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"max_body", &row_body, "64MiB", "max-body", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"max_connections", &row_connections, "10000", "max-connections", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"max_per_address", &row_per_address, "2000", "max-per-address", NULL, NULL, CONFIG_TEXT_ANY,
     false, false},
    {"max_streams", &row_streams, "4096", "max-streams", NULL, NULL, CONFIG_TEXT_ANY, false, false},
    {"max_streams_per_address", &row_streams_each, "0", "max-streams-per-address", NULL, NULL,
     CONFIG_TEXT_ANY, false, false},
    {"request_timeout", &row_request, "30s", "request-timeout", NULL, NULL, CONFIG_TEXT_ANY, false,
     false},
    {"log_format", &row_log_format, "text", "log-format", NULL, NULL, CONFIG_TEXT_ANY, false,
     false},
    {"audit", &row_audit, "log", "audit", NULL, NULL, CONFIG_TEXT_ANY, false, false},
};

#define DATABASE_COUNT (sizeof database_keys / sizeof database_keys[0])
#define SCHEDULE_COUNT (sizeof schedule_keys / sizeof schedule_keys[0])
#define RETENTION_COUNT (sizeof retention_keys / sizeof retention_keys[0])
#define SERVE_COUNT (sizeof serve_keys / sizeof serve_keys[0])
#define OWN_COUNT (sizeof subscription_keys / sizeof subscription_keys[0])

/* Keys that are refused with a reason. */
static const struct {
    enum config_scope scope;
    const char *path;
    const char *why;
} refusals[] = {
    {CONFIG_SUBSCRIPTION, "transactional",
     "is not for commands: a transactional handler runs inside a transaction of the database, "
     "which a command cannot; leave it out"},
    {CONFIG_SUBSCRIPTION, "tx_max",
     "is for transactional handlers, which a command cannot be; "
     "leave it out"},
    {CONFIG_SUBSCRIPTION, "handler.secret",
     "is not allowed: secrets belong in a file of their own, which secret_file names"},
    {CONFIG_SUBSCRIPTION, "exec", "belongs below handler: handler: {exec: COMMAND}"},
    {CONFIG_SUBSCRIPTION, "http", "belongs below handler: handler: {http: URL}"},
    {CONFIG_SUBSCRIPTION, "timeout", "belongs below handler: handler: {timeout: 30s}"},
    {CONFIG_SUBSCRIPTION, "retries", "is called retry.attempts here, and counts the first try"},
    {CONFIG_SCHEDULE, "expression", "is called cron here"},
    {CONFIG_SCHEDULE, "timezone", "is called zone here"},
    {CONFIG_SCHEDULE, "paused", "is called active here: active: off"},
    {CONFIG_SERVE, "token",
     "is not allowed: the hashes of tokens are in a file of their own, which tokens names"},
    {CONFIG_SERVE, "host", "is called listen (where it listens) or hosts (names it goes by) here"},
    {CONFIG_SERVE, "port", "is a part of listen here: listen: 127.0.0.1:7070"},
    {CONFIG_DATABASE, "password",
     "is not allowed: secrets belong in a file of their own, which password_file names"},
};

static const struct config_short shorts[] = {
    {"checkpoint", "each", "checkpoint.events", "1"},
    {"breaker", "on", "breaker.enabled", "on"},
    {"breaker", "off", "breaker.enabled", "off"},
};

size_t config_key_count(enum config_scope scope)
{
    _Static_assert(DATABASE_COUNT <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX is too small");
    _Static_assert(SCHEDULE_COUNT <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX is too small");
    _Static_assert(OWN_COUNT + SUBOPTIONS_MAX <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX is too small");
    switch (scope) {
    case CONFIG_DATABASE:
        return DATABASE_COUNT;
    case CONFIG_SCHEDULE:
        return SCHEDULE_COUNT;
    case CONFIG_RETENTION:
        return RETENTION_COUNT;
    case CONFIG_SERVE:
        return SERVE_COUNT;
    case CONFIG_SUBSCRIPTION:
        return OWN_COUNT + suboptions_count;
    }
    return 0;
}

struct config_key config_key_at(enum config_scope scope, size_t index)
{
    const struct suboption *field;

    assert(index < config_key_count(scope));
    if (scope == CONFIG_DATABASE) {
        return database_keys[index];
    }
    if (scope == CONFIG_SCHEDULE) {
        return schedule_keys[index];
    }
    if (scope == CONFIG_RETENTION) {
        return retention_keys[index];
    }
    if (scope == CONFIG_SERVE) {
        return serve_keys[index];
    }
    if (index < OWN_COUNT) {
        return subscription_keys[index];
    }
    field = &suboptions_fields[index - OWN_COUNT];
    return (struct config_key){.path = field->key,
                               .row = suboptions_row(field->option),
                               .initial = field->initial,
                               .flag = field->option,
                               .field = field};
}

bool config_key_find(enum config_scope scope, const char *path, size_t *ret_index)
{
    for (size_t i = 0; i < config_key_count(scope); i++) {
        struct config_key key = config_key_at(scope, i);
        if (key.path && strcmp(key.path, path) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

size_t config_key_known(enum config_scope scope, const char *path)
{
    size_t index = 0;
    bool found = config_key_find(scope, path, &index);

    assert(found);
    (void)found;
    return index;
}

bool config_is_section(enum config_scope scope, const char *path)
{
    size_t length = strlen(path);

    for (size_t i = 0; i < config_key_count(scope); i++) {
        struct config_key key = config_key_at(scope, i);
        if (key.path && strncmp(key.path, path, length) == 0 && key.path[length] == '.') {
            return true;
        }
    }
    return false;
}

/* The word of a key behind the prefix; false if the key is not below it. */
static bool word_behind(const struct config_key *key, const char *prefix,
                        char ret_word[CONFIG_PATH_BYTES])
{
    size_t length = strlen(prefix);

    if (!key->path || strncmp(key->path, prefix, length) != 0) {
        return false;
    }
    snprintf(ret_word, CONFIG_PATH_BYTES, "%.*s", (int)strcspn(key->path + length, "."),
             key->path + length);
    return true;
}

bool config_word_at(enum config_scope scope, const char *prefix, size_t nth,
                    char ret_word[CONFIG_PATH_BYTES])
{
    for (size_t i = 0; i < config_key_count(scope); i++) {
        struct config_key key = config_key_at(scope, i);
        char word[CONFIG_PATH_BYTES];
        bool is_new = word_behind(&key, prefix, word);

        for (size_t j = 0; j < i && is_new; j++) { /* sections have several keys */
            struct config_key before = config_key_at(scope, j);
            char other[CONFIG_PATH_BYTES];
            is_new = !word_behind(&before, prefix, other) || strcmp(word, other) != 0;
        }
        if (is_new && nth-- == 0) {
            memcpy(ret_word, word, sizeof word);
            return true;
        }
    }
    return false;
}

const char *config_refusal(enum config_scope scope, const char *path)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].scope == scope && strcmp(refusals[i].path, path) == 0) {
            return refusals[i].why;
        }
    }
    return NULL;
}

bool config_short_at(const char *section, size_t nth, struct config_short *ret_short)
{
    for (size_t i = 0; i < sizeof shorts / sizeof shorts[0]; i++) {
        if (strcmp(shorts[i].section, section) == 0 && nth-- == 0) {
            *ret_short = shorts[i];
            return true;
        }
    }
    return false;
}

struct arg_value config_initial(const struct config_key *key)
{
    struct arg_value value = {.row = key->row, .text = key->initial};
    struct value_form form;
    bool good = !key->initial || args_value_check(&value, 0, &form);

    assert(good);
    (void)good;
    return value;
}

void config_key_takes(const struct config_key *key, char *ret_form, size_t bytes)
{
    switch (key->text) {
    case CONFIG_TEXT_PATTERN:
        snprintf(ret_form, bytes, "takes a pattern or a list of patterns, at most %d",
                 HF_PATTERNS_MAX);
        return;
    case CONFIG_TEXT_COMMAND:
        snprintf(ret_form, bytes,
                 "takes a command for the shell, or a list: a program and its arguments");
        return;
    case CONFIG_TEXT_URL:
        snprintf(ret_form, bytes, "takes a URL that begins with https:// or http://");
        return;
    case CONFIG_TEXT_NETWORK:
        snprintf(ret_form, bytes, "takes a network, as 10.1.0.0/16, or a list of them, at most %d",
                 NETWORKS_MAX);
        return;
    case CONFIG_TEXT_LISTEN:
        snprintf(ret_form, bytes, "takes HOST:PORT, [IPV6]:PORT or unix:PATH");
        return;
    case CONFIG_TEXT_HOST:
        snprintf(ret_form, bytes, "takes the name of a host, or a list of them, at most %d",
                 SERVE_HOSTS_MAX);
        return;
    case CONFIG_TEXT_PARTITIONS:
        snprintf(ret_form, bytes, "takes numbers and ranges from 0, as 3 or 3,5-7");
        return;
    case CONFIG_TEXT_FILE:
        snprintf(ret_form, bytes, "takes the path of a file");
        return;
    case CONFIG_TEXT_CRON:
        snprintf(ret_form, bytes, "takes a cron expression, as '0 9 * * MON-FRI'");
        return;
    case CONFIG_TEXT_ZONE:
        snprintf(ret_form, bytes, "takes a time zone, as Europe/Berlin");
        return;
    case CONFIG_TEXT_TYPE:
        snprintf(ret_form, bytes, "takes the type of an event, as report.due");
        return;
    case CONFIG_TEXT_JSON:
        snprintf(ret_form, bytes, "takes JSON as a text, as '{\"to\": \"ann\"}'");
        return;
    case CONFIG_TEXT_OBJECT:
        snprintf(ret_form, bytes, "takes a JSON object as a text, as '{\"team\": \"shop\"}'");
        return;
    case CONFIG_TEXT_SCHEDULE:
    case CONFIG_TEXT_SUBSCRIPTION:
    case CONFIG_TEXT_NAMESPACE:
    case CONFIG_TEXT_NODE:
        snprintf(ret_form, bytes, "takes a name");
        return;
    case CONFIG_TEXT_ANY:
        args_value_describe(key->row, ret_form, bytes);
        return;
    }
}
