// The dialect of CUDA for sequence.h, history.h and gpu/delta_*.h. The file that includes them says how a call is
// passed (FUNCTION, CALL, PASS) and what its kernels know of it at compile time (WITH_LOG, WITH_TREE, WITH_STATE16).
#ifndef GDN_CALL_DIALECT_CUDA_H
#define GDN_CALL_DIALECT_CUDA_H

#define RULE                     GDN_INLINE
#define P(member)                p.member
#define MAP_ADDRESS              uint64_t
#define ENTRY(map, i)            read_int(map + 4 * (uint64_t)(i))
#define MAP(map, has, i, absent) map_at(p.map, i, absent)
#define REPORT(word)             report(p.bad, word)
#define INT(x)                   ((int)(x))
#define UINT(x)                  ((unsigned)(x))
#define LONG(x)                  ((int64_t)(x))
#define THREAD
#define CONSTANT          const
#define STATIC            static constexpr
#define DATA(operand)     p.operand.data
#define ADDRESS(operand)  p.operand
#define HAS(operand, has) (p.operand.data != nullptr)
typedef char *Bytes;
typedef const char *ConstBytes;
typedef uint64_t Address;

#endif
