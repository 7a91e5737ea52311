#include "sim/predict_all.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "sim/explain/attribution.h"
#include "sim/on_threads.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

// What an unstated network would have to reach for the step to take as long as measured.
void add_explaining_rate(const AsRun& run, Seconds measured, std::vector<std::string>& said) {
    const auto rate = rate_explaining(run.networks, measured);
    if (!rate) return;
    const double digit = std::pow(10, std::floor(std::log10(rate->si())) - 1);  // the second one
    const BytesPerSecond about(digit * std::round(rate->si() / digit));
    said.push_back(
        fmt::format("a network of {} a node would explain the measured step", to_string(about)));
}

// A case that prediction refuses keeps the reason.
void predict_one(Comparison& c, bool times_alone) {
    try {
        AsRun run = as_run(c.what.experiment, c.what.circumstances);
        c.forecast = times_alone ? predict_time(run) : predict(run);
        append(c.what.assumptions, std::move(run.said));
        add_explaining_rate(run, c.what.measured_step, c.what.assumptions);
        if (!times_alone && !c.what.measured_durations.empty())
            c.attribution =
                attribute_error(c.what.experiment, c.what.measured_durations, c.what.measured_step);
    } catch (const ConfigError& error) {
        c.refused_because = error.what();
    } catch (const std::bad_alloc&) {
        c.refused_because = "its step takes more memory than this machine has";
    } catch (const std::exception& error) {  // one failed case must not lose the others
        c.forecast.reset();
        c.refused_because = std::string("a bug of stepcast: ") + error.what();
    }
}

}  // namespace

void predict_all(std::vector<Comparison>& comparisons, const Progress& progress) {
    for (Comparison& c : comparisons) {
        if (!c.refused_because.empty()) continue;
        if (progress) progress("predicting " + c.what.case_id);
        predict_one(c, false);
    }
}

void predict_times(std::vector<Comparison>& comparisons, const Progress& progress) {
    std::mutex mutex;  // of `progress`
    each_on_threads(0, comparisons.size(), [&](std::size_t i) {
        Comparison& c = comparisons[i];
        if (!c.refused_because.empty()) return;
        if (progress) {
            const std::lock_guard lock(mutex);
            progress("predicting " + c.what.case_id);
        }
        predict_one(c, true);
    });
}

}  // namespace stepcast
