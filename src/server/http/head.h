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

/* Looks at the target of a request before libmicrohttpd takes it apart: what is wrong with it is
 * noted for head_check, and a query with too many parameters is cut off. */
void head_see_target(struct exchange *exchange, char *target);

/* `method` and `version` are those of the request's line, where libmicrohttpd has them. False after
 * a refusal: 400, 414 for a target that is too long, 415 for a body that is packed, or 501 for a
 * Transfer-Encoding other than chunked. */
bool head_check(struct exchange *exchange, const char *method, const char *version);

#endif
