/*
 * page.h - the dashboard: its files, and logging in.
 *
 *   GET /                      the page
 *   GET /assets/DIGEST/NAME    what it is made of; a browser may keep it for ever
 *   GET /session               who is logged in, what they may see, and the session's secret
 *   POST /session              logs in: {"token": "..."}
 *   DELETE /session            logs out
 *
 * Everything else that the page shows or does goes through the API. The page runs nothing that is
 * not one of its files (Content-Security-Policy), and no page of others may frame it.
 */
#ifndef HF_SERVER_PAGE_PAGE_H
#define HF_SERVER_PAGE_PAGE_H

#include "server/access/access.h"

#define PAGE_SESSION "/session"

/* What the page says of the server it is of. */
struct page_facts {
    const char *namespace_name; /* the server's own */
    const char *url;            /* of the database; only its scheme is shown */
    bool secure;                /* it speaks TLS */
};

/* Answers a request for one of the paths above. False: it is for another path. exchange->bus is
 * that of the database as a whole. */
bool page_answer(struct exchange *exchange, const struct access *access,
                 const struct page_facts *facts);

#endif
