#include "transport/base/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/sockios.h>

namespace ef {

bool delivered(int socket) noexcept {
    tcp_info info{};
    socklen_t length = sizeof(info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return true;
    int waiting = 0;
    return info.tcpi_state == TCP_CLOSE || ioctl(socket, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

}  // namespace ef
