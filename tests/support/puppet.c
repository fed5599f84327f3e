/*
 * puppet.c - both ends of the strings.
 */
#include "support/puppet.h"

#include "base/uuid.h"
#include "support/make.h"

/* ---- The parent's side ----------------------------------------------------------------------- */

struct child *puppet_start(struct fixture *fixture, const char *node_name)
{
    struct child *puppet = fixture_child(fixture, "puppet", node_name);
    must_equal(HF_OK, child_hear(puppet, "status"));
    child_hear(puppet, "number");
    return puppet;
}

static hf_status puppet_command(struct child *puppet, const char *format, va_list args,
                                int64_t *ret_number)
{
    char line[CHILD_LINE_BYTES];
    vsnprintf(line, sizeof line, format, args);
    child_tell(puppet, "%s", line);
    hf_status status = (hf_status)child_hear(puppet, "status");
    *ret_number = child_hear(puppet, "number");
    return status;
}

int64_t puppet_do(struct child *puppet, const char *format, ...)
{
    int64_t number;
    va_list args;
    va_start(args, format);
    hf_status status = puppet_command(puppet, format, args, &number);
    va_end(args);
    if (status) {
        check_fail(__FILE__, __LINE__, "the puppet's \"%s\" answered %s", format,
                   status_name(status));
    }
    return number;
}

hf_status puppet_try(struct child *puppet, const char *format, ...)
{
    int64_t number;
    va_list args;
    va_start(args, format);
    hf_status status = puppet_command(puppet, format, args, &number);
    va_end(args);
    return status;
}

/* ---- The child's side ------------------------------------------------------------------------ */

struct puppet {
    struct fixture *fixture;
    struct store *store;
    struct owner owner; /* the last acquire */
    struct claim claim; /* the last claim */
    struct tx *tx;
    int64_t number; /* what the command answers besides its status */
};

#define WORDS_MAX 8

static int64_t number_of(const char *word)
{
    char *end;
    int64_t number = strtoll(word, &end, 10);
    must_hold(end != word && !*end);
    return number;
}

static const char *key_of(const char *word)
{
    return strcmp(word, "-") == 0 ? NULL : word;
}

static hf_status puppet_append(struct puppet *puppet, char **words)
{
    int64_t count = number_of(words[3]);
    for (int64_t i = 0; i < count; i++) {
        struct new_event event = event_of(words[1], key_of(words[2]));
        hf_status status = append_event(puppet->store, &event);
        if (status) {
            return status;
        }
        puppet->number = i == 0 ? event.position : puppet->number;
    }
    return HF_OK;
}

static hf_status puppet_publish(struct puppet *puppet, char **words)
{
    struct new_event event = event_of("t", NULL);
    must_answer(HF_OK, uuid_parse(text_of(words[1]), event.id));
    hf_status status = append_event(puppet->store, &event);
    puppet->number = event.duplicate ? -event.position : event.position;
    return status;
}

static hf_status puppet_acquire(struct puppet *puppet, char **words)
{
    struct acquire acquire =
        acquire_of(number_of(words[1]), (int32_t)number_of(words[2]), LEASE_MS);
    hf_status status = RUN(puppet->store, &acquire);
    puppet->owner = (struct owner){.store = puppet->store,
                                   .subscription_id = acquire.subscription_id,
                                   .partition = acquire.partition,
                                   .epoch = acquire.ret_epoch,
                                   .now_us = T0};
    puppet->number = acquire.ret_epoch;
    return status;
}

static hf_status puppet_members_refresh(struct puppet *puppet, char **words)
{
    struct members_refresh refresh = {.change = {.kind = CHANGE_MEMBERS_REFRESH, .now_us = T0},
                                      .subscription_id = number_of(words[1]),
                                      .lease_ms = LEASE_MS};
    hf_status status = RUN(puppet->store, &refresh);
    puppet->number = refresh.ret_members;
    return status;
}

static hf_status puppet_settle(struct puppet *puppet, char **words)
{
    return settle(&puppet->owner, number_of(words[1]), NULL, 0);
}

static hf_status puppet_note(struct puppet *puppet, char **words)
{
    note_handler(puppet->store, (int32_t)number_of(words[1]), number_of(words[2]),
                 number_of(words[3]), (int32_t)number_of(words[4]));
    return HF_OK;
}

