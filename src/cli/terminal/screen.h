/*
 * screen.h - the terminal as a screen: for commands that show something live.
 *
 * screen_open takes the terminal over: another page of it, no cursor, keys one by one and not
 * shown. It is given back by screen_close, and by signals: one that asks the command to end is a
 * request (stop.h) the first time, and ends it the second time; those that end a program at once,
 * and the stop of Ctrl-Z, give the terminal back before they do what they do.
 */
#ifndef HF_CLI_TERMINAL_SCREEN_H
#define HF_CLI_TERMINAL_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

struct screen_size {
    int columns;
    int rows;
};

/* Whether stdin and stdout are a terminal that can be a screen. */
bool screen_possible(void);
/* False: the terminal cannot be had. */
bool screen_open(void);
void screen_close(void);
/* As it is now; terminals change their size. */
struct screen_size screen_size(void);
/* Waits up to ms for a key, a request to stop, or another size. The key; 0: none. */
int screen_key(int64_t ms);

#endif
