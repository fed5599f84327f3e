# Holdfast: the one build file.
#
# A *variant* is a way to compile; each has its own tree below build/, so they never mix:
#
#   release    -O2 -g, hardened            what users get (assert stays on)
#   faults     -O1 -g -DHF_FAULTS          fault points compiled in
#   address    faults + ASan + UBSan       undefined   UBSan alone
#   thread     faults + TSan               coverage    gcov counters
#   fuzz       clang, libFuzzer + ASan
#
# Every rule below is written once, in terms of $(BUILD) = build/$(VARIANT). A target that needs
# several variants calls make again, once per variant.
#
# Only relative paths are used, so the tree may live under a path with spaces.
# `make help` lists the targets.

# The version is written once, in the public header.
VERSION := $(shell sed -n 's/^\#define HF_VERSION "\(.*\)"/\1/p' include/holdfast/common.h)
SOVERSION := 0

# --- Choices of the caller -----------------------------------------------------------------------

SAN ?=
# `make test` takes these variants unless one is asked for.
TEST_VARIANTS := $(if $(filter undefined,$(origin VARIANT)$(SAN)),release faults address thread)
VARIANT ?= $(or $(SAN),release)
TEST_VARIANTS := $(or $(TEST_VARIANTS),$(VARIANT))
WERROR ?= 0
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
ONLY ?=
WITHOUT ?=
# POSTGRES=0 leaves the PostgreSQL engine out of the tests; POSTGRES=1 measures it in benchmarks.
POSTGRES ?=
# Where the PostgreSQL engine is: `module`, in libholdfast-postgres.so, which is opened when a URL
# asks for it; or `linked` into libholdfast.so and the command, which then need libpq.
POSTGRES_ENGINE ?= module
# FULL=1: every test runs in every variant, and not only a choice of them (scripts/run-tests).
FULL ?=
# How many test programs run at once; empty: as many as the machine can bear.
TEST_JOBS ?=
TEST_TIMEOUT ?= 600

BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man

BUILD := build/$(VARIANT)
comma := ,

# Use every core unless the caller gave -j; a -j on the command line wins over this line.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDEXPANSION:

ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(VARIANT)),clang,gcc)
endif
ifeq ($(origin AR),default)
AR := ar
endif
OBJCOPY ?= objcopy

# --- Flags ---------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            -Wpointer-arith -Wcast-qual -Wwrite-strings -Wformat=2 -Wundef

# The reports of sanitizers name functions and lines: -g1 has these, and is made and linked sooner.
# For a debugger: make VARIANT=faults CFLAGS=-g.
OPT_release   := -O2 -g
OPT_faults    := -O1 -g1 -DHF_FAULTS
OPT_address   := -O1 -g1 -DHF_FAULTS -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
OPT_undefined := -O1 -g1 -DHF_FAULTS -fsanitize=undefined -fno-sanitize-recover=all
OPT_thread    := -O1 -g1 -DHF_FAULTS -fno-omit-frame-pointer -fsanitize=thread
OPT_coverage  := -O0 -g -DHF_FAULTS --coverage -fprofile-update=atomic
OPT_fuzz      := -O1 -g -DHF_FAULTS -fno-omit-frame-pointer \
                 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifeq ($(OPT_$(VARIANT)),)
$(error Unknown variant '$(VARIANT)': it is one of release faults address undefined thread \
    coverage fuzz)
endif

# Hardening of the release variant, as far as this compiler has it for this machine: each flag is
# tried, together with the caller's. Checked buffers are left to the caller who says something of
# them; the definition is taken back first because some compilers come with one.
# scripts/check-hardening looks at what was built.
accepted = $(if $(shell printf '\043include <stdio.h>\n' | $(CC) $(CPPFLAGS) $(OPT_release) $(CFLAGS) \
                        $(1) -Werror -x c -S -o /dev/null - 2>/dev/null && echo yes),$(1))
ifeq ($(VARIANT),release)
HARDENING := $(foreach flag,-fstack-clash-protection -fcf-protection -mbranch-protection=standard, \
                            $(call accepted,$(flag)))
ifeq ($(findstring _FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),)
FORTIFY = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1)
HARDENING += $(or $(call accepted,$(call FORTIFY,3)),$(call accepted,$(call FORTIFY,2)))
endif
HARDENING_LINK := -Wl,-z,noexecstack -Wl,-z,separate-code
# The command may be loaded anywhere, also where the compiler's own default is another.
PIE := $(if $(filter -static% -no-pie,$(LDFLAGS)),,-pie)
endif

# Hundreds of test programs link in a moment if what they test is a shared library, all of whose
# functions they can see.
IS_SHARED := $(filter faults address undefined thread,$(VARIANT))
VISIBILITY := $(if $(IS_SHARED),-fno-semantic-interposition,-fvisibility=hidden)

# CFLAGS, CPPFLAGS and LDFLAGS of the caller are added, and so win where they differ.
ALL_CFLAGS = -std=gnu11 $(WARNINGS) $(OPT_$(VARIANT)) -fPIC $(VISIBILITY) \
             -fstack-protector-strong $(strip $(HARDENING)) -pthread $(CFLAGS)
