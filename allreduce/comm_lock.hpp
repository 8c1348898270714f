// comm_lock: the lock of a communicator as its waiters use it. A thread that waits spins with the
// lock held, because taking it again in every turn would cost more than a turn; so it lets go
// whenever somebody else has asked.
//
// Also the list of the process's communicators, through which a waiting thread moves the others.
#pragma once

#include <atomic>
#include <mutex>

namespace ef {

class comm_lock {
public:
    comm_lock(std::mutex& m, std::atomic<int>& contenders) : mutex_(m), contenders_(contenders) {
        lock();
    }
    ~comm_lock() { mutex_.unlock(); }
    comm_lock(const comm_lock&) = delete;

    void lock() {
        if (mutex_.try_lock()) return;
        contenders_.fetch_add(1, std::memory_order_relaxed);
        mutex_.lock();
        contenders_.fetch_sub(1, std::memory_order_relaxed);
    }
    void unlock() { mutex_.unlock(); }
    bool wanted() const noexcept { return contenders_.load(std::memory_order_relaxed) > 0; }

private:
    std::mutex& mutex_;
    std::atomic<int>& contenders_;
};

class comm;
void enlist(comm* c);
void strike_off(comm* c);

}  // namespace ef
