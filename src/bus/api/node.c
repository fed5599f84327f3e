/*
 * node.c - nodes: what this bus says about itself as one, and listing those of the namespace.
 *
 * The id goes into URLs, metrics and shells, so it is made of few characters. Whatever else
 * is given as one is replaced, and so that two different ids do not become the same, the
 * result ends with a number made of the original. It depends on nothing else: a node that comes
 * again has the same id. A generated one has the host, the process and a random number, so it never
 * comes again.
 *
 * The store does the rest: opening registers, closing says goodbye, and store_alive, which watch.c
 * calls, is the heartbeat.
 */
#include "bus/api/node.h"

#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text/glob.h"
#include "base/text/hex.h"
#include "base/text/json_check.h"
#include "base/text/utf8.h"
#include "base/uuid.h"

#define MARK_DIGITS 8 /* of the number that keeps changed ids apart */

/* ---- What a node says about itself ----------------------------------------------------------- */

static void read_host(char out[STORE_HOST_BYTES_MAX + 1])
{
    memset(out, 0, STORE_HOST_BYTES_MAX + 1);
    if (gethostname(out, STORE_HOST_BYTES_MAX) != 0 || !out[0] || !utf8_is_valid(text_of(out))) {
        snprintf(out, STORE_HOST_BYTES_MAX + 1, "localhost");
    }
}

char *node_make_name(const char *given)
{
    if (given) {
        return mem_dup(given, strlen(given));
    }
    char host[STORE_HOST_BYTES_MAX + 1];
    read_host(host);
    char name[sizeof host + 16];
    int length = snprintf(name, sizeof name, "%s:%d", host, (int)getpid());
    return mem_dup(name, (size_t)length);
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
}

/* Copies up to `room` bytes, each run of others as one '-'. Answers how many; *ret_same: it is the
 * text itself. */
static size_t copy_id(struct text from, char *out, size_t room, bool *ret_same)
{
    size_t length = 0;
    size_t at = 0;
    *ret_same = true;
    for (; at < from.length && length < room; at++) {
        bool good = is_id_char(from.bytes[at]);
        if (good || at == 0 || is_id_char(from.bytes[at - 1])) {
            out[length++] = good ? from.bytes[at] : '-';
        }
        *ret_same = *ret_same && good;
    }
    *ret_same = *ret_same && at == from.length;
    return length;
}

static void sanitise(const char *given, char out[HF_NODE_ID_BYTES_MAX + 1])
{
    struct text from = text_of(given);
    bool same;
    size_t length = copy_id(from, out, HF_NODE_ID_BYTES_MAX, &same);
    out[length] = '\0';
    if (!same) {
        uint8_t hash[MD5_BYTES];
        size_t room = HF_NODE_ID_BYTES_MAX - MARK_DIGITS - 1;
        hash_md5(from.bytes, from.length, hash);
        length = length < room ? length : room;
        out[length] = '-';
        *hex_write(out + length + 1, hash, MARK_DIGITS / 2) = '\0';
    }
}

static void generate(const char *host, char out[HF_NODE_ID_BYTES_MAX + 1])
{
    bool same;
    size_t length = copy_id(text_of(host), out, STORE_HOST_BYTES_MAX, &same);
    snprintf(out + length, HF_NODE_ID_BYTES_MAX + 1 - length, "-%d-%08x", (int)getpid(),
             (unsigned)random_u64());
}

static hf_status check_description(const char *description)
{
    struct text text = text_of(description);
    if (text.length > HF_NODE_DESCRIPTION_BYTES_MAX) {
        return fail(HF_INVALID, "the node's description is %zu bytes; the limit is %d", text.length,
                    HF_NODE_DESCRIPTION_BYTES_MAX);
    }
    return utf8_is_printable(text)
               ? HF_OK
               : fail(HF_INVALID, "the node's description is not printable UTF-8 text");
}

static hf_status check_metadata(const char *metadata_json)
{
    struct text text = text_of(metadata_json);
    if (text.length > HF_NODE_METADATA_BYTES_MAX) {
        return fail(HF_INVALID, "the node's metadata is %zu bytes; the limit is %d", text.length,
                    HF_NODE_METADATA_BYTES_MAX);
    }
    return json_check_object(text.bytes, text.length, NULL, "the node's metadata");
}

hf_status node_check(const hf_options *options)
{
    hf_status status = HF_OK;
    if (options->node_name) {
        status = glob_check_name(text_of(options->node_name), "node name", HF_PRODUCER_BYTES_MAX);
    }
    if (!status && options->node_id && !options->node_id[0]) {
        status = fail(HF_INVALID, "the node's id is empty; leave it out for one that is generated");
    }
    if (!status && options->node_description) {
        status = check_description(options->node_description);
    }
    return !status && options->node_metadata_json ? check_metadata(options->node_metadata_json)
                                                  : status;
}

void node_describe(const hf_options *options, struct node_self *ret_self)
{
    read_host(ret_self->host);
    if (options->node_id) {
        sanitise(options->node_id, ret_self->id);
    } else {
        generate(ret_self->host, ret_self->id);
    }
    ret_self->facts = (struct node_facts){
        .id = text_of(ret_self->id),
        .description = text_of(options->node_description),
        .metadata_json = text_of(options->node_metadata_json),
        .host = text_of(ret_self->host),
        .pid = getpid(),
        .heartbeat_ms = options->heartbeat_ms,
        .given = options->node_id != NULL,
    };
}

/* ---- Looking --------------------------------------------------------------------------------- */

struct listing {
    hf_node_fn found;
    void *ctx;
    bool self_only;
    int64_t calls;
};

static int hand_up(const struct node_row *row, void *ctx)
{
    struct listing *listing = ctx;
    if (listing->self_only && !row->self) {
        return 0;
    }
    hf_node_info info = {
        .node_id = row->id.bytes,
        .name = row->name.bytes,
        .description = row->description.bytes,
        .metadata_json = row->metadata_json.bytes,
        .host = row->host.bytes,
        .version = row->version.bytes,
        .pid = row->pid,
        .state = row->state,
        .self = row->self ? 1 : 0,
        .heartbeat_ms = row->heartbeat_ms,
        .started_at_us = row->started_at_us,
        .seen_at_us = row->seen_at_us,
        .stopped_at_us = row->stopped_at_us,
    };
    listing->calls++;
    return listing->found(&info, listing->ctx);
}

static hf_status list(hf_bus *bus, struct text id, struct listing *listing)
{
    hf_status status = bus_check(bus);
    if (!status && !listing->found) {
        status = fail(HF_INVALID, "the callback is NULL");
    }
    return status ? status : store_node_list(bus->store, id, hand_up, listing);
}

hf_status hf_node_list(hf_bus *bus, hf_node_fn found, void *ctx)
{
    struct listing listing = {.found = found, .ctx = ctx};
    return list(bus, TEXT_ABSENT, &listing);
}

hf_status hf_node_get(hf_bus *bus, const char *node_id, hf_node_fn found, void *ctx)
{
    struct listing listing = {.found = found, .ctx = ctx, .self_only = !node_id};
    char id[HF_NODE_ID_BYTES_MAX + 1];
    if (node_id && !node_id[0]) {
        return fail(HF_INVALID, "the node's id is empty");
    }
    if (node_id) {
        sanitise(node_id, id);
    }
    hf_status status = list(bus, text_of(node_id ? id : NULL), &listing);
    return status || listing.calls > 0 ? status
                                       : fail(HF_NOTFOUND, "there is no node %s",
                                              node_id ? node_id : "of this bus (any more)");
}
