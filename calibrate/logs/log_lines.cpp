#include "calibrate/logs/log_lines.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <vector>

#include "model/errors.h"
#include "model/files/whole_files.h"

namespace stepcast {
namespace {

// Assembles lines from pieces of the file. Whole lines inside a piece are passed on without a copy.
class LineSplitter {
public:
    explicit LineSplitter(const std::function<bool(const LogLine&)>& take) : take_(take) {}

    bool feed(std::string_view piece) {
        while (!piece.empty()) {
            const std::size_t end = line_end(piece);
            if (end == std::string_view::npos) {
                keep(piece);
                return true;
            }
            if (!end_line(piece.substr(0, end), piece[end])) return false;
            piece.remove_prefix(end + 1);
        }
        return true;
    }
    void finish() {
        if (!kept_.empty()) take_({kept_, number_});
    }

private:
    // Position of the first newline or carriage return. Two passes of memchr are several times faster than one loop that looks for both.
    static std::size_t line_end(std::string_view piece) {
        const auto* newline = static_cast<const char*>(std::memchr(piece.data(), '\n', piece.size()));
        const std::size_t length = newline ? static_cast<std::size_t>(newline - piece.data()) : piece.size();
        const auto* back = static_cast<const char*>(std::memchr(piece.data(), '\r', length));
        if (back) return static_cast<std::size_t>(back - piece.data());
        return newline ? length : std::string_view::npos;
    }
    void keep(std::string_view piece) {
        kept_.append(piece.substr(0, longest_line - std::min(longest_line, kept_.size())));
    }
    bool end_line(std::string_view piece, char terminator) {
        bool wants_more = true;
        const bool second_half = terminator == '\n' && after_return_ && kept_.empty() && piece.empty();
        if (!second_half) {
            if (kept_.empty()) {
                wants_more = take_({piece.substr(0, longest_line), number_});
            } else {
                keep(piece);
                wants_more = take_({kept_, number_});
                kept_.clear();
            }
        }
        if (terminator == '\n') ++number_;
        after_return_ = terminator == '\r';
        return wants_more;
    }

    const std::function<bool(const LogLine&)>& take_;
    std::string kept_;
    long number_ = 1;
    bool after_return_ = false;
};

}  // namespace

void read_lines(const std::string& path, const std::function<bool(const LogLine&)>& take) {
    require_readable(path, "a log file");
    std::ifstream file(path, std::ios::binary);
    LineSplitter splitter(take);
    std::vector<char> buffer(1 << 18);
    while (file) {
        file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        if (file.bad()) throw ConfigError(path + ": reading failed (" + std::strerror(errno) + ")");
        if (!splitter.feed({buffer.data(), static_cast<std::size_t>(file.gcount())})) return;
    }
    splitter.finish();
}

std::size_t position_of(std::string_view literal, std::string_view text) {
    const void* at = memmem(text.data(), text.size(), literal.data(), literal.size());
    return at ? static_cast<std::size_t>(static_cast<const char*>(at) - text.data()) : std::string_view::npos;
}

std::string quoted_piece(std::string_view text) {
    std::string clean = "\"";
    for (const char c : text.substr(0, 60)) clean += c >= 32 && c < 127 ? c : '?';
    return clean + (text.size() > 60 ? "..\"" : "\"");
}

void LineCursor::skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
}

bool LineCursor::word(std::string_view literal) {
    skip_blanks();
    if (!rest_.starts_with(literal)) return false;
    rest_.remove_prefix(literal.size());
    return true;
}

bool LineCursor::find(std::string_view literal) {
    const std::size_t at = position_of(literal, rest_);
    if (at == std::string_view::npos) return false;
    rest_.remove_prefix(at + literal.size());
    return true;
}

template <class Number>
std::optional<Number> LineCursor::parsed() {
    skip_blanks();
    Number value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || !std::isfinite(static_cast<double>(value))) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
}
std::optional<double> LineCursor::number() { return parsed<double>(); }
std::optional<int> LineCursor::integer() { return parsed<int>(); }

std::optional<double> LineCursor::grouped_number() {
    skip_blanks();
    const auto is_digit = [&](std::size_t i) { return i < rest_.size() && rest_[i] >= '0' && rest_[i] <= '9'; };
    std::size_t end = 0;
    while (is_digit(end)) ++end;
    if (end == 0 || end > 3 || end >= rest_.size() || rest_[end] != ',') return number();
    std::string digits(rest_.substr(0, end));
    while (end < rest_.size() && rest_[end] == ',' && is_digit(end + 1) && is_digit(end + 2) && is_digit(end + 3) &&
           !is_digit(end + 4)) {
        digits += rest_.substr(end + 1, 3);
        end += 4;
    }
    if (end < rest_.size() && rest_[end] == '.')
        for (digits += rest_[end++]; is_digit(end); ++end) digits += rest_[end];
    rest_.remove_prefix(end);
    return LineCursor(digits).number();
}

bool LineCursor::at_end() {
    skip_blanks();
    return rest_.empty();
}

}  // namespace stepcast
