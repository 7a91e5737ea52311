// What more of each number of the cluster does to the step, and whose uncertainty moves it most.
#pragma once

#include "model/answers/explanation.h"
#include "model/machine/calibration.h"
#include "sim/costs/price_classes.h"
#include "sim/engine/event_engine.h"
#include "sim/explain/critical_path.h"

namespace stepcast {

// A step that was simulated on one cluster, kept for asking what it would take on others: the graph stays, the ops are
// priced anew, and the timeline is simulated where any price changed.
class WhatIf {
public:
    WhatIf(const TaskGraph& graph, const Cluster& cluster);

    [[nodiscard]] const Costs& costs() const { return costs_; }
    [[nodiscard]] const Timeline& timeline() const { return timeline_; }
    [[nodiscard]] const std::vector<Binding>& bindings() const { return bindings_; }
    [[nodiscard]] const std::vector<PathSegment>& path() const { return path_; }

    // Both are what the other cluster's step takes more. Along the path: every segment of the critical path at its new
    // price (a task that contention stretched stays stretched by the same factor). Without contention the old path is
    // still a chain of the new step, which therefore never changes by less than this; for small changes they are equal.
    [[nodiscard]] Seconds along_path(const Cluster& other) const;
    // With other sizes of ops on the same cluster: of a graph that has the same tasks in the same order, else std::logic_error.
    [[nodiscard]] Seconds along_path(const TaskGraph& resized) const;
    [[nodiscard]] Seconds simulated(const Cluster& other);
    // The step of what every price changes, without sign. The step without contention cannot change by more: it is the
    // longest of all chains of tasks, and none changes by more than its own changes together. Infinite where the
    // interference differs.
    [[nodiscard]] Seconds most(const Cluster& other);

private:
    [[nodiscard]] PriceClasses::Paths paths(const Cluster& other) const;
    // With class c at new_price(c).
    template <class Price>
    [[nodiscard]] Seconds repriced_path(const Price& new_price) const;

    const TaskGraph& graph_;
    const Cluster& cluster_;
    PriceClasses classes_;
    EventEngine engine_;
    Costs other_costs_;  // these two: room that every simulation uses again
    Timeline other_timeline_;
    PriceClasses::Paths paths_;
    std::vector<Seconds> prices_;
    Costs costs_;
    Timeline timeline_;
    std::vector<Binding> bindings_;
    std::vector<PathSegment> path_;
    std::vector<Seconds> time_on_path_;  // by class
    double calls_on_path_ = 0;           // host calls that issue segments of the path
};

// Of every parameter of the cluster, strongest first; of those without effect only the keys, in `without_effect`. What
// moves the step by less than `negligible` of itself, by WhatIf::most(), is not simulated: the change along the path
// stands for it.
std::vector<Elasticity> elasticities(WhatIf& step, const Cluster& cluster, double change,
                                     std::vector<std::string>& without_effect);
inline constexpr double negligible = 1e-3;

// Widest first. A parameter's error is the fit's standard error where the data determined it, the width of its prior
// where they did not, an assumed one where nobody fitted it; datasheet values and measured tables are taken as exact.
// Half the difference of the step with the parameter one error up and one down counts: along the critical path, scaled
// as `elasticities` found the simulated change to be to that along the path; the three widest are simulated.
std::vector<Uncertainty> uncertainties(WhatIf& step, const Cluster& cluster,
                                       const std::vector<Elasticity>& elasticities, double change);

// Of the logarithm, for costs that nobody fitted: shares of a datasheet rate lie close together on all devices, latencies
// and host costs differ by factors between machines.
inline constexpr double assumed_share_error = 0.15, assumed_time_error = 0.5;

}  // namespace stepcast
