#include "import/logs/log_lines.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include "model/base/characters.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/terminal_codes.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

// Position of the first newline or carriage return. Two passes of memchr are several times faster
// than one loop that looks for both.
std::size_t line_end(std::string_view text) {
    const auto* newline = static_cast<const char*>(std::memchr(text.data(), '\n', text.size()));
    const std::size_t length = newline ? as_index(newline - text.data()) : text.size();
    const auto* back = static_cast<const char*>(std::memchr(text.data(), '\r', length));
    if (back) return as_index(back - text.data());
    return newline ? length : std::string_view::npos;
}

LogLine plain_line(std::span<char> text, long number) {
    const bool coded = std::memchr(text.data(), '\x1b', text.size()) != nullptr,
               below = coded &&
                       position_of("\x1b[A", {text.data(), text.size()}) != std::string_view::npos;
    const std::size_t length = coded ? drop_terminal_codes(text) : text.size();
    return {{text.data(), std::min(length, longest_line)}, number, below};
}

}  // namespace

void read_lines(const std::string& path, const std::function<bool(const LogLine&)>& take) {
    require_readable(path, "a log file");
    std::ifstream file(path, std::ios::binary);
    constexpr std::size_t piece = 1 << 18;
    std::vector<char> buffer(longest_line + piece);
    std::size_t kept = 0;  // bytes of a line whose end is in a later piece
    long number = 1;
    bool after_return = false;
    while (file) {
        file.read(buffer.data() + kept, piece);
        if (file.bad()) throw ConfigError(path + ": reading failed (" + std::strerror(errno) + ")");
        std::string_view text(buffer.data(), kept + as_index(file.gcount()));
        for (std::size_t end = line_end(text); end != std::string_view::npos;
             end = line_end(text)) {
            const bool newline = text[end] == '\n',
                       second_half = newline && after_return && end == 0;
            const std::size_t begin = as_index(text.data() - buffer.data());
            if (!second_half && !take(plain_line(std::span(buffer).subspan(begin, end), number)))
                return;
            if (newline) ++number;
            after_return = !newline;
            text.remove_prefix(end + 1);
        }
        kept = std::min(text.size(), longest_line);
        std::memmove(buffer.data(), text.data(), kept);
    }
    if (kept > 0) take(plain_line(std::span(buffer).first(kept), number));
}

std::size_t position_of(std::string_view literal, std::string_view text) {
    const void* at = memmem(text.data(), text.size(), literal.data(), literal.size());
    return at ? as_index(static_cast<const char*>(at) - text.data()) : std::string_view::npos;
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
    rest_.remove_prefix(as_index(end - rest_.data()));
    return value;
}
std::optional<double> LineCursor::number() { return parsed<double>(); }
std::optional<int> LineCursor::integer() { return parsed<int>(); }

std::optional<double> LineCursor::grouped_number() {
    skip_blanks();
    const auto digits_from = [&](std::size_t begin) {
        std::size_t end = begin;
        while (end < rest_.size() && is_digit(rest_[end])) ++end;
        return end - begin;
    };
    std::size_t end = digits_from(0);
    if (end == 0 || end > 3 || end >= rest_.size() || rest_[end] != ',') return number();
    std::string digits(rest_.substr(0, end));
    while (end < rest_.size() && rest_[end] == ',' && digits_from(end + 1) == 3) {
        digits += rest_.substr(end + 1, 3);
        end += 4;
    }
    if (end < rest_.size() && rest_[end] == '.') {
        const std::size_t fraction = 1 + digits_from(end + 1);
        digits += rest_.substr(end, fraction);
        end += fraction;
    }
    rest_.remove_prefix(end);
    return LineCursor(digits).number();
}

bool LineCursor::at_end() {
    skip_blanks();
    return rest_.empty();
}

}  // namespace stepcast
