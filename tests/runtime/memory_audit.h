/* The memory's books, for tests that run whole engines: every reference that is counted has somebody who names the
 * thing, sequences and the prefix cache together, and what nobody names is free. */
#ifndef GDN_TEST_MEMORY_AUDIT_H
#define GDN_TEST_MEMORY_AUDIT_H

#include "runtime/memory/memory.h"

/* Checks them, as REQUIRE() does; no step may be under way. Then, where the device is the CPU,
 * fills with NaN all that is free, and columns of histories that nobody may read: who reads them shows. */
void memory_audit(rt_memory *m);

#endif
