/*
 * test_selfcheck.c - the requests of the server to itself, which tell the watchdog that it answers.
 *
 * A listener answers every request at once. This program stands between the check and its socket:
 * whenever it reads, the answer is there already, as if the thread had been held up before.
 */
#include "server/http/listener.h"
#include "server/http/stream.h"
#include "server/selfcheck.h"
#include "server/socket.h"
#include "support/check.h"
#include "support/temp.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAIT_MS 20000

static atomic_int checked_fd = -1; /* of the check */

__attribute__((visibility("default"))) ssize_t recv(int fd, void *to, size_t room, int flags)
{
    struct pollfd socket = {.fd = fd, .events = POLLIN};

    if (fd == atomic_load(&checked_fd)) {
        poll(&socket, 1, WAIT_MS);
    }
    return syscall(SYS_recvfrom, fd, to, room, flags, NULL, NULL);
}

static bool answer_at_once(struct exchange *exchange)
{
    answer_empty(exchange, 204);
    listener_answer(exchange);
    return true;
}

static void look(struct server *server)
{
    (void)server;
}

static void an_answer_that_comes_at_once_is_told(void **state)
{
    struct listener_options options = {.body_bytes_max = 1000,
                                       .connections_max = 100,
                                       .request_ms = 30000,
                                       .give = answer_at_once,
                                       .look = look};
    char folder[TEMP_PATH_BYTES];
    char address[TEMP_PATH_BYTES + 8];
    struct server_socket socket;
    struct listener *listener;
    struct selfcheck *check;

    (void)state;
    temp_open(folder);
    snprintf(address, sizeof address, "unix:%s", temp_file(folder, "http"));
    assert_int_equal(HF_OK, socket_listen(address, &socket));
    options.socket = socket.fd;
    options.streams = streams_new(1, 0);
    assert_non_null(options.streams);
    listener = listener_start(&options);
    assert_non_null(listener);
    check = selfcheck_new(listener, false);
    assert_non_null(check);
    for (int i = 0; i < 3; i++) {
        selfcheck_ask(check);
        atomic_store(&checked_fd, selfcheck_fd(check));
        assert_true(selfcheck_look(check));
        assert_false(selfcheck_look(check)); /* once for each request */
    }
    selfcheck_free(check);
    listener_quiesce(listener);
    listener_stop(listener);
    streams_free(options.streams);
    temp_close(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_comes_at_once_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
