#!/usr/bin/env bash
# The PostgreSQL engine is a library of its own, libholdfast-postgres.so, which libholdfast.so and
# the command open when a URL asks for it. No server is needed here: an engine that was loaded says
# that it cannot connect. With a server the module is tested by all of tests/postgres/*.sh and
# tests/cli@postgres, whose command opens it.
set -u
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$ROOT/scripts/tap.sh"
BUILD=${BUILD:-$ROOT/build/release}
TMPDIR=${TMPDIR:-$(mktemp -d)}
module=libholdfast-postgres.so.0
url='postgres:///nothing?host=/nowhere'
cd "$TMPDIR" || exit 1

# probe LIBRARY STEP...: loads the library, as a program in another language does, and takes the
# steps. Each URL is opened, with one line about what came of it, "cd:PATH" changes the directory,
# "sh:COMMAND" runs a command, "maps:WORD" says whether a file of that name is loaded,
# "again:LIBRARY" loads another one, "threads:URL" opens the URL in many threads at once, and
# "fork:URL" opens it in a child process.
cat >probe.c <<'END'
#include <dlfcn.h>
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 16

static hf_status (*open_bus)(const char *, const hf_options *, hf_bus **);
static hf_status (*close_bus)(hf_bus **);
static const char *(*message)(void);
static const char *(*name_of)(hf_status);
static pthread_barrier_t barrier;

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("no library: %s\n", dlerror());
        exit(1);
    }
    *(void **)&open_bus = dlsym(library, "hf_open");
    *(void **)&close_bus = dlsym(library, "hf_close");
    *(void **)&message = dlsym(library, "hf_errmsg");
    *(void **)&name_of = dlsym(library, "hf_status_name");
}

static void try(const char *url)
{
    hf_bus *bus = NULL;
    hf_status status = open_bus(url, NULL, &bus);
    printf("%s %s\n", name_of(status), status ? message() : "");
    close_bus(&bus);
}

static void *thread(void *url)
{
    pthread_barrier_wait(&barrier);
    try(url);
    return NULL;
}

static void crowd(char *url)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread, url);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static int in_child(const char *url)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        try(url);
        exit(0);
    }
    return waitpid(child, &status, 0) != child || status != 0;
}

static int maps(const char *word)
{
    char line[8192];
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, file))
        if (strstr(line, word))
            return 1;
    return 0;
}

int main(int count, char **words)
{
    load(words[1]);
    for (int i = 2; i < count; i++) {
        char *rest = strchr(words[i], ':') + 1;
        int failed = 0;
        if (strncmp(words[i], "cd:", 3) == 0)
            failed = chdir(rest);
        else if (strncmp(words[i], "sh:", 3) == 0)
            failed = system(rest);
        else if (strncmp(words[i], "again:", 6) == 0)
            load(rest);
        else if (strncmp(words[i], "maps:", 5) == 0)
            printf("%s %s\n", rest, maps(rest) ? "is loaded" : "is not loaded");
        else if (strncmp(words[i], "threads:", 8) == 0)
            crowd(rest);
        else if (strncmp(words[i], "fork:", 5) == 0)
            failed = in_child(rest);
        else
            try(words[i]);
        if (failed)
            return 1;
        fflush(stdout);
    }
    return 0;
}
END
gcc -o probe probe.c -I"$ROOT/include" -pthread -ldl || exit 1

# tree DIRECTORY: an installation there, with a module.
tree() {
    mkdir -p "$1/bin" "$1/lib"
    cp "$BUILD/libholdfast.so.0" "$BUILD/$module" "$1/lib"
    cp "$BUILD/holdfast" "$1/bin"
}
# says PATTERN COMMAND...: prints a line that contains the words (a pattern of the shell).
says() {
    local wanted=$1 said
    shift
    said=$("$@" 2>&1)
    printf '%s\n' "$said"
    # shellcheck disable=SC2053  # a pattern
    [[ $said == *$wanted* ]]
}
# needs FILE: the libraries that it asks for itself, without those of the C library.
needs() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -Ev '^(libc|libm|libdl|libpthread|ld-linux.*|ld-musl.*)\.so' | tr '\n' ' '
}
needs_only() {
    local found
    found=$(needs "$2")
    echo "$found"
    [ "$found" = "$1" ]
}
no_libpq() {
    ! ldd "$1" | grep libpq
}

