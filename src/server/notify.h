/*
 * notify.h - telling systemd how the service is: the protocol of sd_notify(3).
 *
 * A message is one datagram of lines NAME=VALUE to the socket that $NOTIFY_SOCKET names: a path, or
 * "@name" for one in the abstract namespace. Without the variable nothing is sent. A message that
 * cannot be sent is lost: the service is not worse for it.
 */
#ifndef HF_SERVER_NOTIFY_H
#define HF_SERVER_NOTIFY_H

#include <stdint.h>

/* Takes the variables of the protocol out of the environment, so that the commands that this
 * process runs do not have them. Before there are threads. */
void notify_begin(void);

/* Sends lines, as "READY=1\nSTATUS=serves". What a value has of control characters becomes
 * spaces. Main thread. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A variable of the environment as a number; -1: it is not there, or no number. */
int64_t notify_variable(const char *name);

/* How often WATCHDOG=1 is due at the latest, or systemd ends the service; 0: it does not look. */
int64_t notify_watchdog_ms(void);

#endif
