// The dialect of Metal for sequence.h, history.h and gpu/delta_*.h: maps and operands are buffers of `b`. The file that
// includes them says how a call is passed (FUNCTION, CALL, PASS) and what its kernels know of it (WITH_LOG, ...).
#define RULE                         GDN_INLINE
#define P(member)                    p.member
#define MAP_ADDRESS                  device const uchar *
#define ENTRY(map, i)                read_int(map + 4 * (i))
#define MAP(map, present, i, absent) map_at(b.map, (p.has & (present)) != 0, i, absent)
#define REPORT(word)                 report(b.bad, word)
#define INT(x)                       (int(x))
#define UINT(x)                      (uint(x))
#define LONG(x)                      (int64_t(x))
#define THREAD                       thread
#define CONSTANT                     constant
#define STATIC                       static constant constexpr
#define DATA(operand)                b.operand
#define ADDRESS(operand)             b.operand
#define HAS(operand, present)        ((p.has & (present)) != 0)
typedef device uchar *Bytes;
typedef device const uchar *ConstBytes;
typedef device const uchar *Address;
