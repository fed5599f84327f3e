/*
 * test_stream.c - answers that do not end, on real connections.
 *
 * A listener on a socket of the file system gives every request to begin_one, which begins a
 * stream; the test is the client.
 */
#include "server/http/listener.h"
#include "server/http/stream.h"
#include "server/socket.h"
#include "support/check.h"
#include "support/temp.h"

#include "base/thread.h"
#include "base/time/clock.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STREAMS_MAX 8
#define WAIT_MS 20000

struct scene {
    char folder[TEMP_PATH_BYTES];
    const char *path;
    struct streams *streams;
    struct listener *listener;
    pthread_mutex_t mutex; /* protects what follows */
    pthread_cond_t changed;
    struct stream *begun[STREAMS_MAX];
    int begun_count;
    int gone;
    int emptied;
};

static struct scene scene;

static void count(int *number)
{
    pthread_mutex_lock(&scene.mutex);
    ++*number;
    pthread_cond_broadcast(&scene.changed);
    pthread_mutex_unlock(&scene.mutex);
}

static void wait_for(const int *number, int wanted)
{
    struct deadline deadline = deadline_after_ms(WAIT_MS);

    pthread_mutex_lock(&scene.mutex);
    while (*number < wanted && cond_wait_until(&scene.changed, &scene.mutex, deadline)) {
    }
    assert_true(*number >= wanted);
    pthread_mutex_unlock(&scene.mutex);
}

static void gone(void *ctx)
{
    (void)ctx;
    count(&scene.gone);
}

static void room(void *ctx)
{
    (void)ctx;
    count(&scene.emptied);
}

static bool begin_one(struct exchange *exchange)
{
    const struct stream_hooks hooks = {room, gone, NULL};
    struct stream *stream;

    exchange->namespace_name = "default"; /* as the router has it */
    stream = stream_begin(exchange, &hooks);
    if (stream) {
        scene.begun[scene.begun_count] = stream;
        count(&scene.begun_count);
    }
    listener_answer(exchange);
    return true;
}

static void look(struct server *server)
{
    (void)server;
}

static void start(size_t streams_max, size_t per_address_max)
{
    struct listener_options options = {
        .body_bytes_max = 1000,
        .connections_max = 100,
        .request_ms = 30000,
        .give = begin_one,
        .look = look,
    };
    char address[TEMP_PATH_BYTES + 8];
    struct server_socket socket;

    memset(&scene, 0, sizeof scene);
    temp_open(scene.folder);
    scene.path = temp_file(scene.folder, "http");
    assert_int_equal(HF_OK, mutex_init(&scene.mutex));
    assert_int_equal(HF_OK, cond_init(&scene.changed));
    scene.streams = streams_new(streams_max, per_address_max);
    assert_non_null(scene.streams);
    snprintf(address, sizeof address, "unix:%s", scene.path);
    assert_int_equal(HF_OK, socket_listen(address, &socket));
    options.socket = socket.fd;
    options.streams = scene.streams;
    scene.listener = listener_start(&options);
    assert_non_null(scene.listener);
}

static void stop(void)
{
    listener_quiesce(scene.listener);
    streams_drain(scene.streams, WAIT_MS);
    listener_stop(scene.listener);
    for (int i = 0; i < scene.begun_count; i++) {
        stream_put(scene.begun[i]);
    }
    streams_free(scene.streams);
    temp_close(scene.folder);
}

/* ---- The client ------------------------------------------------------------------------------ */

struct client {
    int fd;
    size_t length;
    char seen[1048576];
};

static void client_open(struct client *client)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char request[] = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";

    client->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    client->length = 0;
    client->seen[0] = '\0';
    assert_true(strlen(scene.path) < sizeof address.sun_path);
    memcpy(address.sun_path, scene.path, strlen(scene.path));
    assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(client->fd, request, sizeof request - 1, 0), sizeof request - 1);
}

static size_t occurrences(const char *text, const char *wanted)
{
    size_t number = 0;

    for (const char *at = text; (at = strstr(at, wanted)); at++) {
        number++;
    }
    return number;
}

/* Reads until the text has been seen so often, or the connection ends. */
static bool client_reads(struct client *client, const char *text, size_t times)
{
    while (occurrences(client->seen, text) < times) {
        size_t left = sizeof client->seen - client->length - 1;
        ssize_t got = left ? recv(client->fd, client->seen + client->length, left, 0) : 0;
        if (got <= 0) {
            return false;
        }
        client->length += (size_t)got;
        client->seen[client->length] = '\0';
    }
    return true;
}

/* Reads until the server has closed the connection. */
static bool client_ends(struct client *client)
{
    ssize_t got;

    while ((got = recv(client->fd, client->seen + client->length,
                       sizeof client->seen - client->length - 1, 0)) > 0) {
        client->length += (size_t)got;
        client->seen[client->length] = '\0';
    }
    return got == 0;
}

