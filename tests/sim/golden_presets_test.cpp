// The golden gate: what every shipped experiment is predicted to take, in a checked-in table. A change of the model that
// moves a prediction must say so: scripts/renew-golden.sh "REASON" writes the moved rows anew, each with its reason.
#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "model/files/csv.h"
#include "model/presets.h"
#include "sim/predict.h"

using namespace stepcast;

namespace {

constexpr std::array columns{"step_s",    "forward_s",  "backward_s", "gradient_sync_s", "optimizer_s",
                             "compute_s", "memory_s",   "exposed_s",  "bubble_s",        "imbalance_s",
                             "host_s",    "peak_bytes", "tasks"};
constexpr std::size_t times = 11;  // the columns before the bytes

struct GoldenRow {
    std::array<double, columns.size()> values{};
    std::string reason;  // of the last renewal
};
using GoldenTable = std::map<std::string, GoldenRow>;

std::string golden_path() { return home_folder() + "/tests/sim/golden/presets.csv"; }

GoldenTable read_golden() {
    GoldenTable table;
    CsvReader csv(golden_path());
    csv.next();  // header
    while (csv.next()) {
        csv.expect_fields(columns.size() + 2);
        GoldenRow& row = table[csv.fields().front()];
        for (std::size_t i = 0; i < columns.size(); ++i) row.values[i] = csv_number(csv.fields()[i + 1]);
        row.reason = csv.fields().back();
    }
    return table;
}

std::array<double, columns.size()> predicted_values(const std::string& preset) {
    const Forecast f = predict(read_experiment(preset));
    const Breakdown& b = f.breakdown;
    return {f.step.p50.si(),
            f.phases.forward.si(),
            f.phases.backward.si(),
            f.phases.gradient_sync.si(),
            f.phases.optimizer.si(),
            b.compute.si(),
            b.memory.si(),
            b.exposed_communication.si(),
            b.bubble.si(),
            b.imbalance.si(),
            b.host.si(),
            f.memory.peak.si(),
            static_cast<double>(f.tasks)};
}

// By more than 0.5 %; a time that is a small part of the step by more than 0.5 % of a fiftieth of the step.
bool moved(const GoldenRow& golden, const std::array<double, columns.size()>& now, std::size_t column) {
    const double least = column < times ? golden.values[0] / 50 : 0;
    return !(std::abs(now[column] - golden.values[column]) <= 0.005 * std::max(std::abs(golden.values[column]), least));
}

std::string differences(const std::string& preset, const GoldenRow* golden,
                        const std::array<double, columns.size()>& now) {
    if (!golden) return preset + ": not in the table\n";
    std::string text;
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (moved(*golden, now, i))
            text += fmt::format("{}: {} {:.6g} -> {:.6g} ({:+.2f} %); renewed last: {}\n", preset, columns[i],
                                golden->values[i], now[i], 100 * (now[i] / golden->values[i] - 1), golden->reason);
    return text;
}

void write_golden(const GoldenTable& table) {
    std::ofstream out(golden_path(), std::ios::binary);
    out << fmt::format("preset,{},reason\n", fmt::join(columns, ","));
    for (const auto& [preset, row] : table)
        out << fmt::format("{},{:.6g},{}\n", preset, fmt::join(row.values, ","), csv_field(row.reason));
}

}  // namespace

TEST_CASE("predictions of the presets are those of the golden table") {
    const char* reason = std::getenv("STEPCAST_RENEW_BECAUSE");
    const GoldenTable golden = read_golden();
    GoldenTable renewed;
    std::string moved_rows;
    for (const std::string& preset : preset_names(PresetKind::experiment)) {
        const auto now = predicted_values(preset);
        const auto found = golden.find(preset);
        const std::string difference = differences(preset, found == golden.end() ? nullptr : &found->second, now);
        renewed[preset] = difference.empty() ? found->second : GoldenRow{now, reason ? reason : ""};
        moved_rows += difference;
    }
    for (const auto& [preset, row] : golden)
        if (!renewed.contains(preset)) moved_rows += preset + ": no preset of this name is left\n";
    if (reason) {
        if (!moved_rows.empty()) write_golden(renewed);
        WARN("renewed:\n" << (moved_rows.empty() ? "nothing\n" : moved_rows));
        return;
    }
    INFO("on purpose? then: scripts/renew-golden.sh \"REASON\", and commit tests/sim/golden/presets.csv");
    CAPTURE(moved_rows);
    CHECK(moved_rows.empty());
}
