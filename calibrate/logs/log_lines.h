// Lines of a log as it lies on disk: any length, any bytes, bounded memory; and a cursor that picks words and numbers
// out of one line.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast {

// A line without its end, cut to `longest_line` bytes. `number` counts newlines, as an editor does; a lone carriage
// return (progress bars) ends a line without counting one.
struct LogLine {
    std::string_view text;
    long number = 0;
};
inline constexpr std::size_t longest_line = 4096;

// Calls `take` for each line until it returns false. Throws ConfigError when the file cannot be read.
void read_lines(const std::string& path, const std::function<bool(const LogLine&)>& take);

// Where a literal first occurs, or npos; fast on lines that do not hold it.
std::size_t position_of(std::string_view literal, std::string_view text);

// To the nanosecond, so that a decimal text stays the one it was.
inline double seconds_of_milliseconds(double value) { return std::round(value * 1e6) / 1e9; }

// A piece of a log fit for a message: printable ASCII, short, in quotes.
std::string quoted_piece(std::string_view text);

// Reads a line from left to right; each step says whether it was there and moves on only then. Blanks before a word
// or a number are passed over.
class LineCursor {
public:
    explicit LineCursor(std::string_view text) : rest_(text) {}
    bool word(std::string_view literal);
    bool find(std::string_view literal);     // moves past the first occurrence
    std::optional<double> number();          // finite
    std::optional<double> grouped_number();  // also "1,650"
    std::optional<int> integer();
    bool at_end();
    [[nodiscard]] std::string_view rest() const { return rest_; }

private:
    void skip_blanks();
    std::string_view rest_;
};

}  // namespace stepcast
