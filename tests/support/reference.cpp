#include "tests/support/reference.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "allreduce/program.hpp"
#include "tests/support/scalars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>

namespace ef::test {

size_t reference_call::input_bytes() const {
    return count * ef_type_size(type) * (coll == EF_REDUCE_SCATTER ? size_t(nranks) : 1);
}
size_t reference_call::output_bytes() const {
    return count * ef_type_size(type) * (coll == EF_ALLGATHER ? size_t(nranks) : 1);
}

namespace {

// Executes the plans of all ranks for one segment after the other. All buffers span the whole
// vector; in place, `in` and `out` of a rank are one.
class machine {
public:
    machine(const reference_call& c, const std::vector<bytes>& inputs)
        : c_(c),
          element_(ef_type_size(c.type)),
          units_(c.coll == EF_REDUCE_SCATTER || c.coll == EF_ALLGATHER ? size_t(c.nranks) : 1),
          unit_(c.count) {
        const algorithm* algo = find_algorithm(c.algorithm);
        if (!algo) throw std::logic_error("no algorithm " + c.algorithm);
        for (rank_t r = 0; r < c.nranks; ++r) {
            const plan_request q{c.coll,   r, c.nranks, c.root, bool(c.in_place[size_t(r)]),
                                 c.host_of};
            plans_.push_back(algo->build(q));
            ranks_.push_back({});
            ranks_.back().in.resize(units_ * unit_ * element_);
            ranks_.back().out = ranks_.back().tmp = ranks_.back().in;
            bytes& source = memory(r, buffer::in);
            const size_t own = c.coll == EF_ALLGATHER ? size_t(r) * unit_ * element_ : 0;
            std::copy(inputs[size_t(r)].begin(), inputs[size_t(r)].end(),
                      source.begin() + ptrdiff_t(own));
        }
        find_cuts();
    }

    std::vector<bytes> run() {
        for (size_t s = 0; s + 1 < cuts_.size(); ++s) {
            begin_ = cuts_[s];
            length_ = cuts_[s + 1] - begin_;
            run_segment();
        }
        std::vector<bytes> outputs;
        for (rank_t r = 0; r < c_.nranks; ++r) {
            const bytes& out = ranks_[size_t(r)].out;
            const size_t own =
                c_.coll == EF_REDUCE_SCATTER ? size_t(r) * unit_ * element_ : size_t(0);
            outputs.emplace_back(out.begin() + ptrdiff_t(own),
                                 out.begin() + ptrdiff_t(own + c_.output_bytes()));
        }
        return outputs;
    }

private:
    struct rank_state {
        bytes in, out, tmp;
        std::vector<bool> done;
    };
    struct letter {
        block_range what;
        bytes data;
    };

    bytes& memory(rank_t r, buffer b) {
        rank_state& s = ranks_[size_t(r)];
        if (b == buffer::tmp) return s.tmp;
        return b == buffer::in && !c_.in_place[size_t(r)] ? s.in : s.out;
    }

    // Long vectors are run in segments of each unit. Where they begin is the compiler's choice, and
    // all that is taken from it: the least position of a segment's steps on any rank.
    void find_cuts() {
        std::map<uint32_t, size_t> begin{{0, 0}};
        for (rank_t r = 0; r < c_.nranks; ++r) {
            const program p = compile(plans_[size_t(r)], units_ * unit_, element_,
                                      c_.in_place[size_t(r)], c_.chunk_bytes);
            for (const step& s : p.steps) {
                const size_t at = size_t(s.at) / element_ % unit_;
                const auto it = begin.emplace(s.segment, at).first;
                it->second = std::min(it->second, at);
            }
        }
        for (const auto& [segment, at] : begin) cuts_.push_back(at);
        cuts_.push_back(unit_);
        if (!std::is_sorted(cuts_.begin(), cuts_.end()))
            throw std::logic_error("segments are not in order");
    }

    // Elements of block b of this segment, in the whole vector.
    std::pair<size_t, size_t> elements(const plan& p, uint32_t b) const {
        const uint32_t each = p.nblocks / uint32_t(units_);
        const size_t shift = b / each * (unit_ - length_) + begin_;
        return {block_begin(p, length_ * units_, element_, b) + shift,
                block_begin(p, length_ * units_, element_, b + 1) + shift};
    }

    template <class F>
    void for_blocks(rank_t r, const move& m, F f) {
        for (uint32_t b = m.what.first; b < m.what.end(); ++b) {
            const auto [first, last] = elements(plans_[size_t(r)], b);
            f(first * element_, (last - first) * element_);
        }
    }