ALL_CPPFLAGS = -D_GNU_SOURCE $(CPPFLAGS)
ALL_LDFLAGS = -Wl,-z,relro,-z,now $(HARDENING_LINK) -Wl,--as-needed -pthread \
              $(filter -fsanitize=% --coverage,$(OPT_$(VARIANT))) $(LDFLAGS)
# gold, where there is one, links a program in half the time, and there are hundreds of tests. What
# users get is linked as the compiler likes it.
TEST_LINKER := $(if $(filter release fuzz,$(VARIANT)),,$(shell \
                 $(CC) -fuse-ld=gold -Wl,--version >/dev/null 2>&1 && echo -fuse-ld=gold))
# The tests run the command thousands of times under the address sanitizer. It begins sooner with the
# sanitizer's code in itself than with libraries whose symbols are looked up, and at a fixed address
# sooner than at one to which 160,000 pointers must be moved.
STATIC_SANITIZER := $(if $(filter address,$(VARIANT)),$(shell \
    echo 'int main(void) { return 0; }' | $(CC) -static-libasan -static-libubsan -no-pie \
        -fsanitize=address,undefined -x c -o /dev/null - 2>/dev/null && \
    echo -static-libasan -static-libubsan -no-pie))
# Under sanitizers the tests themselves are not optimised: half of the time went into that. The
# compiler finds less then; it sees them with -O1 in the variant faults, and those of tests/unit,
# which run under sanitizers only, in all variants. What is undefined is looked for in what users
# get: in the tests it would take a third of the time of their compilation.
TEST_SPEED := $(if $(filter address thread,$(VARIANT)),-O0) \
              $(if $(filter address,$(VARIANT)),-fno-sanitize=undefined)
$(BUILD)/obj/tests/%.o: SPEED = $(TEST_SPEED)
$(BUILD)/obj/tests/unit/%.o: SPEED =
# libpq's header is not on the compiler's path everywhere.
PQ_CFLAGS := $(shell pkg-config --cflags libpq 2>/dev/null || echo -I/usr/include/postgresql)
PQ_LIBS := $(shell pkg-config --libs libpq 2>/dev/null || echo -lpq)
LIBS := -lsqlite3 -lm -ldl
# What the command needs beyond the library; tests link the command's parts, too.
CLI_LIBS := -lyaml
# What the program with the HTTP server needs besides.
SERVER_LIBS := -lmicrohttpd -lcurl -lgnutls

# Warnings stop the build in `make test` only: a newer compiler must not break a user's build.
# This is no part of $(BUILD)/flags, so switching it recompiles nothing.
ERRORS := $(if $(filter 1,$(WERROR)),-Werror)

# What each directory may include. Examples and benchmarks see the public header only.
INCLUDES = -Iinclude -Isrc -I$(BUILD)/gen $(PQ_CFLAGS)
$(BUILD)/obj/tests/%.o: INCLUDES = -Iinclude -Isrc -Itests -I$(BUILD)/gen \
                                     $(PQ_CFLAGS)
$(BUILD)/obj/examples/%.o: INCLUDES = -Iinclude $(PQ_CFLAGS)
$(BUILD)/obj/bench/%.o: INCLUDES = -Iinclude $(PQ_CFLAGS)

# --- Sources -------------------------------------------------------------------------------------

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

# below FOLDERS: their C files, and those of their sub-folders.
below = $(sort $(shell find $(1) -name '*.c'))