static void send_text(struct stream *stream, const char *id, const char *event, const char *data)
{
    struct message *message = message_new(id, event, text_of(data));

    assert_non_null(message);
    assert_true(stream_send(stream, message));
    message_put(message);
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static void messages_arrive_in_their_order_with_id_and_event(void **state)
{
    static struct client client;

    (void)state;
    start(STREAMS_MAX, 0);
    client_open(&client);
    wait_for(&scene.begun_count, 1);
    send_text(scene.begun[0], "7", "stats", "{\"a\":1}");
    send_text(scene.begun[0], NULL, NULL, "two\nlines\r\nthree\r");
    assert_true(client_reads(&client, "data: three\n\n", 1));
    assert_non_null(strstr(client.seen, "HTTP/1.1 200 "));
    assert_non_null(strstr(client.seen, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(client.seen, "retry: 1000\n\n"));
    assert_true(client_reads(&client, "id: 7\nevent: stats\ndata: {\"a\":1}\n\n", 1));
    assert_non_null(strstr(client.seen, "data: two\ndata: lines\ndata: three\n\n"));
    assert_true(strstr(client.seen, "id: 7") < strstr(client.seen, "data: two"));
    close(client.fd);
    stop();
}

static void a_client_that_does_not_read_is_dropped_at_a_bounded_queue(void **state)
{
    static struct client slow;
    static struct client honest;
    static char bytes[10000];
    struct message *message;
    size_t sent = 0;

    (void)state;
    memset(bytes, 'x', sizeof bytes - 1);
    start(STREAMS_MAX, 0);
    client_open(&slow);
    wait_for(&scene.begun_count, 1);
    client_open(&honest);
    wait_for(&scene.begun_count, 2);
    message = message_new("1", NULL, text_of(bytes));
    while (stream_send(scene.begun[0], message)) {
        assert_true(stream_queued(scene.begun[0]) <= STREAM_QUEUE_BYTES + 2 * sizeof bytes);
        assert_true(++sent < 1000);
    }
    assert_int_equal(streams_count(scene.streams).dropped, 1);
    assert_true(stream_send(scene.begun[1], message));
    assert_true(client_reads(&honest, "id: 1\n", 1));
    wait_for(&scene.gone, 1);
    assert_false(client_reads(&slow, "more", 1)); /* it ends */
    assert_int_equal(streams_count(scene.streams).open, 1);
    message_put(message);
    close(slow.fd);
    close(honest.fd);
    stop();
}

/* A flush writes what the socket takes, and libmicrohttpd the rest. */
static void messages_that_the_socket_does_not_take_at_once_arrive_whole(void **state)
{
    static struct client client;
    static char bytes[450000];
    struct message *message;
    const char *at;

    (void)state;
    memset(bytes, 'x', sizeof bytes - 1);
    start(STREAMS_MAX, 0);
    client_open(&client);
    wait_for(&scene.begun_count, 1);
    assert_true(client_reads(&client, "retry: 1000\n\n", 1));
    at = client.seen + client.length;
    message = message_new("1", NULL, text_of(bytes));
    for (int i = 0; i < 2; i++) {
        assert_true(stream_append(scene.begun[0], message));
        stream_flush(scene.begun[0]);
        assert_true(client_reads(&client, "x\n\n", (size_t)i + 1));
        assert_int_equal(strspn(at, "id: 1\ndata:"), 12);
        assert_int_equal(strspn(at + 12, "x"), sizeof bytes - 1);
        at = client.seen + client.length;
    }
    message_put(message);
    close(client.fd);
    stop();
}

static void beyond_the_limit_streams_are_refused_until_one_ends(void **state)
{
    static struct client first;
    static struct client second;

    (void)state;
    for (int of_address = 0; of_address < 2; of_address++) {
        start(of_address ? STREAMS_MAX : 1, of_address ? 1 : 0);
        client_open(&first);
        wait_for(&scene.begun_count, 1);
        client_open(&second);
        assert_true(client_reads(&second, "}", 1));
        assert_non_null(strstr(second.seen, "HTTP/1.1 503 "));
        assert_non_null(strstr(second.seen, "too many streams"));
        assert_int_equal(streams_count(scene.streams).refused, 1);
        close(second.fd);
        stream_end(scene.begun[0]);
        assert_true(client_ends(&first));
        wait_for(&scene.gone, 1);
        close(first.fd);
        client_open(&second);
        wait_for(&scene.begun_count, 2);
        close(second.fd);
        stop();
    }
}

static void an_idle_stream_gets_comments_and_a_client_that_left_is_noticed(void **state)
{
    static struct client client;
    int64_t now_us;

    (void)state;
    start(STREAMS_MAX, 0);
    client_open(&client);
    wait_for(&scene.begun_count, 1);
    wait_for(&scene.emptied, 1); /* the greeting has been taken */
    now_us = clock_mono_us();
    streams_beat(scene.streams, now_us + (STREAM_BEAT_MS + 1) * INT64_C(1000));
    assert_true(client_reads(&client, ":\n\n", 1));
    close(client.fd);
    streams_beat(scene.streams, now_us + (STREAM_BEAT_MS * 4 + 1) * INT64_C(1000));
    wait_for(&scene.gone, 1);
    assert_int_equal(streams_count(scene.streams).open, 0);
    stop();
}

static void
a_client_that_has_closed_its_connection_is_noticed_long_before_a_comment_is_due(void **state)
{
    static struct client client;
    int64_t closed_us;

    (void)state;
    start(STREAMS_MAX, 0);
    client_open(&client);
    wait_for(&scene.begun_count, 1);
    wait_for(&scene.emptied, 1);
    close(client.fd);
    closed_us = clock_mono_us();
    wait_for(&scene.gone, 1); /* the guard of the listener looks once a second */
    assert_true(clock_mono_us() - closed_us < (STREAM_BEAT_MS - 3000) * INT64_C(1000));
    stop();
}

static void a_client_that_has_closed_its_sending_side_gets_what_comes(void **state)
{
    static struct client client;

    (void)state;
    start(STREAMS_MAX, 0);
    client_open(&client);
    wait_for(&scene.begun_count, 1);
    wait_for(&scene.emptied, 1);
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    streams_beat(scene.streams, clock_mono_us());
    assert_true(client_reads(&client, ":\n\n", 1));
    streams_beat(scene.streams, clock_mono_us());
    send_text(scene.begun[0], "1", NULL, "x");
    assert_true(client_reads(&client, "id: 1\ndata: x\n\n", 1));
    assert_int_equal(occurrences(client.seen, ":\n\n"), 1);
    assert_int_equal(streams_count(scene.streams).open, 1);
    close(client.fd);
    stop();
}

static void draining_ends_streams_behind_what_was_sent(void **state)
{
    static struct client client;

    (void)state;
    start(STREAMS_MAX, 0);
    client_open(&client);
    wait_for(&scene.begun_count, 1);
    send_text(scene.begun[0], "1", NULL, "last");
    streams_drain(scene.streams, WAIT_MS);
    assert_true(client_ends(&client));
    assert_non_null(strstr(client.seen, "data: last\n\n"));
    close(client.fd);
    client_open(&client);
    assert_true(client_reads(&client, "about to stop", 1));
    close(client.fd);
    stop();
}

#define SENDERS 4
#define EACH 500

static void *send_many(void *ctx)
{
    struct message *message = message_new(ctx, NULL, text_of("x"));

    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < STREAMS_MAX; j++) {
            stream_send(scene.begun[j], message);
        }
    }
    message_put(message);
    return NULL;
}

