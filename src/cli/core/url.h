/*
 * url.h - the URL of a database as it may be shown.
 */
#ifndef HF_CLI_CORE_URL_H
#define HF_CLI_CORE_URL_H

#include <stddef.h>

#define URL_SHOWN_BYTES 1024 /* longer ones are cut */

/* The URL without its passwords: each is replaced by three stars. Answers ret_shown. */
const char *url_shown(const char *url, char ret_shown[URL_SHOWN_BYTES]);

/* The URL with empty passwords, as if none were given; NULL: no memory. Freed by free. */
char *url_without_secrets(const char *url);

/* The engine that it names: "sqlite", "postgres". Any other scheme is answered as it is. */
const char *url_engine(const char *url, char *ret_engine, size_t bytes);

#endif
