#include "import/profiles/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "import/profiles/byte_stream.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {
namespace {

constexpr std::size_t padding = 64;  // bytes that are readable behind a value
constexpr std::size_t chunk = std::size_t{1} << 20;
// of one event; longer members of the top level are passed over
constexpr std::size_t longest_value = std::size_t{64} << 20;

enum Class : unsigned char { other, quote, open, close, blank };
constexpr std::array<unsigned char, 256> classes = [] {
    std::array<unsigned char, 256> table{};
    table['"'] = quote;
    table['{'] = table['['] = open;
    table['}'] = table[']'] = close;
    table[' '] = table['\n'] = table['\r'] = table['\t'] = blank;
    return table;
}();
unsigned char class_of(char c) { return classes[static_cast<unsigned char>(c)]; }

// A window on the stream that holds at least one whole value.
class Window {
public:
    explicit Window(const std::string& path) : stream_(path), text_(2 * chunk + padding) {}

    // The byte at the cursor; nullopt at the end.
    std::optional<char> peek() {
        if (at_ == end_ && !fill()) return std::nullopt;
        return text_[at_];
    }
    void skip() { ++at_; }
    // Moves the cursor to the next byte that is neither blank nor a comma, and returns it.
    std::optional<char> next() {
        auto c = peek();
        for (; c && (*c == ',' || class_of(*c) == blank); c = peek()) ++at_;
        return c;
    }
    // Reads one value and leaves the cursor behind it; nullopt if the value is incomplete. Throws
    // ConfigError if it is too long to keep.
    std::optional<TraceText> value() {
        keep_from_ = at_;
        const bool whole = scan();
        const std::size_t from = dropped_ ? at_ : std::exchange(keep_from_, none);
        if (!whole) return std::nullopt;
        return TraceText{{text_.data() + from, at_ - from}, text_.size() - from};
    }
    // The same; empty where the value is too long to keep.
    std::optional<TraceText> value_of_any_length() {
        drop_long_ = true;
        auto found = value();
        if (found && dropped_) found = TraceText{};
        drop_long_ = dropped_ = false;
        return found;
    }
    // Moves the cursor behind one value without keeping it; false if it is incomplete.
    bool pass() { return scan(); }
    [[nodiscard]] std::size_t position() const { return before_ + at_; }
    [[nodiscard]] const std::string& torn() const { return stream_.torn(); }

private:
    static constexpr std::size_t none = as_index(-1);

    bool fill() {
        if (drop_long_ && keep_from_ != none && end_ - keep_from_ > longest_value) {
            keep_from_ = none;
            dropped_ = true;
        }
        const std::size_t from = keep_from_ == none ? at_ : keep_from_;
        if (from > 0) {
            std::memmove(text_.data(), text_.data() + from, end_ - from);
            before_ += from;
            at_ -= from;
            end_ -= from;
            if (keep_from_ != none) keep_from_ = 0;
        }
        if (end_ + chunk + padding > text_.size()) {
            if (end_ > longest_value)
                refuse("byte {}: one value of more than {} bytes; expected a trace event", before_,
                       longest_value);
            text_.resize(2 * text_.size());
        }
        const std::size_t got = stream_.read(text_.data() + end_, chunk);
        end_ += got;
        return got > 0;
    }
    bool scan_string() {  // the cursor is on the opening quote
        ++at_;
        for (;;) {
            while (at_ < end_ && text_[at_] != '"' && text_[at_] != '\\') ++at_;
            if (at_ == end_) {
                if (!fill()) return false;
            } else if (text_[at_] == '"') {
                ++at_;
                return true;
            } else {
                if (at_ + 1 == end_ && !fill()) return false;
                at_ += 2;
            }
        }
    }
    bool scan() {
        const auto first = peek();
        if (!first) return false;
        if (class_of(*first) != quote && class_of(*first) != open) return scan_scalar();
        int depth = 0;
        do {
            while (at_ < end_ && (class_of(text_[at_]) == other || class_of(text_[at_]) == blank))
                ++at_;
            const auto c = peek();
            if (!c || (class_of(*c) == quote && !scan_string())) return false;
            if (class_of(*c) != open && class_of(*c) != close) continue;
            ++at_;
            depth += class_of(*c) == open ? 1 : -1;
        } while (depth > 0);
        return true;
    }
    bool scan_scalar() {
        for (;;) {
            const auto c = peek();
            if (!c) return false;
            if (*c == ',' || class_of(*c) != other) return true;
            ++at_;
        }
    }

