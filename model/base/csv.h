// Reads and writes comma-separated values with quoted fields, either line ending, and positions for
// errors. It works row by row, so the longest row bounds the memory.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class CsvReader {
public:
    explicit CsvReader(const std::string& path);  // throws ConfigError when it cannot be read
    // goes to the next row that is not empty; false at the end
    bool next();
    // the same, past rows that begin with '#'; shipped tables begin with their provenance
    bool next_after_comments();
    [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] int line() const { return row_line_; }    // where the row begins
    [[noreturn]] void fail(const std::string& what) const;  // ConfigError "file:line: what"
    // Throws unless the row has `count` fields; a truncated row has fewer.
    void expect_fields(std::size_t count) const;

private:
    void read_field(int& c);
    void read_quoted(std::string& field, int& c);
    int get();

    std::string path_;
    std::ifstream in_;
    std::vector<std::string> fields_;
    int line_ = 1, row_line_ = 0;
    std::size_t row_size_ = 0;
};

// Throw ConfigError "\"1x\" is no integer" without a position. `least` is inclusive.
int csv_int(std::string_view text, int least);
double csv_number(std::string_view text);  // finite

std::string csv_field(std::string_view text);  // quoted if necessary
// The same for a text that others gave, in a table that people open in a spreadsheet: what would
// begin a formula there (= + - @, a tab) gets a ' before it, which spreadsheets do not show.
std::string spreadsheet_field(std::string_view text);

}  // namespace stepcast
