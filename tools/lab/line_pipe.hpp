// line_pipe: what one rank writes to one stream, passed on line by line, so that the ranks' lines do
// not mix.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <string>

namespace ef::lab {

class line_pipe {
public:
    /// `to`: the descriptor to pass lines on to. Each begins with `prefix`.
    static result<line_pipe> open(int to, std::string prefix);

    int read_end() const noexcept { return read_.get(); }
    /// For the child; -1 after close_write_end().
    int write_end() const noexcept { return write_; }
    void close_write_end() noexcept;
    bool is_open() const noexcept { return bool(read_); }
    /// Take up to 64 KiB of what is there without blocking; closes at its end.
    void pump();
    /// Pass on what is left, a last line without its end too, and close.
    void finish();

    line_pipe(line_pipe&& o) noexcept;
    line_pipe& operator=(line_pipe&&) = delete;
    ~line_pipe();

private:
    line_pipe() = default;
    void pass_on(std::string_view line) const;

    fd read_;
    int write_ = -1;  // not an fd: the child of a fork keeps it
    int to_ = -1;
    std::string prefix_, part_;
};

}  // namespace ef::lab
