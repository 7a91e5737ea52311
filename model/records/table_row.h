// One row of a table, with cells by column name; comments are skipped.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/units.h"
#include "model/records/provenance.h"

namespace stepcast {

inline bool has_columns(const std::vector<std::string>& header,
                        std::initializer_list<const char*> columns) {
    return std::all_of(columns.begin(), columns.end(),
                       [&](const char* column) { return contains(header, column); });
}

// Moves the reader to the header, the first row that is not a comment.
inline void find_header(CsvReader& reader) {
    if (!reader.next_after_comments())
        reader.fail("found no header; expected a table of measurements");
}

class TableRow {
public:
    explicit TableRow(CsvReader& reader) : reader_(reader) {
        for (std::size_t i = 0; i < reader.fields().size(); ++i) column_[reader.fields()[i]] = i;
    }
    bool next() {
        const bool more = reader_.next_after_comments();
        if (more) reader_.expect_fields(column_.size());
        return more;
    }
    [[nodiscard]] bool has(const std::string& name) const { return column_.contains(name); }
    // Empty if the file lacks the column.
    [[nodiscard]] std::string text(const std::string& name) const {
        const auto at = value_in(column_, name);
        return !at ? "" : reader_.fields()[*at];
    }
    template <typename Parse>
    auto read(const std::string& name, Parse parse) const {
        try {
            return parse();
        } catch (const ConfigError& error) {
            fail(name, error.what());
        }
    }
    [[nodiscard]] int integer(const std::string& name, int missing = 0) const {
        const std::string cell = text(name);
        if (cell.empty() && missing > 0) return missing;
        return read(name, [&] { return csv_int(cell, 1); });
    }
    [[nodiscard]] double positive(const std::string& name) const {
        const double value = read(name, [&] { return csv_number(text(name)); });
        if (!(value > 0))
            fail(name, "\"" + text(name) + "\" is not above 0; expected a measured value");
        return value;
    }
    [[noreturn]] void fail(const std::string& name, const std::string& what) const {
        reader_.fail(name + ": " + what);
    }
    [[nodiscard]] RowHash hash() const {
        return row_hash([this](std::string_view column) { return text(std::string(column)); });
    }

    [[nodiscard]] std::string where() const {
        return reader_.path() + ":" + std::to_string(reader_.line());
    }

    // `work` converts a rate into a time.
    [[nodiscard]] Seconds time(Flops work) const {
        const std::string unit = text("unit");
        if (has("time_us")) return positive("time_us") * parse_seconds("1 us");
        if (unit == "us" || unit == "ms" || unit == "s")
            return positive("value") * parse_seconds("1 " + unit);
        if (unit == "TFLOP/s" && work > Flops(0))
            return work / (positive("value") * parse_flop_rate("1 TFLOP/s"));
        fail("unit", "found \"" + unit + "\"; expected us, ms, s or, for GEMMs, TFLOP/s");
    }

private:
    CsvReader& reader_;
    std::map<std::string, std::size_t> column_;
};

}  // namespace stepcast