# --- What needs what -----------------------------------------------------------------------------

ok "libholdfast.so needs SQLite and the C library" \
    needs_only 'libsqlite3.so.0 ' "$BUILD/libholdfast.so"
ok "nothing that libholdfast.so needs is libpq" no_libpq "$BUILD/libholdfast.so"
ok "nothing that the command needs is libpq" no_libpq "$BUILD/holdfast"
ok "the module needs libpq and no other library" needs_only 'libpq.so.5 ' "$BUILD/$module"

cat >user.c <<'END'
#include <holdfast.h>
#include <stdio.h>
int main(void)
{
    hf_bus *bus = NULL;
    hf_new_event event = HF_NEW_EVENT_INIT;
    event.type = "a";
    event.payload = "{}";
    hf_status status = hf_open("user.db", NULL, &bus);
    status = status ? status : hf_publish(bus, &event, NULL);
    puts(status ? hf_errmsg() : "published");
    return hf_close(&bus) || status;
}
END
gcc -o user user.c -I"$ROOT/include" -L"$BUILD" -lholdfast
user_has_no_libpq() {
    LD_LIBRARY_PATH=$BUILD ldd user | tee ldd.out
    grep libholdfast ldd.out && ! grep libpq ldd.out
}
ok "a program that uses SQLite loads no libpq" user_has_no_libpq
ok "a program that uses SQLite works without libpq" env LD_LIBRARY_PATH="$BUILD" ./user

# --- Finding it ----------------------------------------------------------------------------------

tree 'a place'
lib="$PWD/a place/lib/libholdfast.so.0"
ok "libpq is loaded when a URL asks for it" says \
    'libpq is not loaded*HF_OK*libpq is not loaded*cannot connect*libpq is loaded' \
    ./probe "$lib" maps:libpq sqlite:a.db maps:libpq "$url" maps:libpq
ok "hf_errmsg has the sentence of the PostgreSQL engine" \
    says 'HF_UNAVAILABLE cannot connect to /nowhere' ./probe "$lib" "$url"
all_connect() {
    [ "$(./probe "$lib" "threads:$url" | grep -c 'HF_UNAVAILABLE cannot connect')" -eq 16 ]
}
ok "many threads may be the first to open the PostgreSQL engine" all_connect
ok "a child process may open the engine first, and use what its parent has loaded" says \
    'cannot connect*cannot connect*cannot connect' ./probe "$lib" "fork:$url" "$url" "fork:$url"
mv 'a place' 'another place'
lib="$PWD/another place/lib/libholdfast.so.0"
ok "the module is found beside the library after both were moved" says 'cannot connect' \
    ./probe "$lib" "$url"
ok "the command finds the module in ../lib, in a path with a space" says 'cannot connect' \
    'another place/bin/holdfast' doctor --db "$url"
ln -s "$lib" link.so
ok "the module is found through a symbolic link to the library" says 'cannot connect' \
    ./probe "$PWD/link.so" "$url"
ok "the module is found after chdir if the library was loaded by a relative path" says \
    'cannot connect' ./probe 'another place/lib/libholdfast.so.0' cd:/ "$url"

# --- What is refused -----------------------------------------------------------------------------

if ldconfig -p 2>/dev/null | grep -q "$module"; then
    skip "all claims about a missing module" \
        "Holdfast is installed on this machine, and the dynamic linker finds it"
    done_testing
    exit
fi

