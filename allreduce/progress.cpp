// How a communicator moves and how it waits.
//
//   poll()   one look at all queues; nothing but the transports' own system calls
//   tick()   about once a millisecond while nothing moves: control messages, new channels, deaths,
//   deadlines pause()  what a waiting thread does after a fruitless poll: spin, then yield, then
//   sleep
//
// Spinning catches what comes within microseconds. Where ranks outnumber cores it would only keep
// the one that is waited for from running, so there a fruitless poll yields at once. Sleeping costs
// a wake-up of tens of microseconds, which is small against the time that has been waited by then.
#include "allreduce/comm.hpp"
#include "allreduce/comm_lock.hpp"
#include "transport/base/clock.hpp"
#include "transport/base/log.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace ef {
namespace {

constexpr uint64_t spin_ns = 10'000;
constexpr uint64_t yield_ns = 2'000'000;
constexpr int sleep_ms = 100;             // longest sleep: the deadlines are looked at this often
constexpr int sleep_among_others_ms = 1;  // while other communicators of the process have work
// A gap between two ticks that is longer than any sleep means that nobody was waiting (the
// application computed, or the process was stopped): it does not count as time without progress.
constexpr uint64_t absence_ns = 5 * uint64_t(sleep_ms) * 1'000'000;
// How long a broken channel may wait for the group to find out who died or left.
constexpr uint64_t broken_grace_ns = 1'000'000'000;
// One that has left may be missed by an operation that does not need it any more.
constexpr uint64_t left_grace_ns = 100'000'000;

std::mutex all_lock;
std::vector<comm*>& all() {
    static auto& list = *new std::vector<comm*>;
    return list;
}

}  // namespace

void enlist(comm* c) {
    std::lock_guard hold(all_lock);
    all().push_back(c);
}

void strike_off(comm* c) {
    std::lock_guard hold(all_lock);
    std::erase(all(), c);
}

// ---------------------------------------------------------------- moving

bool comm::poll() {
    bool moved = false;
    if (current_) {
        moved = exec_->advance();
        if (!exec_->error().ok()) fail(exec_->error());
        else if (exec_->done()) finish_current();
    } else if (!queue_.empty()) {
        moved = start_next();
    }
    if (!p2p_->idle()) {
        finished_.clear();
        moved |= p2p_->advance(finished_);
        for (request* r : finished_) flight_.end(r->flight_slot, EF_OK);
        if (!p2p_->error().ok()) fail(p2p_->error());
    }
    moved_since_tick_ |= moved;
    return moved;
}

bool comm::start_next() {
    if (current_ || queue_.empty() || (repair_ && repair_->frozen())) return false;
    request* r = queue_.front();
    if (repair_ && !plan_anew(r)) return true;
    exec_->start(r->call);
    current_ = queue_.pop();
    return true;
}

// What was planned when it was called may no longer hold when its turn comes. False: it has failed.
bool comm::plan_anew(request* r) {
    const std::vector<fabric::link_id> links = repair_->start(r->site.number);
    if (!links.empty()) {
        selection_->leave_out(links);
        ++plan_version_;
        if (watch_) watch_->forget();
        if (status s = choose_paths(); !s.ok()) {
            fail(s.in("choosing paths"));
            return false;
        }
        log(rank() == 0 ? EF_LOG_WARN : EF_LOG_INFO, "rank {}: from {} on, plans leave out {}",
            rank(), r->site.text(), selection_->text_of(links));
    }
    if (r->plan_version == plan_version_) return true;
    result<const cached_program*> p = program_for(
        {r->coll, nullptr, nullptr, r->site.count, r->site.type, r->site.op, r->site.root_or_peer},
        r->in_place);
    if (!p.ok()) fail(p.why());
    else bind(r, **p);
    return p.ok();
}

void comm::finish_current() noexcept {
    current_->finished = true;
    flight_.end(current_->flight_slot, EF_OK);
    current_ = nullptr;
}

// ---------------------------------------------------------------- waiting

void comm::pause(comm_lock& hold, unsigned fruitless) {
    if (hold.wanted()) {
        hold.unlock();
        sched_yield();
        hold.lock();
        return;
    }
    if (fruitless == 0) quiet_since_ns_ = 0;
    if (fruitless % 16 == 15 || oversubscribed_) {
        const uint64_t now = now_ns();
        if (!quiet_since_ns_) quiet_since_ns_ = now;
        quiet_ns_ = now - quiet_since_ns_;
        if (now - ticked_at_ns_ >= tick_ns || connecting_) tick();
    } else if (fruitless < 16) {
        quiet_ns_ = 0;
    }
    if (quiet_ns_ < spin_ns && !oversubscribed_) return cpu_relax();
    if (quiet_ns_ < yield_ns) {
        sched_yield();
        return;
    }
    sleep_until_news(hold);
}

