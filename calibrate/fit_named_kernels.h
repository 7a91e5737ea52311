// Casts, products of narrow operands, and the kernels that tables tell apart by name: attention and whole expert layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"

namespace stepcast {

std::vector<FitParameter> cast_parameters();
std::vector<FitCase> cast_cases(const std::vector<CastRow>& rows);

// `format`: "fp8", "fp8_blocks", "fp4"; the kind of a row's case is "gemm_" and that.
std::vector<FitParameter> narrow_parameters(const std::string& format);
std::string narrow_kind(const GemmRow& row);
Seconds narrow_time(const GemmRow& row, const Cluster& cluster);  // with the cast where the row has it

using NamedCases = std::map<std::string, std::vector<FitCase>>;

// Predicted by the nameless kernel, which a fit moves; `by_name` by the one of the row's name, else by the nameless one.
NamedCases attention_cases(const std::vector<AttentionRow>& rows);
NamedCases expert_cases(const std::vector<MoeLayerRow>& rows);
FitCase attention_by_name(const AttentionRow& row);
FitCase expert_by_name(const MoeLayerRow& row);
std::vector<FitParameter> attention_parameters(const std::string& name, const std::vector<AttentionRow>& rows);  // of one kernel
std::vector<FitParameter> expert_parameters();

template <typename Kernel>
void put_by_name(std::vector<Kernel>& kernels, const Kernel& kernel) {
    for (Kernel& known : kernels)
        if (known.name == kernel.name) return void(known = kernel);
    kernels.push_back(kernel);
}

}  // namespace stepcast
