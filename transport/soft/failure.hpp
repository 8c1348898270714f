// What broke a soft endpoint, kept without allocating until somebody asks for the sentence.
#pragma once

#include "transport/endpoint.hpp"

namespace ef::rdma::soft {

struct failure {
    outcome how = outcome::ok;
    const char* what = "";  // static text
    bool of_work = false;   // of ours: the fields below say which
    uint64_t id = 0;
    op which = op::write;
    uint64_t bytes = 0;
    uint64_t address = 0;
    uint32_t rkey = 0;
};

}  // namespace ef::rdma::soft
