// lab_file: what is known of a lab, as a JSON file, and the lock under which labs change.
#pragma once

#include "tools/lab/lab.hpp"
#include "transport/base/fd.hpp"

#include <string>
#include <vector>

namespace ef::lab {

/// Held while a lab is built, changed or removed; one for all labs of this /run.
class lab_lock {
public:
    /// Waits at most `limit_ms` for others.
    static result<lab_lock> take(unsigned limit_ms = 30'000);

private:
    explicit lab_lock(fd f) : folder_(std::move(f)) {}
    fd folder_;  // /run/eflops-lab
};

struct lab_file {
    static bool exists(const std::string& name);
    /// The whole file or, if the writer is killed, the old one.
    static status save(const lab& l);
    static result<lab> load(const std::string& name);
    static void remove(const std::string& name);
    /// If no file is left in it. Ends what the lock is good for, so it comes last.
    static void remove_folder();
    static std::vector<std::string> names();
};

}  // namespace ef::lab
