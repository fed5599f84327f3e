/*
 * settings.h - from the section `serve` of the configuration file, the environment and the command
 * line to the options of a server.
 */
#ifndef HF_SERVER_SETTINGS_H
#define HF_SERVER_SETTINGS_H

#include "cli/config/serve_options.h"
#include "cli/work/work.h"
#include "server/server.h"

/* What the options need besides the plan, whose texts they use, too. */
struct server_settings {
    struct server_options options;
    const char *certificate_file; /* NULL: no TLS */
    const char *key_file;
    char *certificate; /* PEM */
    char *key;
    bool json_log;
};

/* All but the database and the bus. 0, or the exit code after a complaint; end it with
 * settings_release, also then. */
int settings_read(struct server_settings *settings, struct work *plan);
/* Only certificate and key, from the files that `settings` names, as these are now. 0, or the exit
 * code after a complaint; end it with settings_release, also then. */
int settings_read_again(const struct server_settings *settings, struct server_settings *ret_again);
void settings_release(struct server_settings *settings);

#endif
