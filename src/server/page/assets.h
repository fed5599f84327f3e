/*
 * assets.h - the files of the dashboard, which are in the program (scripts/embed-web).
 */
#ifndef HF_SERVER_PAGE_ASSETS_H
#define HF_SERVER_PAGE_ASSETS_H

#include <stddef.h>

struct asset {
    const char *name; /* "app.js" */
    const char *content_type;
    const unsigned char *bytes;
    size_t length;
    const unsigned char *packed; /* by gzip */
    size_t packed_length;
};

/* The one with this name; NULL: there is none. */
const struct asset *asset_find(const char *name);

/* Another one whenever a file is another. */
const char *assets_digest(void);

#endif
