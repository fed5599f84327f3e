/*
 * hex.c - see hex.h. Compared by ranges, so no other byte is taken for a digit.
 */
#include "base/text/hex.h"

#include "base/banned.h"

int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

int32_t hex_number(const char *digits, size_t count)
{
    int32_t number = 0;

    for (size_t i = 0; i < count; i++) {
        int digit = hex_digit(digits[i]);

        if (digit < 0) {
            return -1;
        }
        number = number * 16 + digit;
    }
    return number;
}

bool hex_read(const char *digits, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        int32_t byte = hex_number(digits + 2 * i, 2);

        if (byte < 0) {
            return false;
        }
        out[i] = (uint8_t)byte;
    }
    return true;
}

char *hex_write(char *out, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    return out;
}