void comm::sleep_until_news(comm_lock& hold) {
    const bool others = others_pending();
    if (asleep_) {  // another thread has the waiter
        hold.unlock();
        usleep(100);
        hold.lock();
        return;
    }
    waiter_->prepare();
    if (poll() || abort_asked_.load(std::memory_order_acquire)) return waiter_->cancel();
    asleep_ = true;
    hold.unlock();
    waiter_->sleep(others ? sleep_among_others_ms : sleep_ms);
    hold.lock();
    asleep_ = false;
    tick();
}

// Move the other communicators of the process. True if one of them has work left.
bool comm::others_pending() {
    bool pending = false;
    std::unique_lock hold(all_lock, std::try_to_lock);
    if (!hold.owns_lock()) return true;
    for (comm* c : all()) {
        if (c == this) continue;
        if (!c->lock_.try_lock()) {
            pending = true;  // its own waiter moves it; it may need what we do
            continue;
        }
        std::lock_guard adopted(c->lock_, std::adopt_lock);
        if (c->idle() || c->failed_.load(std::memory_order_relaxed)) continue;
        c->poll();
        if (now_ns() - c->ticked_at_ns_ >= tick_ns) c->tick();
        pending |= !c->idle();
    }
    return pending;
}

// ---------------------------------------------------------------- control, deaths, deadlines

void comm::tick() {
    const uint64_t now = now_ns();
    if (moved_since_tick_ || idle()) moved_at_ns_ = now;
    else if (now - ticked_at_ns_ > absence_ns) moved_at_ns_ += now - ticked_at_ns_;
    ticked_at_ns_ = now;
    moved_since_tick_ = false;

    if (abort_asked_.exchange(false, std::memory_order_acq_rel))
        fail(status(EF_ABORTED, "ef_comm_abort was called"));
    if (failed_.load(std::memory_order_relaxed)) return;
    group_->progress();
    hear_words();
    result<bool> made = links_->progress();
    if (!made.ok()) return fail(made.why());
    connecting_ = links_->connecting();
    const links::break_report broken = links_->attend();
    if (!group_->failure().ok()) return fail(group_->failure());
    if (idle()) return;
    watch_links(now);
    if (failed_.load(std::memory_order_relaxed)) return;
    const uint64_t grace = broken.left ? left_grace_ns : broken_grace_ns;
    // From the break on: where nothing has moved for long, the word of who failed and why may still
    // be on its way.
    if (broken.why.ok()) broken_since_ns_ = 0;
    else if (broken_since_ns_ == 0) broken_since_ns_ = now;
    if (!broken.why.ok() && now - std::max(moved_at_ns_, broken_since_ns_) > grace)
        return fail(broken.why);
    if (now - moved_at_ns_ <= uint64_t(config_.timeout_ms) * 1'000'000) return;
    const std::string wrong = wrong_link();
    fail(status(EF_TIMEOUT, fmt::format("no progress for {} ms: {}{}", config_.timeout_ms,
                                        waiting_text(), wrong.empty() ? wrong : "; " + wrong)));
}

// Whose ways are looked at: first of those that are waited for.
std::vector<link_watch::watched> comm::watched_peers() const {
    std::vector<link_watch::watched> list;
    const auto add = [&](rank_t peer) {
        const bool there =
            std::any_of(list.begin(), list.end(), [&](const auto& w) { return w.peer == peer; });
        if (!there && peer != rank() && !group_->local(peer))
            list.push_back({peer, links_->spare_port(peer)});
    };
    if (current_) {
        for (const exec::waiting& w : exec_->waiting_for()) add(w.peer);
        for (const lane& l : current_->call.prog->lanes) add(l.peer);
    }
    for (const request* r : p2p_->pending()) add(r->site.root_or_peer);
    return list;
}

void comm::watch_links(uint64_t now) {
    if (!watch_) return;
    const uint64_t stalled_ms = (now - moved_at_ns_) / 1'000'000;
    if (watch_->due(now, stalled_ms)) watch_->look(watched_peers());
    watch_->step(now, stalled_ms);
    for (link_finding f; watch_->next(f) && !failed_.load(std::memory_order_relaxed);) act_on(f);
}

