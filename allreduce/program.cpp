#include "allreduce/program.hpp"

#include <algorithm>

namespace ef {
namespace {

// Which memory a buffer is: in place, in and out are one.
enum class memory_space : uint8_t { in, out, tmp };

struct access {
    bool reads = false, writes = false;
};

class compiler {
public:
    compiler(const plan& p, size_t count, size_t element_bytes, bool in_place)
        : plan_(p), count_(count), element_(element_bytes), in_place_(in_place) {}

    program run() {
        out_.eager = plan_.eager;
        out_.bytes = count_ * element_;
        const uint64_t own = offset(
            uint32_t(uint64_t(plan_.nblocks) * uint32_t(plan_.rank) / uint32_t(plan_.nranks)));
        if (plan_.coll == EF_REDUCE_SCATTER) out_.out_origin = own;
        if (plan_.coll == EF_ALLGATHER) out_.in_origin = own;
        for (const move& m : plan_.moves) add(m);
        return std::move(out_);
    }

private:
    uint64_t offset(uint32_t block) const {
        return block_begin(plan_, count_, element_, block) * element_;
    }

    memory_space space(buffer b) const {
        if (b == buffer::tmp) return memory_space::tmp;
        return b == buffer::in && !in_place_ ? memory_space::in : memory_space::out;
    }

    static bool has_source(move_kind k) { return k != move_kind::recv; }
    static bool has_target(move_kind k) { return k != move_kind::send; }

    /// What `s` does to memory space `where`.
    access touches(const step& s, memory_space where) const {
        access a;
        if (has_source(s.kind) && space(s.src) == where) a.reads = true;
        if (has_target(s.kind) && space(s.dst) == where) {
            a.writes = true;
            a.reads |= s.kind == move_kind::reduce;
        }
        return a;
    }

    uint16_t lane_of(rank_t peer) {
        const auto it = std::find_if(out_.lanes.begin(), out_.lanes.end(),
                                     [&](const lane& l) { return l.peer == peer; });
        if (it != out_.lanes.end()) return uint16_t(it - out_.lanes.begin());
        out_.lanes.push_back({peer, {}, {}});
        return uint16_t(out_.lanes.size() - 1);
    }

    void add(const move& m) {
        step s{};
        s.kind = m.kind;
        s.dst = m.dst;
        s.src = m.src;
        s.message_first = m.message_first;
        s.last = m.last;
        s.round = m.round;
        s.at = offset(m.what.first);
        s.bytes = offset(m.what.end()) - s.at;
        if (s.bytes == 0) return;  // its peer has the same length and skips it too
        if (m.kind == move_kind::copy && space(m.src) == space(m.dst))
            return;  // in place there is nothing to copy
        if (m.dst == buffer::tmp || m.src == buffer::tmp) out_.tmp_bytes = out_.bytes;

        const uint32_t index = uint32_t(out_.steps.size());
        s.first_dependency = uint32_t(out_.dependencies.size());
        for (memory_space where : {memory_space::in, memory_space::out, memory_space::tmp})
            order(s, index, where);
        s.dependencies = uint32_t(out_.dependencies.size()) - s.first_dependency;

        if (m.peer < 0) {
            out_.locals.push_back(index);
        } else {
            s.lane = lane_of(m.peer);
            lane& l = out_.lanes[s.lane];
            (m.kind == move_kind::send ? l.sends : l.receives).push_back(index);
        }
        out_.steps.push_back(s);
    }

    // From the newest earlier step back: whatever conflicts in `where`, until a writer covers the
    // whole range, since that one has itself waited for all before it.
    void order(const step& s, uint32_t index, memory_space where) {
        const access mine = touches(s, where);
        if (!mine.reads && !mine.writes) return;
        for (uint32_t y = index; y-- > 0;) {
            const step& e = out_.steps[y];
            const access theirs = touches(e, where);
            if (!(mine.writes ? theirs.reads || theirs.writes : theirs.writes)) continue;
            if (e.at >= s.at + s.bytes || s.at >= e.at + e.bytes) continue;
            out_.dependencies.push_back({y, int64_t(s.at) - int64_t(e.at)});
            if (theirs.writes && e.at <= s.at && e.at + e.bytes >= s.at + s.bytes) return;
        }
    }

    const plan& plan_;
    size_t count_, element_;
    bool in_place_;
    program out_;
};

}  // namespace

program compile(const plan& p, size_t count, size_t element_bytes, bool in_place) {
    return compiler(p, count, element_bytes, in_place).run();
}

}  // namespace ef
