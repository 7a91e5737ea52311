#include "model/records/measurements.h"
#include "model/base/joined.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/refuse.h"

namespace stepcast {
namespace {

const std::vector<std::string> sample_columns{"run_id", "system", "model", "experts", "ranks",
                                              "phase",  "rank",   "step",  "value",   "unit"};
constexpr std::size_t most_samples = 20'000'000;
constexpr double longest = 1e7;  // s, about four months

Sample sample_of(const std::vector<std::string>& f) {
    Sample s;
    s.run_id = f[0];
    s.system = f[1];
    s.model = f[2];
    std::size_t column = 3;
    try {
        s.experts = csv_int(f[3], 0);
        s.ranks = csv_int(f[column = 4], 0);
        s.phase = f[5];
        s.rank = csv_int(f[column = 6], -1);
        s.step = csv_int(f[column = 7], -1);
        s.value = csv_number(f[column = 8]);
    } catch (const ConfigError& e) {
        throw ConfigError(sample_columns[column] + ": " + e.what());
    }
    s.unit = f[9];
    check_sample(s);
    return s;
}

}  // namespace

void check_sample(const Sample& s) {
    if (s.unit != "s" && s.unit != "B" && s.unit != "1")
        throw ConfigError("unit: \"" + s.unit + "\" is no unit here; expected s, B or 1");
    if (s.unit == "s" && (s.value < 0 || s.value > longest))
        refuse("value: {} s is no time of a phase; expected 0 to {} s", s.value, longest);
    if (s.run_id.empty() || s.phase.empty())
        throw ConfigError("run_id and phase must not be empty");
}

std::vector<Sample> read_measurements(const std::string& path) {
    CsvReader csv(path);
    if (!csv.next_after_comments() || csv.fields() != sample_columns)
        csv.fail(fmt::format("not a measurements file; expected the header \"{}\"",
                             joined(sample_columns, ",")));
    std::vector<Sample> samples;
    while (csv.next()) {
        csv.expect_fields(sample_columns.size());
        if (samples.size() == most_samples)
            csv.fail("more than 20 million samples; split the file");
        try {
            samples.push_back(sample_of(csv.fields()));
        } catch (const ConfigError& e) {
            csv.fail(e.what());
        }
    }
    return samples;
}

std::string write_measurements(const std::vector<Sample>& samples) {
    auto text = fmt::format("{}\n", joined(sample_columns, ","));
    for (const auto& s : samples)
        text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", csv_field(s.run_id),
                            csv_field(s.system), csv_field(s.model), s.experts, s.ranks,
                            csv_field(s.phase), s.rank, s.step, s.value, csv_field(s.unit));
    return text;
}

int first_steady_step(int steps) {
    // The last floor(0.7 n) of n steps; for the recorded runs of 100 steps this starts at 30.
    return std::min(30, steps - steps * 7 / 10);
}

bool has_name_of_log(const std::string& path) {
    return path.ends_with(".log") || path.ends_with(".out") || path.ends_with(".txt");
}

}  // namespace stepcast
