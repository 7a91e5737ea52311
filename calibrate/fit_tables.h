// From published tables of kernels and collectives to the constants of one device's laws: which cases, which free
// parameters, which tenth is held out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"

namespace stepcast {

// Free parameters with priors and bounds, the same for every device. Of links inside a node, with NVLS only where the
// cluster's switch has it.
std::vector<FitParameter> gemm_parameters(const BuildingBlocks& blocks);
std::vector<FitParameter> collective_parameters(const Cluster& cluster);

// A row as a case: kinds "gemm", "sustained_gemm", "gemm_fp8", .. and the collectives' names. `name` holds the shape.
FitCase gemm_case(const GemmRow& row);
FitCase collective_case(const CollectiveRow& row, const Cluster& cluster);  // one that has the ranks

// Every tenth (fifth) shape, chosen by a hash of the case's name: rows of one shape stay together, and the choice does not
// depend on their order.
enum class HeldOutShare : std::uint8_t { tenth, fifth };
bool is_held_out(const FitCase& c, HeldOutShare share = HeldOutShare::tenth);

struct TablesHow {
    HeldOutShare share = HeldOutShare::tenth;
    bool keep_launch = false;        // small memory passes told it before, and better than GEMMs do
    bool priors_from_start = false;  // of GEMMs: `start` was fitted to other measurements of the same device
};

struct TablesFit {
    Cluster cluster;                 // with `fitted`, except date and sources
    std::vector<FitResult> results;  // of GEMMs, collectives, MoE layers, as far as there are rows
    friend bool operator==(const TablesFit&, const TablesFit&) = default;
};

// Fits on what is not held out, reports the errors on that (method "held-out tenth") and on the rest ("fitted"),
// and keeps what `start` was fitted on before for other keys and kinds; Throws ConfigError when no row is of the device.
TablesFit fit_tables(const Cluster& start, const BuildingBlocks& blocks,
                     const std::function<void(std::string_view)>& progress = {}, TablesHow how = {});

// Sizes that the rows hold: beyond them a forecast is extrapolated.
std::vector<FittedRange> ranges_of(const BuildingBlocks& blocks);

// `later` after `earlier`: parameters, errors and ranges of the same name are replaced, samples and sources added up.
Fitted merged(const Fitted& earlier, const Fitted& later);

}  // namespace stepcast