// A link that has failed is left out of the plans of operations to come, or fails the pending one.
void comm::act_on(const link_finding& f) {
    const fabric::graph& g = selection_->view()->net();
    if (f.moved) {  // no link has failed, but chosen ways may meet now
        log(links_->steers() ? EF_LOG_WARN : EF_LOG_INFO, "rank {}: {}", rank(), f.text);
        const fabric::link_id again[] = {fabric::none - plan_version_};
        if (links_->steers()) repair_->suspect(again);
        return;
    }
    const bool known = f.link != fabric::none;
    const fabric::link_id cable[] = {known ? std::min(f.link, g.edge(f.link).reverse) : f.link};
    const std::span<const fabric::link_id> out = selection_->view()->left_out();
    if (known && std::find(out.begin(), out.end(), cable[0]) != out.end()) return;  // told before
    log(f.proof ? EF_LOG_WARN : EF_LOG_INFO, "rank {}: {}", rank(), f.text);
    if (f.proof == 0) return;
    if (config_.link_failure == "error") return fail(status(EF_PEER_LOST, f.text));
    const auto is_host = [&](fabric::node_id n) { return g.at(n).kind == fabric::node_kind::host; };
    if (!known || is_host(g.edge(f.link).from) || is_host(g.edge(f.link).to))
        return;  // no plan goes round these
    repair_->suspect(cable);
}

// What is known of a failed link, here or by another rank's word; empty: nothing.
std::string comm::wrong_link() const {
    if (!watch_) return {};
    std::string text = watch_->text(1);
    if (text.empty() && repair_->last_suspect() < selection_->view()->net().links().size())
        text = fmt::format("{} has found that link {} is down or not used any more",
                           group_->name(repair_->last_suspicious()).text(),
                           selection_->view()->net().text_of(repair_->last_suspect()));
    return text.empty() ? watch_->text(0) : text;
}

void comm::hear_words() {
    rank_t from = -1;
    for (std::vector<std::byte> word; group_->next_word(from, word);)
        if (!repair_ || !repair_->hear(from, word))
            return fail(status(EF_MISMATCH, fmt::format("{} said what cannot be read",
                                                        group_->name(from).text())));
    if (!repair_) return;
    if (group_->gone(0)) repair_->thaw();
    for (repair::words w; repair_->next_word(w);) group_->tell(w);
}

std::vector<flight_waiting> comm::waiting_for() const {
    std::vector<flight_waiting> list;
    const auto add = [&](rank_t peer, traffic t, bool sending, uint32_t round, uint64_t done,
                         uint64_t bytes) {
        const channel* c = const_cast<links&>(*links_).channels(t)[size_t(peer)];
        list.push_back(
            {peer, sending, round, done, bytes, c ? links_->medium(peer) : "no connection yet"});
    };
    if (current_)
        for (const exec::waiting& w : exec_->waiting_for())
            add(w.peer, traffic::collectives, w.sending, w.at->round, w.done, w.at->bytes);
    for (const request* r : p2p_->pending())
        add(r->site.root_or_peer, traffic::point_to_point, r->sending, 0, r->done, r->bytes);
    return list;
}

// The first few are enough: the rest is in the flight record.
std::string comm::waiting_text() const {
    std::string text;
    size_t shown = 0;
    if (!current_ && repair_ && repair_->frozen())
        return "waiting for all ranks to say which operation is the first without a failed link";
    for (const flight_waiting& w : waiting_for()) {
        if (shown++ == 4) return text + ", ...";
        const char* what = w.sending ? "take" : "send";
        text += fmt::format("{}{} to {} ({} of {} bytes, round {}, {})",
                            shown > 1 ? ", " : "waiting for ", group_->name(w.peer).text(), what,
                            w.bytes_done, w.bytes, w.round, w.medium);
    }
    return text;
}

// The communicator is over: every request ends with `why`, every peer is told.
void comm::fail(status why) {
    if (failed_.load(std::memory_order_relaxed)) return;
    const std::vector<flight_waiting> waiting = waiting_for();
    failure_ = std::move(why);
    failed_.store(true, std::memory_order_release);
    if (group_->failure().ok()) group_->abort(failure_);

    const auto end = [&](request* r) {
        r->result = failure_.in(r->site.text());
        r->finished = true;
        flight_.end(r->flight_slot, failure_.code());
    };
    std::vector<request*> ended = p2p_->abandon();
    if (current_) ended.push_back(current_);
    while (!queue_.empty()) ended.push_back(queue_.pop());
    if (!ended.empty()) write_flight_record(waiting);
    for (request* r : ended) end(r);
    current_ = nullptr;
}

void comm::write_flight_record(const std::vector<flight_waiting>& waiting) {
    if (config_.flight_dir.empty()) return;
    std::vector<peer_name> peers;
    for (rank_t r = 0; r < nranks(); ++r) peers.push_back(group_->name(r));
    flight_context context;
    context.rank = rank();
    context.communicator = id_;
    context.peers = peers;
    context.error = &failure_;
    if (status s = flight_.write(config_.flight_dir, context, waiting); !s.ok())
        log(EF_LOG_WARN, "flight record: {}", s.text());
}

}  // namespace ef
