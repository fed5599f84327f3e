/*
 * number.h - floating-point numbers as text, whatever the host program's locale.
 *
 * The C library writes and reads the decimal point of the current locale. A library inside a
 * program that called setlocale must not store "2,0".
 */
#ifndef HF_BASE_TEXT_NUMBER_H
#define HF_BASE_TEXT_NUMBER_H

#include "base/text/text.h"

#include <stdbool.h>

#define NUMBER_TEXT_BYTES 32

/* The shortest digits that read back as the same number. value is finite. */
void number_format(double value, char out[NUMBER_TEXT_BYTES]);

/* Decimal digits with optional sign, point and exponent, nothing around them. False if it is
 * anything else, too large for a double, or longer than any number a person writes. */
bool number_parse(struct text text, double *ret_value);

#endif