    void run_segment() {
        for (rank_t r = 0; r < c_.nranks; ++r)
            ranks_[size_t(r)].done.assign(plans_[size_t(r)].moves.size(), false);
        for (bool moved = true; moved;) {
            moved = false;
            for (rank_t r = 0; r < c_.nranks; ++r)
                for (size_t i = 0; i < plans_[size_t(r)].moves.size(); ++i)
                    if (!ranks_[size_t(r)].done[i] && may_run(r, i)) {
                        run_move(r, plans_[size_t(r)].moves[i]);
                        ranks_[size_t(r)].done[i] = moved = true;
                    }
        }
        for (rank_t r = 0; r < c_.nranks; ++r)
            for (bool d : ranks_[size_t(r)].done)
                if (!d) throw std::logic_error(fmt::format("rank {} cannot go on", r));
        for (const auto& [pair, letters] : mail_)
            if (!letters.empty()) throw std::logic_error("a message that nobody takes");
    }

    static bool has_source(const move& m) { return m.kind != move_kind::recv; }
    static bool has_target(const move& m) { return m.kind != move_kind::send; }
    static bool receives(const move& m) {
        return m.kind == move_kind::recv || m.kind == move_kind::recv_reduce;
    }

    bool conflict(rank_t r, const move& a, const move& b) {
        if (a.what.end() <= b.what.first || b.what.end() <= a.what.first) return false;
        const bytes* writes_a = has_target(a) ? &memory(r, a.dst) : nullptr;
        const bytes* writes_b = has_target(b) ? &memory(r, b.dst) : nullptr;
        const bytes* reads_a = has_source(a) ? &memory(r, a.src) : nullptr;
        const bytes* reads_b = has_source(b) ? &memory(r, b.src) : nullptr;
        if (writes_a && (writes_a == writes_b || writes_a == reads_b)) return true;
        return writes_b && writes_b == reads_a;
    }

    bool may_run(rank_t r, size_t i) {
        const plan& p = plans_[size_t(r)];
        const move& m = p.moves[i];
        if (receives(m) && mail_[{m.peer, r}].empty()) return false;
        for (size_t j = 0; j < i; ++j) {
            if (ranks_[size_t(r)].done[j]) continue;
            const move& e = p.moves[j];
            const bool same_lane = m.peer >= 0 && e.peer == m.peer && receives(e) == receives(m);
            if (same_lane || conflict(r, e, m)) return false;
        }
        return true;
    }

    void run_move(rank_t r, const move& m) {
        if (m.kind == move_kind::send) {
            letter l{m.what, {}};
            const bytes& src = memory(r, m.src);
            for_blocks(r, m, [&](size_t at, size_t n) {
                l.data.insert(l.data.end(), src.begin() + ptrdiff_t(at),
                              src.begin() + ptrdiff_t(at + n));
            });
            mail_[{r, m.peer}].push_back(std::move(l));
            return;
        }
        letter l;
        if (receives(m)) {
            l = std::move(mail_[{m.peer, r}].front());
            mail_[{m.peer, r}].pop_front();
            if (l.what.first != m.what.first || l.what.count != m.what.count)
                throw std::logic_error(
                    fmt::format("ranks {} and {} name different blocks", r, m.peer));
        }
        size_t from = 0;
        for_blocks(r, m, [&](size_t at, size_t n) {
            std::byte* dst = memory(r, m.dst).data() + at;
            const std::byte* src = memory(r, m.src).data() + at;
            const std::byte* msg = receives(m) ? l.data.data() + from : nullptr;
            switch (m.kind) {
            case move_kind::recv:
                std::copy_n(msg, n, dst);
                break;
            case move_kind::copy:
                std::copy_n(src, n, dst);
                break;
            case move_kind::reduce:
                reduce(dst, dst, src, n, m.last);
                break;
            default:
                if (m.message_first) reduce(dst, msg, src, n, m.last);
                else reduce(dst, src, msg, n, m.last);
            }
            from += n;
        });
    }

    void reduce(std::byte* dst, const std::byte* a, const std::byte* b, size_t n, bool last) {
        with_type(c_.type, [&]<class T>() {
            for (size_t at = 0; at < n; at += sizeof(T)) {
                T x, y;
                memcpy(&x, a + at, sizeof(T));
                memcpy(&y, b + at, sizeof(T));
                x = combine(c_.op, x, y);
                if (last && c_.op == EF_AVG) x = average(x, uint32_t(c_.nranks));
                memcpy(dst + at, &x, sizeof(T));
            }
        });
    }

