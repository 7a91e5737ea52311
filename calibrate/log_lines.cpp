#include "calibrate/log_lines.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "model/errors.h"

namespace stepcast {
namespace {

// Puts lines together from pieces of the file. Whole lines inside a piece are handed on without a copy.
class LineSplitter {
public:
    explicit LineSplitter(const std::function<bool(const LogLine&)>& take) : take_(take) {}

    bool feed(std::string_view piece) {
        while (!piece.empty()) {
            const std::size_t end = piece.find_first_of("\n\r");
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
    if (std::filesystem::is_directory(path)) throw ConfigError(path + ": is a folder; expected a log file");
    std::ifstream file(path, std::ios::binary);
    if (!file) throw ConfigError(path + ": cannot be opened (" + std::strerror(errno) + ")");
    LineSplitter splitter(take);
    std::vector<char> buffer(1 << 18);
    while (file) {
        file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        if (file.bad()) throw ConfigError(path + ": reading failed (" + std::strerror(errno) + ")");
        if (!splitter.feed({buffer.data(), static_cast<std::size_t>(file.gcount())})) return;
    }
    splitter.finish();
}

void LineCursor::skip_blanks() {
    std::size_t i = 0;
    while (i < rest_.size() && (rest_[i] == ' ' || rest_[i] == '\t')) ++i;
    rest_.remove_prefix(i);
}

bool LineCursor::word(std::string_view literal) {
    skip_blanks();
    if (!rest_.starts_with(literal)) return false;
    rest_.remove_prefix(literal.size());
    return true;
}

bool LineCursor::find(std::string_view literal) {
    const std::size_t at = rest_.find(literal);
    if (at == std::string_view::npos) return false;
    rest_.remove_prefix(at + literal.size());
    return true;
}

std::optional<double> LineCursor::number() {
    skip_blanks();
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
}

std::optional<int> LineCursor::integer() {
    skip_blanks();
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
}

bool LineCursor::at_end() {
    skip_blanks();
    return rest_.empty();
}

}  // namespace stepcast
