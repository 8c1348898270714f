#include "allreduce/calibrate.hpp"

#include "transport/base/clock.hpp"
#include "transport/base/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ef {
namespace {

constexpr int small_trips = 40;
constexpr int large_trips = 24;  // the first ones find a connection that has not found its pace
constexpr size_t large_bytes = 256 * 1024;
constexpr size_t cached_bytes = 128 * 1024;
constexpr size_t beyond_cache_bytes = 8 << 20;
constexpr time_t keep_s = 7 * 24 * 3600;

// Least of several, in ns: what the machine does when nobody disturbs it.
template <class F>
double least(int times, F&& f) {
    double best = 1e18;
    for (int i = 0; i < times; ++i) {
        const uint64_t start = now_ns();
        f();
        best = std::min(best, double(now_ns() - start));
    }
    return best;
}

status pass(comm& c, bool sending, std::vector<std::byte>& data, size_t bytes, rank_t peer) {
    result<request*> r = c.start_p2p(sending, data.data(), bytes, EF_INT8, peer);
    return r.ok() ? c.wait(*r) : r.why();
}

// While two ranks measure, each keeps to a core of its own: a scheduler that has them share one
// would be measured instead of the medium.
class on_own_core {
public:
    explicit on_own_core(bool first) {
        if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
        cpu_set_t one;
        CPU_ZERO(&one);
        for (size_t i = 0; i < CPU_SETSIZE; ++i) {
            const size_t cpu = first ? i : CPU_SETSIZE - 1 - i;
            if (!CPU_ISSET(cpu, &before_)) continue;
            CPU_SET(cpu, &one);
            moved_ = sched_setaffinity(0, sizeof(one), &one) == 0;
            return;
        }
    }
    ~on_own_core() {
        if (moved_) sched_setaffinity(0, sizeof(before_), &before_);
    }
    on_own_core(const on_own_core&) = delete;

private:
    cpu_set_t before_;
    bool moved_ = false;
};

// There and back; on the side of `first` the least time of a round trip in ns.
status round_trips(comm& c, rank_t peer, bool first, size_t bytes, int trips, double& ns) {
    std::vector<std::byte> data(bytes);
    status s;
    ns = least(trips, [&] {
        if (s.ok()) s = pass(c, first, data, bytes, peer);
        if (s.ok()) s = pass(c, !first, data, bytes, peer);
    });
    return s;
}

// What no quiet machine shows between two ranks of one host: then other programs had the cores
// while it was measured,
// and the defaults are nearer to the truth. Another host may be as far as it likes.
struct bounds {
    double alpha_ns = 1e9, ns_per_byte = 1e3;
};
constexpr bounds of_shm{5'000, 0.5};
constexpr bounds of_loopback{50'000, 1.5};

// `believed`: set to false if the numbers are beyond the bounds, and `m` is left as it was.
status measure_medium(comm& c, rank_t peer, bool first, const bounds& most, cost::medium_model& m,
                      bool& believed) {
    const on_own_core pinned(first);
    double small = 0, large = 0;
    if (status s = round_trips(c, peer, first, 8, small_trips, small); !s.ok()) return s;
    if (status s = round_trips(c, peer, first, large_bytes, large_trips, large); !s.ok()) return s;
    const double alpha = std::max(20.0, small / 2);
    const double per_byte = std::max(0.005, (large / 2 - alpha) / double(large_bytes));
    if (alpha > most.alpha_ns || per_byte > most.ns_per_byte) {
        if (first)
            log(EF_LOG_INFO,
                "calibrate: {:.0f} ns and {:.3f} ns per byte with rank {} are not believed", alpha,
                per_byte, peer);
        believed = false;
        return {};
    }
    const double both = m.send_ns_per_byte + m.recv_ns_per_byte;
    m.cpu_ns *= alpha / m.alpha_ns;
    m.alpha_ns = alpha;
    m.send_ns_per_byte *= per_byte / both;
    m.recv_ns_per_byte *= per_byte / both;
    return {};
}

void measure_memory(cost::machine_model& m) {
    std::vector<float> a(cached_bytes / 4, 1.f), b(cached_bytes / 4, 2.f), d(cached_bytes / 4);
    const reduce_fn sum = find_reduce(EF_FLOAT32, EF_SUM);
    m.gamma_ns_per_byte =
        least(20, [&] { sum(d.data(), a.data(), b.data(), d.size()); }) / double(cached_bytes);
    std::vector<std::byte> from(beyond_cache_bytes, std::byte(1)),
        to(beyond_cache_bytes, std::byte(2));
    m.copy_ns_per_byte = least(3,
                               [&] {
                                   memcpy(to.data(), from.data(), from.size());
                                   asm volatile("" ::"r"(to.data()) : "memory");
                               }) /
                         double(beyond_cache_bytes);
}

std::string file_of(const config& conf, const std::string& host) {
    if (conf.calibration != "auto") return conf.calibration;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache) return fmt::format("{}/eflops/calibration-{}", cache, host);
    if (home && *home) return fmt::format("{}/.cache/eflops/calibration-{}", home, host);
    return {};
}

// Empty if there is none, or it is too old to be believed.
std::string read_file(const std::string& path) {
    struct stat st {};
    if (path.empty() || stat(path.c_str(), &st) != 0 || time(nullptr) - st.st_mtime > keep_s)
        return {};
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// Whole or not at all, since other jobs read it. A file that can not be written costs the next job
// its ten milliseconds.
void write_file(const std::string& path, const std::string& text) {
    if (path.empty()) return;
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos) {
        const std::string dir = path.substr(0, slash), parent = dir.substr(0, dir.rfind('/'));
        mkdir(parent.c_str(), 0700);
        mkdir(dir.c_str(), 0700);
    }
    const std::string draft = fmt::format("{}.{}", path, getpid());
    const fd file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file || write(file.get(), text.data(), text.size()) != ssize_t(text.size()) ||
        rename(draft.c_str(), path.c_str()) != 0) {
        log(EF_LOG_INFO, "calibrate: {} can not be written: {}", path, strerrordesc_np(errno));
        unlink(draft.c_str());
    }
}

// First rank on this rank 0's host, and first on another; -1: none.
struct partners {
    rank_t near = -1, far = -1;
};

partners partners_of(const comm& c) {
    partners p;
    for (rank_t r = c.nranks() - 1; r > 0; --r)
        (c.members().info(r).host_id == c.members().info(0).host_id && c.shares_memory() ? p.near
                                                                                         : p.far) =
            r;
    return p;
}

// What rank 0 knows, for all.
status spread(comm& c, cost::machine_model& m) {
    result<std::vector<std::byte>> all =
        c.exchange({reinterpret_cast<const std::byte*>(&m), sizeof(m)});
    if (!all.ok()) return all.why();
    memcpy(&m, all->data(), sizeof(m));
    return {};
}

}  // namespace

