// A cluster that was fitted before, next to new rows of the same kind: whether they are enough to replace what it found, and
// what of it they leave.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit.h"

namespace stepcast {

// The constants of a kind that stayed as they were, because the new rows are too few for them.
struct KeptKind {
    std::string what;     // kinds of the cases, or the kernel's name
    int shapes = 0;       // different ones among the new rows
    int constants = 0;    // that they feel
    int wanted = 0;       // shapes for a fit
    int earlier_rows = 0;  // of the fit that stays, as far as it recorded them
    HeldOutError off;      // what the constants that stay predict of the new rows
    friend bool operator==(const KeptKind&, const KeptKind&) = default;
};

// "gemm: 3 shapes are too few for 10 constants; those of dgx-h100 (578 rows) stay, ..", with a line break.
std::string describe(const KeptKind& kept, const std::string& cluster);

// A fit of the same kind determined some of these constants. What a launch costs is no kind's own, as several tables tell it.
bool knows(const Cluster& start, const std::vector<FitParameter>& parameters);

// Not fitted, yet it has kernels by name: its constants are those of machines like it (model/machine/priors.h), which are believed until
// rows say otherwise.
bool is_foretold(const Cluster& start);

// As far as the fit recorded it, of one of the kinds of model/machine/calibration.h.
bool is_measured(const Cluster& start, std::string_view kind);

// How many of the constants these rows feel: at a bound of theirs some row takes another time. All-reduces tell nothing of an
// all-to-all.
std::size_t felt(const Cluster& start, const std::vector<FitCase>& cases, const std::vector<FitParameter>& parameters);

std::string kinds_of(const std::vector<FitCase>& cases);  // "all_gather, all_reduce"

// Of kernels five shapes a constant: products that scatter by 4 % about the very law of dgx-h100 move a step of 8B by 2 to 3 %
// with as many (docs/calibration.md), less than one row scatters. Of links one: a GPU's kernels are those of its name, a link is
// the machine's own, and what another one measured says less of it.
int shapes_wanted(std::size_t constants, bool of_links);
int shapes_of(const std::vector<FitCase>& cases);  // rows of one shape once, however often it was repeated
KeptKind kept(const Cluster& start, std::string what, const std::vector<FitCase>& cases, std::size_t constants, int wanted);

// With the values of the cluster as priors, where they lie within the bounds: a value of 0 or at its bound switched an effect
// off and is no belief about its size.
std::vector<FitParameter> with_priors_of(const Cluster& cluster, std::vector<FitParameter> parameters);

// What the fit to new rows did not determine, nor move, and the start did: value, error and record stay the start's.
void leave_undetermined(const Cluster& start, FitResult& result);

}  // namespace stepcast
