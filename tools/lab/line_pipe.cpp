#include "tools/lab/line_pipe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace ef::lab {
namespace {

constexpr size_t longest_line = 1 << 20;  // a longer one is passed on in parts

}  // namespace

result<line_pipe> line_pipe::open(int to, std::string prefix) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return system_error("a pipe for output", errno);
    line_pipe p;
    p.read_ = fd(ends[0]);
    p.write_ = ends[1];
    p.to_ = to;
    p.prefix_ = std::move(prefix);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return p;
}

line_pipe::line_pipe(line_pipe&& o) noexcept
    : read_(std::move(o.read_)),
      write_(std::exchange(o.write_, -1)),
      to_(o.to_),
      prefix_(std::move(o.prefix_)),
      part_(std::move(o.part_)) {}

line_pipe::~line_pipe() { close_write_end(); }

void line_pipe::close_write_end() noexcept {
    if (write_ >= 0) close(write_);
    write_ = -1;
}

void line_pipe::pump() {
    // One read, not all there is: a rank that writes without end must not keep its caller from looking
    // at signals and deadlines.
    char buffer[65536];
    const ssize_t n = read_ ? read(read_.get(), buffer, sizeof buffer) : -1;
    if (n < 0 && (!read_ || errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) return finish();
    std::string_view rest(buffer, size_t(n));
    for (size_t end; (end = rest.find('\n')) != std::string_view::npos;) {
        part_.append(rest.substr(0, end));
        pass_on(std::exchange(part_, {}));
        rest.remove_prefix(end + 1);
    }
    part_.append(rest);
    if (part_.size() >= longest_line) pass_on(std::exchange(part_, {}));
}

void line_pipe::finish() {
    if (!part_.empty()) pass_on(std::exchange(part_, {}));
    read_.reset();
}

void line_pipe::pass_on(std::string_view line) const {
    std::string text = prefix_;
    text.append(line).push_back('\n');
    for (std::string_view rest = text; !rest.empty();) {
        const ssize_t n = write(to_, rest.data(), rest.size());
        if (n > 0) rest.remove_prefix(size_t(n));
        else if (n < 0 && errno == EAGAIN) {
            pollfd p{to_, POLLOUT, 0};
            poll(&p, 1, 1000);
        } else if (n < 0 && errno != EINTR) return;  // nobody reads it any more
    }
}

}  // namespace ef::lab
