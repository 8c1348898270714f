#include "transport/bootstrap/key.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace ef {
namespace {

constexpr size_t min_key = 16, max_key = 4096;
constexpr const char* instead = "; set EFLOPS_KEY or EFLOPS_KEY_FILE instead";

result<std::string> user_folder() {
    const char* xdg = getenv("XDG_CONFIG_HOME");
    if (xdg && *xdg == '/') return std::string(xdg);
    const char* home = getenv("HOME");
    if (!home || *home != '/')
        return status(EF_INVALID, fmt::format("key: HOME is not set{}", instead));
    return std::string(home) + "/.config";
}

status make_folder(const std::string& path) {
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
    const int err = errno;
    return status(EF_INVALID,
                  std::string(system_error("key: mkdir " + path, err).text()) + instead);
}

status write_all(int to, std::string_view text, const std::string& path) {
    while (!text.empty()) {
        const ssize_t n = write(to, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return system_error("key: write " + path, errno);
        text.remove_prefix(size_t(n));
    }
    if (fsync(to) != 0) return system_error("key: fsync " + path, errno);
    return {};
}

/// A whole file appears at once: written under another name, then linked. Who links first wins.
status create_key_file(const std::string& path) {
    unsigned char r[8];
    randombytes_buf(r, sizeof(r));
    std::string other = path + ".";
    for (const unsigned char b : r) other += fmt::format("{:02x}", b);
    fd f(::open(other.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!f) {
        const int err = errno;
        return status(EF_INVALID,
                      std::string(system_error("key: create " + other, err).text()) + instead);
    }
    status s = write_all(f.get(), random_key() + "\n", other);
    if (s.ok() && link(other.c_str(), path.c_str()) != 0 && errno != EEXIST)
        s = system_error("key: link " + path, errno);
    unlink(other.c_str());
    return s;
}

}  // namespace

secret derive_key(std::string_view text, std::string_view context) {
    secret k{};
    crypto_generichash_state s;
    crypto_generichash_init(&s, nullptr, 0, k.size());
    const auto add = [&](std::string_view v) {
        const uint64_t n = v.size();
        crypto_generichash_update(&s, reinterpret_cast<const unsigned char*>(&n), sizeof(n));
        crypto_generichash_update(&s, reinterpret_cast<const unsigned char*>(v.data()), v.size());
    };
    add("eflops job key 1");
    add(context);
    add(text);
    crypto_generichash_final(&s, k.data(), k.size());
    return k;
}

std::string random_key() {
    unsigned char r[32];
    randombytes_buf(r, sizeof(r));
    std::string t;
    for (const unsigned char b : r) t += fmt::format("{:02x}", b);
    return t;
}

result<std::string> read_key_file(const std::string& path) {
    const fd f(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!f) {
        const int err = errno;
        return status(EF_INVALID, std::string(system_error("key file " + path, err).text()));
    }
    struct stat st {};
    if (fstat(f.get(), &st) != 0) return system_error("key file " + path, errno);
    if (!S_ISREG(st.st_mode))
        return status(EF_INVALID, fmt::format("key file {}: not a regular file", path));
    if (st.st_mode & 077)
        return status(EF_INVALID,
                      fmt::format("key file {}: mode {:04o} lets group or others at the "
                                  "secret, make it 0600",
                                  path, st.st_mode & 07777));
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return status(EF_INVALID, fmt::format("key file {}: belongs to user {}, not to {}", path,
                                              st.st_uid, geteuid()));
    std::string text(max_key + 1, '\0');
    const ssize_t n = read(f.get(), text.data(), text.size());
    if (n < 0) return system_error("key file " + path, errno);
    text.resize(size_t(n));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.size() < min_key || text.size() > max_key)
        return status(EF_INVALID, fmt::format("key file {}: holds {} characters, give {} to {}",
                                              path, text.size(), min_key, max_key));
    return text;
}

result<std::string> configured_key(const config& c) {
    if (!c.key.empty()) {
        if (c.key.size() < min_key)
            return status(EF_INVALID, fmt::format("EFLOPS_KEY has {} characters, give {} or more",
                                                  c.key.size(), min_key));
        return c.key;
    }
    return c.key_file.empty() ? std::string() : read_key_file(c.key_file);
}

result<std::string> user_key() {
    result<std::string> base = user_folder();
    if (!base.ok()) return base;
    const std::string folder = *base + "/eflops", path = folder + "/key";
    if (access(path.c_str(), F_OK) != 0) {
        if (status s = make_folder(*base); !s.ok()) return s;
        if (status s = make_folder(folder); !s.ok()) return s;
        if (status s = create_key_file(path); !s.ok()) return s;
    }
    return read_key_file(path);
}

}  // namespace ef
