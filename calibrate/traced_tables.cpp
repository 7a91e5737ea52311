#include "calibrate/traced_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "calibrate/atlas_tables.h"
#include "calibrate/fit_parameter.h"
#include "calibrate/script_tables.h"
#include "calibrate/table_cases.h"
#include "import/profiles/table_words.h"
#include "import/tables/case_of.h"
#include "measured/medians.h"
#include "model/base/lines.h"
#include "model/records/measurements.h"
#include "sim/costs/costs.h"
#include "sim/costs/op_costs.h"
#include "sim/network/ring_path.h"

namespace stepcast {
namespace {

KernelRow traced(const TableRow& row, const char* kind, Op op, Seconds time) {
    const double calls = row.text("calls").empty() ? 1 : row.positive("calls");
    return {.kind = kind,
            .call = "",
            .op = std::move(op),
            .time = time,
            .row = row.hash(),
            .calls = calls};
}

Gemm gemm_of(const TableRow& row) {
    Gemm gemm{.m = row.integer("m"),
              .n = row.integer("n"),
              .k = row.integer("k"),
              .batch = row.has("batch") ? row.integer("batch") : 1,
              .dtype = row.read("dtype", [&] { return parse_name<Dtype>(row.text("dtype")); })};
    const std::string layout = row.text("layout");
    gemm.layout = layout == "NN"   ? Gemm::Layout::nn
                  : layout == "TN" ? Gemm::Layout::tn
                                   : Gemm::Layout::nt;
    return gemm;
}

void add_collective(const TableRow& row, BuildingBlocks& blocks) {
    const std::string op = row.text("op");
    const int ranks = row.integer("ranks"), nodes = row.integer("nodes", 1);
    if (row.text("bound") == "upper") return void(++blocks.upper_bound_rows);
    const Bytes bytes(row.positive("bytes"));
    const std::optional<Op> collective =
        op == "reduce" ? std::nullopt : collective_op(op, bytes, ranks);
    if (!collective) return void(++blocks.other_op_rows);
    blocks.traced.push_back(
        traced(row, nodes > 1 ? "inter" : "intra", *collective, row.time(Flops(0))));
    blocks.traced.back().ranks = ranks;
}

// A traced kernel as a case. Kernels with a large share of the time get a small spread, so that
// they count most.
FitCase case_of(const KernelRow& row, double heaviest, const Cluster& start) {
    const std::string kind =
        (row.kind == "rows" ? "row pass" : std::string(kind_name(row.op))) + " in steps";
    std::function<Seconds(const Cluster&)> predict = [op = row.op](const Cluster& c) {
        return op_time(op, Phase::forward, {}, c);
    };
    if (row.ranks > 0)
        predict = [op = row.op, path = ring_path(Group{row.ranks}, start)](const Cluster& c) {
            return time_in_step(op, path, c);
        };
    // The name holds the row's hash, so that the choice of held-out rows does not depend on where
    // the file lies.
    FitCase found = table_case(fmt::format("{} {}", kind, row.row), kind, row, std::move(predict));
    found.spread = std::clamp(std::sqrt(heaviest / (row.time.si() * row.calls)), 1.0, 5.0);
    return found;
}

struct Class {
    const char *kind, *key, *lower, *upper;
    double sigma;
};
// The ranges are those of fits of whole steps (step_constants.cpp).
constexpr std::array<Class, 7> classes{
    {{"gemm", "kernel.training_gemm", "0.3", "1.5", 0.3},
     {"narrow", "kernel.training_fp8", "0.3", "1.5", 0.3},
     {"pass", "kernel.memory_efficiency", "0.1", "1", 0.3},
     {"rows", "kernel.row_efficiency", "0.1", "1", 0.3},
     {"attention", "kernel.attention_efficiency", "0.05", "0.95", 0.3},
     {"intra", "link.intra.training", "0.1", "2", 0.5},
     {"inter", "link.inter.training", "0.02", "2", 0.5}}};

}  // namespace

bool is_traced(TableKind kind, const TableRow& row) {
    if (kind == TableKind::collectives) return row.has("ranks_seen") && row.has("bound");
    const bool kernels = kind == TableKind::gemms || kind == TableKind::batches ||
                         kind == TableKind::passes || kind == TableKind::attentions;
    return kernels && row.has("calls") && row.has("rank");
}

void add_traced_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks) {
    if (kind == TableKind::collectives) return add_collective(row, blocks);
    if (kind == TableKind::passes) {
        const MemoryPass pass{Bytes(row.positive("bytes")), Bytes(0),
                              access_of_call(row.text("kind"))};
        return blocks.traced.push_back(
            traced(row, pass.access == MemoryPass::Access::rows ? "rows" : "pass", pass,
                   row.time(Flops(0))));
    }
    if (kind == TableKind::attentions) {
        AttentionRow found = attention_row(row);
        if (!has_rate(gpu, found.shape.op.dtype)) return void(++blocks.other_op_rows);
        found.shape.op.backward = row.text("pass") == "backward";
        return blocks.traced.push_back(traced(row, "attention", found.shape.op, found.time));
    }
    const Gemm gemm = gemm_of(row);
    if (!has_rate(gpu, gemm.dtype)) return void(++blocks.other_op_rows);
    blocks.traced.push_back(
        traced(row, is_narrow(gemm.dtype) ? "narrow" : "gemm", gemm, row.time(flops_of(gemm))));
}