tree without
rm "without/lib/$module"
lib=$PWD/without/lib/libholdfast.so.0
version=$(sed -n 's/^#define HF_VERSION "\(.*\)"$/\1/p' "$ROOT/include/holdfast/common.h")
missing() { # LIBRARY: what is said without a module
    local said
    said=$(./probe "$1" "$url" 2>&1)
    echo "$said"
    [[ $said == "HF_UNAVAILABLE the PostgreSQL engine is not installed:"* ]] &&
        [[ $said == *"install the package holdfast-postgres, version $version;"* ]] &&
        [[ $said == *"looked for $module in ${1%/*}, "* ]] &&
        [[ $said == *"the directories of the dynamic linker: $module: cannot open "* ]]
}
ok "the error of a missing module names package, file and places" missing "$lib"
ok "SQLite works without the module" says 'HF_OK' ./probe "$lib" sqlite:b.db
command_says_69() {
    without/bin/holdfast doctor --db "$url" 2>said
    [ $? -eq 69 ] && grep 'install the package holdfast-postgres' said
}
ok "the command ends with 69 and names the missing module" command_says_69
ok "a module that is installed later is found by the same process" says \
    'not installed*cannot connect' ./probe "$lib" "$url" "sh:cp '$BUILD/$module' without/lib" "$url"
rm "without/lib/$module"

mkdir here
cp "$BUILD/$module" here
in_other_directory() {
    cd here && missing "$lib"
}
cp probe here
ok "the module is not looked for in the current directory" in_other_directory

chmod 777 'another place/lib'
lib="$PWD/another place/lib/libholdfast.so.0"
ok "a directory that every user may write is skipped" says \
    'another place/lib (skipped: every user may write it)' ./probe "$lib" "$url"
chmod 755 'another place/lib'

lib=$PWD/without/lib/libholdfast.so.0
cat >other.c <<'END'
const struct {
    const char *identity;
    void *attach;
} holdfast_postgres_module = {"9.9.9-feedbeefcafe", 0};
END
gcc -shared -fPIC -o "without/lib/$module" other.c
ok "a module of another build is refused with both versions" says \
    "lib/$module is of Holdfast 9.9.9-feedbeefcafe, and this is Holdfast $version-[0-9a-f]*" \
    ./probe "$lib" "$url"
echo 'int nothing;' | gcc -shared -fPIC -x c -o "without/lib/$module" -
ok "a library that is no engine is refused" \
    says "$module is no engine of Holdfast" ./probe "$lib" "$url"
echo 'int gone;' | gcc -shared -fPIC -Wl,-soname,libgone.so.5 -x c -o libgone.so -
echo 'extern int gone; int *there = &gone;' |
    gcc -shared -fPIC -x c -o "without/lib/$module" - -L. -lgone
ok "the error of a module whose libraries are missing names them" says \
    "lib/$module cannot be loaded: libgone.so.5: cannot open" ./probe "$lib" "$url"
rm "without/lib/$module"

cp 'another place/lib/libholdfast.so.0' 'another place/lib/second.so'
lib="$PWD/another place/lib"
ok "a module serves one copy of the library" \
    says 'cannot connect*is used by another copy of Holdfast' \
    ./probe "$lib/libholdfast.so.0" "$url" "again:$lib/second.so" "$url"

# A program with more rights than its caller: the caller can give it another place by a link.
setuid_looks_nowhere() {
    chown nobody 'another place/bin/holdfast' && chmod 4755 'another place/bin/holdfast' || return
    says 'looked for libholdfast-postgres.so.0 in the directories of the dynamic linker' \
        'another place/bin/holdfast' doctor --db "$url"
}
if [ "$(id -u)" -eq 0 ] && ! findmnt -n -o OPTIONS -T . 2>/dev/null | grep -q nosuid; then
    ok "a setuid program leaves the search to the dynamic linker" setuid_looks_nowhere
else
    skip "a setuid program leaves the search to the dynamic linker" "not root, or no setuid here"
fi
done_testing