static void threads_that_send_at_once_lose_nothing(void **state)
{
    static struct client clients[STREAMS_MAX];
    static char ids[SENDERS][8] = {"0", "1", "2", "3"};
    pthread_t threads[SENDERS];

    (void)state;
    start(STREAMS_MAX, 0);
    for (int i = 0; i < STREAMS_MAX; i++) {
        client_open(&clients[i]);
        wait_for(&scene.begun_count, i + 1);
    }
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(HF_OK, thread_start(&threads[i], "sender", send_many, ids[i]));
    }
    for (int i = 0; i < STREAMS_MAX; i++) {
        assert_true(client_reads(&clients[i], "data: x\n", (size_t)SENDERS * EACH));
        assert_int_equal(occurrences(clients[i].seen, "id: 3\n"), EACH);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < STREAMS_MAX; i++) {
        close(clients[i].fd);
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_their_order_with_id_and_event),
        cmocka_unit_test(a_client_that_does_not_read_is_dropped_at_a_bounded_queue),
        cmocka_unit_test(messages_that_the_socket_does_not_take_at_once_arrive_whole),
        cmocka_unit_test(beyond_the_limit_streams_are_refused_until_one_ends),
        cmocka_unit_test(an_idle_stream_gets_comments_and_a_client_that_left_is_noticed),
        cmocka_unit_test(
            a_client_that_has_closed_its_connection_is_noticed_long_before_a_comment_is_due),
        cmocka_unit_test(a_client_that_has_closed_its_sending_side_gets_what_comes),
        cmocka_unit_test(draining_ends_streams_behind_what_was_sent),
        cmocka_unit_test(threads_that_send_at_once_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