std::vector<FitPlan> traced_fits(const Cluster& start, const BuildingBlocks& blocks) {
    std::vector<FitPlan> plans;
    for (const Class& one : classes) {
        double heaviest = 0;
        for (const KernelRow& row : blocks.traced)
            if (row.kind == one.kind) heaviest = std::max(heaviest, row.time.si() * row.calls);
        if (heaviest == 0) continue;
        FitPlan plan{
            .parameters = {{one.key, text_at(start, one.key), one.sigma, one.lower, one.upper}}};
        for (const KernelRow& row : blocks.traced)
            if (row.kind == one.kind && (row.ranks == 0 || row.ranks <= rank_count(start)))
                plan.cases.push_back(case_of(row, heaviest, start));
        if (plan.cases.size() >= 10) plan.share = HeldOutShare::fifth;
        if (!plan.cases.empty()) plans.push_back(std::move(plan));
    }
    return plans;
}

std::vector<std::string> take_framework(Framework& framework,
                                        const std::vector<LaunchRow>& launches) {
    std::vector<std::string> said;
    const auto median_of = [&](std::string_view kind) -> std::optional<Seconds> {
        std::vector<double> times;
        for (const LaunchRow& row : launches)
            if (row.kind.starts_with(kind)) times.push_back(row.time.si());
        return times.empty() ? std::nullopt : std::optional(Seconds(median(times)));
    };
    if (const auto call = median_of(launch_kind)) {
        set_rule(framework, "cluster.host.call", exact_text(*call));
        add_line(said,
                 "host.call = {}: a launch; recording of shapes and stacks makes it 1.2 to "
                 "3 times as long",
                 to_string(*call));
    }
    if (const auto layer = median_of(layer_kind)) {
        set_rule(framework, "cluster.host.layer", exact_text(*layer));
        add_line(said, "host.layer = {}: a pass of a layer on top of its launches",
                 to_string(*layer));
    }
    double single = 0, compiled = 0;
    for (const LaunchRow& row : launches) {
        if (row.kind == single_passes) single += row.time.si() * row.calls;
        if (row.kind == compiled_passes) compiled += row.time.si() * row.calls;
    }
    if (single + compiled > 0) {
        const bool eager = single > compiled;
        set_rule(framework, "runtime.kernels",
                 std::string(to_string(eager ? KernelStyle::eager : KernelStyle::fused)));
        add_line(said, "eager = {}: passes of single operators take {}, of compiled graphs {}",
                 eager, to_string(Seconds(single)), to_string(Seconds(compiled)));
    }
    return said;
}

}  // namespace stepcast
