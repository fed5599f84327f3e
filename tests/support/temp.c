/*
 * temp.c - makes and removes the directories of tests.
 */
#include "support/temp.h"

#include "base/banned.h"

#include <ftw.h>
#include <sys/stat.h>

void temp_open(char path[TEMP_PATH_BYTES])
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(path, TEMP_PATH_BYTES, "%s/holdfast store.XXXXXX",
                          parent && parent[0] ? parent : "/tmp");
    if (length >= TEMP_PATH_BYTES || !mkdtemp(path)) {
        perror("cannot make a directory for a test");
        abort();
    }
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path);
}

void temp_close(const char *path)
{
    if (path[0]) {
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

const char *temp_file(const char *path, const char *name)
{
    static __thread char buffers[4][TEMP_PATH_BYTES + 256];
    static __thread unsigned next;
    char *buffer = buffers[next++ % 4];
    snprintf(buffer, sizeof buffers[0], "%s/%s", path, name);
    return buffer;
}
