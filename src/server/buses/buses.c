/*
 * buses.c - see buses.h.
 *
 * An entry is made before its bus is open, so that requests for one namespace wait for one opening
 * and those for others do not.
 */
#include "server/buses/buses.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/clock.h"

#define OPEN_MAX 64
#define IDLE_MAX 8 /* of them, that no request uses: each has threads, files or sessions */

enum bus_state { BUS_FREE, BUS_OPENING, BUS_OPEN, BUS_CLOSING };

struct entry {
    enum bus_state state;
    char name[HF_NAMESPACE_BYTES_MAX + 1];
    hf_bus *bus;
    int users;
    bool left;       /* it is closed as soon as there are no users; not for new ones */
    int64_t used_us; /* when the last request ended */
};

struct buses {
    char *url;
    hf_options options; /* of those that requests open */
    char own_name[HF_NAMESPACE_BYTES_MAX + 1];
    hf_bus *whole;
    hf_bus *own;
    pthread_mutex_t mutex; /* protects the entries */
    pthread_cond_t changed;
    struct entry entries[OPEN_MAX];
};

static struct entry *find(struct buses *buses, const char *name)
{
    for (size_t i = 0; i < OPEN_MAX; i++) {
        struct entry *entry = &buses->entries[i];
        if (entry->state != BUS_FREE && !entry->left && strcmp(entry->name, name) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* Of those that no request uses the one that was not used for the longest time; NULL: all are. */
static struct entry *find_oldest(struct buses *buses, size_t *ret_idle)
{
    struct entry *oldest = NULL;

    *ret_idle = 0;
    for (size_t i = 0; i < OPEN_MAX; i++) {
        struct entry *entry = &buses->entries[i];
        if (entry->state == BUS_OPEN && entry->users == 0) {
            oldest = !oldest || entry->used_us < oldest->used_us ? entry : oldest;
            ++*ret_idle;
        }
    }
    return oldest;
}

/* A free entry, or the oldest; NULL: all are in use. */
static struct entry *find_room(struct buses *buses)
{
    size_t idle;

    for (size_t i = 0; i < OPEN_MAX; i++) {
        if (buses->entries[i].state == BUS_FREE) {
            return &buses->entries[i];
        }
    }
    return find_oldest(buses, &idle);
}

/* Closes the bus of an entry that makes room. The mutex is held, and let go of meanwhile. */
static void close_entry(struct buses *buses, struct entry *entry)
{
    entry->state = BUS_CLOSING;
    pthread_mutex_unlock(&buses->mutex);
    hf_close(&entry->bus);
    pthread_mutex_lock(&buses->mutex);
    entry->state = BUS_FREE;
    pthread_cond_broadcast(&buses->changed);
}

/* Opens the bus of a free entry. The mutex is held, and let go of meanwhile. */
static hf_status open_entry(struct buses *buses, struct entry *entry, const char *name)
{
    hf_options options = buses->options;
    hf_status status;

    entry->state = BUS_OPENING;
    entry->users = 0;
    entry->left = false;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    options.namespace_name = entry->name;
    pthread_mutex_unlock(&buses->mutex);
    status = hf_open(buses->url, &options, &entry->bus);
    pthread_mutex_lock(&buses->mutex);
    entry->state = status ? BUS_FREE : BUS_OPEN;
    pthread_cond_broadcast(&buses->changed);
    return status;
}

/* An entry with an open bus. The mutex is held. */
static hf_status get_entry(struct buses *buses, const char *name, struct entry **ret_entry)
{
    for (;;) {
        struct entry *entry = find(buses, name);
        if (entry && entry->state == BUS_OPEN) {
            *ret_entry = entry;
            return HF_OK;
        }
        if (entry) { /* being opened, or closed: what comes of it is seen next time */
            pthread_cond_wait(&buses->changed, &buses->mutex);
            continue;
        }
        entry = find_room(buses);
        if (!entry) {
            return fail(HF_BUSY, "requests for %d namespaces are under way; try again later",
                        OPEN_MAX);
        }
        if (entry->state == BUS_OPEN) {
            close_entry(buses, entry);
            continue;
        }
        hf_status status = open_entry(buses, entry, name);
        if (status) {
            return status;
        }
    }
}

hf_status buses_get(struct buses *buses, const char *namespace_name, hf_bus **ret_bus)
{
    struct entry *entry = NULL;
    hf_status status;

    if (strcmp(namespace_name, buses->own_name) == 0) {
        *ret_bus = buses->own;
        return HF_OK;
    }
    if (strlen(namespace_name) > HF_NAMESPACE_BYTES_MAX) {
        return fail(HF_INVALID, "the name of a namespace is at most %d bytes long",
                    HF_NAMESPACE_BYTES_MAX);
    }
    pthread_mutex_lock(&buses->mutex);
    status = get_entry(buses, namespace_name, &entry);
    if (!status) {
        entry->users++;
        *ret_bus = entry->bus;
    }
    pthread_mutex_unlock(&buses->mutex);
    return status;
}

/* A bus has one user less. The mutex is held, and may be let go of meanwhile. */
static void put_entry(struct buses *buses, struct entry *entry)
{
    struct entry *oldest;
    size_t idle;

    entry->users--;
    entry->used_us = clock_mono_us();
    if (entry->users > 0) {
        return;
    }
    if (entry->left) {
        close_entry(buses, entry);
        return;
    }
    oldest = find_oldest(buses, &idle);
    if (idle > IDLE_MAX) {
        close_entry(buses, oldest);
    }
}

void buses_put(struct buses *buses, hf_bus *bus)
{
    if (bus == buses->own || bus == buses->whole) {
        return;
    }
    pthread_mutex_lock(&buses->mutex);
    for (size_t i = 0; i < OPEN_MAX; i++) {
        struct entry *entry = &buses->entries[i];
        if (entry->state == BUS_OPEN && entry->bus == bus) {
            put_entry(buses, entry);
            break;
        }
    }
    pthread_mutex_unlock(&buses->mutex);
}

bool buses_let_go_of(struct buses *buses, const char *namespace_name)
{
    struct entry *entry;

    if (strcmp(namespace_name, buses->own_name) == 0) {
        return false;
    }
    pthread_mutex_lock(&buses->mutex);
    entry = find(buses, namespace_name);
    if (entry && entry->state == BUS_OPEN) {
        entry->left = true;
        if (entry->users == 0) {
            close_entry(buses, entry);
        }
    }
    pthread_mutex_unlock(&buses->mutex);
    return true;
}

hf_bus *buses_whole(struct buses *buses)
{
    return buses->whole;
}

hf_bus *buses_own(struct buses *buses)
{
    return buses->own;
}

const char *buses_own_name(const struct buses *buses)
{
    return buses->own_name;
}

static hf_status open_whole(struct buses *buses, const hf_options *options)
{
    hf_options whole = *options;

    whole.namespace_name = NULL;
    whole.no_namespace = 1;
    whole.node_id = NULL;
    whole.open_mode = HF_OPEN_EXISTING;
    return hf_open(buses->url, &whole, &buses->whole);
}

hf_status buses_open(const char *url, const hf_options *options, hf_bus *own,
                     struct buses **ret_buses)
{
    struct buses *buses = mem_calloc(1, sizeof *buses);
    hf_status status = HF_OK;

    if (!buses) {
        return fail(HF_NOMEM, "out of memory");
    }
    status = mutex_init(&buses->mutex);
    status = status ? status : cond_init(&buses->changed);
    buses->url = mem_dup(url, strlen(url));
    if (status || !buses->url) {
        mem_free(buses->url);
        mem_free(buses);
        return status ? status : fail(HF_NOMEM, "out of memory");
    }
    snprintf(buses->own_name, sizeof buses->own_name, "%s",
             options->namespace_name ? options->namespace_name : "default");
    buses->options = *options;
    buses->options.open_mode = HF_OPEN_EXISTING;
    buses->options.node_id = NULL; /* one id is for one namespace's node */
    buses->own = own;
    status = open_whole(buses, options);
    if (status) {
        buses_close(buses);
        return status;
    }
    *ret_buses = buses;
    return HF_OK;
}

void buses_close(struct buses *buses)
{
    if (!buses) {
        return;
    }
    for (size_t i = 0; i < OPEN_MAX; i++) {
        hf_close(&buses->entries[i].bus);
    }
    hf_close(&buses->whole);
    pthread_cond_destroy(&buses->changed);
    pthread_mutex_destroy(&buses->mutex);
    mem_free(buses->url);
    mem_free(buses);
}
