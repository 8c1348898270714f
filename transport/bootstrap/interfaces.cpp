#include "transport/bootstrap/interfaces.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace ef {
namespace {

struct candidate {
    std::string name;
    endpoint address;
};

std::span<const unsigned char> raw_address(const endpoint& e) {
    if (e.family() == AF_INET)
        return {reinterpret_cast<const unsigned char*>(
                    &reinterpret_cast<const sockaddr_in&>(e.address).sin_addr),
                4};
    return {reinterpret_cast<const unsigned char*>(
                &reinterpret_cast<const sockaddr_in6&>(e.address).sin6_addr),
            16};
}

bool same_host(const endpoint& a, const endpoint& b) {
    const auto x = raw_address(a), y = raw_address(b);
    return a.family() == b.family() && std::equal(x.begin(), x.end(), y.begin());
}

result<std::vector<candidate>> list_interfaces() {
    std::vector<candidate> out;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return system_error("getifaddrs", errno);
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> own(list, freeifaddrs);
    for (const ifaddrs* i = list; i; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
        const int f = i->ifa_addr->sa_family;
        if (f == AF_INET)
            out.push_back({i->ifa_name, of_sockaddr(i->ifa_addr, sizeof(sockaddr_in))});
        if (f == AF_INET6)
            out.push_back({i->ifa_name, of_sockaddr(i->ifa_addr, sizeof(sockaddr_in6))});
    }
    // Global addresses before link-local ones, IPv4 before IPv6, otherwise as the kernel lists
    // them.
    std::stable_sort(out.begin(), out.end(), [](const candidate& a, const candidate& b) {
        const auto rank = [](const candidate& c) {
            return 2 * c.address.link_local() + (c.address.family() == AF_INET6);
        };
        return rank(a) < rank(b);
    });
    return out;
}

/// Does `e` lie in "10.1.0.0/16"? Also equality, for an address without a length.
bool in_prefix(const std::string& prefix, const endpoint& e) {
    const size_t slash = prefix.find('/');
    const std::string base = prefix.substr(0, slash);
    unsigned char want[16];
    if (inet_pton(e.family(), base.c_str(), want) != 1) return base == e.host();
    const auto have = raw_address(e);
    unsigned bits = unsigned(have.size()) * 8;
    if (slash != std::string::npos) {
        const char *first = prefix.data() + slash + 1, *last = prefix.data() + prefix.size();
        const auto [end, err] = std::from_chars(first, last, bits);
        if (err != std::errc() || end != last || bits > have.size() * 8) return false;
    }
    for (unsigned b = 0; b < bits; ++b)
        if ((have[b / 8] ^ want[b / 8]) & (0x80u >> (b % 8))) return false;
    return true;
}

/// The local address that the kernel would use to reach `to`. No packet is sent.
std::optional<endpoint> source_for(const endpoint& to) {
    const fd s(socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!s) return {};
    endpoint t = to;
    t.set_port(9);
    if (connect(s.get(), t.get(), t.bytes) != 0) return {};
    return local_end(s.get());
}

interface_choice chosen(const candidate& c, std::string why) {
    interface_choice r{c.address, c.name, std::move(why)};
    r.address.set_port(0);
    return r;
}

result<interface_choice> wanted_one(const std::vector<candidate>& all, const std::string& wanted,
                                    const endpoint* root) {
    const candidate* best = nullptr;
    for (const candidate& c : all) {
        if (c.name != wanted && !in_prefix(wanted, c.address)) continue;
        // The root's family tells which one the peers can speak.
        if (!best || (root && best->address.family() != root->family() &&
                      c.address.family() == root->family()))
            best = &c;
    }
    if (best) return chosen(*best, "asked for by EFLOPS_INTERFACE=" + wanted);
    std::string there;
    for (const candidate& c : all)
        there += fmt::format("{}{} ({})", there.empty() ? "" : ", ", c.name, c.address.host());
    return status(
        EF_INVALID,
        fmt::format("EFLOPS_INTERFACE={}: no such interface is up; there are {}", wanted, there));
}

}  // namespace

interface_choice loopback_interface() {
    if (const auto all = list_interfaces(); all.ok())
        for (const candidate& c : *all)
            if (c.address.loopback()) return chosen(c, "all ranks are on this host");
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return {of_sockaddr(reinterpret_cast<sockaddr*>(&a), sizeof(a)), "lo", "no interface is up"};
}

result<interface_choice> choose_interface(const std::string& wanted, const endpoint* root) {
    const result<std::vector<candidate>> listed = list_interfaces();
    if (!listed.ok()) return listed.why();
    const std::vector<candidate>& all = *listed;
    if (!wanted.empty()) return wanted_one(all, wanted, root);
    if (root && root->loopback()) {
        interface_choice r{*root, loopback_interface().name, "the root is on loopback"};
        r.address.set_port(0);
        return r;
    }
    endpoint target;
    if (root) {
        target = *root;
    } else {  // any address beyond the own networks: shows where the default route goes
        sockaddr_in a{};
        a.sin_family = AF_INET;
        a.sin_addr.s_addr = htonl(0xc6336401);  // 198.51.100.1, reserved for documentation
        target = of_sockaddr(reinterpret_cast<sockaddr*>(&a), sizeof(a));
    }
    if (const std::optional<endpoint> source = source_for(target)) {
        for (const candidate& c : all)
            if (same_host(c.address, *source) && (root || !c.address.loopback()))
                return chosen(c, root ? "it routes to the root" : "it has the default route");
    }
    for (const candidate& c : all)
        if (!c.address.loopback() && (!root || c.address.family() == root->family()))
            return chosen(c, "the first that is up");
    return loopback_interface();
}

}  // namespace ef
