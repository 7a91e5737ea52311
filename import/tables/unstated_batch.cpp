#include "import/tables/unstated_batch.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "import/tables/row_parts.h"
#include "import/tables/stated_value.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

using Assumptions = std::vector<std::string>;

// Seconds that a step takes for each sequence, by a rate of tokens or sequences; none if the value
// is a time or of something else.
std::optional<double> seconds_of_sequence(CaseRow row) {
    row.cells["gbs"] = "1";
    const auto one = step_by_value(row);
    row.cells["gbs"] = "2";
    const auto two = step_by_value(row);
    return one && two && *two > 1.5 * *one ? one : std::nullopt;
}

int replicas(const CaseRow& row) {
    const auto of = [&](const char* column) { return count_in(row, column, 1); };
    return count_in(row, "dp", std::max(1, of("gpus") / (of("tp") * of("pp") * of("cp"))));
}

// Sequences of an ordinary step.
int usual_batch(const CaseRow& row) {
    constexpr int tokens_of_replica = 16384, micro_batches_of_stage = 4;
    const int pp = count_in(row, "pp", 1);
    const int of_micro_batch =
        count_in(row, "mbs", std::max(1, tokens_of_replica / *count_in(row, "seq")));
    return replicas(row) * of_micro_batch * (pp > 1 ? micro_batches_of_stage * pp : 1);
}

void take_batch(CaseRow& row, long batch, const char* why, Assumptions& assumptions) {
    row.cells["gbs"] = std::to_string(batch);
    assumptions.push_back(fmt::format("gbs not stated: {} sequences, {}", batch, why));
}

// Whole sequences for each replica, so many that the stated rate makes the stated step.
void take_batch_of_rate(CaseRow& row, double sequences, Assumptions& assumptions) {
    const int each = replicas(row);
    const auto batch = each * std::max(1L, std::lround(sequences / each));
    constexpr double rounding = 0.02;  // as check_value()
    if (std::abs(sequences / real(batch) - 1) <= rounding)
        take_batch(row, batch, "which the stated rate makes of the step", assumptions);
}

void take_step(CaseRow& row, double seconds) {
    row.cells["step_s"] = fmt::format("{:.9g}", seconds);
}

}  // namespace

void complete_batch(CaseRow& row, Assumptions& assumptions) {
    const bool batch = states(row, "gbs"), step = states(row, "step_s");
    if (batch && step) return;
    if (batch) {
        if (const auto seconds = step_by_value(row)) {
            take_step(row, *seconds);
            assumptions.push_back(
                fmt::format("step_s not stated: {:.6g} s by value, unit and batch", *seconds));
        }
        return;
    }
    // 0: unknown
    const double each = states(row, "seq") ? seconds_of_sequence(row).value_or(0) : 0;
    if (step && each > 0) {
        const double seconds = at_place("step_s", [&] { return csv_number(row.cell("step_s")); });
        take_batch_of_rate(row, seconds / each, assumptions);
    } else if (each > 0) {
        take_batch(row, usual_batch(row), "and the step that the stated rate makes of them",
                   assumptions);
        take_step(row, each * *count_in(row, "gbs"));
    } else if (step && states(row, "mbs") && count_in(row, "pp", 1) == 1) {
        take_batch(row, replicas(row) * long{*count_in(row, "mbs")},
                   "one micro-batch of each replica", assumptions);
    }
}

}  // namespace stepcast
