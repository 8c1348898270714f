#include "allreduce/cost/simulate_in_step.hpp"

#include <algorithm>
#include <limits>

namespace ef::cost {

step_reader::step_reader(const fabric::routes& routes, const mapping::placement& where,
                         uint32_t subflows, uint32_t turn)
    : loads_(routes, where, subflows),
      g_(routes.net()),
      turn_(turn),
      messages_in_(where.size()),
      messages_out_(where.size()),
      received_(where.size()),
      sent_(where.size()) {}

void step_reader::add(const flow_round& r) {
    loads_.clear();
    step_profile::rounds_of s;
    s.rounds = r.repeat;
    s.reducing = r.round < turn_ ? std::min(r.repeat, turn_ - r.round) : 0;
    for (const flow& f : r.flows) {
        if (!loads_.lay(f) && profile_.unreachable.ok()) profile_.unreachable = loads_.no_path(f);
        double& got = received_[size_t(f.to)];
        got += f.part;
        s.received = std::max(s.received, got);
        s.messages =
            std::max({s.messages, ++messages_in_[size_t(f.to)], ++messages_out_[size_t(f.from)]});
        if (loads_.on_fabric(f)) sent_[size_t(f.from)] += f.part * r.repeat;
    }
    for (const flow& f : r.flows) {
        received_[size_t(f.to)] = 0;
        messages_in_[size_t(f.to)] = messages_out_[size_t(f.from)] = 0;
    }

    for (const fabric::link_id l : loads_.touched()) {
        s.us_per_byte = std::max(s.us_per_byte, loads_.parts(l) * 8 / (g_.edge(l).gbps * 1000));
        const double load = loads_.flows(l);
        if (load <= profile_.worst_load) continue;
        profile_.worst_load = load;
        profile_.worst_link = l;
        profile_.worst_round = r.round;
    }
    profile_.rounds += r.repeat;
    profile_.messages += uint64_t(r.repeat) * s.messages;
    profile_.sets.push_back(s);
}

step_profile step_reader::finish() {
    for (const double s : sent_) profile_.sent = std::max(profile_.sent, s);
    return std::move(profile_);
}

double price_in_step_us(const step_profile& p, uint64_t bytes, const simulation_options& o) {
    if (!p.unreachable.ok()) return std::numeric_limits<double>::infinity();
    double us = 0;
    for (const step_profile::rounds_of& s : p.sets)
        us += s.rounds * (s.messages * o.alpha_us + s.us_per_byte * double(bytes) / o.efficiency) +
              s.reducing * s.received * double(bytes) * o.gamma_ns_per_byte / 1000;
    return us;
}

double price_in_step_us(std::span<const flow_round> flows, const fabric::routes& routes,
                        const mapping::placement& where, uint64_t bytes,
                        const simulation_options& o) {
    step_reader reader(routes, where, o.subflows, o.turn);
    for (const flow_round& r : flows) reader.add(r);
    return price_in_step_us(reader.finish(), bytes, o);
}

}  // namespace ef::cost
