/* What the programs of this folder demand: what does not hold is said, and ends the program without atexit's functions.
 */
#ifndef GDN_EDGES_REQUIRE_H
#define GDN_EDGES_REQUIRE_H

#include <stdio.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
