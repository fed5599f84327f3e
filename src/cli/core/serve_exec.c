/*
 * serve_exec.c - `serve` in the program without an HTTP server: starts the one that has it.
 *
 * It is beside this program, as it is built, or in ../libexec/holdfast, as it is installed.
 */
#include "cli/core/serve.h"

#include "base/banned.h"
#include "cli/terminal/out.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define INSTALLED "../libexec/holdfast/"

/* Becomes the program in a folder relative to this one's. Returns if it is not there. */
static void become(const char *own, const char *folder, char **argv)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%.*s/%s%s", (int)(strrchr(own, '/') - own), own,
                          folder, SERVE_PROGRAM);

    if (length > 0 && (size_t)length < sizeof path) {
        execv(path, argv);
    }
}

int serve_run(struct cli *cli)
{
    return serve_become(cli, "which has the HTTP server");
}

int serve_become(struct cli *cli, const char *why)
{
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);

    if (length > 0) {
        own[length] = '\0';
        become(own, "", cli->argv);
        if (errno == ENOENT) {
            become(own, INSTALLED, cli->argv);
        }
    }
    out_complain("the program %s, %s, cannot be started: %s", SERVE_PROGRAM, why, strerror(errno));
    out_hint("It is a part of Holdfast of its own: `make install`, or the package "
             "holdfast-server.");
    return EXIT_UNAVAILABLE;
}
