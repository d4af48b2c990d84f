/* See sockets.h. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "system/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

int sockets_begin(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    return 1;
}

int64_t sockets_limit(int64_t wanted)
{
    const rlim_t files = (rlim_t)wanted;
    struct rlimit r = { files, files };
    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < files) {
        r.rlim_cur = r.rlim_max < files ? r.rlim_max : files;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
    return (int64_t)(r.rlim_cur < files ? r.rlim_cur : files);
}

void socket_shut(gdn_socket socket) { (void)shutdown((int)socket, SHUT_RDWR); }
void socket_close(gdn_socket socket) { (void)close((int)socket); }

socket_state socket_look(gdn_socket socket, int half)
{
#if defined(POLLRDHUP)
    const short end = POLLRDHUP;
    const int is_end = 1;
#else /* an end behind bytes that are not read is not seen */
    char byte;
    const short end = POLLIN;
    const int is_end = !half && !recv((int)socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
#endif
    struct pollfd at = { .fd = (int)socket, .events = half || !is_end ? 0 : end };
    if (poll(&at, 1, 0) <= 0) return SOCKET_OPEN;
    return at.revents == end ? SOCKET_HALF : SOCKET_GONE;
}

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
