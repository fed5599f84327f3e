/*
 * head.h - whether the head of a request says one thing only.
 *
 * A proxy and a server that read the same bytes differently can be made to disagree about where a
 * request ends (request smuggling), or about whom it is for. So a head that could be read in two
 * ways is refused, and its connection closed.
 */
#ifndef HF_SERVER_HTTP_HEAD_H
#define HF_SERVER_HTTP_HEAD_H

#include "server/http/exchange.h"

/* `version` is that of the request's line: "HTTP/1.1". False after a refusal: 400, or 501 for a
 * Transfer-Encoding other than chunked. */
bool head_check(struct exchange *exchange, const char *version);

#endif