    ByteStream stream_;
    std::vector<char> text_;
    std::size_t at_ = 0, end_ = 0, before_ = 0;
    std::size_t keep_from_ = none;
    bool drop_long_ = false, dropped_ = false;
};

void skip_byte_order_mark(Window& window) {
    while (window.peek() == '\xef' || window.peek() == '\xbb' || window.peek() == '\xbf')
        window.skip();
}

// The key before the cursor's value; nullopt at the object's end, or where it breaks off
// (`broken`).
std::optional<std::string> next_key(Window& window, bool& broken) {
    const auto c = window.next();
    if (c == '}') return std::nullopt;
    const auto quoted = c == '"' ? window.value() : std::nullopt;
    broken = !quoted || window.next() != ':';
    if (broken) return std::nullopt;
    std::string key(quoted->json.substr(1, quoted->json.size() - 2));
    window.skip();
    (void)window.next();
    return key;
}

// Whether the object at the cursor has one of the keys, or breaks off behind a key that only hints
// at a trace. Without, the cursor is left behind the object.
bool has_key(Window& window, std::initializer_list<std::string_view> keys,
             std::string_view hint = "") {
    window.skip();
    bool hinted = false, broken = false;
    while (const auto key = next_key(window, broken)) {
        if (contains(keys, *key)) return true;
        hinted = hinted || *key == hint;
        if (!window.pass()) return hinted;
    }
    if (broken) return hinted;
    window.skip();
    return false;
}

class FileReading {
public:
    FileReading(const std::string& path, const std::function<void(const TraceText&)>& event,
                const std::function<void(std::string_view, const TraceText&)>& member)
        : window_(path), event_(event), member_(member) {}

    TraceReading run(const std::string& path) {
        skip_byte_order_mark(window_);
        const auto first = window_.next();
        if (!first || (*first != '{' && *first != '['))
            throw ConfigError(
                path +
                ": is no trace; expected a JSON object with \"traceEvents\" or an array of events");
        try {
            if (*first == '[')
                (void)events();
            else
                object();
        } catch (const ConfigError& error) {
            stop(error.what());
        }
        return result_;
    }

private:
    void stop(const std::string& why) {
        if (!result_.broken.empty()) return;
        const std::string where =
            fmt::format("byte {}, after {} events", window_.position(), result_.events);
        result_.broken = where + ": " + (window_.torn().empty() ? why : window_.torn());
    }
    // Reads the elements between the brackets; false if the trace breaks off.
    bool events() {
        window_.skip();
        for (auto c = window_.next(); c != ']'; c = window_.next()) {
            if (!c) return stop("the trace breaks off"), false;
            const auto text = window_.value();
            if (!text || text->json.empty())
                return stop("the trace breaks off inside an event"), false;
            if (text->json.front() != '{') return stop("found no event; expected an object"), false;
            ++result_.events;
            event_(*text);
        }
        window_.skip();
        return true;
    }
    void object() {
        window_.skip();
        for (auto c = window_.next(); c != '}'; c = window_.next()) {
            if (!c) return stop("the trace breaks off");
            if (*c != '"') return stop(fmt::format("found \"{}\"; expected a key", *c));
            const auto quoted = window_.value();
            if (!quoted) return stop("the trace breaks off inside a key");
            const std::string key(quoted->json.substr(1, quoted->json.size() - 2));
            if (window_.next() != ':') return stop("expected a colon behind \"" + key + "\"");
            window_.skip();
            const auto begin = window_.next();
            if (key == "traceEvents" && begin == '[') {
                if (!events()) return;
                continue;
            }
            const auto text = window_.value_of_any_length();
            if (!text) return stop("the trace breaks off inside \"" + key + "\"");
            if (!text->json.empty()) member_(key, *text);
        }
    }

    Window window_;
    const std::function<void(const TraceText&)>& event_;
    const std::function<void(std::string_view, const TraceText&)>& member_;
    TraceReading result_;
};

}  // namespace

bool is_trace(const std::string& path) {
    Window window(path);
    try {
        skip_byte_order_mark(window);
        const auto first = window.next();
        if (first == '{')
            return has_key(window, {"traceEvents", "deviceProperties", "distributedInfo"},
                           "schemaVersion");
        if (first != '[') return false;
        window.skip();
        while (window.next() == '{')
            if (has_key(window, {"ph"})) return true;
    } catch (const ConfigError&) {  // a key of that length
    }
    return false;
}

TraceReading read_trace_events(
    const std::string& path, const std::function<void(const TraceText&)>& event,
    const std::function<void(std::string_view key, const TraceText&)>& member) {
    return FileReading(path, event, member).run(path);
}

}  // namespace stepcast
