#include "allreduce/comm.hpp"

#include "allreduce/calibrate.hpp"
#include "allreduce/comm_lock.hpp"
#include "transport/base/clock.hpp"
#include "transport/base/log.hpp"
#include "transport/bootstrap/identity.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace ef {
namespace {

constexpr size_t programs_kept = 256;
constexpr uint64_t linger_ns = 5'000'000'000;

const char* collective_name(ef_collective_t c) noexcept {
    switch (c) {
    case EF_ALLREDUCE:
        return "allreduce";
    case EF_REDUCE_SCATTER:
        return "reduce_scatter";
    case EF_ALLGATHER:
        return "allgather";
    case EF_BROADCAST:
        return "broadcast";
    case EF_BARRIER:
        return "barrier";
    }
    return "?";
}

// FNV-1a over the words that must be the same on all ranks of a call.
uint32_t hash_words(std::initializer_list<uint64_t> words, std::string_view text) noexcept {
    uint64_t h = 0xcbf29ce484222325;
    const auto add = [&](unsigned char b) { h = (h ^ b) * 0x100000001b3; };
    for (uint64_t w : words)
        for (int i = 0; i < 8; ++i) add(static_cast<unsigned char>(w >> (8 * i)));
    for (char c : text) add(static_cast<unsigned char>(c));
    return uint32_t(h ^ (h >> 32));
}

// Where options were given they beat the environment.
status apply(const ef_comm_options* opt, config& c) {
    if (!opt) return {};
    if (opt->size < sizeof(size_t) || opt->size > 4096)
        return status(EF_INVALID, fmt::format("ef_comm_options.size is {}", opt->size));
    ef_comm_options o{};  // fields that the caller's version does not have stay zero
    memcpy(&o, opt, std::min(opt->size, sizeof(o)));
    if (o.timeout_ms) c.timeout_ms = o.timeout_ms;
    const auto set = [&](const char* name, const char* value) {
        return value ? set_config(c, name, value).in("ef_comm_options") : status();
    };
    const std::pair<const char*, const char*> given[] = {
        {"EFLOPS_ROOT", o.root},           {"EFLOPS_KEY", o.key},
        {"EFLOPS_TRANSPORT", o.transport}, {"EFLOPS_INTERFACE", o.interface_},
        {"EFLOPS_ALGORITHM", o.algorithm}, {"EFLOPS_FABRIC", o.fabric},
        {"EFLOPS_SYNC", o.sync},           {"EFLOPS_STEER", o.steer},
    };
    for (const auto& [name, value] : given)
        if (status s = set(name, value); !s.ok()) return s;
    if (o.chunk_bytes) return set("EFLOPS_CHUNK_BYTES", std::to_string(o.chunk_bytes).c_str());
    return {};
}

int listener_of(const ef_comm_options* opt) {
    return opt && opt->size >= offsetof(ef_comm_options, listen_fd) + sizeof(int32_t)
               ? opt->listen_fd
               : 0;
}

// More ranks of this communicator on this host than cores: spinning would keep the others from
// running.
bool too_many_for_cores(const group& g) {
    int here = 0;
    const peer_info& me = g.info(g.rank());
    for (rank_t r = 0; r < g.nranks(); ++r) here += g.info(r).host_id == me.host_id;
    return here > cores_of_host(g, g.rank());
}

bool overlaps(const void* a, size_t a_bytes, const void* b, size_t b_bytes) noexcept {
    const uintptr_t x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
    return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

const char* type_name(ef_type_t type) noexcept {
    static constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                            "int32",   "int64",   "uint8",   "uint32",   "uint64"};
    return unsigned(type) < std::size(names) ? names[type] : "?";
}

std::string call_site::text() const {
    std::string t = fmt::format("{} #{}", what, number);
    if (strcmp(what, "barrier") != 0) t += fmt::format(" of {} {}", count, type_name(type));
    if (!strcmp(what, "send")) t += fmt::format(" to rank {}", root_or_peer);
    if (!strcmp(what, "recv")) t += fmt::format(" from rank {}", root_or_peer);
    if (!strcmp(what, "broadcast")) t += fmt::format(" from root {}", root_or_peer);
    return t;
}

// ---------------------------------------------------------------- life

comm::comm(config c, std::unique_ptr<group> g, std::unique_ptr<waiter> w,
           std::shared_ptr<selection> s)
    : config_(std::move(c)),
      waiter_(std::move(w)),
      group_(std::move(g)),
      links_(std::make_unique<links>(*group_, *waiter_, config_)),
      selection_(std::move(s)),
      exec_(std::make_unique<exec>(links_->channels(traffic::collectives))),
      p2p_(std::make_unique<p2p>(group_->rank(), group_->nranks(),
                                 links_->channels(traffic::point_to_point))),
      oversubscribed_(too_many_for_cores(*group_)),
      made_in_(fork_generation()) {
    // The name of rank 0's listener is random: the same word on all ranks, and no other
    // communicator's.
    id_ = fmt::format("{:08x}", hash_words({}, group_->info(0).unix_name));
    if (const fabric_view* v = selection_->view()) {
        repair_ = std::make_unique<repair>(group_->rank(), group_->nranks());
        if (v->has_addresses()) watch_ = std::make_unique<link_watch>(*group_, *v);
    }
    enlist(this);
}

comm::~comm() { strike_off(this); }

result<std::unique_ptr<comm>> comm::create(int rank, int nranks, const ef_comm_options* opt) {
    result<config> c = read_config();
    if (!c.ok()) return c.why();
    if (status s = apply(opt, *c); !s.ok()) return s;
    result<launch> l = detect_launch(rank, nranks, listener_of(opt), *c);
    if (!l.ok()) return l.why();
    result<waiter> w = waiter::create();
    if (!w.ok()) return w.why();
    auto owned = std::make_unique<waiter>(std::move(*w));
    result<std::unique_ptr<group>> g = group::join(std::move(*l), *c, *owned);
    if (!g.ok()) return g.why();
    result<std::shared_ptr<selection>> s = selection::create(**g, *c);
    if (!s.ok()) {
        (*g)->abort(s.why());  // the others may still be exchanging: they hear why
        return s.why();
    }
    std::unique_ptr<comm> made(new comm(*c, std::move(*g), std::move(owned), std::move(*s)));
    if (status m = calibrate(*made, *c); !m.ok()) return m.in("calibration");
    if (status p = made->choose_paths(); !p.ok()) return p.in("choosing paths");
    return made;
}

result<std::unique_ptr<comm>> comm::split(int color, int key) {
    if (status s = wrong_process(); !s.ok()) return s;
    result<waiter> w = waiter::create();
    if (!w.ok()) return w.why();
    auto owned = std::make_unique<waiter>(std::move(*w));
    comm_lock hold(lock_, contenders_);
    if (failed_.load(std::memory_order_relaxed)) return failure_;
    result<std::unique_ptr<group>> g = group_->split(color, key, *owned);
    if (!g.ok()) return g.why();
    if (!*g) return std::unique_ptr<comm>();
    result<std::shared_ptr<selection>> s = selection::create(**g, config_);
    if (!s.ok()) {
        (*g)->abort(s.why());
        return s.why();
    }
    (*s)->set_model(selection_->model());
    std::unique_ptr<comm> made(new comm(config_, std::move(*g), std::move(owned), std::move(*s)));
    if (status p = made->choose_paths(); !p.ok()) return p.in("choosing paths");
    return made;
}

// The paths of the plan that long vectors get: short ones do not fill a link.
status comm::choose_paths() {
    constexpr uint64_t long_vector = 64 << 20;
    if (!links_->steers() || nranks() == 1) return {};
    result<selection::choice> c = selection_->choose(EF_ALLREDUCE, 0, long_vector);
    if (!c.ok()) return c.why();
    const plan p = selection_->build(*c, EF_ALLREDUCE, 0, false);
    std::vector<path::peer_rounds> mine;
    for (const move& m : p.moves) {
        if (m.kind != move_kind::send || group_->local(m.peer)) continue;
        auto it = std::find_if(mine.begin(), mine.end(),
                               [&](const path::peer_rounds& x) { return x.to == m.peer; });
        if (it == mine.end()) it = mine.insert(mine.end(), {m.peer, {}});
        if (it->rounds.empty() || it->rounds.back() != m.round) it->rounds.push_back(m.round);
    }
    if (status s = links_->steer(mine); !s.ok()) return s;
    const path::steering& found = *links_->paths();
    if (rank() == 0) {  // the same on all ranks
        if (!found.shared.empty())
            log(config_.steer == "on" ? EF_LOG_WARN : EF_LOG_INFO,
                "steering: up to {} flows of {} meet on a link, on {} links; the first: {}",
                found.worst, c->name, found.shared.size(), found.shared.front().text());
        for (const std::string& u : found.unreached) log(EF_LOG_WARN, "steering: {}", u);
    }
    if (!found.unreached.empty()) return {};
    std::map<uint32_t, double> flows;
    const path::shared_link* fullest = nullptr;
    for (const path::shared_link& l : found.shared) {
        flows[l.round] = std::max(flows[l.round], double(l.flows.size()));
        if (!fullest || l.flows.size() > fullest->flows.size()) fullest = &l;
    }
    const fabric_view* v = selection_->view();
    selection_->know_ways(*c, std::move(flows),
                          v && fullest ? v->link_into(fullest->link) : fabric::none);
    return {};
}

std::string comm::paths_text() {
    comm_lock hold(lock_, contenders_);
    const path::steering* s = links_->paths();
    if (!s) return {};
    std::string t =
        fmt::format("paths chosen by {} ms of probing; {}\n", s->probe_ms,
                    s->shared.empty() ? "no link carries two flows of a round"
                                      : fmt::format("{} flows on the fullest link", s->worst));
    for (const path::steered_peer& p : s->peers) t += "  " + p.text() + "\n";
    for (const path::shared_link& l : s->shared) {
        const fabric_view* v = selection_->view();
        const fabric::link_id known = v ? v->link_into(l.link) : fabric::none;
        t += "  " + l.text() + (known == fabric::none ? "" : " (" + v->net().text_of(known) + ")") +
             "\n";
    }
    for (const std::string& u : s->unreached) t += "  " + u + "\n";
    return t;
}

status comm::resteer() {
    if (status s = wrong_process(); !s.ok()) return s;
    comm_lock hold(lock_, contenders_);
    if (failed_.load(std::memory_order_relaxed)) return failure_;
    if (!links_->steers()) return status(EF_INVALID, "paths are not chosen: EFLOPS_STEER is off");
    if (!idle()) return status(EF_INVALID, "an operation is pending");
    return choose_paths();
}

result<std::vector<std::byte>> comm::exchange(std::span<const std::byte> mine) {
    comm_lock hold(lock_, contenders_);
    return group_->exchange(mine);
}

status comm::wrong_process() const {
    if (fork_generation() == made_in_) return {};
    return status(EF_INVALID,
                  "this communicator belongs to the process that this one was forked from");
}

// ---------------------------------------------------------------- starting

status comm::check(const collective_call& c, bool& in_place) const {
    if (!ef_type_size(c.type))
        return status(EF_INVALID, fmt::format("type {} is none of ef_type_t", int(c.type)));
    const bool reduces = c.coll == EF_ALLREDUCE || c.coll == EF_REDUCE_SCATTER;
    if (reduces && !find_reduce(c.type, c.op))
        return status(EF_INVALID, fmt::format("op {} is none of ef_op_t", int(c.op)));
    if (c.coll == EF_BROADCAST && (c.root < 0 || c.root >= nranks()))
        return status(EF_INVALID, fmt::format("root {} of {} ranks", c.root, nranks()));
    in_place = false;
    if (c.count == 0) return {};
    const size_t each = ef_type_size(c.type), n = size_t(nranks());
    if (c.count > (size_t(1) << 62) / each / n)
        return status(EF_INVALID, fmt::format("count {} is more than memory can hold", c.count));
    const bool reads = c.coll != EF_BROADCAST || c.root == rank();
    if (!c.out || (reads && !c.in)) return status(EF_INVALID, "a buffer is NULL");
    if (reinterpret_cast<uintptr_t>(c.out) % each ||
        (reads && reinterpret_cast<uintptr_t>(c.in) % each))
        return status(EF_INVALID,
                      fmt::format("a buffer is not aligned to its type ({} bytes)", each));
    const size_t in_bytes = c.count * each * (c.coll == EF_REDUCE_SCATTER ? n : 1);
    const size_t out_bytes = c.count * each * (c.coll == EF_ALLGATHER ? n : 1);
    const size_t own = c.count * each * size_t(rank());
    const std::byte* in = static_cast<const std::byte*>(c.in);
    const std::byte* out = static_cast<const std::byte*>(c.out);
    if (c.coll == EF_REDUCE_SCATTER) in_place = in + own == out;
    else if (c.coll == EF_ALLGATHER) in_place = in == out + own;
    else in_place = in == out;
    if (!reads) in_place = true;  // there is no send buffer
    if (!in_place && overlaps(in, in_bytes, out, out_bytes))
        return status(EF_INVALID, "send and receive buffer overlap, but not in place");
    return {};
}

result<const comm::cached_program*> comm::program_for(const collective_call& c, bool in_place) {
    const auto same = [&](const cached_program& p) {
        return p.like.coll == c.coll && p.like.count == c.count && p.like.type == c.type &&
               p.like.op == c.op && p.like.root == c.root && p.in_place == in_place &&
               p.plan_version == plan_version_;
    };
    if (last_program_ && same(*last_program_)) return last_program_;
    for (const auto& p : programs_)
        if (same(*p)) return last_program_ = p.get();

    const size_t each = ef_type_size(c.type);
    const bool per_rank = c.coll == EF_REDUCE_SCATTER || c.coll == EF_ALLGATHER;
    const size_t whole = c.count * (per_rank ? size_t(nranks()) : 1);
    auto made = std::make_unique<cached_program>();
    made->like = c;
    made->in_place = in_place;
    made->plan_version = plan_version_;
    result<selection::choice> chosen = selection_->choose(c.coll, c.root, whole * each);
    if (!chosen.ok()) return chosen.why();
    made->chosen = *chosen;
    made->prog = compile(selection_->build(*chosen, c.coll, c.root, in_place), whole, each,
                         in_place, chosen->chunk_bytes);
    made->hash =
        hash_words({uint64_t(c.coll), c.count, uint64_t(c.type), uint64_t(c.op), uint64_t(c.root),
                    made->chosen.chunk_bytes, uint64_t(made->chosen.sync), plan_version_},
                   made->chosen.name);
    if (programs_.size() >= programs_kept && !current_ && queue_.empty())
        programs_.clear();  // none is in use
    for (const lane& l : made->prog.lanes) links_->want(l.peer, traffic::collectives);
    programs_.push_back(std::move(made));
    return last_program_ = programs_.back().get();
}

void comm::bind(request* r, const cached_program& p) noexcept {
    r->plan_version = p.plan_version;
    r->site.algorithm = p.chosen.algo->name.data();
    r->call.prog = &p.prog;
    r->call.chunk_bytes = p.chosen.chunk_bytes;
    r->call.tag = r->site.number << 32 | p.hash;
}

request* comm::take_request() {
    if (pool_.empty()) {
        requests_.push_back(std::make_unique<request>());
        pool_.push(requests_.back().get());
    }
    request* r = pool_.pop();
    r->owner = this;
    r->finished = r->started = false;
    r->done = r->ticket = r->fetched = 0;
    return r;
}

void comm::give_back(request* r) noexcept {
    r->result = {};
    pool_.push(r);
}

result<request*> comm::start(const collective_call& c) {
    bool in_place = false;
    if (status s = check(c, in_place); !s.ok()) return s.in(collective_name(c.coll));
    if (status s = wrong_process(); !s.ok()) return s.in(collective_name(c.coll));
    comm_lock hold(lock_, contenders_);
    if (failed_.load(std::memory_order_relaxed)) return failure_.in(collective_name(c.coll));
    request* r = take_request();
    const uint64_t number = ++next_number_;
    r->site = {collective_name(c.coll), number, c.count, c.type, c.op, c.root, ""};
    if (c.count == 0) {
        r->finished = true;
        return r;
    }
    collective_call planned = c;
    if (c.coll == EF_BARRIER) planned.coll = EF_ALLREDUCE;  // of one byte
    result<const cached_program*> p = program_for(planned, in_place);
    if (!p.ok()) {
        give_back(r);
        return p.why().in(collective_name(c.coll));
    }
    const bool reduces = planned.coll == EF_ALLREDUCE || planned.coll == EF_REDUCE_SCATTER;
    r->coll = planned.coll;
    r->in_place = in_place;
    bind(r, **p);
    r->call.in = static_cast<const std::byte*>(c.in);
    r->call.out = static_cast<std::byte*>(c.out);
    r->call.element_bytes = ef_type_size(c.type);
    r->call.reduce = reduces ? find_reduce(c.type, c.op) : nullptr;
    r->call.average = reduces && c.op == EF_AVG ? find_average(c.type) : nullptr;
    r->call.rank = rank();
    r->call.nranks = uint32_t(nranks());
    r->flight_slot = flight_.begin(r->site);
    queue_.push(r);
    start_next();
    poll();
    return r;
}

result<request*> comm::start_barrier() {
    return start({EF_BARRIER, barrier_in_, barrier_out_, 1, EF_UINT8, EF_MAX, 0});
}

result<request*> comm::start_p2p(bool sending, void* buf, size_t count, ef_type_t type, int peer) {
    const char* what = sending ? "send" : "recv";
    if (!ef_type_size(type))
        return status(EF_INVALID, fmt::format("{}: type {} is none of ef_type_t", what, int(type)));
    if (peer < 0 || peer >= nranks())
        return status(EF_INVALID, fmt::format("{}: rank {} of {}", what, peer, nranks()));
    if (count && !buf) return status(EF_INVALID, fmt::format("{}: the buffer is NULL", what));
    if (status s = wrong_process(); !s.ok()) return s.in(what);
    comm_lock hold(lock_, contenders_);
    if (failed_.load(std::memory_order_relaxed)) return failure_.in(what);
    request* r = take_request();
    r->site = {what, ++next_p2p_, count, type, EF_SUM, peer, ""};
    r->sending = sending;
    r->buffer = static_cast<std::byte*>(buf);
    r->bytes = count * ef_type_size(type);
    r->flight_slot = flight_.begin(r->site);
    links_->want(peer, traffic::point_to_point);
    p2p_->start(r);
    poll();
    return r;
}

// ---------------------------------------------------------------- finishing

status comm::test(request* r, bool& done) {
    if (status s = wrong_process(); !s.ok()) return s;
    comm_lock hold(lock_, contenders_);
    if (!r->finished && !poll() && (connecting_ || now_ns() - ticked_at_ns_ >= tick_ns)) tick();
    done = r->finished;
    if (!done) return {};
    status s = std::move(r->result);
    give_back(r);
    return s;
}

status comm::wait(request* r) {
    if (status s = wrong_process(); !s.ok()) return s;
    comm_lock hold(lock_, contenders_);
    for (unsigned fruitless = 0; !r->finished; ++fruitless) {
        if (poll()) fruitless = 0;
        else if (!r->finished) pause(hold, fruitless);
    }
    status s = std::move(r->result);
    give_back(r);
    return s;
}

status comm::finish() {
    // In a forked child the descriptors are closed, and their numbers may be the application's by
    // now.
    if (!wrong_process().ok()) return {};
    comm_lock hold(lock_, contenders_);
    for (unsigned fruitless = 0; !idle() && !failed_.load(std::memory_order_relaxed); ++fruitless) {
        if (poll()) fruitless = 0;
        else pause(hold, fruitless);
    }
    if (repair_ && !failed_.load(std::memory_order_relaxed)) {
        hear_words();
        repair_->leave();
        for (repair::words w; repair_->next_word(w);) group_->tell(w);
    }
    group_->leave();
    linger();
    return failed_.load(std::memory_order_relaxed) ? failure_ : status();
}

// A peer that dies now takes its bytes with it, and a link that is down may stay down: not for ever.
void comm::linger() noexcept {
    const uint64_t most_ns = std::min<uint64_t>(uint64_t(config_.timeout_ms) * 1'000'000, linger_ns);
    const uint64_t until = now_ns() + most_ns;
    for (;;) {
        const bool data = failed_.load(std::memory_order_relaxed) || links_->delivered();
        group_->progress();
        if ((data && group_->delivered()) || now_ns() > until) return;
        const timespec nap{0, 100'000};
        nanosleep(&nap, nullptr);
    }
}

void comm::abort() noexcept {
    if (!wrong_process().ok()) return;
    // The thread that holds the lock may be asleep or spinning in wait(): it does the rest within a
    // tick.
    abort_asked_.store(true, std::memory_order_release);
    if (lock_.try_lock()) {
        tick();
        lock_.unlock();
    }
}

}  // namespace ef
