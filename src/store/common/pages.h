/*
 * pages.h - the last events that were put, numbered from 0 on in the order in which they were.
 *
 * They are on a ring of pages, of which the oldest is given up when a new one is needed.
 */
#ifndef HF_STORE_COMMON_PAGES_H
#define HF_STORE_COMMON_PAGES_H

#include "store/common/batch.h"

#define PAGES_COUNT 16
#define PAGE_EVENTS 512
#define PAGE_BYTES 262144

/* Some events, numbered from `first` on. */
struct page {
    struct batch batch;
    uint64_t first;
    int64_t top; /* the highest position */
};

struct pages {
    struct page list[PAGES_COUNT]; /* `count` of them from `oldest` on, cyclic */
    size_t oldest;
    size_t count;
    uint64_t next; /* number of the next event */
    int64_t low;   /* the highest position that was given up, if it was not higher at the begin */
};

void pages_init(struct pages *pages);
/* Gives up all events and their memory; numbers go on. */
void pages_release(struct pages *pages);
/* Copies it. False: there is no memory. */
bool pages_put(struct pages *pages, const struct entry *entry);
/* The number of the oldest event that is kept. */
uint64_t pages_first(const struct pages *pages);
/* The event with this number, which is kept. */
const struct entry *pages_event(const struct pages *pages, uint64_t number);

#endif
