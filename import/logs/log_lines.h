// Reads log files of any line length and any bytes in bounded memory; and a cursor that picks words
// and numbers out of one line.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast {

// A line without its end and without a terminal's codes, cut to `longest_line` bytes. `number`
// counts newlines as editors do; a lone CR ends a line uncounted.
struct LogLine {
    std::string_view text;
    long number = 0;
    bool below = false;  // the cursor went up behind it: a bar that tqdm draws below another
};
inline constexpr std::size_t longest_line = 4096;

// Calls `take` for each line until it returns false. Throws ConfigError when the file cannot be
// read.
void read_lines(const std::string& path, const std::function<bool(const LogLine&)>& take);

// Position where a literal first occurs, or npos; fast on lines that do not have it.
std::size_t position_of(std::string_view literal, std::string_view text);

// Rounded to nanoseconds, so that writing the value gives the log's digits again.
inline double seconds_of_milliseconds(double value) { return std::round(value * 1e6) / 1e9; }

// A piece of a log for a message: printable ASCII, shortened, in quotes.
std::string quoted_piece(std::string_view text);

// Reads a line from left to right. Each method returns whether it found its item, and moves on only
// then. Skips blanks before items.
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
    template <class Number>
    std::optional<Number> parsed();
    std::string_view rest_;
};

}  // namespace stepcast
