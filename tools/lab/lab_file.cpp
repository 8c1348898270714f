#include "tools/lab/lab_file.hpp"

#include "affinity/fabric/load.hpp"
#include "transport/base/clock.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

namespace ef::lab {
namespace {

using namespace fabric;
using nlohmann::json;

constexpr int version = 1;
const std::string folder = "/run/eflops-lab", suffix = ".lab";

std::string path_of(const std::string& name) { return folder + "/" + name + suffix; }

json as_json(const options& o) {
    return {{"name", o.name}, {"source", o.source},           {"host_mbit", o.host_mbit},
            {"mtu", o.mtu},   {"burst_bytes", o.burst_bytes}, {"queue_bytes", o.queue_bytes},
            {"seed", o.seed}, {"congestion", o.congestion}};
}

options options_of(const json& j) {
    options o;
    o.name = j.at("name");
    o.source = j.at("source");
    o.host_mbit = j.at("host_mbit");
    o.mtu = j.at("mtu");
    o.burst_bytes = j.at("burst_bytes");
    o.queue_bytes = j.at("queue_bytes");
    o.seed = j.at("seed");
    o.congestion = j.at("congestion");
    return o;
}

/// The whole file or, if this process is killed, the old one.
status write_whole(const std::string& path, const std::string& text) {
    const std::string fresh = path + ".new";
    std::ofstream out(fresh, std::ios::trunc);
    out << text;
    out.close();
    if (!out) return system_error(fresh, errno);
    if (rename(fresh.c_str(), path.c_str()) != 0) return system_error(path, errno);
    return {};
}

struct close_folder {
    void operator()(DIR* d) const noexcept { closedir(d); }
};

}  // namespace

// ---------------------------------------------------------------- lock

result<lab_lock> lab_lock::take(unsigned limit_ms) {
    const deadline limit = deadline::in_ms(limit_ms);
    for (;;) {
        if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return system_error(folder, errno);
        fd f(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!f && errno == ENOENT) continue;  // whoever removed the last lab removed it just now
        if (!f) return system_error(folder, errno);
        if (flock(f.get(), LOCK_EX | LOCK_NB) == 0) {
            struct stat held {
            }, there{};
            const bool same = fstat(f.get(), &held) == 0 && stat(folder.c_str(), &there) == 0 &&
                              held.st_ino == there.st_ino;
            if (same) return lab_lock(std::move(f));
            continue;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) return system_error(folder + ": lock", errno);
        if (limit.passed())
            return status(EF_TIMEOUT, fmt::format("{}: another ef_lab has held the lock for {} ms",
                                                  folder, limit_ms));
        usleep(5000);
    }
}

// ---------------------------------------------------------------- file

std::string lab_file::fabric_path(const std::string& name) {
    return folder + "/" + name + ".fabric.json";
}

// As it was built: with the rates and addresses that it really has, so that what is predicted from
// the file, and the routers that a probe finds, are those of the lab.
status lab_file::save_fabric(const lab& l) {
    fabric::graph g = l.net_;
    for (link_id i = 0; i < g.links().size(); ++i) {
        g.set_gbps(i, l.built_mbit(i) / 1e3);
        g.set_link_address(i, text_of(l.addresses().receiver(l.net_, i)));
    }
    for (node_id h : g.hosts()) g.set_address(h, text_of(l.addresses().host(l.net_, h)));
    return write_whole(fabric_path(l.how_.name), write_fabric(g));
}

bool lab_file::exists(const std::string& name) { return access(path_of(name).c_str(), F_OK) == 0; }

status lab_file::save(const lab& l) {
    json links = json::array();
    for (link_id i = 0; i < l.net_.links().size(); ++i) {
        const link_condition& c = l.condition_[i];
        const traffic& b = l.base_[i];
        links.push_back({{"up", c.up},
                         {"mbit", c.mbit},
                         {"loss_percent", c.loss_percent},
                         {"counted", {b.bytes, b.packets, b.dropped_packets}}});
    }
    const json j = {{"eflops_lab", version},
                    {"finished", l.finished_},
                    {"options", as_json(l.how_)},
                    {"links", std::move(links)}};
    return write_whole(path_of(l.how_.name),
                       j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

result<lab> lab_file::load(const std::string& name) {
    const std::string path = path_of(name);
    std::ifstream in(path);
    if (!in) return system_error(path, errno);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    try {
        const json j = json::parse(text);
        if (j.at("eflops_lab") != version)
            return status(
                EF_UNSUPPORTED,
                fmt::format("{}: made by another version of ef_lab; take the lab down", path));
        lab l;
        l.how_ = options_of(j.at("options"));
        result<graph> net = load_fabric(fabric_path(name), file_format::json);
        if (!net.ok()) return net.why();
        l.net_ = std::move(*net);
        l.finished_ = j.at("finished");
        for (const json& i : j.at("links")) {
            l.condition_.push_back({i.at("up"), i.at("mbit"), i.at("loss_percent")});
            const json& c = i.at("counted");
            l.base_.push_back({c.at(0), c.at(1), c.at(2)});
        }
        if (l.condition_.size() != l.net_.links().size())
            return status(EF_SYSTEM, path + ": damaged: links are missing");
        for (link_id i = 0; i < l.condition_.size(); ++i) l.net_.set_up(i, l.condition_[i].up);
        result<address_plan> plan = address_plan::make(l.net_);
        if (!plan.ok()) return plan.why().in(path);
        l.plan_ = std::move(*plan);
        return l;
    } catch (const json::exception& e) {
        return status(EF_SYSTEM, fmt::format("{}: damaged: {}", path, e.what()));
    }
}

void lab_file::remove(const std::string& name) {
    for (const std::string& path : {path_of(name), fabric_path(name)}) {
        unlink(path.c_str());
        unlink((path + ".new").c_str());
    }
}

void lab_file::remove_folder() { rmdir(folder.c_str()); }

std::vector<std::string> lab_file::names() {
    std::vector<std::string> all;
    const std::unique_ptr<DIR, close_folder> d(opendir(folder.c_str()));
    while (const dirent* e = d ? readdir(d.get()) : nullptr) {
        const std::string file = e->d_name;
        if (file.ends_with(suffix)) all.push_back(file.substr(0, file.size() - suffix.size()));
    }
    std::sort(all.begin(), all.end());
    return all;
}

}  // namespace ef::lab
