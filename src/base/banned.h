/*
 * banned.h - functions that no code here may call.
 *
 * Each of these either cannot be told the size of what it writes, hides an error, keeps hidden
 * state that two threads share, or depends on the zone and locale of the host program. Naming one
 * after this header is a compile error. The standard headers that declare them are included first,
 * because a poisoned name may not appear even in a declaration.
 *
 * What to use instead:
 *     strcpy, strcat, strncpy, sprintf    base/text/buf.h, snprintf, memcpy with a checked length
 *     strtok                              base/text/text.h and a loop
 *     atoi, atol, atof                    json_int_decode, strtoll with every error checked
 *     gmtime, localtime, ctime, mktime    base/time/time.h
 *     rand, random                        base/uuid.h: random_u64, random_bytes
 */
#ifndef HF_BASE_BANNED_H
#define HF_BASE_BANNED_H

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#pragma GCC poison strcpy strcat strncpy strncat stpcpy stpncpy
#pragma GCC poison sprintf vsprintf gets
#pragma GCC poison strtok strtok_r
#pragma GCC poison atoi atol atoll atof
#pragma GCC poison gmtime localtime ctime asctime gmtime_r localtime_r ctime_r asctime_r mktime
#pragma GCC poison srand rand_r srandom drand48 lrand48 mrand48
#pragma GCC poison tmpnam tempnam mktemp

/* OpenSSL's headers have parameters named rand, so only the call is banned. */
int banned_rand(void) __attribute__((error("rand is banned: use random_u64 of base/uuid.h")));
#define rand() banned_rand()

#endif