LIB_SRC := $(call below,src/base src/store src/bus)
# What is linked together is made of these: the library without the PostgreSQL engine, that engine,
# and one of the three ways to get at it (src/store/engine.h).
WAYS_SRC := $(wildcard src/store/module/*.c)
ENTRY_SRC := src/store/postgres/module.c
POSTGRES_SRC := $(filter-out $(ENTRY_SRC),$(filter src/store/postgres/%,$(LIB_SRC)))
CORE_SRC := $(filter-out $(WAYS_SRC) $(ENTRY_SRC) $(POSTGRES_SRC),$(LIB_SRC))
MAIN_SRC := $(filter %/main.c,$(call below,src/cli))
CLI_SRC := $(filter-out $(MAIN_SRC),$(call below,src/json src/cli))
SERVER_SRC := $(call below,src/server)

# tests/<layer>/test_x.c is a program; the layer's other .c files and tests/support/*.c are linked
# into each of them. tests/torture/*.c, examples/*.c and bench/*.c are programs of their own;
# tests/preload/*.c become libraries for other people's programs, tests/tools/*.c programs for shell
# tests.
TEST_SRC := $(sort $(filter-out tests/torture/% tests/fuzz/%,$(wildcard tests/*/test_*.c)))
TEST_LAYERS := $(sort $(patsubst tests/%/,%,$(dir $(TEST_SRC))))
HELPER_SRC := $(sort $(filter-out $(TEST_SRC), \
                $(wildcard tests/support/*.c $(TEST_LAYERS:%=tests/%/*.c))))
TORTURE_SRC := $(sort $(wildcard tests/torture/*.c))
PRELOAD_SRC := $(sort $(wildcard tests/preload/*.c))
TOOL_SRC := $(sort $(wildcard tests/tools/*.c))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
REPLAY_SRC := $(wildcard tests/fuzz/replay.c)
EXAMPLE_SRC := $(sort $(wildcard examples/*.c))
BENCH_SRC := $(sort $(wildcard bench/*.c))
# bench/peers/*.c is one program, bench/measure.
MEASURE_SRC := $(sort $(wildcard bench/peers/*.c))

CORE_OBJ := $(call objects,$(CORE_SRC))
POSTGRES_OBJ := $(call objects,$(POSTGRES_SRC))
ENTRY_OBJ := $(call objects,$(ENTRY_SRC))
ABSENT_OBJ := $(call objects,src/store/module/absent.c)
LINKED_OBJ := $(call objects,src/store/module/linked.c)
MODULE_OBJ := $(call objects,src/store/module/opened.c)
CLI_OBJ := $(call objects,$(CLI_SRC))
MAIN_OBJ := $(call objects,$(MAIN_SRC))
SERVER_OBJ := $(call objects,$(SERVER_SRC))
HELPER_OBJ := $(call objects,$(HELPER_SRC))
ALL_OBJ := $(call objects,$(LIB_SRC) $(CLI_SRC) $(MAIN_SRC) $(SERVER_SRC) $(TEST_SRC) $(HELPER_SRC) \
                          $(TORTURE_SRC) $(FUZZ_SRC) $(REPLAY_SRC) $(EXAMPLE_SRC) $(BENCH_SRC) \
                          $(MEASURE_SRC))

SCRIPTS := .ci/run $(filter-out %.awk,$(wildcard scripts/*)) \
           $(wildcard tests/*/*.sh examples/*.sh) bench/growth bench/judge.sh \
           bench/run-http bench/peers/run bench/peers/publish

# sql/<engine>/*/*.sql becomes gen/<engine>_sql.h.
ENGINES := $(sort $(patsubst sql/%/tables/,%,$(dir $(wildcard sql/*/tables/*.sql))))
# The headers whose constants SQL may name, and the options of a subscription.
SQL_CONSTANTS := $(wildcard include/holdfast/*.h) \
                 $(addprefix src/store/,store.h cancel.h dead.h progress.h namespace.h retry.h cause.h \
                   claimants.h common/story.h) \
                 src/base/limiter.h src/store/postgres/read/probe.h \
                 src/store/postgres/wire/commit_mode.h \
                 src/bus/options.def
GENERATED := $(ENGINES:%=$(BUILD)/gen/%_sql.h)

# The dashboard's files become gen/web.h.
WEB := $(BUILD)/gen/web.h

# Programs of versions that do not exist, for tests of upgrades (tests/upgrade): the objects that
# have SQL in them are compiled again, with other SQL, and linked with all others.
NEIGHBOURS := $(patsubst tests/upgrade/%/,%,$(wildcard tests/upgrade/*/))
NEIGHBOUR_SRC := $(sort $(shell grep -rlE --include='*.c' \
                   '(sqlite|postgres)_(queries|migrations|functions)\b|_(MIGRATION_COUNT|FROM)\b' \
                   src/store))
NEIGHBOUR_PROGRAMS := $(if $(filter release faults address,$(VARIANT)), \
                        $(NEIGHBOURS:%=$(BUILD)/neighbours/%/holdfast))

# The libraries of a build with fault points have no modules: their state must exist once
# (src/store/module/module.h). Its command has one that takes everything from the command: a start
# that loads libpq, and what libpq needs, takes half as long again, and the tests start it thousands
# of times with a file.
IS_MODULAR := $(if $(filter release,$(VARIANT)),$(filter module,$(POSTGRES_ENGINE)))
HAS_GUEST := $(if $(IS_SHARED),$(filter module,$(POSTGRES_ENGINE)))

SHARED := $(BUILD)/libholdfast.so.$(VERSION)
MODULE := $(if $(IS_MODULAR),$(BUILD)/libholdfast-postgres.so.$(VERSION))
GUEST := $(if $(HAS_GUEST),$(BUILD)/libholdfast-postgres.so.$(SOVERSION))
STATIC := $(BUILD)/libholdfast.a
STATIC_POSTGRES := $(BUILD)/libholdfast-postgres.a
CORE := $(BUILD)/core.a
INTERNAL := $(BUILD)/internal.a
# What test programs link with: one of them.
TEST_SHARED := $(if $(IS_SHARED),$(BUILD)/libinternal.so)
TEST_ARCHIVE := $(if $(IS_SHARED),,$(INTERNAL))
BINARY := $(if $(MAIN_SRC),$(BUILD)/holdfast)
SERVER := $(BUILD)/holdfast-serve
TEST_PROGRAMS := $(TEST_SRC:%.c=$(BUILD)/%)
PRELOADS := $(PRELOAD_SRC:%.c=$(BUILD)/%.so)
TOOLS := $(TOOL_SRC:%.c=$(BUILD)/%)
TORTURE_PROGRAMS := $(TORTURE_SRC:%.c=$(BUILD)/%)
EXAMPLE_PROGRAMS := $(EXAMPLE_SRC:%.c=$(BUILD)/%)
MEASURE := $(BUILD)/bench/measure
BENCH_PROGRAMS := $(BENCH_SRC:%.c=$(BUILD)/%) $(MEASURE)
REPLAY_PROGRAMS := $(if $(REPLAY_SRC),$(FUZZ_SRC:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%))
FUZZ_PROGRAMS := $(FUZZ_SRC:%.c=$(BUILD)/%)

# --- Targets for people --------------------------------------------------------------------------

# The environment of a script that works with a build.
in_variant = BUILD="$$PWD/build/$(1)" HOLDFAST="$$PWD/build/$(1)/holdfast" ROOT="$$PWD"

.PHONY: all
all: library $(BINARY) $(SERVER) ## Build the library and the holdfast command (default)

.PHONY: library
library: $(SHARED) $(MODULE) $(STATIC) $(STATIC_POSTGRES) ## Build the shared and the static libraries

.PHONY: demo
demo: ## Install what is missing, build, and show Holdfast at work in a temporary directory
	scripts/deps build
	$(MAKE) VARIANT=release all
	@cd "$$(mktemp -d)" && trap 'rm -rf "$$PWD"' EXIT && "$$OLDPWD/build/release/holdfast" demo

# VARIANT=faults (or SAN=…) restricts the run to one variant, ONLY=pattern to matching names;
# POSTGRES=0 leaves the PostgreSQL engine out.

.PHONY: test
test: ## Build every variant, run every test and check (ONLY=pattern VARIANT=name POSTGRES=0)
	scripts/deps build
	@TEST_MAKE='$(MAKE)' ONLY='$(ONLY)' TEST_JOBS='$(TEST_JOBS)' TEST_TIMEOUT='$(TEST_TIMEOUT)' \
	    TEST_PACKAGES='test browser $(if $(filter 0,$(POSTGRES)),,postgres languages)' \
	    POSTGRES='$(POSTGRES)' FULL='$(FULL)' scripts/run-tests $(TEST_VARIANTS)

.PHONY: test-all
test-all: ## The same, and every test in every variant
	$(MAKE) FULL=1 test

.PHONY: test-programs
# The unit tests run with fault points and sanitizers; the release build is what the command's,
# the examples' and the installation's tests use.
# With ONLY, programs whose name matches are enough, if there are any. WITHOUT are programs that do
# not run in this variant (scripts/run-tests).
matching = $(foreach p,$(TEST_PROGRAMS),$(if $(findstring $(ONLY),$p),$p))
chosen = $(filter-out $(WITHOUT:%=build/%), \
             $(or $(if $(ONLY),$(strip $(matching))),$(TEST_PROGRAMS)))
# Of several variants release and address have the commands that tests run.
commands = $(if $(WITHOUT),,$(BINARY) $(SERVER))
TEST_GOALS_release = all $(EXAMPLE_PROGRAMS) $(BENCH_PROGRAMS) $(TOOLS)
TEST_GOALS_thread = $(commands) $(chosen)
TEST_GOALS_address = $(BINARY) $(SERVER) $(chosen) $(REPLAY_PROGRAMS)
# The neighbours are for tests of the command named upgrade, which run in the release if several
# variants are asked for.
upgrades = $(if $(or $(if $(ONLY),,all),$(findstring upgrade,$(ONLY))), \
               $(if $(and $(WITHOUT),$(filter-out release,$(VARIANT))),,$(NEIGHBOUR_PROGRAMS)))
test-programs: $(or $(TEST_GOALS_$(VARIANT)),$(commands) $(chosen) $(TORTURE_PROGRAMS)) \
    $(PRELOADS) $(TOOLS) $(upgrades)

.PHONY: neighbours
neighbours: $(NEIGHBOUR_PROGRAMS) ## Build programs of versions that do not exist (tests/upgrade)

.PHONY: bench
bench: ## Build and run the benchmarks (POSTGRES=1: of the PostgreSQL engine)
	scripts/deps build $(if $(POSTGRES),postgres)
	$(MAKE) VARIANT=release all bench-programs
	@$(call in_variant,release) $(if $(POSTGRES),bench/run-postgres,bench/run)

.PHONY: bench-peers
bench-peers: ## Measure Holdfast beside PgQ, Redis and others (ROUNDS=3 PUBLISH=1: into docs)
	scripts/deps build postgres
	$(MAKE) VARIANT=release all bench-programs
	@$(call in_variant,release) bench/peers/run $(if $(ROUNDS),--rounds '$(ROUNDS)') \
	    $(if $(ONLY),--only '$(ONLY)') $(if $(PUBLISH),--publish)

.PHONY: bench-http
bench-http: ## Measure `holdfast serve` on both engines (ROUNDS=1 ONLY=WORD)
	scripts/deps build postgres browser
	$(MAKE) VARIANT=release all bench-programs
	@$(call in_variant,release) bench/run-http $(if $(ROUNDS),--repeat '$(ROUNDS)') \
	    $(if $(ONLY),--only '$(ONLY)')

.PHONY: bench-growth
bench-growth: ## Measure what an event costs in large databases, against small ones
	scripts/deps build postgres
	$(MAKE) VARIANT=release all bench-programs
	@$(call in_variant,release) bench/growth $(if $(ONLY),--only '$(ONLY)')

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS)

.PHONY: torture
torture: ## Kill, starve and corrupt it for a long time
	scripts/deps build test
	$(MAKE) VARIANT=faults test-programs
	@if [ -x tests/torture/run ]; then $(call in_variant,faults) tests/torture/run; \
	 else echo "There is no torture yet: tests/torture/run is missing."; fi

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS
	scripts/deps build fuzz
	$(MAKE) VARIANT=fuzz fuzz-programs
	FUZZ_SECONDS='$(FUZZ_SECONDS)' ONLY='$(ONLY)' scripts/fuzz

.PHONY: fuzz-programs
fuzz-programs: $(FUZZ_PROGRAMS)

.PHONY: coverage
coverage: ## Run the tests with counters and say how much of each file ran
	scripts/deps build test browser $(if $(filter 0,$(POSTGRES)),,postgres languages)
	$(MAKE) VARIANT=coverage test-programs
	@find build/coverage -name '*.gcda' -delete
	@ONLY='$(ONLY)' TEST_JOBS='$(TEST_JOBS)' TEST_TIMEOUT='$(TEST_TIMEOUT)' POSTGRES='$(POSTGRES)' \
	    scripts/run-tests coverage; status=$$?; scripts/coverage build/coverage; exit $$status

.PHONY: tidy
tidy: $(GENERATED) $(BUILD)/gen/build.h ## Static analysis and the rules of the house
	scripts/deps build tidy
	scripts/check-tidy
	scripts/check-layers
	shellcheck -x $(SCRIPTS)
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
	    --suppress=missingIncludeSystem -D_GNU_SOURCE $(INCLUDES) src
	@# One file at a time: clang-tidy 14 takes a va_list for uninitialised in the second file.
	printf '%s\0' $(LIB_SRC) $(CLI_SRC) $(MAIN_SRC) | xargs -0 -P "$$(nproc)" -I FILE \
	    clang-tidy --quiet FILE -- -std=gnu11 -D_GNU_SOURCE $(INCLUDES) 2>/dev/null

FORMATTED = $(shell find include src tests examples bench -name '*.[ch]')

.PHONY: format
format: ## Format all C files
	scripts/deps format
	clang-format-14 -i $(FORMATTED)

.PHONY: format-check
format-check: ## Say which C files `make format` would change
	scripts/deps format
	scripts/check-format

.PHONY: examples
examples: $(EXAMPLE_PROGRAMS) ## Build the example programs

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf build

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z.-]*\):.*## \(.*\)/\1\t\2/p' Makefile | sort | expand -t 16
	@echo
	@echo "Variables: SAN=address|thread|undefined  VARIANT=release|faults|...  WERROR=1  ONLY=pattern"
	@echo "           POSTGRES_ENGINE=module|linked  PREFIX=/usr/local  DESTDIR="
	@echo "           FUZZ_SECONDS=60  TEST_JOBS=n  TEST_TIMEOUT=600"

# --- Installation --------------------------------------------------------------------------------

# Where completions go, by shell; `holdfast completion SHELL` writes them.
COMPLETION_bash := bash-completion/completions/holdfast
COMPLETION_zsh := zsh/site-functions/_holdfast
COMPLETION_fish := fish/vendor_completions.d/holdfast.fish
SHELLS := bash zsh fish
MAN_PAGES := $(sort $(wildcard man/*.1 man/*.3))
# Shared libraries; the PostgreSQL engine and its static library may be a package of their own,
# holdfast-postgres.
LIBRARIES := libholdfast $(if $(MODULE),libholdfast-postgres)
man_target = $(MANDIR)/man$(subst .,,$(suffix $(1)))/$(notdir $(1))

.PHONY: install
install: all ## Install below PREFIX (and DESTDIR)
	install -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(INCLUDEDIR)/holdfast" \
	    "$(DESTDIR)$(LIBDIR)/pkgconfig"
	install -m 755 $(BINARY) "$(DESTDIR)$(BINDIR)/holdfast"
	install -D -m 755 $(SERVER) "$(DESTDIR)$(LIBEXECDIR)/holdfast/holdfast-serve"
	install -m 644 include/holdfast.h "$(DESTDIR)$(INCLUDEDIR)/holdfast.h"
	install -m 644 include/holdfast/*.h "$(DESTDIR)$(INCLUDEDIR)/holdfast"
	install -m 644 $(STATIC) $(STATIC_POSTGRES) "$(DESTDIR)$(LIBDIR)"
	install -m 755 $(SHARED) $(MODULE) "$(DESTDIR)$(LIBDIR)"
	@set -e; $(foreach library,$(LIBRARIES), \
	    ln -sf $(library).so.$(VERSION) "$(DESTDIR)$(LIBDIR)/$(library).so.$(SOVERSION)"; \
	    ln -sf $(library).so.$(SOVERSION) "$(DESTDIR)$(LIBDIR)/$(library).so";)
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@LIBDIR@|$(LIBDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' holdfast.pc.in >"$(DESTDIR)$(LIBDIR)/pkgconfig/holdfast.pc"
	@set -e; $(foreach page,$(MAN_PAGES), \
	    install -D -m 644 $(page) "$(DESTDIR)$(call man_target,$(page))";)
	@set -e; $(foreach shell,$(SHELLS), \
	    install -D -m 644 /dev/null "$(DESTDIR)$(DATADIR)/$(COMPLETION_$(shell))"; \
	    $(BINARY) completion $(shell) >"$(DESTDIR)$(DATADIR)/$(COMPLETION_$(shell))";)
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

holdfast.sql: all ## Write the schema of PostgreSQL as a script for psql
	$(call say,SQL)
	$(Q)$(BINARY) migrate --print >$@.new
	@mv $@.new $@

.PHONY: uninstall
uninstall: ## Remove what install put there
	rm -f "$(DESTDIR)$(BINDIR)/holdfast" "$(DESTDIR)$(INCLUDEDIR)/holdfast.h" \
	    "$(DESTDIR)$(LIBEXECDIR)/holdfast/holdfast-serve" \
	    $(foreach header,$(notdir $(wildcard include/holdfast/*.h)), \
	        "$(DESTDIR)$(INCLUDEDIR)/holdfast/$(header)") \
	    $(foreach library,libholdfast libholdfast-postgres, \
	        $(foreach end,a so so.$(SOVERSION) so.$(VERSION), \
	            "$(DESTDIR)$(LIBDIR)/$(library).$(end)")) \
	    "$(DESTDIR)$(LIBDIR)/pkgconfig/holdfast.pc" \
	    $(foreach page,$(MAN_PAGES),"$(DESTDIR)$(call man_target,$(page))") \
	    $(foreach shell,$(SHELLS),"$(DESTDIR)$(DATADIR)/$(COMPLETION_$(shell))")
	@rmdir "$(DESTDIR)$(INCLUDEDIR)/holdfast" "$(DESTDIR)$(LIBEXECDIR)/holdfast" 2>/dev/null || true
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

# --- How things are made -------------------------------------------------------------------------

# One short line per step; V=1 shows the commands.
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(Q),@printf '  %-6s %s\n' $(1) $@)

# Stamps whose content is a setting: they change, and so rebuild what depends on them, only when
# the setting does.
define stamp =
@mkdir -p $(@D)
@printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@
endef

.PHONY: FORCE
# Also the first thing that is made, and so the place to tell newcomers what they lack.
$(BUILD)/flags: FORCE
	@printf '#include <%s>\n' sqlite3.h libpq-fe.h yaml.h | \
	    $(CC) $(ALL_CPPFLAGS) $(PQ_CFLAGS) -E -x c - >/dev/null 2>&1 || \
	    { echo "No working $(CC), sqlite3.h, libpq-fe.h or yaml.h; run: scripts/deps build" >&2; \
	      exit 1; }
	$(call stamp,$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(TEST_SPEED) $(ALL_LDFLAGS) $(PIE))
$(BUILD)/members: FORCE
	$(call stamp,$(LIB_SRC) $(CLI_OBJ) $(IS_MODULAR) $(HAS_GUEST))
$(BUILD)/shared-members: FORCE
	$(call stamp,$(SHARED_OBJ))

# Who this build is, for the library and its module to recognise each other (src/store/module/module.h),
# and the way from the command to the libraries of an installation.
IDENTIFIED := $(sort $(shell find include src/base src/store sql/postgres -type f))
TO_LIBDIR := $(or $(shell realpath -ms --relative-to="$(BINDIR)" "$(LIBDIR)" 2>/dev/null),../lib)
$(BUILD)/gen/build.h: FORCE
	@mkdir -p $(@D)
	@digest=$$(cat $(IDENTIFIED) | sha256sum | cut -c 1-12) && printf '#define %s "%s"\n' \
	    BUILD_IDENTITY "$(VERSION)-$$digest" BUILD_LIBDIR "$(TO_LIBDIR)" \
	    BUILD_POSTGRES_FILE libholdfast-postgres.so.$(SOVERSION) >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(GENERATED): $(BUILD)/gen/%_sql.h: $$(wildcard sql/$$* sql/$$*/* sql/$$*/*/* sql/$$*/*/*/*) \
    scripts/embed-sql scripts/embed-sql.awk scripts/enum-names.awk scripts/options.awk \
    $(SQL_CONSTANTS)
	@mkdir -p $(@D)
	$(call say,SQL)
	$(Q)scripts/embed-sql $* sql/$* $(SQL_CONSTANTS) >$@.new
	@mv $@.new $@

$(WEB): web $(wildcard web/*) scripts/embed-web scripts/join-modules
	@mkdir -p $(@D)
	$(call say,WEB)
	$(Q)scripts/embed-web web >$@.new
	@mv $@.new $@

$(MODULE_OBJ): SPEED = $(if $(HAS_GUEST),-DHF_ENGINE_IS_GUEST)
$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(GENERATED) $(BUILD)/gen/build.h $(WEB)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(INCLUDES) $(ALL_CFLAGS) $(SPEED) $(ERRORS) -MMD -MP -c -o $@ $<

# Tests and the command reach internal symbols through internal.a, or tests through libinternal.so,
# which has the command's parts if one of the tests that are made is about them.
INTERNAL_OBJ := $(CORE_OBJ) $(POSTGRES_OBJ) $(LINKED_OBJ)
SHARED_OBJ = $(INTERNAL_OBJ) $(if $(filter $(BUILD)/tests/cli/% $(BUILD)/tests/server/%, \
                 $(filter-out $(BUILD)/tests/server/test_stream,$(chosen))),$(CLI_OBJ))
$(INTERNAL): $(INTERNAL_OBJ) $(CLI_OBJ)
# The module takes from core.a what its engine calls.
$(CORE): $(CORE_OBJ)
$(INTERNAL) $(CORE): $(BUILD)/members
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/libinternal.so: $(SHARED_OBJ) $(BUILD)/shared-members
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,$(@F) -o $@ $(filter %.o,$^) $(TEST_LINKER) \
	    $(ALL_LDFLAGS) $(LIBS) $(PQ_LIBS) $(CLI_LIBS)

# shared NAME LIBRARIES: links what a target depends on into a shared library, and gives it its
# other names.
define shared =
$(call say,LINK)
$(Q)$(CC) -shared -Wl,-soname,$(1).so.$(SOVERSION) -Wl,-z,defs \
    -Wl,--version-script=src/$(1).map -o $@ $(filter %.o %.a,$^) $(ALL_LDFLAGS) $(2)
@ln -sf $(1).so.$(VERSION) $(BUILD)/$(1).so.$(SOVERSION)
@ln -sf $(1).so.$(SOVERSION) $(BUILD)/$(1).so
endef

$(SHARED): $(CORE_OBJ) $(if $(IS_MODULAR),$(MODULE_OBJ),$(LINKED_OBJ) $(POSTGRES_OBJ)) \
    $(BUILD)/members src/libholdfast.map
	$(call shared,libholdfast,$(LIBS) $(if $(IS_MODULAR),,$(PQ_LIBS)))

$(BUILD)/libholdfast-postgres.so.$(VERSION): $(ENTRY_OBJ) $(POSTGRES_OBJ) $(CORE) \
    src/libholdfast-postgres.map
	$(call shared,libholdfast-postgres,$(PQ_LIBS) -lm)

# What the sanitizers add is the command's, too.
$(GUEST): $(ENTRY_OBJ) $(POSTGRES_OBJ) $(BUILD)/members
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -o $@ $(filter %.o,$^) \
	    $(filter-out -fsanitize=%,$(ALL_LDFLAGS)) $(PQ_LIBS) -lm

# A static library that users link is one object whose hidden symbols were made local: names such
# as buf_append must not collide with names of the application.
$(STATIC): $(CORE_OBJ) $(ABSENT_OBJ)
$(STATIC_POSTGRES): $(CORE_OBJ) $(POSTGRES_OBJ) $(LINKED_OBJ)
$(STATIC) $(STATIC_POSTGRES): $(BUILD)/members
	@rm -f $@
	$(call say,AR)
	$(Q)$(LD) -r -o $(@:.a=.o) $(filter %.o,$^)
	$(Q)$(OBJCOPY) --localize-hidden $(@:.a=.o)
	$(Q)$(AR) rcs $@ $(@:.a=.o)

# internal.a has the engine, which is not taken if there is another way to get at it.
$(BUILD)/holdfast: $(MAIN_OBJ) $(if $(IS_MODULAR)$(HAS_GUEST),$(MODULE_OBJ)) \
    $(if $(HAS_GUEST),$(CORE_OBJ)) $(INTERNAL) | $(MODULE) $(GUEST)
	$(call say,LINK)
	$(Q)$(CC) -o $@ $^ $(PIE) $(STATIC_SANITIZER) $(if $(HAS_GUEST),-Wl$(comma)--export-dynamic) \
	    $(ALL_LDFLAGS) $(LIBS) $(if $(IS_MODULAR)$(HAS_GUEST),,$(PQ_LIBS)) $(CLI_LIBS)

# The same command with the HTTP server in it. Its serve_run is found before that of the archive.
$(SERVER): $(MAIN_OBJ) $(SERVER_OBJ) $(if $(IS_MODULAR),$(MODULE_OBJ)) $(INTERNAL) | $(MODULE)
	$(call say,LINK)
	$(Q)$(CC) -o $@ $^ $(PIE) $(STATIC_SANITIZER) $(ALL_LDFLAGS) $(LIBS) \
	    $(if $(IS_MODULAR),,$(PQ_LIBS)) $(CLI_LIBS) $(SERVER_LIBS)

# The neighbours' own objects come first, so that the archive's are not taken.
define neighbour =
$(ENGINES:%=$(BUILD)/neighbours/$(1)/gen/%_sql.h): $(BUILD)/neighbours/$(1)/gen/%_sql.h: \
    $(BUILD)/gen/%_sql.h $$(wildcard tests/upgrade/$(1)/*/*) scripts/neighbour-sql
	@mkdir -p $$(@D)
	$$(call say,SQL)
	$$(Q)scripts/neighbour-sql $(1) $$* $$(@D)/$$*
	$$(Q)scripts/embed-sql $$* $$(@D)/$$* $$(SQL_CONSTANTS) >$$@.new
	@mv $$@.new $$@

$(BUILD)/neighbours/$(1)/obj/%.o: %.c $(ENGINES:%=$(BUILD)/neighbours/$(1)/gen/%_sql.h) \
    $(BUILD)/flags | $(GENERATED) $(BUILD)/gen/build.h
	@mkdir -p $$(@D)
	$$(call say,CC)
	$$(Q)$$(CC) $$(ALL_CPPFLAGS) -I$(BUILD)/neighbours/$(1)/gen $$(INCLUDES) $$(ALL_CFLAGS) \
	    $$(ERRORS) -MMD -MP -c -o $$@ $$<

$(BUILD)/neighbours/$(1)/holdfast: $(NEIGHBOUR_SRC:%.c=$(BUILD)/neighbours/$(1)/obj/%.o) \
    $(MAIN_OBJ) $(LINKED_OBJ) $(INTERNAL)
	$$(call say,LINK)
	$$(Q)$$(CC) -o $$@ $$^ $$(PIE) $$(STATIC_SANITIZER) $$(ALL_LDFLAGS) $$(LIBS) $$(PQ_LIBS) \
	    $$(CLI_LIBS)

-include $(NEIGHBOUR_SRC:%.c=$(BUILD)/neighbours/$(1)/obj/%.d)
endef
$(foreach name,$(NEIGHBOURS),$(eval $(call neighbour,$(name))))

# A program finds libinternal.so two folders above its own: build/faults/tests/bus/test_x. It need
# not be linked again when that library changes.
TEST_LIBS = $(TEST_SHARED) -Wl,-rpath,'$$ORIGIN/../..' $(TEST_LINKER) $(ALL_LDFLAGS) $(LIBS) \
            $(PQ_LIBS) $(CLI_LIBS)

# Programs of tests/postgres use the scenes of tests/bus, too; those of tests/server have the server.
# What test_stream is about is a small part of that, and the only one that the variant `thread` needs.
STREAM_OBJ := $(call objects,src/cli/core/endpoint.c src/json/fields.c src/server/notify.c \
                src/server/socket.c $(patsubst %,src/server/http/%.c,credentials exchange head \
                  listener origins peer stream words))
layer_helpers = $(filter $(BUILD)/obj/tests/support/% $(BUILD)/obj/tests/$(1)/% \
                  $(if $(filter postgres,$(1)),$(BUILD)/obj/tests/bus/%),$(HELPER_OBJ)) \
                $(if $(filter server,$(1)),$(filter-out %/server/serve.o,$(SERVER_OBJ)))
program_helpers = $(if $(filter server/test_stream,$(1)), \
                    $(filter $(BUILD)/obj/tests/support/%,$(HELPER_OBJ)) $(STREAM_OBJ), \
                    $(call layer_helpers,$(patsubst %/,%,$(dir $(1)))))

$(BUILD)/tests/server/%: TEST_LIBS += $(SERVER_LIBS)
$(TEST_PROGRAMS) $(TORTURE_PROGRAMS): $(BUILD)/tests/%: \
    $(BUILD)/obj/tests/%.o $$(call program_helpers,$$*) $(TEST_ARCHIVE) | $(TEST_SHARED)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -o $@ $^ -lcmocka $(TEST_LIBS)

# They are not what is tested, so they need nothing of the variant.
$(TOOLS): $(BUILD)/%: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CPPFLAGS) -std=gnu11 -O1 -g $(WARNINGS) $(ERRORS) $(PQ_CFLAGS) -o $@ $< $(PQ_LIBS)

# Without the variant's flags: the program that loads it has none of them.
$(PRELOADS): $(BUILD)/%.so: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CPPFLAGS) -std=gnu11 -O1 -g $(WARNINGS) $(ERRORS) -fPIC -shared -o $@ $< -ldl

$(REPLAY_PROGRAMS): $(BUILD)/tests/fuzz/replay_%: \
    $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/obj/tests/fuzz/replay.o $(TEST_ARCHIVE) | $(TEST_SHARED)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -o $@ $^ $(TEST_LIBS)

$(FUZZ_PROGRAMS): $(BUILD)/%: $(BUILD)/obj/%.o $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -fsanitize=fuzzer -o $@ $^ $(ALL_LDFLAGS) $(LIBS) $(PQ_LIBS) $(CLI_LIBS)

$(EXAMPLE_PROGRAMS) $(BENCH_SRC:%.c=$(BUILD)/%): $(BUILD)/%: $(BUILD)/obj/%.o
$(MEASURE): $(call objects,$(MEASURE_SRC))
$(EXAMPLE_PROGRAMS) $(BENCH_PROGRAMS): $(SHARED) | $(MODULE)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -L$(BUILD) -lholdfast -Wl,-rpath,'$$ORIGIN/..' $(ALL_LDFLAGS) \
	    $(LIBS) $(PQ_LIBS)

-include $(ALL_OBJ:.o=.d)
