#include "transport/shm/notes.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ef::shm {

bool notes::send(const note& n, int file0, int file1) noexcept {
    iovec io{const_cast<note*>(&n), sizeof(n)};
    msghdr m{};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))] = {};
    int files[2];
    int count = 0;
    if (file0 >= 0) files[count++] = file0;
    if (file1 >= 0) files[count++] = file1;
    if (count) {
        m.msg_control = space;
        m.msg_controllen = CMSG_SPACE(size_t(count) * sizeof(int));
        cmsghdr* c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(size_t(count) * sizeof(int));
        memcpy(CMSG_DATA(c), files, size_t(count) * sizeof(int));
    }
    // A unix stream socket takes 32 bytes whole or not at all unless its buffer is full to the last
    // bytes; a torn note could not be mended, so that is treated as the end of the channel.
    const ssize_t k = sendmsg(socket_.get(), &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (k == ssize_t(sizeof(n))) return true;
    if (k > 0) end("a note was torn");
    else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) end(strerrordesc_np(errno));
    return false;
}

bool notes::receive(received_note& out) noexcept {
    if (ended_) return false;
    iovec io{reinterpret_cast<char*>(&partial_.head) + have_, sizeof(note) - have_};
    msghdr m{};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    alignas(cmsghdr) char space[CMSG_SPACE(4 * sizeof(int))];
    m.msg_control = space;
    m.msg_controllen = sizeof(space);
    const ssize_t k = recvmsg(socket_.get(), &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (k == 0) {
        end("end of file");
        return false;
    }
    if (k < 0) {
        if (errno != EAGAIN && errno != EINTR) end(strerrordesc_np(errno));
        return false;
    }
    size_t next = partial_.files[0] ? 1 : 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
            int n;
            memcpy(&n, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            fd file(n);  // closes itself if there are more than there should be
            if (next < partial_.files.size()) partial_.files[next++] = std::move(file);
        }
    }
    have_ += size_t(k);
    if (have_ < sizeof(note)) return false;
    have_ = 0;
    if (partial_.head.magic != note::magic_value) {
        end("not a note of eflops");
        return false;
    }
    if (partial_.head.version_ != version) {
        end("another version of the shared segment");
        return false;
    }
    out = std::move(partial_);
    partial_ = {};
    return true;
}

}  // namespace ef::shm
