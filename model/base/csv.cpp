#include "model/base/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/base/whole_files.h"

namespace stepcast {
namespace {

// no real table comes near; a binary file may exceed it
constexpr std::size_t longest_row = 1 << 20;

}  // namespace

CsvReader::CsvReader(const std::string& path) : path_(path) {
    require_readable(path, "a CSV file");
    in_.open(path, std::ios::binary);
}

void CsvReader::fail(const std::string& what) const {
    throw ConfigError(path_ + ":" + std::to_string(row_line_) + ": " + what);
}

void CsvReader::expect_fields(std::size_t count) const {
    if (fields_.size() != count)
        fail("found " + std::to_string(fields_.size()) + " fields; expected " +
             std::to_string(count) + " as in the header");
}

int CsvReader::get() {
    const int c = in_.get();
    if (c == '\n') ++line_;
    if (c == 0) fail("found a zero byte; expected text");
    if (++row_size_ > longest_row) fail("row is longer than 1 MiB; expected a CSV file");
    return c;
}

void CsvReader::read_quoted(std::string& field, int& c) {
    for (c = get();; c = get()) {
        if (c == EOF) fail("quoted field does not end; expected a closing \"");
        if (c != '"') {
            field += static_cast<char>(c);
            continue;
        }
        c = get();
        if (c != '"') return;
        field += '"';
    }
}

void CsvReader::read_field(int& c) {
    std::string field;
    if (c == '"') {
        read_quoted(field, c);
        if (c == '\r') c = get();
        if (c != ',' && c != '\n' && c != EOF)
            fail("found text after a closing \"; expected a comma or the end of the line");
    } else {
        for (; c != ',' && c != '\n' && c != EOF; c = get()) field += static_cast<char>(c);
        if (c != ',' && !field.empty() && field.back() == '\r') field.pop_back();
    }
    fields_.push_back(std::move(field));
}

bool CsvReader::next() {
    do {
        fields_.clear();
        row_line_ = line_;
        row_size_ = 0;
        int c = get();
        if (c == EOF) return false;
        if (row_line_ == 1 && c == 0xef && in_.peek() == 0xbb) {  // byte order mark
            get();
            get();
            c = get();
        }
        read_field(c);
        while (c == ',') {
            c = get();
            read_field(c);
        }
    } while (fields_.size() == 1 && fields_[0].empty());
    if (row_line_ == 1 && fields_.size() == 1 && fields_[0][0] != '#' &&
        std::ranges::count(fields_[0], ';') > 1)
        fail(
            "found semicolons between fields; expected commas (export the table as comma-separated "
            "values)");
    return true;
}

bool CsvReader::next_after_comments() {
    while (next())
        if (!fields_.front().starts_with('#')) return true;
    return false;
}

int csv_int(std::string_view text, int least) {
    const auto value = as_number<int>(text);
    if (const auto large = as_number<double>(text);
        !value && large && *large > std::numeric_limits<int>::max())
        throw ConfigError("\"" + std::string(text) +
                          "\" is out of range; expected a smaller integer");
    if (!value || *value < least)
        throw ConfigError("\"" + std::string(text) + "\" is no integer of at least " +
                          std::to_string(least));
    return *value;
}

double csv_number(std::string_view text) {
    const auto value = as_number<double>(text);
    if (!value || !std::isfinite(*value))
        throw ConfigError("\"" + std::string(text) + "\" is no finite number");
    return *value;
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted + "\"";
}

std::string spreadsheet_field(std::string_view text) {
    const bool formula =
        !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
    return csv_field(formula ? "'" + std::string(text) : std::string(text));
}

}  // namespace stepcast
