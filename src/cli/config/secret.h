/*
 * secret.h - passwords: read from files and put into a url.
 */
#ifndef HF_CLI_CONFIG_SECRET_H
#define HF_CLI_CONFIG_SECRET_H

#include "base/arena.h"

#define CONFIG_SECRET_BYTES_MAX 4096

/* The content of a secret's file without the newlines at its end; `what` names the key. NULL after
 * a complaint, which never quotes the content. */
const char *config_secret_read(struct arena *arena, const char *what, const char *path);

/* The url with the password as its parameter. NULL after a complaint: it has a password already, or
 * is none that takes one. */
const char *config_secret_add(struct arena *arena, const char *url, const char *password);

#endif
