// PMIx, opened at run time: neither the build nor the machine needs it.
#include "transport/bootstrap/kvs.hpp"

#if EF_HAVE_PMIX
#include <dlfcn.h>
#include <fmt/core.h>
#include <pmix.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#endif

namespace ef {

#if EF_HAVE_PMIX
namespace {

struct calls {
    decltype(&::PMIx_Init) init = nullptr;
    decltype(&::PMIx_Put) put = nullptr;
    decltype(&::PMIx_Commit) commit = nullptr;
    decltype(&::PMIx_Get) get = nullptr;
    decltype(&::PMIx_Finalize) finalize = nullptr;
    decltype(&::PMIx_Error_string) words = nullptr;

    bool open() {
        void* lib = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);  // for the life of the process
        if (!lib) return false;
        const auto find = [&](auto& f, const char* name) {
            f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(lib, name));
            return f != nullptr;
        };
        return find(init, "PMIx_Init") && find(put, "PMIx_Put") && find(commit, "PMIx_Commit") &&
               find(get, "PMIx_Get") && find(finalize, "PMIx_Finalize") &&
               find(words, "PMIx_Error_string");
    }
};

class pmix final : public kvs {
public:
    status start();
    int rank() const noexcept override { return int(me_.rank); }
    int nranks() const noexcept override { return size_; }
    status put(const std::string& name, const std::string& value) override;
    result<std::string> get(const std::string& name, deadline d) override;
    const calls& pmi() const noexcept { return calls_; }

private:
    status failed(const char* what, pmix_status_t err) const {
        return status(EF_SYSTEM, fmt::format("pmix: {}: {}", what, calls_.words(err)));
    }
    calls calls_;
    pmix_proc_t me_{};
    int size_ = 0;
};

status pmix::start() {
    if (!calls_.open()) return status(EF_UNSUPPORTED, "pmix: libpmix.so.2 cannot be opened");
    if (const pmix_status_t e = calls_.init(&me_, nullptr, 0); e != PMIX_SUCCESS)
        return failed("PMIx_Init", e);
    pmix_proc_t job = me_;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t* v = nullptr;
    if (const pmix_status_t e = calls_.get(&job, PMIX_JOB_SIZE, nullptr, 0, &v); e != PMIX_SUCCESS)
        return failed("PMIx_Get of the job's size", e);
    size_ = v->type == PMIX_UINT32 ? int(v->data.uint32) : 0;
    free(v);
    return size_ > 0 ? status() : status(EF_SYSTEM, "pmix: the job's size is not a number");
}

status pmix::put(const std::string& name, const std::string& value) {
    pmix_value_t v{};
    v.type = PMIX_STRING;
    v.data.string = const_cast<char*>(value.c_str());  // PMIx_Put copies it
    if (const pmix_status_t e = calls_.put(PMIX_GLOBAL, name.c_str(), &v); e != PMIX_SUCCESS)
        return failed("PMIx_Put", e);
    if (const pmix_status_t e = calls_.commit(); e != PMIX_SUCCESS) return failed("PMIx_Commit", e);
    return {};
}

result<std::string> pmix::get(const std::string& name, deadline d) {
    pmix_proc_t root = me_;
    root.rank = 0;
    pmix_status_t e = PMIX_ERR_NOT_FOUND;
    // Without a fence: the server waits for rank 0's commit, for the seconds it is told to.
    while (!d.passed()) {
        pmix_info_t wait{};
        strncpy(wait.key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
        wait.value.type = PMIX_INT;
        wait.value.data.integer = d.left_ms() / 1000 + 1;
        pmix_value_t* v = nullptr;
        e = calls_.get(&root, name.c_str(), &wait, 1, &v);
        if (e == PMIX_SUCCESS && v) {
            std::string text = v->type == PMIX_STRING && v->data.string ? v->data.string : "";
            if (v->type == PMIX_STRING) free(v->data.string);
            free(v);
            return text;
        }
        const timespec nap{0, 10'000'000};
        nanosleep(&nap, nullptr);
    }
    return status(EF_TIMEOUT,
                  fmt::format("pmix: rank 0 has not published its address: {}", calls_.words(e)));
}

}  // namespace

result<std::shared_ptr<kvs>> pmix_store() {
    static std::mutex one;
    static std::shared_ptr<pmix> store;  // shared: outlives the communicators that use it
    const std::lock_guard lock(one);
    if (store) return std::shared_ptr<kvs>(store);
    const char *space = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
    if (!space || !*space || !rank || !*rank) return std::shared_ptr<kvs>();
    auto made = std::make_shared<pmix>();
    if (status s = made->start(); !s.ok()) return s;
    store = made;
    atexit([] { store->pmi().finalize(nullptr, 0); });
    return std::shared_ptr<kvs>(store);
}

#else

result<std::shared_ptr<kvs>> pmix_store() { return std::shared_ptr<kvs>(); }

#endif

}  // namespace ef
