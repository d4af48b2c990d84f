/* See sockets.h. */
#include <winsock2.h>
#include <ws2tcpip.h>

#include "system/sockets.h"

int sockets_begin(void)
{
    WSADATA data;
    return !WSAStartup(MAKEWORD(2, 2), &data);
}

int64_t sockets_limit(int64_t wanted) { return wanted; }

void socket_shut(gdn_socket socket) { (void)shutdown((SOCKET)socket, SD_BOTH); }
void socket_close(gdn_socket socket) { (void)closesocket((SOCKET)socket); }

/* An end behind bytes that are not read is not seen. */
socket_state socket_look(gdn_socket socket, int half)
{
    char byte;
    WSAPOLLFD at = { .fd = (SOCKET)socket, .events = half ? 0 : POLLRDNORM };
    if (WSAPoll(&at, 1, 0) <= 0) return SOCKET_OPEN;
    if (at.revents & (POLLERR | POLLHUP | POLLNVAL)) return SOCKET_GONE;
    const int n = recv((SOCKET)socket, &byte, 1, MSG_PEEK);
    return n > 0 ? SOCKET_OPEN : n == 0 ? SOCKET_HALF : SOCKET_GONE;
}

const char *socket_find(const char *host, const char *port, socket_address *found)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *list = NULL;
    const int unknown = getaddrinfo(host, port, &hints, &list);
    if (unknown) return gai_strerrorA(unknown);
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
