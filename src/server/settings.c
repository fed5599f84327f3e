/*
 * settings.c - see settings.h.
 */
#include "server/settings.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/config/setting.h"
#include "cli/core/args_value.h"
#include "cli/core/endpoint.h"
#include "cli/terminal/out.h"

#define PEM_BYTES_MAX 1048576

static struct config_setting setting_of(struct work *plan, const char *path)
{
    struct config *config = &plan->source->config;

    return config_setting_of(config, config->serve, &plan->cli->args, CONFIG_SERVE, path);
}

static int64_t number_of(struct work *plan, const char *path)
{
    return setting_of(plan, path).value.number;
}

static int read_pair(struct server_settings *settings)
{
    size_t length;

    settings->certificate = cli_read_file(settings->certificate_file, PEM_BYTES_MAX, &length);
    settings->key = cli_read_file(settings->key_file, PEM_BYTES_MAX, &length);
    return settings->certificate && settings->key ? EXIT_OK : EXIT_ERROR;
}

int settings_read_again(const struct server_settings *settings, struct server_settings *ret_again)
{
    *ret_again = (struct server_settings){.certificate_file = settings->certificate_file,
                                          .key_file = settings->key_file};
    if (strcmp(settings->certificate_file, "-") == 0 || strcmp(settings->key_file, "-") == 0) {
        out_complain("what came from stdin cannot be read again");
        return EXIT_ERROR;
    }
    return read_pair(ret_again);
}

/* The certificate and its key. */
static int read_tls(struct server_settings *settings, struct work *plan)
{
    int code;

    settings->certificate_file = setting_of(plan, "tls.cert").value.text;
    settings->key_file = setting_of(plan, "tls.key").value.text;
    if (!settings->certificate_file != !settings->key_file) {
        return args_usage(&plan->cli->args, "--tls-cert and --tls-key go together");
    }
    if (!settings->certificate_file) {
        return EXIT_OK;
    }
    code = read_pair(settings);
    settings->options.certificate = settings->certificate;
    settings->options.key = settings->key;
    return code;
}

/* Those of the file were checked when it was read. */
static int read_hosts(struct server_settings *settings, struct work *plan)
{
    struct config_setting hosts = setting_of(plan, "hosts");

    if (hosts.item_count > SERVE_HOSTS_MAX) {
        return args_usage(&plan->cli->args, "more than %d names of hosts (--host)",
                          SERVE_HOSTS_MAX);
    }
    for (size_t i = 0; i < hosts.item_count; i++) {
        if (endpoint_check_host(hosts.items[i])) {
            return args_usage(&plan->cli->args, "--host '%s': %s", hosts.items[i], err_message());
        }
    }
    settings->options.hosts = hosts.items;
    settings->options.host_count = hosts.item_count;
    return EXIT_OK;
}

int settings_read(struct server_settings *settings, struct work *plan)
{
    struct server_options *options = &settings->options;
    int code;

    options->listen = setting_of(plan, "listen").value.text;
    options->tokens = setting_of(plan, "tokens").value.text;
    options->audit = setting_of(plan, "audit").value.text;
    options->threads = (int)number_of(plan, "threads");
    options->body_bytes_max = (size_t)number_of(plan, "max_body");
    options->connections_max = (unsigned)number_of(plan, "max_connections");
    options->per_address_max = (unsigned)number_of(plan, "max_per_address");
    options->streams_max = (unsigned)number_of(plan, "max_streams");
    options->streams_per_address_max = (unsigned)number_of(plan, "max_streams_per_address");
    options->request_ms = number_of(plan, "request_timeout");
    settings->json_log = number_of(plan, "log_format") == 2;
    code = read_tls(settings, plan);
    return code ? code : read_hosts(settings, plan);
}

void settings_release(struct server_settings *settings)
{
    if (settings->key) {
        explicit_bzero(settings->key, strlen(settings->key));
    }
    mem_free(settings->certificate);
    mem_free(settings->key);
    *settings = (struct server_settings){.key = NULL};
}
