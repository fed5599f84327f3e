/*
 * temp.h - where an example keeps its database.
 *
 * It is the path that the example was given, or a file in a directory of its own below $TMPDIR that
 * is removed when the program ends. (A program of yours would simply name a file.)
 */
#ifndef HF_EXAMPLES_TEMP_H
#define HF_EXAMPLES_TEMP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char temp_directory[4096];
static char temp_path[sizeof temp_directory + 16];
static pid_t temp_owner; /* a forked child must not remove what its parent still uses */

static void temp_remove(void)
{
    DIR *directory = getpid() == temp_owner ? opendir(temp_directory) : NULL;
    if (!directory) {
        return;
    }
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        unlinkat(dirfd(directory), entry->d_name, 0); /* refuses "." and ".." by itself */
    }
    closedir(directory);
    rmdir(temp_directory);
}

/* The database's path; exits if there is no room for a temporary one. */
static const char *temp_database(int argc, char **argv)
{
    if (argc > 1) {
        return argv[1];
    }
    const char *parent = getenv("TMPDIR");
    snprintf(temp_directory, sizeof temp_directory, "%s/holdfast-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(temp_directory)) {
        perror(temp_directory);
        exit(1);
    }
    temp_owner = getpid();
    atexit(temp_remove);
    snprintf(temp_path, sizeof temp_path, "%s/example.db", temp_directory);
    return temp_path;
}

#endif
