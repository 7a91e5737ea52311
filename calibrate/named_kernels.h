// The kernels that tables distinguish by name: attention and whole expert layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"

namespace stepcast {

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
