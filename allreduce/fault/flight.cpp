#include "allreduce/fault/flight.hpp"

#include "transport/base/fd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

namespace ef {
namespace {

uint64_t read_clock(clockid_t which) noexcept {
    timespec t;
    clock_gettime(which, &t);
    return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

uint64_t coarse_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }

uint64_t age_ms(uint64_t now, uint64_t then) noexcept {
    return now > then ? (now - then) / 1'000'000 : 0;
}

const char* op_name(ef_op_t op) noexcept {
    switch (op) {
    case EF_SUM:
        return "sum";
    case EF_PROD:
        return "prod";
    case EF_MIN:
        return "min";
    case EF_MAX:
        return "max";
    case EF_AVG:
        return "avg";
    }
    return "?";
}

// A JSON string. Bytes that are not UTF-8 (a host name or a path may hold any) become '?', so that
// the file can always be read.
std::string quoted(std::string_view s) {
    std::string out = "\"";
    for (size_t i = 0; i < s.size();) {
        const unsigned char c = static_cast<unsigned char>(s[i]);
        const size_t n = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : 0;
        bool good = n > 0 && i + n <= s.size() && !(n == 2 && c < 0xc2);
        for (size_t k = 1; good && k < n; ++k)
            good = (static_cast<unsigned char>(s[i + k]) & 0xc0) == 0x80;
        if (good && n == 3) {
            const unsigned char d = static_cast<unsigned char>(s[i + 1]);
            good = !(c == 0xe0 && d < 0xa0) && !(c == 0xed && d >= 0xa0);
        }
        if (!good) {
            out += '?';
            ++i;
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += s[i++];
        } else if (c < 0x20) {
            out += fmt::format("\\u{:04x}", c);
            ++i;
        } else {
            out += s.substr(i, n);
            i += n;
        }
    }
    return out + '"';
}

status write_whole(int file, std::string_view text, const std::string& name) {
    while (!text.empty()) {
        const ssize_t n = ::write(file, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error("write " + name, errno);
        text.remove_prefix(size_t(n));
    }
    return {};
}

}  // namespace

int flight_recorder::begin(const call_site& site) noexcept {
    const int ticket = next_;
    next_ = next_ == INT_MAX - kept ? 0 : next_ + 1;
    operation& o = ring_[size_t(ticket % kept)];
    o.what = site.what;
    o.number = site.number;
    o.count = site.count;
    o.type = site.type;
    o.op = site.op;
    o.root_or_peer = site.root_or_peer;
    o.begin_ns = coarse_ns();
    o.end_ns = 0;
    o.code = EF_OK;
    o.ticket = ticket;
    const size_t n = strnlen(site.algorithm, o.algorithm.size() - 1);
    memcpy(o.algorithm.data(), site.algorithm, n);
    o.algorithm[n] = 0;
    return ticket;
}

void flight_recorder::end(int ticket, ef_status_t code) noexcept {
    if (ticket < 0) return;
    operation& o = ring_[size_t(ticket % kept)];
    if (o.ticket != ticket) return;
    o.end_ns = coarse_ns();
    o.code = code;
}

std::string flight_recorder::text(const operation& o, uint64_t now) {
    const std::string_view what = o.what;
    std::string t = fmt::format(R"({{"what": {}, "number": {})", quoted(what), o.number);
    if (what != "barrier")
        t += fmt::format(R"(, "count": {}, "type": "{}")", o.count, type_name(o.type));
    if (what == "allreduce" || what == "reduce_scatter")
        t += fmt::format(R"(, "op": "{}")", op_name(o.op));
    if (what == "broadcast") t += fmt::format(R"(, "root": {})", o.root_or_peer);
    if (what == "send" || what == "recv") t += fmt::format(R"(, "peer": {})", o.root_or_peer);
    if (o.algorithm[0]) t += fmt::format(R"(, "algorithm": {})", quoted(o.algorithm.data()));
    t += fmt::format(R"(, "began_ms_ago": {})", age_ms(now, o.begin_ns));
    if (o.end_ns)
        t += fmt::format(R"(, "ended_ms_ago": {}, "code": "{}"}})", age_ms(now, o.end_ns),
                         ef_status_name(o.code));
    else t += R"(, "pending": true})";
    return t;
}

std::string flight_recorder::text(const flight_context& context,
                                  std::span<const flight_waiting> waiting) const {
    const peer_name& me = context.peers[size_t(context.rank)];
    std::string t = "{\n";
    t += fmt::format(R"("eflops_flight": 1, "version": "{}",)", ef_version());
    t += fmt::format("\n\"communicator\": {}, \"rank\": {}, \"nranks\": {}, ",
                     quoted(context.communicator), context.rank, context.peers.size());
    t += fmt::format(R"("host": {}, "pid": {}, "written_unix_ms": {},)", quoted(me.host), me.pid,
                     read_clock(CLOCK_REALTIME) / 1'000'000);
    if (context.error)
        t += fmt::format("\n\"error\": {{\"code\": \"{}\", \"text\": {}}},",
                         ef_status_name(context.error->code()), quoted(context.error->text()));
    t += "\n\"peers\": [";
    const char* comma = "";
    for (const peer_name& p : context.peers) {
        t += fmt::format("{}\n  {{\"rank\": {}, \"host\": {}, \"pid\": {}}}", comma, p.rank,
                         quoted(p.host), p.pid);
        comma = ",";
    }
    t += "\n],\n\"waiting_for\": [";
    comma = "";
    for (const flight_waiting& w : waiting) {
        t += fmt::format(
            "{}\n  {{\"peer\": {}, \"to\": \"{}\", \"round\": {}, \"bytes_done\": {}, "
            "\"bytes\": {}, \"medium\": {}}}",
            comma, w.peer, w.sending ? "take" : "send", w.round, w.bytes_done, w.bytes,
            quoted(w.medium));
        comma = ",";
    }
    t += "\n],\n\"operations\": [";
    comma = "";
    const uint64_t now = coarse_ns();
    for (int i = 0; i < kept; ++i) {  // from the oldest
        const operation& o = ring_[size_t((next_ + i) % kept)];
        if (!o.what) continue;
        t += fmt::format("{}\n  {}", comma, text(o, now));
        comma = ",";
    }
    return t + "\n]\n}\n";
}

status flight_recorder::write(const std::string& directory, const flight_context& context,
                              std::span<const flight_waiting> waiting) const {
    const std::string name =
        fmt::format("{}/eflops-flight-{}-{}.json", directory, context.communicator, context.rank);
    const std::string unfinished = fmt::format("{}.{}", name, getpid());
    fd file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file) return system_error("open " + unfinished, errno);
    status s = write_whole(file.get(), text(context, waiting), unfinished);
    if (s.ok() && rename(unfinished.c_str(), name.c_str()) != 0)
        s = system_error(fmt::format("rename {} to {}", unfinished, name), errno);
    if (!s.ok()) unlink(unfinished.c_str());
    return s;
}

}  // namespace ef
