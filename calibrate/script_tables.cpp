#include "calibrate/script_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "calibrate/fit_parameter.h"
#include "calibrate/table_cases.h"
#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/measurements.h"
#include "model/records/provenance.h"
#include "sim/costs/gemm_law.h"
#include "sim/costs/op_costs.h"

namespace stepcast {
namespace {

using Access = MemoryPass::Access;

// Rows that waited for their own call are alike whatever their size. If three rows of a call, and a
// tenth of them, lie within a quarter of the fastest, then the host's call is that floor, and rows
// of up to twice its height may still have waited.
constexpr double alike = 1.25, floor_margin = 2, floor_share = 0.1, floor_rows = 3;

double floor_of(const std::vector<double>& times) {
    const double fastest = std::ranges::min(times);
    const auto near =
        real(std::ranges::count_if(times, [&](double time) { return time <= alike * fastest; }));
    return (near >= std::max(floor_rows, floor_share * real(times.size())) ? floor_margin : alike) *
           fastest;
}

// A constant of the host, and the rows that measure it: those of a kind, with so many calls.
struct LaunchConstant {
    const char *key, *kind;
    Seconds prior;
    int least = 1, most = 1 << 30;
};

void add_launch(std::vector<ParameterReport>& reports, const BuildingBlocks& blocks,
                const LaunchConstant& c) {
    std::vector<double> times;
    for (const LaunchRow& row : blocks.launches)
        if (row.kind == c.kind && row.calls >= c.least && row.calls <= c.most)
            times.push_back(row.time.si());
    if (times.empty()) return;
    const auto [low, high] = std::minmax_element(times.begin(), times.end());
    const double error = std::log(*high / *low) / 2;
    put(reports,
        {{c.key, to_string(Seconds(median(times))), to_string(c.prior), error, true}, error},
        [](const ParameterReport& r) { return r.parameter.key; });
}

std::string name_of(const KernelRow& row) {
    if (const auto* g = std::get_if<Gemm>(&row.op))
        return fmt::format("{} {} of {}x{}x{} {}", row.call, g->batch, g->m, g->n, g->k,
                           to_string(g->dtype));
    if (const auto* a = std::get_if<Attention>(&row.op))
        return fmt::format("{} {} of {} keys, width {} {}", row.call, a->batch * a->heads, a->seq_k,
                           a->head_dim, to_string(a->dtype));
    const auto& pass = std::get<MemoryPass>(row.op);
    return fmt::format("{} of {}", row.call, to_string(pass.read + pass.written));
}

Seconds alone(const KernelRow& row, const Cluster& c) {
    if (const auto* gemm = std::get_if<Gemm>(&row.op)) return gemm_law_time(*gemm, c);
    return op_time(row.op, Phase::forward, {}, c) +
           (row.between_events ? c.kernel.event : Seconds(0));
}

// A pass of the script: name, kind of row, access to memory, and how many tensors it reads for each
// one that it writes.
struct Call {
    std::string_view name, kind;
    Access access;
    double read;
};
constexpr std::array<Call, 7> table_calls{{{"copy", "memory_pass", Access::stream, 1},
                                           {"add", "memory_pass", Access::stream, 2},
                                           {"gelu", "memory_pass", Access::stream, 1},
                                           {"softmax", "rows", Access::rows, 1},
                                           {"layernorm", "rows", Access::rows, 1},
                                           {"permute", "strided", Access::strided, 1},
                                           {"transpose", "transpose", Access::transpose, 1}}};

// The column `bytes` counts all bytes read and written.
void add_pass(const TableRow& row, BuildingBlocks& blocks) {
    const std::string name = row.text("kind");
    const auto* const call = std::ranges::find(table_calls, name, &Call::name);
    if (call == table_calls.end())
        row.fail("kind",
                 "found \"" + name +
                     "\"; expected copy, add, gelu, softmax, layernorm, permute or transpose");
    const Bytes bytes(row.positive("bytes")), read = bytes * (call->read / (call->read + 1));
    blocks.kernels.push_back({std::string(call->kind), name,
                              MemoryPass{read, bytes - read, call->access}, row.time(Flops(0)),
                              row.hash(), row.text("timer") != "kernel"});
}

// A row of attention states as batch the heads of all sequences, as m and n both lengths, as k the
// width of a head.
void add_batch(const TableRow& row, BuildingBlocks& blocks) {
    const std::string text = row.text("dtype");
    const std::size_t flash = text.find("-flash-causal");
    const bool attends = flash != std::string::npos, backward = text.ends_with("-backward");
    const Dtype dtype = row.read("dtype", [&] { return parse_name<Dtype>(text.substr(0, flash)); });
    const long batch = row.integer("batch"), m = row.integer("m"), n = row.integer("n"),
               k = row.integer("k");
    const Op op = attends ? Op(Attention{batch, 1, m, n, k, true, backward, dtype, true})
                          : Op(Gemm{.m = m, .n = n, .k = k, .batch = batch, .dtype = dtype});
    const char* kind = backward ? "attention_backward" : attends ? "attention" : "batched_gemm";
    blocks.kernels.push_back({kind,
                              backward  ? "attention backward"
                              : attends ? "attention"
                                        : "bmm",
                              op, row.time(Flops(0)), row.hash(), row.text("timer") != "kernel"});
}

void add_launch(const TableRow& row, BuildingBlocks& blocks) {
    blocks.launches.push_back({row.text("kind"), row.integer("calls"),
                               row.positive("time_us_per_call") * parse_seconds("1 us"),
                               row.hash()});
}

}  // namespace

MemoryPass::Access access_of_call(std::string_view name) {
    const auto* const call = std::ranges::find(table_calls, name, &Call::name);
    return call == table_calls.end() ? Access::stream : call->access;
}

void add_script_row(TableKind kind, const TableRow& row, const Gpu& gpu, BuildingBlocks& blocks) {
    if (kind == TableKind::passes) add_pass(row, blocks);
    if (kind == TableKind::batches) add_batch(row, blocks);
    if (kind == TableKind::launches) add_launch(row, blocks);
    if (kind == TableKind::environment && row.text("key") == "gpu" &&
        !names_device(row.text("value"), gpu))
        row.fail("gpu", "measured on \"" + row.text("value") +
                            "\", but the cluster to start from has " + gpu.name +
                            "; expected its device");
}

FitResult launch_fit(const Cluster& start, const BuildingBlocks& blocks) {
    std::vector<ParameterReport> reports;
    add_launch(reports, blocks, {"host.call", "eager host issue", HostCosts{}.call, 10, 1000});
    // from a profile
    add_launch(reports, blocks, {"host.call", "launch call", HostCosts{}.call});
    add_launch(reports, blocks, {"kernel.launch", "graph replay wall", KernelCosts{}.launch, 100});
    add_launch(reports, blocks, {"host.read", "host read", HostCosts{}.read});
    FitResult result;
    result.cluster = start;
    Fitted fitted;
    fitted.samples = as_int(blocks.launches.size());
    for (const LaunchRow& row : blocks.launches) fitted.rows.push_back(row.row);
    fitted.rows = joined(std::move(fitted.rows), {});
    for (const ParameterReport& report : reports) {
        result.cluster = with_text(result.cluster, report.parameter.key, report.parameter.value);
        fitted.parameters.push_back(report.parameter);
    }
    result.cluster.fitted = fitted;
    result.parameters = std::move(reports);
    return result;
}

std::vector<KernelRow> above_floor(std::vector<KernelRow> rows) {
    std::map<std::string, std::vector<double>> times;
    for (const KernelRow& row : rows) times[row.call].push_back(row.time.si());
    std::map<std::string, double> floors;
    for (const auto& [call, of_call] : times) floors[call] = floor_of(of_call);
    std::erase_if(rows, [&](const KernelRow& row) { return row.time.si() <= floors.at(row.call); });
    return rows;
}

std::vector<GemmRow> above_floor(std::vector<GemmRow> rows) {
    std::vector<double> times;
    for (const GemmRow& row : rows)
        if (row.between_events) times.push_back(row.time.si());
    const double floor = times.empty() ? 0 : floor_of(times);
    std::erase_if(rows,
                  [&](const GemmRow& row) { return row.between_events && row.time.si() <= floor; });
    return rows;
}

FitCase kernel_case(const KernelRow& row) {
    return table_case(name_of(row), row.kind, row,
                      [row](const Cluster& c) { return alone(row, c); });
}

std::vector<FitPlan> kernel_fits(const BuildingBlocks& blocks) {
    const bool launch_known = std::ranges::any_of(
        blocks.launches, [](const LaunchRow& row) { return row.kind == "graph replay wall"; });
    const auto cases =
        [rows = above_floor(blocks.kernels)](const std::vector<std::string_view>& kinds) {
            std::vector<FitCase> of_kinds;
            for (const KernelRow& row : rows)
                if (contains(kinds, row.kind)) of_kinds.push_back(kernel_case(row));
            return of_kinds;
        };
    const bool backward = std::ranges::any_of(
        blocks.kernels, [](const KernelRow& row) { return row.kind == "attention_backward"; });
    return {{fit_priors({launch_known ? "script_event" : "script_launch", "script_passes"}),
             cases({"memory_pass", "rows"}), HeldOutShare::fifth},
            {fit_priors({"script_strided"}), cases({"strided"}), HeldOutShare::fifth},
            {fit_priors({"script_transposes"}), cases({"transpose"}), HeldOutShare::fifth},
            {fit_priors({"script_batches"}), cases({"batched_gemm"}), HeldOutShare::fifth},
            {fit_priors({"script_attention", backward ? "script_attention_backward" : ""}),
             cases({"attention", "attention_backward"}), HeldOutShare::fifth}};
}

}  // namespace stepcast
