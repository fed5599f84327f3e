/*
 * selfcheck.c - see selfcheck.h.
 *
 *     CLOSED --(connect)--> HANDSHAKE --> IDLE --(ask)--> SENDING --> WAITING --> IDLE
 *        ^____________________\_________________________\___________\   the connection ended
 */
#include "server/selfcheck.h"

#include "base/banned.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX 8192

enum state { CLOSED, HANDSHAKE, IDLE, SENDING, WAITING };

struct selfcheck {
    struct listener *listener;
    bool tls;
    bool asked; /* a request is to be sent */
    enum state state;
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    size_t sent;
    size_t received;
    char answer[ANSWER_BYTES_MAX + 1];
};

/* The path is of no route, so the answer needs neither a token nor the database. */
static const char request[] = "HEAD /v1/ HTTP/1.1\r\nHost: localhost\r\n\r\n";

static void disconnect(struct selfcheck *check)
{
    if (check->session) {
        gnutls_deinit(check->session);
        check->session = NULL;
    }
    if (check->fd >= 0) {
        close(check->fd);
    }
    check->fd = -1;
    check->state = CLOSED;
}

/* Who is at the other end is known, so its certificate is not looked at. */
static bool begin_tls(struct selfcheck *check)
{
    if (gnutls_init(&check->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK) != 0) {
        check->session = NULL;
        return false;
    }
    gnutls_transport_set_int(check->session, check->fd);
    return gnutls_set_default_priority(check->session) == 0 &&
           gnutls_credentials_set(check->session, GNUTLS_CRD_CERTIFICATE, check->credentials) == 0;
}

static void connect_itself(struct selfcheck *check)
{
    check->fd = listener_connect(check->listener);
    if (check->fd < 0) {
        return;
    }
    check->state = check->tls ? HANDSHAKE : IDLE;
    if (check->tls && !begin_tls(check)) {
        disconnect(check);
    }
}

static bool is_later(ssize_t result)
{
    return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED;
}

static void shake_hands(struct selfcheck *check)
{
    int result = gnutls_handshake(check->session);

    if (result == 0) {
        check->state = IDLE;
    } else if (gnutls_error_is_fatal(result)) {
        disconnect(check);
    }
}

static void send_request(struct selfcheck *check)
{
    size_t left = sizeof request - 1 - check->sent;
    ssize_t sent = check->tls ? gnutls_record_send(check->session, request + check->sent, left)
                              : send(check->fd, request + check->sent, left, MSG_NOSIGNAL);

    if (sent > 0) {
        check->sent += (size_t)sent;
        check->state = check->sent == sizeof request - 1 ? WAITING : SENDING;
    } else if (check->tls ? !is_later(sent) : errno != EAGAIN) {
        disconnect(check);
    }
}

/* True when the whole answer, which has no body, is there. */
static bool take_answer(struct selfcheck *check)
{
    char *to = check->answer + check->received;
    size_t room = ANSWER_BYTES_MAX - check->received;
    ssize_t got =
        check->tls ? gnutls_record_recv(check->session, to, room) : recv(check->fd, to, room, 0);

    if (got <= 0) {
        if (got == 0 || (check->tls ? !is_later(got) : errno != EAGAIN)) {
            disconnect(check);
        }
        return false;
    }
    check->received += (size_t)got;
    check->answer[check->received] = '\0';
    if (strncmp(check->answer, "HTTP/1.1 ", 9) == 0 && strstr(check->answer, "\r\n\r\n")) {
        check->state = IDLE;
        return true;
    }
    if (check->received == ANSWER_BYTES_MAX) {
        disconnect(check);
    }
    return false;
}

void selfcheck_ask(struct selfcheck *check)
{
    check->asked = true;
    if (check->state == CLOSED) {
        connect_itself(check);
    }
}

bool selfcheck_look(struct selfcheck *check)
{
    if (check->state == HANDSHAKE) {
        shake_hands(check);
    }
    if (check->state == IDLE && check->asked) {
        check->asked = false;
        check->sent = 0;
        check->received = 0;
        check->state = SENDING;
    }
    if (check->state == SENDING) {
        send_request(check);
    }
    return check->state == WAITING && take_answer(check);
}

int selfcheck_fd(const struct selfcheck *check)
{
    return check->fd;
}

struct selfcheck *selfcheck_new(struct listener *listener, bool tls)
{
    struct selfcheck *check = mem_calloc(1, sizeof *check);

    if (!check) {
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    check->listener = listener;
    check->tls = tls;
    check->fd = -1;
    if (gnutls_certificate_allocate_credentials(&check->credentials) != 0) {
        mem_free(check);
        fail(HF_NOMEM, "out of memory");
        return NULL;
    }
    return check;
}

void selfcheck_free(struct selfcheck *check)
{
    if (check) {
        disconnect(check);
        gnutls_certificate_free_credentials(check->credentials);
        mem_free(check);
    }
}