static hf_status puppet_clear(struct puppet *puppet, char **words)
{
    store_note_clear(puppet->store, (int32_t)number_of(words[1]));
    return HF_OK;
}

static hf_status puppet_alive(struct puppet *puppet, char **words)
{
    (void)words;
    store_alive(puppet->store);
    return HF_OK;
}

static hf_status puppet_claim(struct puppet *puppet, char **words)
{
    puppet->claim = claim_of(number_of(words[1]), (int32_t)number_of(words[2]), T0,
                             fixture_batch(puppet->fixture));
    puppet->claim.lease_ms = number_of(words[3]);
    puppet->claim.bound = number_of(words[4]);
    puppet->claim.kept = number_of(words[5]);
    hf_status status = RUN(puppet->store, &puppet->claim);
    puppet->number = (int64_t)puppet->claim.batch->count;
    return status;
}

static hf_status puppet_ack(struct puppet *puppet, char **words)
{
    (void)words;
    return finish_all(puppet->store, &puppet->claim, T0);
}

static hf_status puppet_enter(struct puppet *puppet, char **words)
{
    struct hold hold = {.subscription_id = puppet->owner.subscription_id,
                        .partition = puppet->owner.partition,
                        .epoch = puppet->owner.epoch};
    const struct entry *entry = entry_at(puppet->fixture, puppet->store, number_of(words[1]));
    hf_status status = store_tx_begin(puppet->store, deadline_after_ms(DEADLINE_MS), &puppet->tx);
    return status == HF_OK ? tx_enter(puppet->tx, &hold, entry, T0) : status;
}

static hf_status puppet_leave(struct puppet *puppet, char **words)
{
    (void)words;
    bool lane_busy;
    return tx_leave(puppet->tx, true, &lane_busy);
}

static hf_status puppet_commit(struct puppet *puppet, char **words)
{
    (void)words;
    return tx_commit(puppet->tx);
}

static hf_status puppet_txappend(struct puppet *puppet, char **words)
{
    struct new_event event = event_of("t", key_of(words[1]));
    struct append append = append_of(&event, 1);
    hf_status status = tx_append(puppet->tx, &append);
    puppet->number = event.position;
    return status;
}

static hf_status puppet_exit(struct puppet *puppet, char **words)
{
    (void)puppet;
    (void)words;
    _exit(0);
}

static const struct puppet_word {
    const char *name;
    int words; /* with the name */
    hf_status (*obey)(struct puppet *puppet, char **words);
} puppet_words[] = {
    {"append", 4, puppet_append},   {"publish", 2, puppet_publish},
    {"acquire", 3, puppet_acquire}, {"refresh", 2, puppet_members_refresh},
    {"settle", 2, puppet_settle},   {"note", 5, puppet_note},
    {"clear", 2, puppet_clear},     {"alive", 1, puppet_alive},
    {"claim", 6, puppet_claim},     {"ack", 1, puppet_ack},
    {"enter", 2, puppet_enter},     {"leave", 1, puppet_leave},
    {"commit", 1, puppet_commit},   {"txappend", 2, puppet_txappend},
    {"exit", 1, puppet_exit},
};

/* Cuts a line into words. */
static int line_split(char *line, char **words)
{
    int count = 0;
    while (*line && count < WORDS_MAX) {
        words[count++] = line;
        line += strcspn(line, " ");
        if (*line) {
            *line++ = '\0';
        }
    }
    return count;
}

static hf_status puppet_obey(struct puppet *puppet, char *line)
{
    char *words[WORDS_MAX];
    int count = line_split(line, words);
    for (size_t i = 0; i < sizeof puppet_words / sizeof puppet_words[0]; i++) {
        if (count > 0 && strcmp(puppet_words[i].name, words[0]) == 0) {
            must_equal(puppet_words[i].words, count);
            return puppet_words[i].obey(puppet, words);
        }
    }
    check_fail(__FILE__, __LINE__, "a puppet does not know \"%s\"", line);
}

int puppet_run(struct fixture *fixture, const char *node_name)
{
    struct puppet puppet = {.fixture = fixture, .store = fixture_open(fixture, node_name)};
    char line[CHILD_LINE_BYTES];
    role_report("status", HF_OK);
    role_report("number", 0);
    while (role_listen(line)) {
        puppet.number = -1;
        hf_status status = puppet_obey(&puppet, line);
        role_report("status", status);
        role_report("number", puppet.number);
    }
    return 0;
}
