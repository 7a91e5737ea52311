#include "calibrate/earlier_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "calibrate/fit_parameter.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/numbers.h"
#include "sim/calibration.h"

namespace stepcast {
namespace {

bool is_inside_bounds(const FitParameter& parameter) {
    try {
        scale(parameter);
        return true;
    } catch (const ConfigError&) {
        return false;
    }
}

}  // namespace

std::string describe(const KeptKind& kept, const std::string& cluster) {
    return fmt::format(
        "{}: {} shape{} too few for {} constants; those of {}{} are kept, which predict the new "
        "rows {:.1f} % off in the median, {:+.1f} % in the mean, {:+.1f} % at worst; a fit needs "
        "{} shapes\n",
        kept.what, kept.shapes, kept.shapes == 1 ? " is" : "s are", kept.constants, cluster,
        kept.earlier_rows > 0 ? fmt::format(" ({} rows)", kept.earlier_rows) : "",
        100 * kept.off.median, 100 * kept.off.bias, 100 * kept.off.worst, kept.wanted);
}

bool determined_any(const Cluster& start, const std::vector<FitParameter>& parameters) {
    return std::ranges::any_of(parameters, [&](const FitParameter& p) {
        return kind_of_constant(p.key) != "host" && is_determined(start, p.key);
    });
}

bool has_transferred_kernels(const Cluster& start) {
    return !start.fitted && !start.kernel.attention_kernels.empty();
}

bool is_measured(const Cluster& start, std::string_view kind) {
    return std::ranges::any_of(calibrations_of(start), [&](const KindCalibration& k) {
        return k.kind == kind && k.determined > 0;
    });
}

std::size_t count_affecting(const Cluster& start, const std::vector<FitCase>& cases,
                            const std::vector<FitParameter>& parameters) {
    return as_index(std::ranges::count_if(parameters, [&](const FitParameter& p) {
        const Cluster least = with_text(start, p.key, p.lower),
                      most = with_text(start, p.key, p.upper);
        return std::ranges::any_of(
            cases, [&](const FitCase& c) { return c.predict(least) != c.predict(most); });
    }));
}

static std::set<std::string> all(const std::vector<FitCase>& cases, std::string FitCase::*text) {
    std::set<std::string> found;
    for (const FitCase& c : cases) found.insert(c.*text);
    return found;
}

std::string kinds_of(const std::vector<FitCase>& cases) {
    return joined(all(cases, &FitCase::kind), ", ");
}

int shapes_wanted(std::size_t constants, bool of_links) {
    return (of_links ? 1 : 5) * as_int(constants);
}

int shapes_of(const std::vector<FitCase>& cases) {
    return as_int(all(cases, &FitCase::name).size());
}

KeptKind kept(const Cluster& start, std::string what, const std::vector<FitCase>& cases,
              std::size_t constants, int wanted) {
    KeptKind kept{std::move(what), shapes_of(cases), as_int(constants), wanted, 0, {}};
    const std::set<std::string> kinds = all(cases, &FitCase::kind);
    kept.off = summary_of(log_errors_on(cases, start), "not fitted", kept.what);
    for (const HeldOutError& e : start.fitted->errors)
        if (kinds.contains(e.kind)) kept.earlier_rows += e.samples;
    return kept;
}

std::vector<FitParameter> with_priors_of(const Cluster& cluster,
                                         std::vector<FitParameter> parameters) {
    for (FitParameter& general : parameters) {
        FitParameter known = general;
        known.prior = text_at(cluster, general.key);
        if (is_inside_bounds(known)) general = known;
    }
    return parameters;
}

void leave_undetermined(const Cluster& start, FitResult& result) {
    for (ParameterReport& report : result.parameters) {
        FittedParameter& p = report.parameter;
        if (p.determined || p.value != p.prior || !is_determined(start, p.key)) continue;
        p.value = p.prior = text_at(start, p.key);
        result.cluster = with_text(result.cluster, p.key, p.value);
        std::erase_if(result.cluster.fitted->parameters,
                      [&](const FittedParameter& other) { return other.key == p.key; });
    }
}

}  // namespace stepcast
