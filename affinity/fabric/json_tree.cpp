#include "affinity/fabric/json_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ef::fabric {
namespace {

using json = nlohmann::json;
constexpr size_t deepest = 8, most_values = size_t{1} << 26;

// Reads the text and tells the handler how far the parser has come: its events carry no position.
class counting_iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    counting_iterator(const char* p, const char** seen) : p_(p), seen_(seen) {}
    reference operator*() const noexcept { return *p_; }
    counting_iterator& operator++() noexcept {
        *seen_ = ++p_;
        return *this;
    }
    counting_iterator operator++(int) noexcept {
        counting_iterator old = *this;
        ++*this;
        return old;
    }
    bool operator==(const counting_iterator& o) const noexcept { return p_ == o.p_; }
    bool operator!=(const counting_iterator& o) const noexcept { return p_ != o.p_; }

private:
    const char* p_;
    const char** seen_;
};

bool in_number(char c) noexcept {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

const char* name_of(json_kind k) noexcept {
    switch (k) {
    case json_kind::null:
        return "null";
    case json_kind::boolean:
        return "true or false";
    case json_kind::number:
        return "a number";
    case json_kind::string:
        return "a string";
    case json_kind::array:
        return "an array";
    case json_kind::object:
        return "an object";
    }
    return "?";
}

// What the parser calls, in the order of the text.
class json_tree::builder {
public:
    builder(json_tree& t, const source& s) : seen(s.text.data()), tree_(t), source_(s) {}

    bool null() { return add(json_kind::null, here() - 4); }
    bool boolean(bool v) {
        if (!add(json_kind::boolean, here() - (v ? 4 : 5))) return false;
        tree_.values_.back().truth = v;
        return true;
    }
    bool number_integer(json::number_integer_t v) { return number(double(v)); }
    bool number_unsigned(json::number_unsigned_t v) { return number(double(v)); }
    bool number_float(double v, const std::string&) { return number(v); }
    bool string(std::string& v) {
        const size_t begin = string_begin();
        if (!add(json_kind::string, begin)) return false;
        tree_.values_.back().text = kept(v, begin);
        return true;
    }
    bool binary(json::binary_t&) { return false; }  // not in JSON
    bool start_object(size_t) { return open(json_kind::object); }
    bool start_array(size_t) { return open(json_kind::array); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& v) {
        key_at_ = string_begin();
        key_ = kept(v, key_at_);
        return true;
    }
    bool parse_error(size_t position, const std::string&, const json::exception& e) {
        // "[json.exception.parse_error.101] parse error at line 1, column 5: words"
        std::string_view words = e.what();
        if (const size_t colon = words.find(": "); colon != words.npos)
            words.remove_prefix(colon + 2);
        std::string plain(words.substr(0, 160));
        for (char& c : plain)
            if (c < ' ' || c > '~') c = '?';
        if (words.size() > plain.size()) plain += "...";
        return refuse(position == 0 ? 0 : position - 1, "not JSON: " + plain);
    }

    status why;
    const char* seen;  // behind the last character that the parser took

private:
    size_t here() const noexcept { return size_t(seen - source_.text.data()); }

    bool refuse(size_t at, std::string_view reason) {
        if (why.ok()) why = column_error(source_, at, reason);
        return false;
    }

    // The string that ends here began at the nearest quote that no backslash escapes.
    size_t string_begin() const noexcept {
        const std::string& t = source_.text;
        for (size_t q = here() - 1; q > 0;) {
            if (t[--q] != '"') continue;
            size_t backslashes = 0;
            while (backslashes < q && t[q - 1 - backslashes] == '\\') ++backslashes;
            if (backslashes % 2 == 0) return q;
        }
        return 0;
    }

    std::string_view kept(std::string& v, size_t begin) {
        const size_t length = here() - begin - 2;
        if (v.size() == length) return std::string_view(source_.text).substr(begin + 1, length);
        return tree_.unescaped_.emplace_back(std::move(v));
    }

    // The parser reads one character past a number, except at the end of the text.
    bool number(double v) {
        size_t end = here();
        if (end > 0 && !in_number(source_.text[end - 1])) --end;
        while (end > 0 && in_number(source_.text[end - 1])) --end;
        if (!add(json_kind::number, end)) return false;
        tree_.values_.back().number = v;
        return true;
    }

    bool add(json_kind kind, size_t at) {
        if (tree_.values_.size() >= most_values) return refuse(at, "too many values");
        json_value v;
        v.kind = kind;
        v.at = uint32_t(at);
        v.key = std::exchange(key_, {});
        v.key_at = uint32_t(key_at_);
        const json_index id = json_index(tree_.values_.size());
        if (!open_.empty()) {
            v.parent = open_.back().value;
            json_index& last = open_.back().last;
            (last == none ? tree_.values_[v.parent].first : tree_.values_[last].next) = id;
            last = id;
        }
        tree_.values_.push_back(v);
        return true;
    }

    bool open(json_kind kind) {
        if (open_.size() >= deepest)
            return refuse(here() - 1, fmt::format("nested more than {} deep", deepest));
        if (!add(kind, here() - 1)) return false;
        open_.push_back({json_index(tree_.values_.size() - 1), none});
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    struct level {
        json_index value, last;
    };

    json_tree& tree_;
    const source& source_;
    std::vector<level> open_;
    std::string_view key_;
    size_t key_at_ = 0;
};

result<json_tree> json_tree::parse(const source& s) {
    json_tree t(s);
    builder b(t, s);
    const char* const begin = s.text.data();
    const bool good = json::sax_parse(counting_iterator(begin, &b.seen),
                                      counting_iterator(begin + s.text.size(), &b.seen), &b);
    if (!b.why.ok()) return b.why;
    if (!good || t.values_.empty()) return column_error(s, 0, "not JSON");
    return t;
}

std::string json_tree::path_of(json_index v) const {
    std::vector<std::string> steps;
    for (; values_[v].parent != none; v = values_[v].parent) {
        const json_value& parent = values_[values_[v].parent];
        if (parent.kind == json_kind::object) {
            const std::string quoted = shown(values_[v].key);
            steps.push_back("." + quoted.substr(1, quoted.size() - 2));
        } else {
            size_t i = 0;
            for (json_index c = parent.first; c != v; c = values_[c].next) ++i;
            steps.push_back(fmt::format("[{}]", i));
        }
    }
    std::string path;
    for (auto s = steps.rbegin(); s != steps.rend(); ++s) path += *s;
    return path.starts_with('.') ? path.substr(1) : path;
}

status json_tree::complain(size_t at, std::string_view reason) const {
    const auto v = std::find_if(values_.begin(), values_.end(), [&](const json_value& x) {
        return x.at == at || (!x.key.empty() && x.key_at == at);
    });
    std::string path;
    if (v != values_.end()) path = path_of(json_index(v - values_.begin()));
    return column_error(*source_, at,
                        path.empty() ? std::string(reason) : fmt::format("{}: {}", path, reason));
}

}  // namespace ef::fabric
