/*
 * opened.c - opens the PostgreSQL engine when the first URL asks for it.
 *
 * The engine needs libpq, and libpq needs some 20 other libraries; a program that uses SQLite loads
 * none of them. The file is looked for
 *
 *   1. in the directory of the file that this code was loaded from: libholdfast.so has its module
 *      beside it, wherever the installation was moved to;
 *   2. in that directory followed by the way from BINDIR to LIBDIR ("../lib"), which is where the
 *      installed command has it;
 *   3. by the dynamic linker, as it looks for every library.
 *
 * The first file that is there is taken, or refused: a module of another build is an error and no
 * reason to look further. The current directory and relative paths are never used. A directory that
 * every user may write is passed over: a command that was copied to /tmp must not load what others
 * have put there. A program with more rights than its caller (setuid) uses only the third way,
 * in which the dynamic linker ignores the caller's environment.
 *
 * Once it is open the module stays. There is no lock: threads that come here at the same time open
 * the same file, which the dynamic linker loads once, and find the same answer; so a fork() at any
 * moment leaves nothing locked. A failure is not remembered, and the next hf_open tries again.
 */
#include "store/module/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/err.h"
#include "build.h"

#if defined HF_FAULTS && !defined HF_ENGINE_IS_GUEST
#error "fault points, the failing allocator and the fake clock must exist once: link the engine"
#endif

#define LINE_BYTES_MAX (PATH_MAX + 128) /* of /proc/self/maps */
#define FILE_BYTES_MAX (PATH_MAX + 256) /* of a directory, the way to LIBDIR and the file's name */
#define LOOKED_BYTES_MAX 600            /* a sentence has no room for more */

/* Finds the directory of the file that this code was loaded from: the library, or the command. The
 * kernel knows it as an absolute path without symbolic links; dladdr knows only what the file was
 * opened as, and argv[0] of a program. False if /proc is not there. */
static bool own_directory(char ret_directory[PATH_MAX])
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) {
        return false;
    }
    uintptr_t here = (uintptr_t)&own_directory;
    char line[LINE_BYTES_MAX];
    bool found = false;
    while (fgets(line, sizeof line, maps)) {
        char *end = NULL;
        uintptr_t first = strtoull(line, &end, 16);
        uintptr_t behind = *end == '-' ? strtoull(end + 1, &end, 16) : 0;
        if (here < first || here >= behind) {
            continue;
        }
        char *path = strchr(line, '/');
        char *slash = path ? strrchr(path, '/') : NULL;
        found = slash && slash - path < PATH_MAX;
        if (found) {
            memcpy(ret_directory, path, (size_t)(slash - path));
            ret_directory[slash - path] = '\0';
        }
        break;
    }
    fclose(maps);
    return found;
}

/* What has been looked at, for the sentence of a failure. */
struct looked {
    char text[LOOKED_BYTES_MAX];
    size_t bytes;
};

static void looked_add(struct looked *looked, const char *directory, const char *why)
{
    size_t room = sizeof looked->text - looked->bytes;
    int bytes = snprintf(looked->text + looked->bytes, room, "%s%s, ", directory, why);
    looked->bytes += bytes > 0 && (size_t)bytes < room ? (size_t)bytes : 0;
    looked->text[looked->bytes] = '\0';
}

/* Is the module in this directory, and may it be taken from there? */
static bool is_in(const char *directory, struct looked *looked, char ret_file[FILE_BYTES_MAX])
{
    struct stat about;
    if (stat(directory, &about) != 0) {
        looked_add(looked, directory, "");
        return false;
    }
    if (about.st_mode & S_IWOTH) {
        looked_add(looked, directory, " (skipped: every user may write it)");
        return false;
    }
    snprintf(ret_file, FILE_BYTES_MAX, "%s/%s", directory, BUILD_POSTGRES_FILE);
    bool there = stat(ret_file, &about) == 0;
    if (!there) {
        looked_add(looked, directory, "");
    }
    return there;
}

/* Opens the module, wherever it is. */
static hf_status open_module(void **ret_handle)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    struct looked looked = {.bytes = 0};
    char own[PATH_MAX];
    char other[FILE_BYTES_MAX];
    char file[FILE_BYTES_MAX] = BUILD_POSTGRES_FILE;
    bool found = false;
    if (getauxval(AT_SECURE) == 0 && own_directory(own)) {
        snprintf(other, sizeof other, "%s/%s", own, BUILD_LIBDIR);
        found = is_in(own, &looked, file) || is_in(other, &looked, file);
    }
    void *handle = dlopen(found ? file : BUILD_POSTGRES_FILE, flags);
    if (handle) {
        *ret_handle = handle;
        return HF_OK;
    }
    const char *why = dlerror();
    if (found) {
        return fail(HF_UNAVAILABLE, "the PostgreSQL engine %s cannot be loaded: %s", file, why);
    }
    return fail(HF_UNAVAILABLE,
                "the PostgreSQL engine is not installed: install the package holdfast-postgres, "
                "version %s; looked for %s in %sthe directories of the dynamic linker: %s",
                HF_VERSION, BUILD_POSTGRES_FILE, looked.text, why);
}

/* The module's own word about itself, compared with ours. */
static hf_status attach(void *handle, const struct engine_class **ret_class)
{
    const struct engine_module *module = dlsym(handle, ENGINE_MODULE_SYMBOL);
    if (!module) {
        return fail(HF_UNAVAILABLE, "%s is no engine of Holdfast: %s", BUILD_POSTGRES_FILE,
                    dlerror());
    }
    Dl_info about = {0};
    const char *file = dladdr(module, &about) && about.dli_fname ? about.dli_fname : "the module";
    if (strcmp(module->identity, BUILD_IDENTITY) != 0) {
        return fail(HF_UNAVAILABLE,
                    "the PostgreSQL engine %s is of Holdfast %.64s, and this is Holdfast %s: "
                    "install both from one version, and restart a program that ran meanwhile",
                    file, module->identity, BUILD_IDENTITY);
    }
    const struct engine_class *class = module->attach(err_slot);
    if (!class) {
        return fail(HF_UNAVAILABLE,
                    "the PostgreSQL engine %s is used by another copy of Holdfast in this process",
                    file);
    }
    *ret_class = class;
    return HF_OK;
}

hf_status postgres_class_get(const struct engine_class **ret_class)
{
    static const struct engine_class *_Atomic attached;
    const struct engine_class *class = atomic_load(&attached);
    if (!class) {
        void *handle = NULL;
        hf_status status = open_module(&handle);
        if (!status) {
            status = attach(handle, &class);
        }
        if (status) {
            return status;
        }
        atomic_store(&attached, class);
    }
    *ret_class = class;
    return HF_OK;
}
