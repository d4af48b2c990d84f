/* Characters of UTF-8 text, for tokenizers, chat templates and JSON. */
#ifndef GDN_RUNTIME_UTF8_H
#define GDN_RUNTIME_UTF8_H

#include <stdint.h>

/* Length in bytes of the first character of n > 0 bytes, and its code point. An invalid byte is a character of one
 * byte, U+FFFD. */
static inline int utf8_character(const char *text, uint64_t n, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char lead = (unsigned char)text[0];
    const int bytes = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    *code = lead < 0x80 ? lead : 0xfffd;
    if (bytes == 1 || n < (uint64_t)bytes) return 1;
    uint32_t value = lead & (0xffu >> (bytes + 1));
    for (int i = 1; i < bytes; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 1;
        value = value << 6 | ((unsigned char)text[i] & 63u);
    }
    if (value < least[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 1;
    *code = value;
    return bytes;
}

/* Writes a character, 1 to 4 bytes; returns their number. */
static inline uint64_t utf8_encode(uint32_t code, char *to)
{
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 63));
    to[0] = (char)(n == 1 ? code : (0xf00u >> n & 0xf0u) | code);
    return (uint64_t)n;
}

/* Unicode's White_Space. */
static inline int utf8_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

#endif
