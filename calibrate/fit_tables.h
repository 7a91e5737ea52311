// Fits the constants of one device's laws to published tables of kernels and collectives: one plan
// after the other, a tenth of the shapes held out.
#pragma once

#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/earlier_fit.h"
#include "calibrate/fit.h"
#include "calibrate/sisters.h"

namespace stepcast {

struct TablesHow {
    HeldOutShare share = HeldOutShare::tenth;
    // small memory passes told the launch time in an earlier plan, better than GEMMs do
    bool keep_launch = false;
    // of GEMMs: `start` was fitted to other measurements of the same device
    bool priors_from_start = false;
    std::vector<FitPlan> before = {}, after = {};  // plans for the cases that no table holds
    std::vector<Sister> sisters = {};
};

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
// the new rows do not determine keep their values and errors, and with too few rows (earlier_fit.h)
// all constants of the kind do. Launches and kernels of traced steps count however few they are.
// Throws ConfigError when no row is of the device.
TablesFit fit_tables(const Cluster& start, const BuildingBlocks& blocks,
                     const Progress& progress = {}, const TablesHow& how = {});

}  // namespace stepcast
