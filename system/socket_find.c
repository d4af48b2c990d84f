/* Where to listen; see sockets.h. The functions are the same everywhere, and their headers are not. */
#if defined(_WIN32)
#include <winsock2.h>
#include <ws2tcpip.h>
#else
#define _DEFAULT_SOURCE /* getaddrinfo */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#endif

#include "system/sockets.h"

#include <stddef.h>

const char *socket_find(const char *host, const char *port, socket_address *found)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *list = NULL;
    const int unknown = getaddrinfo(host, port, &hints, &list);
    if (unknown) return gai_strerror(unknown);
    const int is_6 = list->ai_family == AF_INET6;
    *found = (socket_address){ list->ai_addr, is_6, 0, list };
    found->is_local = is_6 ? IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)list->ai_addr)->sin6_addr)
                           : ntohl(((const struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr) >> 24 == 127;
    return NULL;
}

void socket_address_free(socket_address *found) { freeaddrinfo(found->list); }

int socket_is_address(const char *text, int is_6)
{
    unsigned char address[16];
    return inet_pton(is_6 ? AF_INET6 : AF_INET, text, address) == 1;
}
