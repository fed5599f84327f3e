/*
 * audit.h - who has changed what: a record of every request that changes something, also of those
 * that were refused.
 *
 * A record says when, who (the name of a token, and whether a browser's session stands for it; or
 * that there are no tokens), from which address, what (the route and the path), and how it ended.
 * It has no body, no query and no header, so it has no payloads and no tokens.
 *
 * Records go to the log, or to a file of their own, a JSON object a line. A file has all of them;
 * the log has those that steer, and leaves out requests that publish, claim and settle events,
 * because those can be thousands in a second.
 */
#ifndef HF_SERVER_AUDIT_H
#define HF_SERVER_AUDIT_H

#include "server/http/exchange.h"

#define AUDIT_LOG "log"
#define AUDIT_OFF "off"

struct audit;

/* `where` is AUDIT_LOG, AUDIT_OFF, or the path of a file that is appended to. HF_DENIED, HF_IO name
 * it. */
hf_status audit_open(const char *where, struct audit **ret_audit);

/* The exchange has its answer. Any thread. */
void audit_record(struct audit *audit, const struct exchange *exchange);

/* Opens the file again by its name, which another program may have renamed. After a failure the
 * records go where they went. */
hf_status audit_reopen(struct audit *audit);
bool audit_has_file(const struct audit *audit);

/* NULL is allowed. */
void audit_close(struct audit *audit);

#endif
