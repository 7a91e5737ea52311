#include "calibrate/profiles/trace_events.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "calibrate/profiles/byte_stream.h"
#include "model/errors.h"

namespace stepcast {
namespace {

constexpr std::size_t padding = 64;               // bytes that are readable behind a value
constexpr std::size_t chunk = std::size_t{1} << 20;
constexpr std::size_t longest_value = std::size_t{64} << 20;  // of one event, or one member of the top level

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
    // Reads one value and leaves the cursor behind it; nullopt if the value is incomplete.
    std::optional<TraceText> value() {
        keep_from_ = at_;
        const bool whole = scan();
        const TraceText found{{text_.data() + keep_from_, at_ - keep_from_}, text_.size() - keep_from_};
        keep_from_ = none;
        if (!whole) return std::nullopt;
        return found;
    }
    [[nodiscard]] std::size_t position() const { return before_ + at_; }
    [[nodiscard]] const std::string& torn() const { return stream_.torn(); }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    bool fill() {
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
                throw ConfigError(fmt::format("byte {}: one value of more than {} bytes; expected a trace event",
                                              before_, longest_value));
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
            while (at_ < end_ && (class_of(text_[at_]) == other || class_of(text_[at_]) == blank)) ++at_;
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
};

class FileReading {
public:
    FileReading(const std::string& path, const std::function<void(const TraceText&)>& event,
            const std::function<void(std::string_view, const TraceText&)>& member)
        : window_(path), event_(event), member_(member) {}

    TraceReading run(const std::string& path) {
        while (window_.peek() == '\xef' || window_.peek() == '\xbb' || window_.peek() == '\xbf') window_.skip();  // a byte order mark
        const auto first = window_.next();
        if (!first || (*first != '{' && *first != '['))
            throw ConfigError(path + ": is no trace; expected a JSON object with \"traceEvents\" or an array of events");
        try {
            if (*first == '[') (void)events();
            else object();
        } catch (const ConfigError& error) {
            stop(error.what());
        }
        return result_;
    }

private:
    void stop(const std::string& why) {
        if (!result_.broken.empty()) return;
        const std::string where = fmt::format("byte {}, after {} events", window_.position(), result_.events);
        result_.broken = where + ": " + (window_.torn().empty() ? why : window_.torn());
    }
    // Reads the elements between the brackets; false if the trace breaks off.
    bool events() {
        window_.skip();
        for (auto c = window_.next(); c != ']'; c = window_.next()) {
            if (!c) return stop("the trace breaks off"), false;
            const auto text = window_.value();
            if (!text || text->json.empty()) return stop("the trace breaks off inside an event"), false;
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
            const auto text = window_.value();
            if (!text) return stop("the trace breaks off inside \"" + key + "\"");
            member_(key, *text);
        }
    }

    Window window_;
    const std::function<void(const TraceText&)>& event_;
    const std::function<void(std::string_view, const TraceText&)>& member_;
    TraceReading result_;
};

}  // namespace

TraceReading read_trace_events(const std::string& path, const std::function<void(const TraceText&)>& event,
                               const std::function<void(std::string_view key, const TraceText&)>& member) {
    return FileReading(path, event, member).run(path);
}

}  // namespace stepcast
