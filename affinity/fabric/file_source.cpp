#include "affinity/fabric/file_source.hpp"

#include "transport/base/fd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ef::fabric {
namespace {

status cannot(const std::string& path, std::string_view why) {
    return status(EF_INVALID, fmt::format("{}: {}", path, why));
}

status too_large(const std::string& path) {
    return cannot(
        path, fmt::format("larger than {} MiB, which no fabric file needs", max_file_bytes >> 20));
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace

result<source> read_source(const std::string& path) {
    if (path.find('\0') != std::string::npos) return cannot(shown(path), "not a file name");
    // Without O_NONBLOCK, opening a FIFO that nobody writes to would wait for ever.
    const fd f(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st;
    if (f.get() < 0 || fstat(f.get(), &st) != 0) return cannot(path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return cannot(path, "not a regular file");
    if (size_t(st.st_size) > max_file_bytes) return too_large(path);
    source s{path, std::string(size_t(st.st_size), '\0')};
    size_t have = 0;
    while (have < s.text.size()) {
        const ssize_t n = read(f.get(), s.text.data() + have, s.text.size() - have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return cannot(path, strerror(errno));
        if (n == 0) break;
        have += size_t(n);
    }
    s.text.resize(have);
    return s;
}

// Names in a reason come from a file that may hold anything.
status line_error(const source& s, size_t at, std::string_view reason) {
    const auto end = s.text.begin() + std::ptrdiff_t(std::min(at, s.text.size()));
    const auto line = 1 + std::count(s.text.begin(), end, '\n');
    return status(EF_INVALID, fmt::format("{}:{}: {}", s.name, line, printable(reason)));
}

status column_error(const source& s, size_t at, std::string_view reason) {
    at = std::min(at, s.text.size());
    const size_t before = at == 0 ? std::string::npos : s.text.rfind('\n', at - 1);
    const size_t column = before == std::string::npos ? at + 1 : at - before;
    const auto line = 1 + std::count(s.text.begin(), s.text.begin() + std::ptrdiff_t(at), '\n');
    return status(EF_INVALID, fmt::format("{}:{}:{}: {}", s.name, line, column, printable(reason)));
}

std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c < ' ' || c > '~') c = '?';
    return out;
}

std::string shown(std::string_view text) {
    constexpr size_t most = 60;
    return '"' + printable(text.substr(0, most)) + (text.size() > most ? "...\"" : "\"");
}

bool natural_less(std::string_view a, std::string_view b) noexcept {
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            while (i < a.size() && a[i] == '0') ++i;
            while (j < b.size() && b[j] == '0') ++j;
            size_t m = i, n = j;
            while (m < a.size() && is_digit(a[m])) ++m;
            while (n < b.size() && is_digit(b[n])) ++n;
            if (m - i != n - j) return m - i < n - j;
            if (const int c = a.substr(i, m - i).compare(b.substr(j, n - j)); c != 0) return c < 0;
            i = m;
            j = n;
        } else {
            if (a[i] != b[j]) return a[i] < b[j];
            ++i;
            ++j;
        }
    }
    if (i < a.size() || j < b.size()) return i >= a.size();
    return a < b;  // "n1" and "n01" are two names
}

}  // namespace ef::fabric
