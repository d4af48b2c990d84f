// The dialect of GLSL for sequence.h and history.h: the block is a global variable `p`. The shader that includes them
// says what it knows of a call at compile time (WITH_LOG, WITH_TREE, WITH_CHANNEL, WITH_STATE16).
#ifndef GDN_CALL_DIALECT_GLSL_H
#define GDN_CALL_DIALECT_GLSL_H

#define RULE
#define FUNCTION
#define CALL
#define PASS
#define P(member)                p.member
#define MAP_ADDRESS              uint64_t
#define ENTRY(map, i)            Int(map + 4 * (i)).x
#define MAP(map, has, i, absent) map_at(p.map, int64_t(i), absent)
#define REPORT(word)             report(p.bad, word)
#define INT(x)                   int(x)
#define UINT(x)                  uint(x)
#define LONG(x)                  int64_t(x)

#endif
