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
