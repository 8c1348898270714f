// fake_verbs: RDMA devices in this process's memory, with the rules of reliable connections that the
// channel and the endpoint depend on: order within a QP, keys and bounds checked at the target, a receive
// request used by each immediate, errors that put the QP into error and flush what follows. Links can be
// cut, requests made to fail, and deliveries of different QPs delayed against each other.
#pragma once

#include "transport/verbs/device.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>

namespace ef::verbs {

class fake_queue_pair;

class fake_network {
public:
    explicit fake_network(uint64_t seed = 0) : random_(seed), delays_(seed != 0) {}

    /// A device with one port; `name` as in "fake0".
    std::unique_ptr<port> open(const std::string& name);

    /// Nothing passes to or from the device any more; `times_out`: and what is posted fails at once.
    void cut(const std::string& device, bool times_out);
    void mend(const std::string& device);
    /// The device refuses to register memory.
    void refuse_regions(bool on);
    size_t regions() const;

private:
    friend class fake_queue_pair;
    friend class fake_port;
    void step(fake_queue_pair& q);  // locked

    mutable std::mutex mutex_;
    std::map<uint32_t, fake_queue_pair*> pairs_;
    std::map<uint32_t, std::pair<std::byte*, size_t>> regions_;
    std::set<std::string> cut_, timing_out_;
    std::mt19937_64 random_;
    bool delays_, refuses_ = false;
    uint32_t next_number_ = 16, next_key_ = 100;
};

}  // namespace ef::verbs
