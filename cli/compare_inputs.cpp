#include "cli/compare.h"

#include <utility>

#include "calibrate/kernel_comparisons.h"
#include "cases/predict_all.h"
#include "cli/early_checks.h"
#include "model/errors.h"

namespace stepcast {

Compared compare_inputs(const Options& options, const std::function<void(std::string_view)>& progress) {
    if (!options.cluster.empty()) (void)read_cluster(options.cluster);  // a wrong name is no reason of single cases
    check_files_of_compare(options);
    if (!options.framework.empty()) (void)read_framework(options.framework);
    Compared compared{};
    for (const std::string& path : options.inputs) {
        if (holds_kernels(path))
            add(compared.kernels, read_kernel_comparisons(path, options.cluster));
        else
            for (Comparison& c : read_comparisons(path, options.cluster, options.framework))
                compared.comparisons.push_back(std::move(c));
    }
    compared.steps = !compared.comparisons.empty() || (compared.kernels.rows.empty() && compared.kernels.refused.empty());
    predict_all(compared.comparisons, progress);
    compared.summary = summarise(compared.comparisons);
    return compared;
}

void require_predicted(const Compared& compared, bool strict) {
    const CompareSummary& summary = compared.summary;
    if (!compared.steps && compared.kernels.rows.empty())
        throw ConfigError("no kernel can be predicted: the reasons are above");
    if (summary.cases > 0 && summary.predicted == 0)
        throw ConfigError("none of " + std::to_string(summary.cases) + " cases can be predicted: the reasons are above");
    if (strict && summary.refused > 0)
        throw ConfigError("--strict: " + std::to_string(summary.refused) + " of " + std::to_string(summary.cases) +
                          " cases refused");
}

}  // namespace stepcast
