/*
 * wire.h - a socket with what is to be sent and what has come, for protocols that are text.
 *
 * What is put is collected and sent by wire_flush, which blocks if it must. Reading does not block:
 * wire_read takes what is there, and the owner looks whether it is complete.
 */
#ifndef HF_BENCH_WIRE_H
#define HF_BENCH_WIRE_H

#include "peer.h"

struct bytes {
    char *at;
    size_t length;
    size_t room;
};

struct wire {
    int fd;
    struct bytes out;
    struct bytes in;
    size_t taken; /* of `in` */
};

void bytes_put(struct bytes *bytes, const void *from, size_t length);

/* Connects to a path (it has a slash) or to a port of this machine. */
void wire_open(struct wire *wire, const char *address);
void wire_close(struct wire *wire);
void wire_put(struct wire *wire, const char *format, ...) __attribute__((format(printf, 2, 3)));
void wire_flush(struct wire *wire);
/* Takes what has come; the program ends if the other side has closed the connection. */
void wire_read(struct wire *wire);
/* The next line, without its end (CR LF), with a NUL; NULL: it is not complete. It is valid until
 * the next wire_read. */
char *wire_line(struct wire *wire);
/* The next `length` bytes and the end of a line after them, with a NUL in its place; NULL: they
 * have not come. */
char *wire_block(struct wire *wire, size_t length);

#endif