namespace calibration {

bool parse(std::string_view text, const std::vector<std::string>& wanted, cost::machine_model& m) {
    std::istringstream in{std::string(text)};
    std::vector<std::string> seen;
    std::string line;
    cost::machine_model read = m;
    const auto sane = [](double v) { return std::isfinite(v) && v > 0 && v < 1e9; };
    while (std::getline(in, line)) {
        std::istringstream words(line);
        std::string name;
        words >> name;
        if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
        if (name == "host") {
            words >> read.gamma_ns_per_byte >> read.copy_ns_per_byte;
            if (words.fail() || !sane(read.gamma_ns_per_byte) || !sane(read.copy_ns_per_byte))
                return false;
        } else {
            cost::medium_model& to = name == "shm" ? read.intra : read.inter;
            words >> to.alpha_ns >> to.cpu_ns >> to.send_ns_per_byte >> to.recv_ns_per_byte;
            if (words.fail() || !sane(to.alpha_ns) || !sane(to.cpu_ns) ||
                !sane(to.send_ns_per_byte) || !sane(to.recv_ns_per_byte))
                return false;
        }
        seen.push_back(name);
    }
    for (const std::string& w : wanted)
        if (std::find(seen.begin(), seen.end(), w) == seen.end()) return false;
    m = read;
    return true;
}

std::string format(const cost::machine_model& m, std::string_view intra, std::string_view inter,
                   std::string_view kept) {
    std::string out = fmt::format("host {:.5f} {:.5f}\n", m.gamma_ns_per_byte, m.copy_ns_per_byte);
    const auto medium = [&](std::string_view name, const cost::medium_model& x) {
        if (!name.empty())
            out += fmt::format("{} {:.1f} {:.1f} {:.5f} {:.5f}\n", name, x.alpha_ns, x.cpu_ns,
                               x.send_ns_per_byte, x.recv_ns_per_byte);
    };
    medium(intra, m.intra);
    medium(inter, m.inter);
    std::istringstream in{std::string(kept)};
    for (std::string line; std::getline(in, line);) {
        const std::string name = line.substr(0, line.find(' '));
        if (name != "host" && name != intra && name != inter && !name.empty()) out += line + "\n";
    }
    return out;
}

}  // namespace calibration

status calibrate(comm& c, const config& conf) {
    if (c.nranks() == 1 || conf.calibration == "off") return {};
    cost::machine_model m = c.planner().model();
    const partners with = partners_of(c);
    const std::string intra = with.near > 0 ? "shm" : "";
    const std::string inter = with.far > 0 ? "tcp:" + c.members().info(0).interface_ : "";
    std::vector<std::string> wanted = {"host"};
    if (!intra.empty()) wanted.push_back(intra);
    if (!inter.empty()) wanted.push_back(inter);

    const std::string path = file_of(conf, c.members().info(0).host);
    const std::string text = c.rank() == 0 ? read_file(path) : std::string();
    if (c.rank() == 0 && calibration::parse(text, wanted, m)) m.measured = 2;
    if (status s = spread(c, m); !s.ok()) return s;
    if (m.measured == 0) {
        if (c.rank() == 0 || c.rank() == with.near) measure_memory(m);
        const bool first = c.rank() == 0;
        const bool far_here =
            with.far > 0 && c.members().info(with.far).host == c.members().info(0).host;
        bool believed = true;
        if (with.near > 0 && (first || c.rank() == with.near))
            if (status s =
                    measure_medium(c, first ? with.near : 0, first, of_shm, m.intra, believed);
                !s.ok())
                return s;
        if (with.far > 0 && (first || c.rank() == with.far))
            if (status s = measure_medium(c, first ? with.far : 0, first,
                                          far_here ? of_loopback : bounds{}, m.inter, believed);
                !s.ok())
                return s;
        m.measured = 1;
        if (status s = spread(c, m); !s.ok()) return s;
        if (first && believed) write_file(path, calibration::format(m, intra, inter, text));
    }
    c.planner().set_model(m);
    return {};
}

}  // namespace ef
