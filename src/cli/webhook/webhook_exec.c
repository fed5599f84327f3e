/*
 * webhook_exec.c - the client of webhooks in the program that has none: starts the one that has it.
 */
#include "cli/core/serve.h"
#include "cli/webhook/webhook.h"

const struct webhook_client *webhook_client(struct cli *cli)
{
    serve_become(cli, "which posts webhooks");
    return NULL;
}
