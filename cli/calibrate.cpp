#include "cli/calibrate.h"

#include <algorithm>

#include "calibrate/few_shot.h"
#include "calibrate/from_measurements.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/scatter.h"
#include "cli/calibrate_cuda.h"
#include "cli/calibrate_host.h"
#include "cli/early_checks.h"
#include "exec/host_machine.h"
#include "model/errors.h"
#include "reports/kernel_tables.h"

namespace stepcast {
namespace {

std::string calibrate_steps(const Options& options, const std::function<void(std::string_view)>& progress) {
    const FewShotRequest request{
        .measurements = options.measurements,
        .cluster = options.cluster,
        .framework = options.framework,
        .out = options.out,
        .date = current_date(),
        .target = options.fit.empty() ? FitTarget::hardware : parse_fit_target(options.fit)};
    const std::string text = options.cross_validate.empty()
                                 ? calibrate_few_shot(request, progress)
                                 : cross_validate(request, parse_block(options.cross_validate), progress);
    progress("");
    return text;
}

// Without a cluster every row is predicted as shipped.
std::string calibrate_intervals(const Options& options, const std::function<void(std::string_view)>& progress) {
    const std::string text =
        options.cross_validate.empty()
            ? calibrate_scatter(options.measurements, options.out, current_date(), progress)
            : cross_validate_scatter(options.measurements, parse_block(options.cross_validate), progress);
    progress("");
    return text;
}

// Tables of kernels: every device from its nameplate and the other machines' constants.
std::string cross_validate_kernels(const Options& options) {
    if (options.cross_validate != "device")
        throw ConfigError("--cross-validate " + options.cross_validate +
                          ": of tables of kernels only a device can be left out; expected device");
    KernelComparisons kernels;
    for (const std::string& path : options.measurements) add(kernels, read_transferred_kernels(path));
    return "every device from its nameplate and the constants of the others\n" + kernel_table(kernels);
}

}  // namespace

std::string calibrate(const Options& options, const std::function<void(std::string_view)>& progress) {
    if (options.out.empty() && options.cross_validate.empty())
        throw ConfigError("calibrate: expected --out, the file to write");
    if (options.device.empty() == options.measurements.empty())
        throw ConfigError(
            "calibrate: expected --device host or cuda to measure this machine, or --measurements to fit recorded "
            "files");
    if (!options.device.empty()) {
        require_device(options.device);
        check_files_of_calibrate(options);
        return options.device == "cuda" ? calibrate_cuda(options, progress) : calibrate_host(options, progress);
    }
    if (!options.cross_validate.empty() && std::ranges::all_of(options.measurements, holds_kernels))
        return cross_validate_kernels(options);
    if (options.fit == "scatter" || (options.cluster.empty() && !options.cross_validate.empty()))
        return calibrate_intervals(options, progress);
    if (options.cluster.empty())
        throw ConfigError("calibrate: --measurements needs --cluster, the file or preset to start from");
    if (!options.out.empty()) check_files_of_calibrate(options);
    const bool of_tables = options.fit.empty() && options.cross_validate.empty() && are_tables(options.measurements);
    if (!of_tables && (!options.fit.empty() || !options.framework.empty() || !options.cross_validate.empty()))
        return calibrate_steps(options, progress);
    return calibrate_from_measurements({.measurements = options.measurements,
                                        .cluster = options.cluster,
                                        .out = options.out,
                                        .date = current_date(),
                                        .framework = options.framework},
                                       progress);
}

}  // namespace stepcast
