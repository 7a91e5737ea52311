// Fits the constants of a framework or of a machine to a few measured training steps. The priors
// say how far the constants of shipped frameworks and clusters lie apart, so five rows move the
// constants that they determine and leave the others.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/posterior.h"
#include "import/tables/cases.h"
#include "model/base/progress.h"

namespace stepcast {

// cluster: the target for a cluster file that other fits start from, when no --fit is given. It
// fits what hardware does, without attention when attention kernels were measured alone, and with
// the set-up of expert all-to-alls when no framework states it.
enum class FitTarget { framework, hardware, both, cluster };
FitTarget parse_fit_target(std::string_view text);  // throws ConfigError

// A constant that the fit may move.
struct StepConstant {
    std::string key;        // below "cluster.", or eager_traffic_key
    std::string framework;  // its key below "framework." if it belongs to the framework, else ""
    double start = 0;       // in SI units: the fit begins there, and x is relative to it
    PriorBelief prior;      // of log(value / start)
    // the base has the value 0; it begins at the usual value of shipped files
    bool usual = false;
};

// The constants that the cases exercise and that the target may move. The prior's mean is the
// start's value, or the median of the shipped values where the start has 0. Its sigma is the
// standard deviation of the shipped values' logarithms.
std::vector<StepConstant> step_constants(FitTarget target, const std::vector<Case>& cases);

// Log ratios and slopes of all cases at x = log(value / start) of the constants, computed on all
// cores. Long steps are extrapolated from steps of few micro-batches, except rows with their flag
// in `whole`, which are simulated completely.
RowModel step_rows_model(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                         const Progress& progress = {}, const std::vector<bool>& whole = {});
// The rows' errors at the posterior with every step simulated completely. Those of `whole` rows
// already are and are copied.
Vector whole_errors(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                    const Posterior& at, const std::vector<bool>& whole);

// The one constant that is no key below "cluster.": it changes the graph of the step.
inline constexpr const char* eager_traffic_key = "parallelism.eager_traffic";

struct StepSlopes {
    Seconds step;
    std::vector<double> slopes;  // d log step / d log value for each key
};

// The case with each key's value multiplied by its factor: one simulation gives the step, its
// critical path the derivatives (sim/explain). A step with many micro-batches is extrapolated
// linearly from two shorter ones, since each micro-batch after the filling of the pipeline adds the
// same time. This fails where a host falls behind only later; so with `whole` the step is simulated
// completely.
StepSlopes step_with_slopes(const Case& what, const std::vector<std::string>& keys,
                            const std::vector<double>& factors, bool whole = false);

NAMED_ENUM(LeftOut, "a block", model, ranks, framework, device);
LeftOut parse_block(std::string_view text);  // throws ConfigError
std::string block_of(const Case& what, LeftOut by);

struct BlockErrors {
    std::string left_out;
    std::vector<double> errors;  // log(predicted / measured) of its rows, by a fit without them
    int inside = 0;              // how many of them lie within p10..p90 of that fit
};
// For a row that was left out: log(predicted / measured), and whether it lies within p10..p90.
using Foretell = std::function<std::pair<double, bool>(std::size_t row)>;
// Leaves out the rows of each name in turn. `without` gets the flags of the rows left out, fits to
// the others and returns the function that predicts one row. Stops early when `enough` says so.
std::vector<BlockErrors> leave_out_in_turn(
    const std::vector<std::string>& names,
    const std::function<Foretell(const std::vector<bool>&)>& without,
    const std::function<bool()>& enough = {});

// What a fit to recorded files reads and writes. A fit of steps alone has a target, and blocks that
// it leaves out in turn.
struct CalibrationRequest {
    std::vector<std::string> measurements;
    std::string cluster;  // preset or file to start from
    // the same; empty: each row's own, and no fit of one to tables of traces
    std::string framework = {};
    std::string out, date;  // the cluster file to write; today's, for the provenance
    FitTarget target = FitTarget::hardware;
    std::vector<LeftOut> blocks = {LeftOut::model, LeftOut::ranks};
    std::function<bool()> enough = {};  // asked after each pass over steps: whether to stop
};
// OUT.framework.toml, for a framework that is fitted beside the cluster
std::string framework_file(const std::string& out);

// Writes `out` (for target both: the cluster; the framework goes to framework_file(OUT)) and
// returns the text to show. Writes nothing when `enough` stopped it before the first pass. Throws
// ConfigError, and writes nothing, when the rows determine nothing.
std::string calibrate_few_shot(const CalibrationRequest& request, const Progress& progress = {});

// Predicts the rows of each block by a fit to the other rows and returns a table of the errors;
// writes nothing.
std::string cross_validate(const CalibrationRequest& request, LeftOut by,
                           const Progress& progress = {});

}  // namespace stepcast
