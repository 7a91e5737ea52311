// A framework's or a machine's constants from a few measured training steps: the most probable ones under priors that say how
// far the constants of shipped frameworks and clusters lie apart, so that five rows move what they determine and leave the
// rest.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/posterior.h"
#include "cases/cases.h"
#include "model/progress.h"

namespace stepcast {

// cluster: what a cluster file that others start from gets of steps, where nothing is asked for: hardware without what its attention kernels
// told, with the set-up of expert all-to-alls that no framework states.
enum class FitTarget { framework, hardware, both, cluster };
FitTarget parse_fit_target(std::string_view text);  // throws ConfigError

// A constant that may move.
struct StepConstant {
    std::string key;        // below "cluster.", or parallelism.eager_traffic
    std::string framework;  // its key below "framework." where it is the framework's, else ""
    double start = 0;       // SI; where the fit begins, and what slopes are relative to
    PriorBelief prior;      // of log(value / start)
    bool usual = false;     // the base has it at nothing: it begins where the shipped ones are
};

// The constants that the cases exercise and the target may move. Priors: the start's value where it has one, else the median
// of the shipped ones; as wide as the shipped ones lie apart (logarithm).
std::vector<StepConstant> step_constants(FitTarget target, const std::vector<Case>& cases);

// Log ratios and slopes of all cases at x = log(value / start) of the constants, on all cores. Long steps go on from few
// micro-batches, but those of `whole` rows are simulated as they are.
RowModel step_rows_model(const std::vector<Case>& cases, const std::vector<StepConstant>& constants,
                         const Progress& progress = {}, const std::vector<bool>& whole = {});
// The errors at the posterior with every step simulated as a whole; those of `whole` rows are that already.
Vector whole_errors(const std::vector<Case>& cases, const std::vector<StepConstant>& constants, const Posterior& at,
                    const std::vector<bool>& whole);

// A constant that a fit of steps may move, below "cluster."; or eager_traffic, which changes the graph.
inline constexpr const char* eager_traffic_key = "parallelism.eager_traffic";

struct StepSlopes {
    Seconds step;
    std::vector<double> slopes;  // d log step / d log value, of each key
};

// The case with each key at its value times `factors`: one simulation for the step, and the critical path for the
// derivatives (sim/explain). With many micro-batches two shorter steps are simulated and continued in a straight line:
// beyond the filling of the pipeline each micro-batch adds the same, unless a host falls behind only later: a `whole`
// step is simulated as it is.
StepSlopes step_with_slopes(const Case& what, const std::vector<std::string>& keys, const std::vector<double>& factors,
                            bool whole = false);

enum class LeftOut { model, ranks, framework, device };
constexpr auto names_of(LeftOut) {
    using enum LeftOut;
    return name_table<LeftOut>("a block", {{model, "model"}, {ranks, "ranks"}, {framework, "framework"}, {device, "device"}});
}
LeftOut parse_block(std::string_view text);  // throws ConfigError
std::string block_of(const Case& what, LeftOut by);

struct BlockErrors {
    std::string left_out;
    std::vector<double> errors;  // log(predicted / measured) of its rows by a fit without them
    int inside = 0;              // of them within the p10..p90 that the other rows imply
};
// Of a row that was left out: log(predicted / measured), and whether it lies within p10..p90.
using Foretell = std::function<std::pair<double, bool>(std::size_t row)>;
// The rows of each name in their turn, foretold by what the rows without the flag told; stops early where the caller has enough.
std::vector<BlockErrors> leave_out_in_turn(const std::vector<std::string>& names, const std::function<Foretell(const std::vector<bool>&)>& without,
                                           const std::function<bool()>& enough = {});

struct FewShotRequest {
    std::vector<std::string> measurements;
    std::string cluster, framework;  // presets or files to start from; framework empty: that of each row
    std::string out, date;
    FitTarget target = FitTarget::hardware;
    std::vector<LeftOut> blocks = {LeftOut::model, LeftOut::ranks};  // left out in turn
    std::function<bool()> enough = {};  // after a pass: whether the caller wants no more
};

// Writes `out` (both: the cluster there, the framework in OUT.framework.toml) and returns what to show. Throws ConfigError,
// and writes nothing, where the rows determine nothing; nor where `enough` came before a pass.
std::string calibrate_few_shot(const FewShotRequest& request, const Progress& progress = {});

// Predicts the rows of each block by a fit to the others, for tables; writes nothing.
std::string cross_validate(const FewShotRequest& request, LeftOut by, const Progress& progress = {});

}  // namespace stepcast
