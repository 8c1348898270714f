#include "transport/path/steer_links.hpp"

namespace ef::path {
namespace {

class link_names {
public:
    explicit link_names(bool by_router) : by_router_(by_router) {}

    /// Links of a path from `source` over `routers` to `destination`. What is next to a silent
    /// router has no name.
    way links_of(const std::string& source, const std::vector<std::string>& routers,
                 const std::string& destination) {
        way w;
        const std::string* before = &source;
        for (size_t i = 0; i <= routers.size(); ++i) {
            const std::string& here = i < routers.size() ? routers[i] : destination;
            if (by_router_) {
                if (!before->empty() && !here.empty())
                    w.links.push_back(number(*before + "-" + here));
            } else if (!here.empty()) {
                w.links.push_back(number(here));
            }
            before = &here;
        }
        return w;
    }
    std::vector<std::string> take() { return std::move(names_); }

private:
    link_number number(const std::string& name) {
        const auto [at, fresh] = known_.emplace(name, link_number(names_.size()));
        if (fresh) names_.push_back(name);
        return at->second;
    }

    bool by_router_;
    std::map<std::string, link_number> known_;
    std::vector<std::string> names_;
};

}  // namespace

bool named_by_router(std::span<const std::vector<found_flow>> found) {
    // Two ways of one flow that come to the last router from different ones.
    size_t same = 0, different = 0;
    for (const auto& of_rank : found)
        for (const found_flow& f : of_rank)
            for (size_t i = 1; i < f.ways.size(); ++i) {
                const auto &a = f.ways[0], &b = f.ways[i];
                const size_t n = a.size();
                if (n < 2 || b.size() != n || a[n - 1].empty() || b[n - 1].empty()) continue;
                if (a[n - 2].empty() || b[n - 2].empty() || a[n - 2] == b[n - 2]) continue;
                ++(a[n - 1] == b[n - 1] ? same : different);
            }
    return same > different;
}

flow_table make_flow_table(std::span<const std::vector<found_flow>> found,
                           std::span<const std::string> host, naming names) {
    flow_table t;
    t.by_router = names == naming::router || (names == naming::automatic && named_by_router(found));
    link_names links(t.by_router);
    for (size_t r = 0; r < found.size(); ++r) {
        t.first.push_back(uint32_t(t.place.size()));
        for (const found_flow& f : found[r]) {
            t.place.push_back(f.ways.empty() ? -1 : int32_t(t.flows.size()));
            if (f.ways.empty()) continue;
            flow_ways w{int32_t(r), f.to, f.rounds, {}};
            for (const auto& routers : f.ways)
                w.ways.push_back(links.links_of(host[r], routers, host[size_t(f.to)]));
            t.flows.push_back(std::move(w));
        }
    }
    t.name = links.take();
    return t;
}

}  // namespace ef::path
