// Fits the constants of one device's laws to published tables of kernels and collectives: cases,
// free parameters, the tenth held out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "calibrate/known_fit.h"
#include "calibrate/sisters.h"

namespace stepcast {

// Free parameters with priors and bounds, the same for every device. Links are those inside a node;
// NVLS only where the switch has it.
std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks);
std::vector<FitParameter> collective_parameters(const Cluster& cluster);

// The case of one row. All rows are in one group, so that the fit leaves out no group; the held-out
// tenth judges it instead.
template <typename Row>
FitCase table_case(std::string name, std::string kind, const Row& row,
                   std::function<Seconds(const Cluster&)> predict) {
    return {std::move(name), std::move(kind), "tables", row.time, std::move(predict), 1, row.row};
}

// A row as a case. Its kind is "gemm", "sustained_gemm", "gemm_fp8" and so on, or the name of the
// collective; `name` holds the shape.
FitCase gemm_case(const GemmRow& row);
// `cluster` must have the row's ranks
FitCase collective_case(const CollectiveRow& row, const Cluster& cluster);

// Every tenth (fifth) shape, by a hash of the case's name: all rows of a shape go together, and the
// order of rows does not matter.
enum class HeldOutShare : std::uint8_t { none = 0, fifth = 5, tenth = 10 };
bool is_held_out(const FitCase& c, HeldOutShare share = HeldOutShare::tenth);
inline constexpr int tenths = 10;
int tenth_of(const FitCase& c);  // 0: the tenth that fits hold out

// One of several fits in sequence: the parameters that it may move and the cases, of one or few
// kinds, that tell them. A part without parameters only reports errors. `beside`: cases of sisters
// (FitCase::machine). `own`: keys that each machine has for itself. `outliers`: many where a
// library chooses among kernels.
struct FitPart {
    std::vector<FitParameter> parameters;
    std::vector<FitCase> cases, beside = {};
    std::vector<std::string> own = {};
    Outliers outliers = Outliers::few;
    HeldOutShare share = HeldOutShare::fifth;  // for tables with few rows
};

struct TablesHow {
    HeldOutShare share = HeldOutShare::tenth;
    // small memory passes told the launch time in an earlier part, better than GEMMs do
    bool keep_launch = false;
    // of GEMMs: `start` was fitted to other measurements of the same device
    bool priors_from_start = false;
    std::vector<FitPart> before = {}, after = {};  // parts for the cases that no table holds
    std::vector<Sister> sisters = {};
};

// The subset of gemm_parameters() that these tables can tell for this cluster.
std::vector<FitParameter> gemm_parameters_for(const Cluster& start, const BuildingBlocks& blocks,
                                              const TablesHow& how);
// NCCL uses the switch's adders (NVLS) only above a number of ranks. Without all-reduces of more
// ranks their parameters stay as they are.
std::vector<FitParameter> collective_parameters_for(const Cluster& start,
                                                    const BuildingBlocks& blocks);
bool inside_one_node(const CollectiveRow& row, const Cluster& cluster);
// Removes and counts the collectives that are not inside one node, so that no record of the fit
// claims that it was fitted to them.
void leave_out_between_nodes(BuildingBlocks& blocks, const Cluster& cluster);

struct TablesFit {
    Cluster cluster;                 // with `fitted`, except date and sources
    std::vector<FitResult> results;  // of GEMMs, collectives, MoE layers, where there are rows
    // kinds that the start was fitted to and that have too few new rows
    std::vector<KeptKind> kept = {};
    friend bool operator==(const TablesFit&, const TablesFit&) = default;
};

// Fits to the rows that are not held out. Reports the errors on the held-out rows (method "held-out
// tenth") and on the others ("fitted"). Keeps what `start` was fitted to for other keys and kinds.
// For a kind that `start` was fitted to before, the earlier values are the priors; constants that
// the new rows do not determine keep their values and errors, and with too few rows (known_fit.h)
// all constants of the kind do. Launches and kernels of traced steps count however few they are.
// Throws ConfigError when no row is of the device.
TablesFit fit_tables(const Cluster& start, const BuildingBlocks& blocks,
                     const Progress& progress = {}, const TablesHow& how = {});

// The ranges of sizes in the rows. A forecast beyond them is an extrapolation.
std::vector<FittedRange> ranges_of(const BuildingBlocks& blocks);

// `later` on top of `earlier`: parameters, errors and ranges of the same name are replaced, samples
// and sources added up.
Fitted merged(const Fitted& earlier, const Fitted& later);

// The fits to the tables of a PyTorch script.

// Constants that rows of launches state directly. host.call: calls issued one by one, in batches of
// 10 to 1000 (shorter batches show the resolution of the clock, longer ones wait for a full queue).
// kernel.launch: one kernel of a replayed graph of empty kernels. host.read. The error is half of
// the range of the rows. Without such rows the result has no parameters.
FitResult launch_fit(const Cluster& start, const BuildingBlocks& blocks);

// The rows that tell the kernel's own time. Between two events a kernel shorter than its own call
// shows the time of the call. So of the rows of one call (`KernelRow::call`, or all GEMMs of a
// script) those within a quarter of the fastest are dropped.
std::vector<KernelRow> above_floor(std::vector<KernelRow> rows);
std::vector<GemmRow> above_floor(std::vector<GemmRow> rows);

FitCase kernel_case(const KernelRow& row);

// The parts in order: streams and rows together with what events add, then batched GEMMs, then
// attention.
std::vector<FitPart> kernel_fits(const BuildingBlocks& blocks);

// Fits to casts, to products of narrow operands, and to the kernels that tables distinguish by
// name: attention and whole expert layers.
std::vector<FitCase> cast_cases(const std::vector<CastRow>& rows);
// drops those beside `products`
std::vector<CastRow> casts_without(std::vector<CastRow> casts, const std::set<RowHash>& products);

// "gemm_fp8", "gemm_fp8_blocks" or "gemm_fp4", with the prefix "sustained_" for long runs.
std::string narrow_kind(const GemmRow& row);
// includes the cast where the row's time does
Seconds narrow_time(const GemmRow& row, const Cluster& cluster);

using NamedCases = std::map<std::string, std::vector<FitCase>>;

// The cases are predicted by the cluster's kernel without a name, which a fit moves. `by_name`
// predicts with the kernel of the row's name, else with the kernel whose name is most alike, else
// with the nameless one. stand_in() gives the kernel that prices a row for which the cluster has no
// kernel of its name, and "" where it has one.
NamedCases attention_cases(const std::vector<AttentionRow>& rows);
NamedCases expert_cases(const std::vector<MoeLayerRow>& rows);
std::string kernel_of(const MoeLayerRow& row);
inline std::string kernel_of(const AttentionRow& row) { return row.kernel; }
FitCase attention_by_name(const AttentionRow& row);
FitCase expert_by_name(const MoeLayerRow& row);
std::string stand_in(const AttentionRow& row, const Cluster& cluster);
std::string stand_in(const MoeLayerRow& row, const Cluster& cluster);
// Whether the nameless kernel masks sliding windows: its rows with a window take far longer than
// the window's keys alone would, so the kernel walks over all keys and masks the others.
bool masks_windows(const Cluster& fitted, const std::string& name,
                   const std::vector<AttentionRow>& rows, HeldOutShare share);
// of the kernel `name`
std::vector<FitParameter> attention_parameters(const std::string& name,
                                               const std::vector<AttentionRow>& rows);

}  // namespace stepcast
