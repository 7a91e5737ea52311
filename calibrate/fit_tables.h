// From published tables of kernels and collectives to the constants of one device's laws: which cases, which free
// parameters, which tenth is held out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "calibrate/known_fit.h"
#include "calibrate/sisters.h"

namespace stepcast {

// Free parameters with priors and bounds, the same for every device. Of links inside a node, with NVLS only where the
// cluster's switch has it.
std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks);
std::vector<FitParameter> collective_parameters(const Cluster& cluster);

// A row's case. All are of one group: nothing is left out in turn, the held-out tenth judges.
template <typename Row>
FitCase table_case(std::string name, std::string kind, const Row& row, std::function<Seconds(const Cluster&)> predict) {
    return {std::move(name), std::move(kind), "tables", row.time, std::move(predict), 1, row.row};
}

// A row as a case: kinds "gemm", "sustained_gemm", "gemm_fp8", .. and the collectives' names. `name` holds the shape.
FitCase gemm_case(const GemmRow& row);
FitCase collective_case(const CollectiveRow& row, const Cluster& cluster);  // one that has the ranks

// Every tenth (fifth) shape, chosen by a hash of the case's name: rows of one shape stay together, and the choice does not
// depend on their order.
enum class HeldOutShare : std::uint8_t { none, tenth, fifth };
bool is_held_out(const FitCase& c, HeldOutShare share = HeldOutShare::tenth);
inline constexpr int tenths = 10;
int tenth_of(const FitCase& c);  // 0 is the one held out

// One fit after another: what it may move, and the cases of one or few kinds that tell. Without parameters it judges only.
// `beside`: cases of sisters (FitCase::machine), `own` the keys that are each machine's own. `outliers`: many where a library chooses among kernels.
struct FitPart {
    std::vector<FitParameter> parameters;
    std::vector<FitCase> cases, beside = {};
    std::vector<std::string> own = {};
    Outliers outliers = Outliers::few;
    HeldOutShare share = HeldOutShare::fifth;  // of tables that are short
};

struct TablesHow {
    HeldOutShare share = HeldOutShare::tenth;
    bool keep_launch = false;        // small memory passes told it before, and better than GEMMs do
    bool priors_from_start = false;  // of GEMMs: `start` was fitted to other measurements of the same device
    std::vector<FitPart> before = {}, after = {};  // of what no table holds
    std::vector<Sister> sisters = {};
};

// Of these, those that the tables can tell of this cluster.
std::vector<FitParameter> gemm_parameters_for(const Cluster& start, const BuildingBlocks& blocks, const TablesHow& how);
// The switch's adders show in all-reduces of more ranks than NCCL leaves without them; else they stay as they are.
std::vector<FitParameter> collective_parameters_for(const Cluster& start, const BuildingBlocks& blocks);
bool inside_one_node(const CollectiveRow& row, const Cluster& cluster);
// Takes out and counts what is not inside one node, so that no record of the fit says that it was fitted to.
void leave_out_between_nodes(BuildingBlocks& blocks, const Cluster& cluster);

struct TablesFit {
    Cluster cluster;                  // with `fitted`, except date and sources
    std::vector<FitResult> results;   // of GEMMs, collectives, MoE layers, as far as there are rows
    std::vector<KeptKind> kept = {};  // kinds of which the start was fitted and there are too few rows
    friend bool operator==(const TablesFit&, const TablesFit&) = default;
};

// Fits on what is not held out, reports the errors on that (method "held-out tenth") and on the rest ("fitted"),
// and keeps what `start` was fitted on before for other keys and kinds. Of a kind that it was fitted on before, what it found is
// the belief, constants that the rows do not determine stay with their errors, and with too few rows (known_fit.h) all do. Launches and
// kernels of traced steps count however few they are. Throws ConfigError when no row is of the device.
TablesFit fit_tables(const Cluster& start, const BuildingBlocks& blocks, const Progress& progress = {},
                     const TablesHow& how = {});

// Sizes that the rows hold: beyond them a forecast is extrapolated.
std::vector<FittedRange> ranges_of(const BuildingBlocks& blocks);

// `later` after `earlier`: parameters, errors and ranges of the same name are replaced, samples and sources added up.
Fitted merged(const Fitted& earlier, const Fitted& later);

// From the tables of a PyTorch script to constants: which cases, which free parameters.

// Constants that launches state outright: host.call (issued one by one, in batches of 10 to 1000: fewer show the clock, more
// wait for a full queue), kernel.launch (one of a replayed graph of kernels of nothing), host.read. Half of their range as
// error. Without such rows the result has no parameters.
FitResult launch_fit(const Cluster& start, const BuildingBlocks& blocks);

// Kernels of a kind that say something: between events a kernel shorter than its own call shows that call. So of the rows of one
// call (`KernelRow::call`, or all GEMMs of a script) those within a quarter of the fastest are left out.
std::vector<KernelRow> above_floor(const std::vector<KernelRow>& rows);
std::vector<GemmRow> above_floor(const std::vector<GemmRow>& rows);

FitCase kernel_case(const KernelRow& row);

// Streams and rows with what events add, then batched GEMMs, attention.
std::vector<FitPart> kernel_fits(const BuildingBlocks& blocks);

// Casts, products of narrow operands, and the kernels that tables tell apart by name: attention and whole expert layers.
std::vector<FitCase> cast_cases(const std::vector<CastRow>& rows);
std::vector<CastRow> casts_without(const std::vector<CastRow>& casts, const std::set<RowHash>& products);  // those timed beside them

// "gemm_fp8", "gemm_fp8_blocks", "gemm_fp4", of long runs "sustained_" before it.
std::string narrow_kind(const GemmRow& row);
Seconds narrow_time(const GemmRow& row, const Cluster& cluster);  // with the cast where the row has it

using NamedCases = std::map<std::string, std::vector<FitCase>>;

// Predicted by the nameless kernel, which a fit moves; `by_name` by the one of the row's name, else by the one named most alike, else by
// the nameless one. stand_in names the kernel that a row is priced as where the cluster has none of its name, "" where it has.
NamedCases attention_cases(const std::vector<AttentionRow>& rows);
NamedCases expert_cases(const std::vector<MoeLayerRow>& rows);
std::string kernel_of(const MoeLayerRow& row);
inline std::string kernel_of(const AttentionRow& row) { return row.kernel; }
FitCase attention_by_name(const AttentionRow& row);
FitCase expert_by_name(const MoeLayerRow& row);
std::string stand_in(const AttentionRow& row, const Cluster& cluster);
std::string stand_in(const MoeLayerRow& row, const Cluster& cluster);
// Sliding windows of the nameless kernel's rows take far longer than their keys would: it walks over all and masks them.
bool masks_windows(const Cluster& fitted, const std::string& name, const std::vector<AttentionRow>& rows, HeldOutShare share);
std::vector<FitParameter> attention_parameters(const std::string& name, const std::vector<AttentionRow>& rows);  // of one kernel

}  // namespace stepcast
