// New rows of a kind that the cluster was fitted to before: whether they suffice to replace the
// constants, and which of these stay.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit.h"

namespace stepcast {

// The constants of a kind that stayed as they were, because the new rows are too few for them.
struct KeptKind {
    std::string what;      // the cases' kinds, or the kernel's name
    int shapes = 0;        // different shapes among the new rows
    int constants = 0;     // that affect these rows
    int wanted = 0;        // shapes that a fit needs
    int earlier_rows = 0;  // of the earlier fit, as far as it recorded them
    HeldOutError off;      // errors of the constants that stay on the new rows
    friend bool operator==(const KeptKind&, const KeptKind&) = default;
};

// "gemm: 3 shapes are too few for 10 constants; those of dgx-h100 (578 rows) stay, ..", with a line
// break.
std::string describe(const KeptKind& kept, const std::string& cluster);

// Whether a fit of the same kind determined some of these constants. The cost of a launch does not
// count: several kinds of tables tell it.
bool determined_any(const Cluster& start, const std::vector<FitParameter>& parameters);

// Not fitted, yet with kernels by name: these constants of similar machines
// (measured/priors.h) are the priors of a fit.
bool has_transferred_kernels(const Cluster& start);

// Whether the recorded fit determined constants of this kind (one of sim/calibration.h).
bool is_measured(const Cluster& start, std::string_view kind);

// How many of the constants affect these rows, so a row's time differs at the constant's bounds:
// all-reduces tell nothing of an all-to-all.
std::size_t count_affecting(const Cluster& start, const std::vector<FitCase>& cases,
                            const std::vector<FitParameter>& parameters);

std::string kinds_of(const std::vector<FitCase>& cases);  // "all_gather, all_reduce"

// How many shapes a fit needs: for kernels five for each constant. With as many, products that
// scatter by 4 % about the very law of dgx-h100 move a step of an 8B model by 2 to 3 %
// (notes/kernel-laws.md), less than one row scatters. For links one for each constant: a GPU of the
// same name has the same kernels, but each machine has its own links, and measurements of another
// one say less.
int shapes_wanted(std::size_t constants, bool of_links);
// different shapes; repetitions of a shape do not count
int shapes_of(const std::vector<FitCase>& cases);
KeptKind kept(const Cluster& start, std::string what, const std::vector<FitCase>& cases,
              std::size_t constants, int wanted);

// The parameters with the cluster's values as priors where these lie within the bounds. A value of
// 0 or at its bound means that an effect was switched off; it is no belief about the size of the
// effect.
std::vector<FitParameter> with_priors_of(const Cluster& cluster,
                                         std::vector<FitParameter> parameters);

// Restores value, error and record of constants that the new fit neither determined nor moved and
// that the start had determined.
void leave_undetermined(const Cluster& start, FitResult& result);

}  // namespace stepcast
