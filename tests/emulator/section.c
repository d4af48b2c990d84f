/* Announces the section of static __shared__ variables to the core. */
#include "tests/emulator/core.h"

/* The linker defines these; the section is there, with at least this word, also where no kernel uses it. */
extern char __start_simt_shared[] __attribute__((visibility("hidden")));
extern char __stop_simt_shared[] __attribute__((visibility("hidden")));
__attribute__((section("simt_shared"), used)) static unsigned keep[4];

__attribute__((constructor)) static void announce(void)
{
    simt_shared_section(__start_simt_shared, __stop_simt_shared);
}
