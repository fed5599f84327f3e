/*
 * assets.c - see assets.h.
 */
#include "server/page/assets.h"

#include "base/banned.h"
#include "web.h"

const struct asset *asset_find(const char *name)
{
    for (size_t i = 0; i < sizeof web_assets / sizeof web_assets[0]; i++) {
        if (strcmp(web_assets[i].name, name) == 0) {
            return &web_assets[i];
        }
    }
    return NULL;
}

const char *assets_digest(void)
{
    return WEB_DIGEST;
}
