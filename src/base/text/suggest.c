/*
 * suggest.c - the edit distance between words, and the nearest of several.
 *
 * The distance is the restricted Damerau-Levenshtein one: what people do to words is leave out a
 * letter, add one, hit the wrong one, or swap two. Three rows of the matrix are kept on the stack,
 * so a word is at most SUGGEST_WORD_BYTES_MAX long. A suggestion must be near in proportion to the
 * length: one edit in a word of three letters, two in six, three at most. A word that other
 * programs use for the same is nearer than any: `remove` is `rm`, not `revoke`.
 */
#include "base/text/suggest.h"

#include "base/banned.h"

#include <stdbool.h>
#include <string.h>

#define DISTANCE_FAR 1000

/* What other programs say, and what we do. A word may mean two things. */
static const char *const synonyms[][2] = {
    /* of a group */
    {"remove", "rm"},
    {"delete", "rm"},
    {"drop", "rm"},
    {"add", "create"},
    {"new", "create"},
    {"create", "add"},
    {"new", "add"},
    {"ls", "list"},
    {"info", "show"},
    {"get", "show"},
    {"replay", "seek"},
    {"rewind", "seek"},
    {"stop", "pause"},
    {"start", "resume"},
    {"kick", "retry"},
    {"replay", "retry"},
    {"requeue", "retry"},
    {"redrive", "retry"},
    {"delete", "purge"},
    {"remove", "purge"},
    {"rm", "purge"},
    {"delete", "cancel"},
    {"remove", "cancel"},
    {"rm", "cancel"},
    {"abort", "cancel"},
    {"kill", "revoke"},
    {"trigger", "run"},
    /* queues: beanstalkd, Redis, RabbitMQ, SQS */
    {"push", "publish"},
    {"put", "publish"},
    {"send", "publish"},
    {"emit", "publish"},
    {"enqueue", "publish"},
    {"produce", "publish"},
    {"consume", "work"},
    {"consume", "claim"},
    {"subscribe", "work"},
    {"subscribe", "sub"},
    {"run", "work"},
    {"handle", "work"},
    {"pull", "claim"},
    {"pop", "claim"},
    {"reserve", "claim"},
    {"receive", "claim"},
    {"dequeue", "claim"},
    {"done", "ack"},
    {"delete", "ack"},
    {"fail", "nack"},
    {"requeue", "release"},
    {"snooze", "release"},
    {"defer", "release"},
    {"delay", "later"},
    {"delayed", "later"},
    {"retry", "nack"},
    {"retry", "dlq"},
    {"reject", "bury"},
    {"kick", "dlq"},
    {"extend", "touch"},
    {"renew", "touch"},
    {"job", "sub"},
    {"jobs", "sub"},
    {"queue", "sub"},
    {"queues", "sub"},
    {"tube", "sub"},
    {"consumer", "sub"},
    {"consumers", "sub"},
    {"subscription", "sub"},
    {"subscriptions", "sub"},
    {"replay", "sub"},
    {"seek", "sub"},
    {"pause", "sub"},
    {"resume", "sub"},
    {"dead", "dlq"},
    {"deadletter", "dlq"},
    {"dead-letter", "dlq"},
    {"dead-letters", "dlq"},
    {"cron", "schedule"},
    {"timer", "schedule"},
    /* logs, databases, services */
    {"peek", "tail"},
    {"log", "tail"},
    {"logs", "tail"},
    {"read", "tail"},
    {"follow", "tail"},
    {"watch", "tail"},
    {"listen", "tail"},
    {"events", "event"},
    {"messages", "event"},
    {"topic", "namespace"},
    {"tenant", "namespace"},
    {"ns", "namespace"},
    {"workers", "node"},
    {"processes", "node"},
    {"ps", "node"},
    {"status", "stats"},
    {"info", "stats"},
    {"metrics", "stats"},
    {"fsck", "verify"},
    {"monitor", "check"},
    {"monitor", "top"},
    {"health", "doctor"},
    {"diagnose", "doctor"},
    {"backup", "copy"},
    {"dump", "copy"},
    {"export", "copy"},
    {"restore", "copy"},
    {"init", "migrate"},
    {"install", "migrate"},
    {"upgrade", "migrate"},
    {"settings", "config"},
    {"benchmark", "bench"},
};

static bool is_synonym(const char *word, const char *known)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++) {
        if (strcmp(word, synonyms[i][0]) == 0 && strcmp(known, synonyms[i][1]) == 0) {
            return true;
        }
    }
    return false;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

size_t suggest_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a);
    size_t b_length = strlen(b);
    size_t rows[3][SUGGEST_WORD_BYTES_MAX + 1];

    if (a_length > SUGGEST_WORD_BYTES_MAX || b_length > SUGGEST_WORD_BYTES_MAX) {
        return DISTANCE_FAR;
    }
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = min3(above[j] + 1, row[j - 1] + 1, replaced);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_above[j - 2] + 1 < row[j]) {
                row[j] = two_above[j - 2] + 1;
            }
        }
    }
    return rows[a_length % 3][b_length];
}

void suggest_init(struct suggest *suggest, const char *word)
{
    size_t length = strlen(word);
    size_t near = length / 3;

    suggest->word = word;
    suggest->best = NULL;
    suggest->other = NULL;
    suggest->best_distance = near < 1 ? 2 : near > 3 ? 4 : near + 1; /* one more than allowed */
}

void suggest_offer(struct suggest *suggest, const char *known)
{
    size_t distance = suggest_distance(suggest->word, known);
    size_t typed = strlen(suggest->word);

    /* A beginning of three letters or more is meant, however long the rest is. */
    if (typed >= 3 && strncmp(suggest->word, known, typed) == 0 && suggest->best_distance > 1) {
        distance = 1;
    }
    if (is_synonym(suggest->word, known)) {
        if (suggest->best && suggest->best_distance == 0 && strcmp(suggest->best, known) != 0) {
            suggest->other = known;
        }
        distance = 0;
    }
    if (distance < suggest->best_distance) {
        suggest->best = known;
        suggest->best_distance = distance;
    }
}
