// records: flight records (allreduce/fault/flight.hpp) as ef_blame reads them. A file may have been
// cut short, or be no record at all: whatever is wrong with it becomes a bad_record that names the
// file and the place in it.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ef::blame {

struct bad_record : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct peer {
    std::string host;
    int64_t pid = 0;
    bool operator==(const peer&) const = default;
};

struct operation {
    std::string what;  // "allreduce", "send"
    uint64_t number = 0;
    bool pending = false;
    std::string arguments;  // " of 1024 float32, sum": equal where ranks called the same
    int64_t peer = -1;      // send, recv
    int64_t began_ms_ago = 0, ended_ms_ago = 0;

    bool collective() const { return what != "send" && what != "recv"; }
    std::string text() const { return fmt::format("{} #{}{}", what, number, arguments); }
};

struct waiting {
    int64_t peer = -1;
    bool taking = false;  // the peer is to take what this rank sends
    int64_t round = 0, bytes_done = 0, bytes = 0;
    std::string medium;
};

struct record {
    std::string file, communicator;
    int64_t rank = 0, written_unix_ms = 0;
    std::vector<peer> peers;  // by rank
    std::string error_code, error_text;
    std::vector<operation> operations;  // from the oldest
    std::vector<waiting> waits;

    /// The collective this rank is in: the oldest that has not ended.
    const operation* pending_collective() const {
        for (const operation& o : operations)
            if (o.pending && o.collective()) return &o;
        return nullptr;
    }
    const operation* last_finished_collective() const {
        for (size_t i = operations.size(); i-- > 0;)
            if (!operations[i].pending && operations[i].collective()) return &operations[i];
        return nullptr;
    }
    bool pending() const {
        for (const operation& o : operations)
            if (o.pending) return true;
        return false;
    }
};

/// Reads members and says where one is missing or of the wrong kind.
class record_reader {
public:
    explicit record_reader(std::string file) : file_(std::move(file)) {}

    record read(std::string_view text) const {
        using nlohmann::json;
        json j;
        try {
            j = json::parse(text.begin(), text.end());
        } catch (const json::parse_error& e) {
            throw bad_record(fmt::format("{}: {} at byte {}: not JSON, or cut short", file_,
                                         e.byte > text.size() ? "the end of the file" : "an error",
                                         e.byte));
        }
        if (!j.is_object() || !j.contains("eflops_flight"))
            throw bad_record(
                fmt::format("{}: byte 1: not a flight record (no \"eflops_flight\")", file_));
        if (const int64_t schema = number(j, "", "eflops_flight"); schema != 1)
            throw bad_record(fmt::format("{}: written in schema {}, this program reads schema 1",
                                         file_, schema));
        record r;
        r.file = file_;
        r.communicator = text_of(j, "", "communicator");
        r.written_unix_ms = number(j, "", "written_unix_ms");
        read_peers(j, r);
        r.rank = rank(j, "", "rank", r);
        if (j.contains("error")) {
            r.error_code = text_of(j["error"], "/error", "code");
            r.error_text = text_of(j["error"], "/error", "text");
        }
        const json& operations = array(j, "operations");
        for (size_t i = 0; i < operations.size(); ++i)
            r.operations.push_back(
                read_operation(operations[i], fmt::format("/operations/{}", i), r));
        const json& waits = array(j, "waiting_for");
        for (size_t i = 0; i < waits.size(); ++i)
            r.waits.push_back(read_waiting(waits[i], fmt::format("/waiting_for/{}", i), r));
        return r;
    }

private:
    using json = nlohmann::json;

    [[noreturn]] void wrong(const std::string& at, const char* name, const char* expected) const {
        throw bad_record(fmt::format("{}: {}/{}: not {}", file_, at, name, expected));
    }
    static const json* member(const json& j, const char* name) {
        const auto it = j.is_object() ? j.find(name) : j.end();
        return j.is_object() && it != j.end() ? &*it : nullptr;
    }
    // At most 2^53, which every writer of JSON agrees on and no sum of ours overflows.
    int64_t number(const json& j, const std::string& at, const char* name) const {
        const json* v = member(j, name);
        if (!v || !v->is_number_integer() || v->get<double>() < 0 || v->get<double>() > 9.0e15)
            wrong(at, name, "a number, 0 or more");
        return v->get<int64_t>();
    }
    std::string text_of(const json& j, const std::string& at, const char* name) const {
        const json* v = member(j, name);
        if (!v || !v->is_string()) wrong(at, name, "a string");
        return v->get<std::string>();
    }
    const json& array(const json& j, const char* name) const {
        const json* v = member(j, name);
        if (!v || !v->is_array()) wrong("", name, "an array");
        return *v;
    }
    int64_t rank(const json& j, const std::string& at, const char* name, const record& r) const {
        const int64_t n = number(j, at, name);
        if (n >= int64_t(r.peers.size())) wrong(at, name, "a rank of this communicator");
        return n;
    }
    void read_peers(const json& j, record& r) const {
        const json& peers = array(j, "peers");
        for (size_t i = 0; i < peers.size(); ++i) {
            const std::string at = fmt::format("/peers/{}", i);
            if (number(peers[i], at, "rank") != int64_t(i)) wrong(at, "rank", "in order");
            r.peers.push_back({text_of(peers[i], at, "host"), number(peers[i], at, "pid")});
        }
        if (number(j, "", "nranks") != int64_t(r.peers.size()))
            wrong("", "nranks", "the number of peers");
    }
    operation read_operation(const json& j, const std::string& at, const record& r) const {
        operation o;
        o.what = text_of(j, at, "what");
        o.number = uint64_t(number(j, at, "number"));
        o.began_ms_ago = number(j, at, "began_ms_ago");
        o.pending = !member(j, "ended_ms_ago");
        if (!o.pending) o.ended_ms_ago = number(j, at, "ended_ms_ago");
        if (!o.collective()) o.peer = rank(j, at, "peer", r);
        if (member(j, "count"))
            o.arguments = fmt::format(" of {} {}", number(j, at, "count"), text_of(j, at, "type"));
        if (member(j, "op")) o.arguments += ", " + text_of(j, at, "op");
        if (member(j, "root")) o.arguments += fmt::format(", root {}", number(j, at, "root"));
        return o;
    }
    waiting read_waiting(const json& j, const std::string& at, const record& r) const {
        waiting w;
        w.peer = rank(j, at, "peer", r);
        const std::string to = text_of(j, at, "to");
        if (to != "send" && to != "take") wrong(at, "to", "\"send\" or \"take\"");
        w.taking = to == "take";
        w.round = number(j, at, "round");
        w.bytes_done = number(j, at, "bytes_done");
        w.bytes = number(j, at, "bytes");
        w.medium = text_of(j, at, "medium");
        return w;
    }

    std::string file_;
};

inline record read_record(const std::string& file, std::string_view text) {
    return record_reader(file).read(text);
}

}  // namespace ef::blame
