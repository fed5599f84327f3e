/*
 * pages.c - see pages.h.
 */
#include "store/common/pages.h"

static struct page *page_at(struct pages *pages, size_t i)
{
    return &pages->list[(pages->oldest + i) % PAGES_COUNT];
}

void pages_init(struct pages *pages)
{
    for (size_t i = 0; i < PAGES_COUNT; i++) {
        batch_init(&pages->list[i].batch);
    }
}

void pages_release(struct pages *pages)
{
    for (size_t i = 0; i < PAGES_COUNT; i++) {
        batch_release(&pages->list[i].batch);
    }
    pages_init(pages);
    pages->count = 0;
}

static void drop_oldest(struct pages *pages)
{
    struct page *page = page_at(pages, 0);
    pages->low = page->top > pages->low ? page->top : pages->low;
    if (page->batch.arena.used_bytes > 2 * PAGE_BYTES) {
        batch_release(&page->batch); /* one that was unusually large */
        batch_init(&page->batch);
    }
    batch_clear(&page->batch);
    pages->oldest = (pages->oldest + 1) % PAGES_COUNT;
    pages->count--;
}

/* The page that the next event is put on. */
static struct page *page_for_next(struct pages *pages)
{
    if (pages->count > 0) {
        struct page *last = page_at(pages, pages->count - 1);
        if (last->batch.count < PAGE_EVENTS && last->batch.arena.used_bytes < PAGE_BYTES) {
            return last;
        }
    }
    if (pages->count == PAGES_COUNT) {
        drop_oldest(pages);
    }
    struct page *page = page_at(pages, pages->count++);
    page->first = pages->next;
    page->top = 0;
    return page;
}

bool pages_put(struct pages *pages, const struct entry *entry)
{
    struct page *page = page_for_next(pages);
    if (!batch_copy(&page->batch, entry)) {
        return false;
    }
    page->top = entry->event.position > page->top ? entry->event.position : page->top;
    pages->next++;
    return true;
}

uint64_t pages_first(const struct pages *pages)
{
    return pages->count > 0 ? pages->list[pages->oldest].first : pages->next;
}

const struct entry *pages_event(const struct pages *pages, uint64_t number)
{
    size_t i = pages->count - 1;
    const struct page *page = &pages->list[(pages->oldest + i) % PAGES_COUNT];
    while (page->first > number) {
        i--;
        page = &pages->list[(pages->oldest + i) % PAGES_COUNT];
    }
    return &page->batch.entries[number - page->first];
}
