#include "transport/endpoint.hpp"

namespace ef::rdma {

const char* outcome_name(outcome o) noexcept {
    switch (o) {
    case outcome::ok:
        return "success";
    case outcome::local_length:
        return "local length error";
    case outcome::local_protection:
        return "local protection error";
    case outcome::remote_access:
        return "remote access error";
    case outcome::remote_invalid:
        return "remote invalid request";
    case outcome::rnr_exceeded:
        return "receiver not ready, retries exceeded";
    case outcome::peer_lost:
        return "connection lost";
    case outcome::flushed:
        return "flushed";
    }
    return "unknown";
}

const char* op_name(op o) noexcept {
    switch (o) {
    case op::write:
        return "write";
    case op::write_imm:
        return "write with immediate";
    case op::read:
        return "read";
    case op::send:
        return "send";
    case op::fetch_add:
        return "fetch and add";
    case op::compare_swap:
        return "compare and swap";
    case op::receive:
        return "receive";
    case op::receive_imm:
        return "receive of immediate";
    }
    return "unknown";
}

}  // namespace ef::rdma
