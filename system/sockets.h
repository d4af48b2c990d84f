/* Sockets of gdn serve. */
#ifndef GDN_SYSTEM_SOCKETS_H
#define GDN_SYSTEM_SOCKETS_H

#include <stdint.h>

struct sockaddr;
typedef intptr_t gdn_socket; /* on Windows a handle, elsewhere a descriptor */

/* Before other functions: writing to a connection that is closed fails, and does not end the program. 0: there are no
 * sockets. */
int sockets_begin(void);
/* Raises the limit of open files towards `wanted`. Returns the limit, or `wanted` where it is not reached. */
int64_t sockets_limit(int64_t wanted);

void socket_shut(gdn_socket socket); /* both sides see the end */
void socket_close(gdn_socket socket);

/* What a client has done with its connection. `half`: it is known that it sends no more. */
typedef enum socket_state { SOCKET_OPEN, SOCKET_HALF, SOCKET_GONE } socket_state;
socket_state socket_look(gdn_socket socket, int half);

/* Where to listen. */
typedef struct socket_address {
    const struct sockaddr *address;
    int is_6, is_local; /* of IPv6; of this machine alone */
    void *list;
} socket_address;

/* NULL, or why the host has no address. */
const char *socket_find(const char *host, const char *port, socket_address *found);
void socket_address_free(socket_address *found);

/* 1: the text is an address, of IPv6 or of IPv4. */
int socket_is_address(const char *text, int is_6);

#endif
