/*
 * event_find.c - see event_find.h.
 */
#include "cli/command/event_find.h"
#include "base/banned.h"
#include "cli/terminal/out.h"

#define POSITION_DIGITS_MAX 18

static int note_event(const hf_event *event, void *ctx)
{
    struct event_name *name = ctx;

    memcpy(name->id, event->id, sizeof name->id);
    name->position = event->position;
    return 1;
}

int64_t event_position(const char *word)
{
    size_t digits = strspn(word, "0123456789");

    if (digits == 0 || digits > POSITION_DIGITS_MAX || word[digits]) {
        return -1;
    }
    return strtoll(word, NULL, 10);
}

int event_find(struct cli *cli, const char *word, struct event_name *ret_name)
{
    int64_t position = event_position(word);
    int64_t cursor = position - 1;

    *ret_name = (struct event_name){.position = -1};
    if (position < 0) {
        return cli_fail(hf_event_get(cli->bus, word, note_event, ret_name));
    }
    hf_status status =
        position > 0 ? hf_read(cli->bus, NULL, 1, 0, &cursor, note_event, ret_name) : HF_OK;
    if (status) {
        return cli_fail(status);
    }
    if (ret_name->position != position) {
        out_complain("there is no event at position %s", word);
        return EXIT_NOT_FOUND;
    }
    return EXIT_OK;
}
