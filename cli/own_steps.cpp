// --measured FILE: the user's own steps.
#include "sim/own_steps.h"
#include "cli/verbs.h"
#include "import/tables/cases.h"
#include "model/base/errors.h"
#include "sim/predict_all.h"

namespace stepcast {

OwnSteps own_steps_of_file(const std::string& path, const Options& options, bool plain) {
    if (path.ends_with(".toml")) return read_own_steps(path);
    if (!path.ends_with(".csv"))
        throw ConfigError("--measured " + path +
                          ": expected CASES.csv or a .toml that simulate --save wrote");
    std::vector<Comparison> rows = read_comparisons(path, options.cluster, options.framework);
    if (plain)
        for (Comparison& c : rows) c.what.circumstances = {};
    predict_all(rows);
    OwnSteps own;
    for (const Comparison& c : rows)
        if (c.forecast)
            own.steps.push_back(own_step(c.what.experiment, *c.forecast, c.what.measured_step));
    if (own.steps.empty())
        throw ConfigError("--measured " + path + ": no step of it can be predicted" +
                          (rows.empty() ? "" : ": " + rows.front().refused_because));
    return own;
}

void add(OwnSteps& all, OwnSteps more) {
    for (OwnStep& step : more.steps) all.steps.push_back(std::move(step));
}

}  // namespace stepcast
