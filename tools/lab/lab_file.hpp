// lab_file: what is known of a lab, as files, and the lock under which labs change.
//
//   /run/eflops-lab/NAME.fabric.json   the fabric as it was built: eflops-fabric(5)
//   /run/eflops-lab/NAME.lab           options, faults, counters at their last reset (JSON)
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
    static std::string fabric_path(const std::string& name);
    /// Once, before anything else is saved.
    static status save_fabric(const lab& l);
    static status save(const lab& l);
    static result<lab> load(const std::string& name);
    static void remove(const std::string& name);
    /// If no file is left in it. Ends what the lock is good for, so it comes last.
    static void remove_folder();
    static std::vector<std::string> names();
};

}  // namespace ef::lab
