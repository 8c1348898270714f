// PMI-1's simple wire protocol: lines "cmd=... key=value ...\n" over an inherited socket, as
// MPICH's hydra and Slurm's PMI-1 speak it. A get only sees what was put before a barrier, so every
// rank goes through one barrier per communicator: publish puts and enters it, lookup enters it and
// gets.
#include "transport/bootstrap/kvs.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace ef {
namespace {

using fields = std::map<std::string, std::string>;

/// "cmd=get_result rc=0 value=x" as fields; false for what is none of that form.
bool parse_line(std::string_view line, fields& out) {
    out.clear();
    while (!line.empty()) {
        const size_t end = std::min(line.find(' '), line.size());
        const std::string_view word = line.substr(0, end);
        line.remove_prefix(std::min(end + 1, line.size()));
        if (word.empty()) continue;
        const size_t eq = word.find('=');
        if (eq == std::string_view::npos) return false;
        out[std::string(word.substr(0, eq))] = std::string(word.substr(eq + 1));
    }
    return out.count("cmd") > 0;
}

int number(const fields& f, const char* name, int otherwise) {
    const auto i = f.find(name);
    int n = otherwise;
    if (i != f.end()) std::from_chars(i->second.data(), i->second.data() + i->second.size(), n);
    return n;
}

class pmi final : public kvs {
public:
    explicit pmi(int socket) : socket_(socket) {}
    status start(deadline d);

    int rank() const noexcept override { return rank_; }
    int nranks() const noexcept override { return size_; }
    status put(const std::string& name, const std::string& value) override;
    result<std::string> get(const std::string& name, deadline d) override;

private:
    status say(std::string line);
    /// Send one command and read its answer; a result code that is not 0 is an error.
    result<fields> ask(const std::string& line, const char* answer, deadline d);
    result<std::string> read_line(deadline d);
    status barrier(deadline d);

    int socket_;
    int rank_ = -1, size_ = -1;
    std::string space_, in_;
    std::mutex one_;
};

status pmi::say(std::string line) {
    line += '\n';
    for (size_t at = 0; at < line.size();) {
        ssize_t n = send(socket_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK) n = write(socket_, line.data() + at, line.size() - at);
        if (n > 0) at += size_t(n);
        else if (errno == EAGAIN) {
            pollfd p{socket_, POLLOUT, 0};
            poll(&p, 1, 100);
        } else if (errno != EINTR) return system_error("pmi: write to the process manager", errno);
    }
    return {};
}

result<std::string> pmi::read_line(deadline d) {
    for (;;) {
        const size_t nl = in_.find('\n');
        if (nl != std::string::npos) {
            std::string line = in_.substr(0, nl);
            in_.erase(0, nl + 1);
            return line;
        }
        if (in_.size() > 65536) return status(EF_SYSTEM, "pmi: the process manager sends no lines");
        pollfd p{socket_, POLLIN, 0};
        const int ms = d.left_ms(100);
        if (d.passed()) return status(EF_TIMEOUT, "pmi: the process manager does not answer");
        if (poll(&p, 1, ms) <= 0) continue;
        char buf[1024];
        const ssize_t n = read(socket_, buf, sizeof(buf));
        if (n > 0) in_.append(buf, size_t(n));
        else if (n == 0) return status(EF_SYSTEM, "pmi: the process manager closed PMI_FD");
        else if (errno != EINTR && errno != EAGAIN)
            return system_error("pmi: read from the process manager", errno);
    }
}

result<fields> pmi::ask(const std::string& line, const char* answer, deadline d) {
    if (status s = say(line); !s.ok()) return s;
    result<std::string> r = read_line(d);
    if (!r.ok()) return r.why();
    fields f;
    if (!parse_line(*r, f) || f["cmd"] != answer)
        return status(EF_SYSTEM, fmt::format("pmi: asked \"{}\", got \"{}\"", line, *r));
    if (number(f, "rc", 0) != 0)
        return status(EF_SYSTEM, fmt::format("pmi: \"{}\" failed: {}", line, *r));
    return f;
}

status pmi::start(deadline d) {
    result<fields> f = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", d);
    if (!f.ok()) return f.why();
    // The environment has both; a manager that sets only PMI_FD answers these.
    const auto known = [&](const char* variable, const char* cmd, const char* answer,
                           const char* field, int& n) -> status {
        if (const char* v = getenv(variable); v && *v) {
            n = atoi(v);
            return {};
        }
        result<fields> r = ask(cmd, answer, d);
        if (r.ok()) n = number(*r, field, -1);
        return r.why();
    };
    if (status s = known("PMI_RANK", "cmd=get_rank", "rank", "rank", rank_); !s.ok()) return s;
    if (status s = known("PMI_SIZE", "cmd=get_size", "size", "size", size_); !s.ok()) return s;
    if (rank_ < 0 || size_ < 1 || rank_ >= size_)
        return status(EF_INVALID, fmt::format("pmi: PMI_RANK {} of PMI_SIZE {}", rank_, size_));
    f = ask("cmd=get_my_kvsname", "my_kvsname", d);
    if (!f.ok()) return f.why();
    space_ = (*f)["kvsname"];
    return {};
}

status pmi::barrier(deadline d) { return ask("cmd=barrier_in", "barrier_out", d).why(); }

status pmi::put(const std::string& name, const std::string& value) {
    const std::lock_guard lock(one_);
    const deadline d = deadline::in_ms(60'000);
    result<fields> f = ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, name, value),
                           "put_result", d);
    return f.ok() ? barrier(d) : f.why();
}

result<std::string> pmi::get(const std::string& name, deadline d) {
    const std::lock_guard lock(one_);
    if (status s = barrier(d); !s.ok())
        return s.code() == EF_TIMEOUT
                   ? status(EF_TIMEOUT, "pmi: not all ranks have come to the barrier in time")
                   : s;
    result<fields> f = ask(fmt::format("cmd=get kvsname={} key={}", space_, name), "get_result", d);
    if (!f.ok()) return f.why();
    return (*f)["value"];
}

pid_t said_by = 0;  // a forked child must not end its parent's session

// Hydra takes a process that ends without this for a failed one, and fails itself when it cannot
// write its answer.
void finalize() {
    const char* text = getenv("PMI_FD");
    if (!text || getpid() != said_by) return;
    const int socket = atoi(text);
    static const char bye[] = "cmd=finalize\n";
    if (send(socket, bye, sizeof(bye) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
    pollfd p{socket, POLLIN, 0};
    char answer[256];
    if (poll(&p, 1, 2000) > 0) (void)!read(socket, answer, sizeof(answer));
}

}  // namespace

result<std::shared_ptr<kvs>> pmi_client(int socket, deadline d) {
    auto p = std::make_shared<pmi>(socket);
    if (status s = p->start(d); !s.ok()) return s;
    return std::shared_ptr<kvs>(std::move(p));
}

result<std::shared_ptr<kvs>> pmi_store() {
    static std::mutex one;
    static std::shared_ptr<kvs> store;  // shared: outlives the communicators that use it
    const std::lock_guard lock(one);
    if (store) return store;
    const char* text = getenv("PMI_FD");
    if (!text || !*text) return std::shared_ptr<kvs>();
    const int socket = atoi(text);
    result<std::shared_ptr<kvs>> made = pmi_client(socket, deadline::in_ms(30'000));
    if (made.ok()) {
        store = *made;
        said_by = getpid();
        atexit(finalize);
    }
    return made;
}

}  // namespace ef
