// Reads and writes comma-separated values: quoted fields, either line ending, positions for errors. Row by row, so
// memory stays bounded by the longest row.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class CsvReader {
public:
    explicit CsvReader(const std::string& path);  // throws ConfigError when it cannot be read
    bool next();                                  // the next row that is not empty; false at the end
    [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] int line() const { return row_line_; }    // where the row begins
    [[noreturn]] void fail(const std::string& what) const;  // ConfigError "file:line: what"
    // Throws unless the row has `count` fields, as a truncated one has not.
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

// Throw ConfigError "\"1x\" is no integer" without position; `least` is inclusive.
int csv_int(std::string_view text, int least);
double csv_number(std::string_view text);  // finite

std::string csv_field(std::string_view text);  // quoted where it must be

}  // namespace stepcast
