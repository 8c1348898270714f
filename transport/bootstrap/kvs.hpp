// The key-value stores of launchers: what rank 0 puts under a name, every rank can get.
#pragma once

#include "transport/base/clock.hpp"
#include "transport/base/status.hpp"

#include <memory>
#include <string>

namespace ef {

class kvs {
public:
    virtual ~kvs() = default;
    virtual int rank() const noexcept = 0;
    virtual int nranks() const noexcept = 0;
    virtual status put(const std::string& name, const std::string& value) = 0;
    /// Blocks until somebody has put `name`, or the deadline passes.
    virtual result<std::string> get(const std::string& name, deadline d) = 0;
};

/// PMIx, if this build knows it and the process was started by it; null if not. One per process.
result<std::shared_ptr<kvs>> pmix_store();
/// PMI-1 over PMI_FD; null if not set. One per process.
result<std::shared_ptr<kvs>> pmi_store();
/// A client of PMI-1's simple wire protocol on `socket` (borrowed), for pmi_store() and tests.
result<std::shared_ptr<kvs>> pmi_client(int socket, deadline d);

}  // namespace ef
