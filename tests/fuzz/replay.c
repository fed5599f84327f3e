/*
 * replay.c - feeds files to the fuzz target it is linked with, and speaks TAP.
 *
 *     replay_json tests/fuzz/corpus/json some-crash-file
 *
 * Directories are read in alphabetical order, not recursively. A broken property ends the program,
 * as it would under the fuzzer; the last line printed is then the file before the culprit.
 */
#include "base/banned.h"
#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (1 << 20)
#define PATH_BYTES_MAX 4096

static int files_done;

static bool replay_file(const char *path)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    FILE *file = fopen(path, "rb");

    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        return false;
    }

    size_t size = fread(bytes, 1, sizeof bytes, file);
    bool whole = !ferror(file) && fgetc(file) == EOF;

    fclose(file);
    if (!whole) {
        fprintf(stderr, "cannot read %s, or it is larger than %d bytes\n", path, FILE_BYTES_MAX);
        return false;
    }

    /* A copy of exactly this size lets the address sanitizer see a read behind the end. */
    uint8_t *exact = malloc(size ? size : 1);

    if (!exact) {
        return false;
    }
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    printf("ok %d - the parser survives the input %s\n", ++files_done, path);
    fflush(stdout);
    return true;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool replay_directory(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, alphasort);
    bool ok = count >= 0;

    if (!ok) {
        fprintf(stderr, "cannot read the directory %s\n", path);
    }
    for (int i = 0; i < count; i++) {
        char file[PATH_BYTES_MAX];
        int length = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);

        ok = ok && length < PATH_BYTES_MAX && replay_file(file);
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = true;

    for (int i = 1; i < argc && ok; i++) {
        struct stat info;
        bool directory = stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode);

        ok = directory ? replay_directory(argv[i]) : replay_file(argv[i]);
    }
    if (!ok) {
        printf("not ok %d - the files can be read\n", files_done + 1);
    }
    printf("1..%d\n", files_done + !ok);
    return ok && files_done > 0 ? 0 : 1;
}
