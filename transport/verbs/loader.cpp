#include "transport/verbs/loader.hpp"

#include "transport/base/log.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

namespace ef::verbs {
namespace {

constexpr const char* file_name = "libeflops-verbs.so";

std::string own_folder() {
    Dl_info i{};
    static const char here = 0;
    if (!dladdr(&here, &i) || !i.dli_fname) return {};
    const std::string path = i.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

result<library*> open_file(const std::string& path) {
    dlerror();
    void* lib = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // for the life of the process
    if (!lib) return status(EF_UNSUPPORTED, dlerror());
    const auto* entry = static_cast<const module_entry*>(dlsym(lib, "ef_verbs_module"));
    if (!entry) return status(EF_UNSUPPORTED, path + " is no module of eflops");
    if (entry->abi != module_abi)
        return status(
            EF_UNSUPPORTED,
            fmt::format(
                "{} has module ABI {}, this library needs {}: they come from different builds",
                path, entry->abi, module_abi));
    failure f;
    library* l = entry->get(&f);
    if (!l) return system_error(fmt::format("{}: {}", path, f.what), f.error);
    log(EF_LOG_DEBUG, "verbs: module {} of eflops {}", path, entry->version);
    return l;
}

result<library*> find(const std::string& module) {
    if (!module.empty()) return open_file(module);
    const std::string folder = own_folder();
    status first;
    for (const std::string& path :
         {folder + file_name, folder + "../" + file_name, std::string(file_name)}) {
        result<library*> l = open_file(path);
        if (l.ok()) return l;
        // The first that exists but does not load is the one to tell of: libibverbs is missing, say.
        if (first.ok() ||
            first.text().find(file_name + std::string(": cannot open")) != std::string_view::npos)
            first = l.why();
    }
    return first;
}

}  // namespace

result<library*> open_library(const std::string& module) {
    static std::mutex m;
    static result<library*> known = status(EF_UNSUPPORTED, "not looked for");
    static bool looked = false;
    const std::scoped_lock hold(m);
    if (!std::exchange(looked, true)) known = find(module);
    if (known.ok()) return *known;
    return known.why();
}

}  // namespace ef::verbs
