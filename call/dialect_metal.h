// The dialect of Metal for sequence.h and history.h: maps are buffers of `b`. The kernels ask the block what a call
// has. The file that includes them says how a call is passed (CALL, PASS).
#define RULE                         GDN_INLINE
#define FUNCTION                     GDN_INLINE
#define P(member)                    p.member
#define MAP(map, present, i, absent) map_at(b.map, (p.has & (present)) != 0, i, absent)
#define WITH_LOG                     (p.log.n_slots != 0)
#define WITH_TREE                    ((p.has & GDN_HAS_TREE) != 0)
#define WITH_CHANNEL                 (p.gate == GDN_GATE_CHANNEL)
#define WITH_STATE16                 (p.rounding_interval != 0)
#define REPORT(word)                 report(b.bad, word)
#define INT(x)                       (int(x))
#define UINT(x)                      (uint(x))
#define LONG(x)                      (int64_t(x))
