#include "sim/predict_all.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "model/base/errors.h"
#include "sim/explain/attribution.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

void predict_each(std::vector<Comparison>& comparisons, bool times_alone,
                  const Progress& progress) {
    for (Comparison& c : comparisons) {
        if (!c.refused_because.empty()) continue;
        if (progress) progress("predicting " + c.what.case_id);
        try {
            AsRun run = as_run(c.what.experiment, c.what.circumstances);
            c.forecast = times_alone ? predict_time(run) : predict(run);
            std::ranges::move(run.said, std::back_inserter(c.what.assumptions));
            if (!times_alone && !c.what.measured_durations.empty())
                c.attribution = attribute_error(c.what.experiment, c.what.measured_durations,
                                                c.what.measured_step);
        } catch (const ConfigError& error) {
            c.refused_because = error.what();
        } catch (const std::bad_alloc&) {
            c.refused_because = "its step takes more memory than this machine has";
        } catch (const std::exception& error) {  // one failed case must not lose the others
            c.forecast.reset();
            c.refused_because = std::string("a bug of stepcast: ") + error.what();
        }
    }
}

}  // namespace

void predict_all(std::vector<Comparison>& comparisons, const Progress& progress) {
    predict_each(comparisons, false, progress);
}

void predict_times(std::vector<Comparison>& comparisons, const Progress& progress) {
    predict_each(comparisons, true, progress);
}

}  // namespace stepcast