    const reference_call& c_;
    size_t element_, units_, unit_;
    size_t begin_ = 0, length_ = 0;
    std::vector<size_t> cuts_;
    std::vector<plan> plans_;
    std::vector<rank_state> ranks_;
    std::map<std::pair<rank_t, rank_t>, std::deque<letter>> mail_;
};

template <class T>
T load(const bytes& data, size_t i) {
    T x;
    memcpy(&x, data.data() + i * sizeof(T), sizeof(T));
    return x;
}

// Whether `got` is the reduction of `values`. Every partial result of a float is off by at most
// half a step of its own size, and none is larger than the sum of magnitudes.
template <class T>
bool close_enough(ef_op_t op, const std::vector<T>& values, T got) {
    if constexpr (!is_floating<T>) {
        T x = values[0];
        for (size_t r = 1; r < values.size(); ++r) x = combine(op, x, values[r]);
        if (op == EF_AVG && values.size() > 1) x = average(x, uint32_t(values.size()));
        return x == got;
    } else {
        if (op == EF_MIN || op == EF_MAX) {
            double x = as_double(values[0]);
            for (T v : values) x = pick(x, as_double(v), op == EF_MIN);
            const double g = as_double(got);
            return std::isnan(x) ? std::isnan(g) : x == g && std::signbit(x) == std::signbit(g);
        }
        long double sum = 0, magnitude = 0, product = 1;
        for (T v : values) {
            sum += (long double)as_double(v);
            magnitude += std::fabs((long double)as_double(v));
            product *= (long double)as_double(v);
        }
        long double epsilon, least, most;
        if constexpr (is_16bit<T>) {
            epsilon = std::ldexp(1.0L, -T::mantissa);
            least = std::ldexp(1.0L, 1 - T::bias - T::mantissa);
            most = (long double)widen(T{uint16_t((T::top << T::mantissa) - 1)});
        } else {
            epsilon = std::numeric_limits<T>::epsilon();
            least = std::numeric_limits<T>::denorm_min();
            most = std::numeric_limits<T>::max();
        }
        const long double n = (long double)values.size();
        const long double exact = op == EF_PROD ? product : op == EF_AVG ? sum / n : sum;
        const long double size = op == EF_PROD ? std::fabs(product) : magnitude;
        // A sum that may have overflowed on the way, or had no finite inputs, has no bound.
        if (!std::isfinite((double)size) || size > most / 2) return true;
        return std::fabs((long double)as_double(got) - exact) <= n * (epsilon * size + least);
    }
}

}  // namespace

std::vector<bytes> execute_plans(const reference_call& c, const std::vector<bytes>& inputs) {
    if (c.count == 0) return std::vector<bytes>(size_t(c.nranks));
    return machine(c, inputs).run();
}

std::string check_meaning(const reference_call& c, const std::vector<bytes>& inputs, int rank,
                          const bytes& output) {
    const size_t each = ef_type_size(c.type);
    if (c.coll == EF_BROADCAST || c.coll == EF_ALLGATHER) {
        for (size_t i = 0; i < output.size(); ++i) {
            const size_t from = c.coll == EF_BROADCAST ? size_t(c.root) : i / (c.count * each);
            if (output[i] != inputs[from][i % (c.count * each)])
                return fmt::format("byte {} of {} is not rank {}'s", i, output.size(), from);
        }
        return {};
    }
    const size_t skip = c.coll == EF_REDUCE_SCATTER ? size_t(rank) * c.count : 0;
    return with_type(c.type, [&]<class T>() -> std::string {
        std::vector<T> values(size_t(c.nranks));
        for (size_t i = 0; i < c.count; ++i) {
            for (size_t r = 0; r < values.size(); ++r) values[r] = load<T>(inputs[r], skip + i);
            const T got = load<T>(output, i);
            if (close_enough(c.op, values, got)) continue;
            std::string text = fmt::format("element {} is {}, from", i, as_double(got));
            for (T v : values) text += fmt::format(" {}", as_double(v));
            return text;
        }
        return {};
    });
}

void canonical(ef_type_t type, bytes& data) {
    with_type(type, [&]<class T>() {
        if constexpr (is_floating<T>) {
            for (size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
                T x;
                memcpy(&x, data.data() + at, sizeof(T));
                if (std::isnan(as_double(x))) memset(data.data() + at, 0xff, sizeof(T));
            }
        }
    });
}

}  // namespace ef::test
