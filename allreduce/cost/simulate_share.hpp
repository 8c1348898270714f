// Max-min fair rates of streams that come and go [Bertsekas, Gallager: Data Networks, 6.5.2].
//
// Rates are max-min fair if every stream has a bottleneck: a link on its path that is full and on
// which no other stream is faster. When streams come or go, only those can change that are tied to
// them by links which are full before or after. So what is solved anew is a set A that is closed in
// this sense, the others being constant:
//
//   - A begins with the streams that came, and those on full links that a stream left;
//   - with a stream, A has all streams on its links that were full before;
//   - A is filled progressively with what the others leave; where that fills a link on which there
//     are others, they join A, and it is filled again.
//
// Then every stream outside A keeps its bottleneck, since no stream in A passes it, and every stream
// in A has one, on which all streams are in A.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ef::cost {

/// Times in us, rates in bytes per us.
class fair_share {
public:
    using stream_id = uint32_t;  // used again after end()

    /// `efficiency`: of the capacity of each link.
    fair_share(const fabric::graph& g, double efficiency);

    /// From `now` on `bytes` more are to pass `path`, which must not be empty and stays valid until
    /// end(). Has no rate before settle().
    stream_id begin(double now, std::span<const fabric::link_id> path, double bytes);
    /// All its bytes have passed.
    void end(stream_id s);
    /// Rates after all that came and went since the last call. Returns the streams whose rate
    /// changed, valid until the next call.
    std::span<const stream_id> settle(double now);
    /// When its last byte will have passed if no rate changes.
    double finish(stream_id s) const noexcept {
        return streams_[s].since + streams_[s].left / streams_[s].rate;
    }
    double rate(stream_id s) const noexcept { return streams_[s].rate; }

private:
    struct stream {
        std::span<const fabric::link_id> path;
        double left = 0, rate = 0, since = 0;
        double next = 0;  // rate that is being found
        bool in = false;  // in A
    };
    struct link {
        double capacity = 0;
        double used = 0;              // by the streams on it, as of the last settle()
        std::vector<stream_id> on;    // those that pass it
        bool touched = false;         // since the last settle()
        bool was_full = false;        // before that
        double room = 0, others = 0;  // while filling; others: rates of streams outside A
        uint32_t open = 0;            // streams in A without a rate yet
    };

    bool full(double used, double capacity) const noexcept { return used >= capacity * near_full; }
    void touch(fabric::link_id l);
    void join(stream_id s);
    void close();
    void fill();
    void stop_all(const link& k, double rate);
    bool grow();
    void commit(double now);

    static constexpr double near_full = 1 - 1e-9;

    std::vector<link> links_;
    std::vector<stream> streams_;
    std::vector<stream_id> free_, came_, solving_, changed_;
    std::vector<fabric::link_id> touched_;
    std::vector<std::pair<double, fabric::link_id>> heap_;  // filling: room for each, at least
    size_t closed_ = 0;  // of touched_: links whose streams have joined if it was full
};

}  // namespace ef::cost
