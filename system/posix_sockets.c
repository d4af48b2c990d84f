/* See sockets.h. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "system/sockets.h"

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
