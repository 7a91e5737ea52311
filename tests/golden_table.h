// Golden tables: what was predicted when each row was last renewed on purpose, each with its reason
// (scripts/renew-golden.sh "REASON").
#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include "model/base/csv.h"
#include "model/input/presets.h"

namespace stepcast {

struct GoldenFile {
    std::string name;  // in tests/sim/golden
    std::vector<std::string> columns;
    std::size_t times = 0;  // columns that are parts of the first, before the others
    double tolerance = 0;   // relative; of parts, of no less than `least` of the whole
    double least = 0;
    int digits = 6;

    using Values = std::vector<double>;
    struct Row {
        Values values;
        // in the file why it was renewed last; of what is now what it is, where its name does not
        // say it
        std::string words;
    };
    using Rows = std::map<std::string, Row>;

    [[nodiscard]] std::string path() const { return home_folder() + "/tests/sim/golden/" + name; }

    [[nodiscard]] Rows read() const {
        Rows rows;
        CsvReader csv(path());
        csv.next();  // header
        while (csv.next()) {
            csv.expect_fields(columns.size() + 2);
            Row& row = rows[csv.fields().front()];
            for (std::size_t i = 0; i < columns.size(); ++i)
                row.values.push_back(csv_number(csv.fields()[i + 1]));
            row.words = csv.fields().back();
        }
        return rows;
    }

    void write(const Rows& rows) const {
        std::ofstream out(path(), std::ios::binary);
        out << fmt::format("name,{},reason\n", fmt::join(columns, ","));
        for (const auto& [key, row] : rows) {
            out << csv_field(key);
            for (const double value : row.values) out << fmt::format(",{:.{}g}", value, digits);
            out << "," << csv_field(row.words) << "\n";
        }
    }

    [[nodiscard]] std::string differences(const std::string& key, const Row& was,
                                          const Row& now) const {
        std::string text;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const double size =
                std::max(std::abs(was.values[i]), i < times ? least * was.values[0] : 0);
            if (std::abs(now.values[i] - was.values[i]) <= tolerance * size) continue;
            text += fmt::format("{}{}: {} {:.{}g} -> {:.{}g} ({:+.2g} %); renewed last: {}\n", key,
                                now.words, columns[i], was.values[i], digits, now.values[i], digits,
                                100 * (now.values[i] / was.values[i] - 1), was.words);
        }
        return text;
    }

    // Holds what is now against the file, or renews it where STEPCAST_RENEW_BECAUSE gives a reason.
    void check(const Rows& now) const {
        const char* reason = std::getenv("STEPCAST_RENEW_BECAUSE");
        const Rows golden = std::filesystem::exists(path()) ? read() : Rows();
        Rows renewed;
        std::string moved;
        for (const auto& [key, row] : now) {
            const auto was = golden.find(key);
            const std::string difference = was == golden.end() ? key + ": not in the table\n"
                                                               : differences(key, was->second, row);
            renewed[key] = difference.empty() ? was->second : Row{row.values, reason ? reason : ""};
            moved += difference;
        }
        for (const auto& [key, row] : golden)
            if (!now.contains(key)) moved += key + ": nothing of this name is left\n";
        if (reason) {
            if (!moved.empty()) write(renewed);
            WARN("renewed:\n" << (moved.empty() ? "nothing\n" : moved));
            return;
        }
        INFO("on purpose? then: scripts/renew-golden.sh \"REASON\", and commit tests/sim/golden/" +
             name);
        CAPTURE(moved);
        CHECK(moved.empty());
    }
};

}  // namespace stepcast
