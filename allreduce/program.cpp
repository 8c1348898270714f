#include "allreduce/program.hpp"

#include "allreduce/sync.hpp"

#include <algorithm>
#include <numeric>

namespace ef {
namespace {

constexpr uint64_t most_segments = 256;  // bounds the length of a program

// Which memory a buffer is: in place, in and out are one.
enum class memory_space : uint8_t { in, out, tmp };

struct access {
    bool reads = false, writes = false;
};

class compiler {
public:
    compiler(const plan& p, size_t count, size_t element_bytes, bool in_place, uint64_t chunk_bytes)
        : plan_(p),
          units_(p.coll == EF_REDUCE_SCATTER || p.coll == EF_ALLGATHER ? size_t(p.nranks) : 1),
          unit_(count / units_),
          element_(element_bytes),
          in_place_(in_place) {
        const uint64_t bytes = uint64_t(count) * element_bytes;
        const uint64_t each =
            std::max({chunk_bytes * p.nblocks, bytes / most_segments, uint64_t(1)});
        // Chunks do not run through rounds that are kept apart.
        const bool whole = p.eager || p.sync != sync_policy::none;
        segments_ = whole ? 1 : std::max<uint64_t>(1, (bytes + each - 1) / each);
        out_.eager = p.eager;
        out_.bytes = bytes;
        const uint64_t own = uint64_t(p.rank) * unit_ * element_bytes;
        if (p.coll == EF_REDUCE_SCATTER) out_.out_origin = own;
        if (p.coll == EF_ALLGATHER) out_.in_origin = own;
    }

    program run() {
        for (segment_ = 0; segment_ < segments_; ++segment_) {
            first_ = uint32_t(out_.steps.size());
            begin_ = cut(segment_);
            length_ = cut(segment_ + 1) - begin_;
            for (const move& m : plan_.moves) add(m);
        }
        merge();
        queue();
        if (!plan_.eager) keep_rounds_apart(out_, plan_);
        return std::move(out_);
    }

private:
    // First element of segment `s` within a unit: the whole vector, or one rank's block of it.
    size_t cut(uint64_t s) const {
        if (s >= segments_) return unit_;
        const size_t line = std::max<size_t>(1, 64 / element_);
        return size_t(unit_ * s / segments_ / line * line);
    }

    // Offset of a block of the current segment. Blocks are cut within a unit, so that a segment has
    // a part of each.
    uint64_t offset(uint32_t block, bool end) const {
        const uint32_t per_unit = plan_.nblocks / uint32_t(units_);
        const size_t unit = end ? (block - 1) / per_unit : block / per_unit;
        const size_t within =
            block_begin(plan_, length_ * units_, element_, block) - unit * length_;
        return (unit * unit_ + begin_ + within) * element_;
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
        // Blocks of several units are not contiguous in a segment: one step for each unit.
        const uint32_t per_unit = plan_.nblocks / uint32_t(units_);
        for (uint32_t b = m.what.first; b < m.what.end();) {
            const uint32_t end = segments_ == 1
                                     ? m.what.end()
                                     : std::min(m.what.end(), (b / per_unit + 1) * per_unit);
            add(m, b, end);
            b = end;
        }
    }

    void add(const move& m, uint32_t block, uint32_t end) {
        step s{};
        s.kind = m.kind;
        s.dst = m.dst;
        s.src = m.src;
        s.message_first = m.message_first;
        s.last = m.last;
        s.round = m.round;
        s.segment = uint32_t(segment_);
        s.at = offset(block, false);
        s.bytes = offset(end, true) - s.at;
        if (s.bytes == 0) return;  // its peer has the same length and skips it too
        if (m.kind == move_kind::copy && space(m.src) == space(m.dst))
            return;  // in place there is nothing to copy
        if (m.dst == buffer::tmp || m.src == buffer::tmp) out_.tmp_bytes = out_.bytes;
        s.lane = m.peer < 0 ? no_lane : lane_of(m.peer);

        const uint32_t index = uint32_t(out_.steps.size());
        s.first_dependency = uint32_t(out_.dependencies.size());
        for (memory_space where : {memory_space::in, memory_space::out, memory_space::tmp})
            order(s, index, where);
        s.dependencies = uint32_t(out_.dependencies.size()) - s.first_dependency;
        out_.steps.push_back(s);
    }

    // From the newest earlier step of the segment back: whatever conflicts in `where`, until a
    // writer covers the whole range, since that one has itself waited for all before it.
    void order(const step& s, uint32_t index, memory_space where) {
        const access mine = touches(s, where);
        if (!mine.reads && !mine.writes) return;
        for (uint32_t y = index; y-- > first_;) {
            const step& e = out_.steps[y];
            const access theirs = touches(e, where);
            if (!(mine.writes ? theirs.reads || theirs.writes : theirs.writes)) continue;
            if (e.at >= s.at + s.bytes || s.at >= e.at + e.bytes) continue;
            out_.dependencies.push_back({y, int64_t(s.at) - int64_t(e.at)});
            if (theirs.writes && e.at <= s.at && e.at + e.bytes >= s.at + s.bytes) return;
        }
    }

    // Steps into the order in which they are begun; see the head of program.hpp.
    void merge() {
        if (segments_ == 1) return;
        const auto wave = [&](const step& s) {
            return s.segment + (s.round >= plan_.turn ? 1u : 0u);
        };
        std::vector<uint32_t> from(out_.steps.size()), to(out_.steps.size());
        std::iota(from.begin(), from.end(), 0u);
        std::stable_sort(from.begin(), from.end(), [&](uint32_t a, uint32_t b) {
            const step &x = out_.steps[a], &y = out_.steps[b];
            if (wave(x) != wave(y)) return wave(x) < wave(y);
            return x.segment > y.segment;
        });
        std::vector<step> sorted;
        sorted.reserve(from.size());
        for (uint32_t i = 0; i < from.size(); ++i) {
            to[from[i]] = i;
            sorted.push_back(out_.steps[from[i]]);
        }
        out_.steps = std::move(sorted);
        for (dependency& d : out_.dependencies) d.step = to[d.step];
    }

    void queue() {
        for (uint32_t i = 0; i < out_.steps.size(); ++i) {
            const step& s = out_.steps[i];
            if (s.lane == no_lane) out_.locals.push_back(i);
            else
                (s.kind == move_kind::send ? out_.lanes[s.lane].sends : out_.lanes[s.lane].receives)
                    .push_back(i);
        }
    }

    static constexpr uint16_t no_lane = 0xffff;

    const plan& plan_;
    size_t units_;  // parts of the vector that are addressed on their own
    size_t unit_;   // elements of each
    size_t element_;
    bool in_place_;
    uint64_t segments_ = 1, segment_ = 0;
    size_t begin_ = 0, length_ = 0;  // of the current segment, in elements of a unit
    uint32_t first_ = 0;             // its first step
    program out_;
};

}  // namespace

program compile(const plan& p, size_t count, size_t element_bytes, bool in_place,
                uint64_t chunk_bytes) {
    return compiler(p, count, element_bytes, in_place, chunk_bytes).run();
}

}  // namespace ef
