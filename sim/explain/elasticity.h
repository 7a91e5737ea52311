// How a change of each number of the cluster changes the step, and which number's uncertainty
// matters most.
#pragma once

#include "sim/calibration.h"
#include "sim/costs/price_classes.h"
#include "sim/engine/event_engine.h"
#include "sim/explain/critical_path.h"
#include "sim/results/explanation.h"

namespace stepcast {

// A step that was simulated on one cluster, kept to ask what it would take on other clusters. The
// graph stays, the ops are priced anew, and the timeline is simulated if any price changed.
class WhatIf {
public:
    WhatIf(const TaskGraph& graph, const Cluster& cluster);

    [[nodiscard]] const Costs& costs() const { return costs_; }
    [[nodiscard]] const Timeline& timeline() const { return timeline_; }
    [[nodiscard]] const std::vector<PathSegment>& path() const { return path_; }

    // along_path() and simulated() return by how much the other cluster's step is longer.
    // along_path() gives every segment of the critical path its new price (a task that contention
    // stretched stays stretched by the same factor). Without contention the old path is still a
    // chain of the new step, so the step changes by no less than this; for small changes the two
    // are equal.
    [[nodiscard]] Seconds along_path(const Cluster& other) const;
    // The same cluster with other sizes of ops. Throws std::logic_error unless the graph has the
    // same tasks in the same order.
    [[nodiscard]] Seconds along_path(const TaskGraph& resized) const;
    [[nodiscard]] Seconds simulated(const Cluster& other);
    // The step if each task took the absolute change of its price. Without contention the step
    // cannot change by more: it is the longest of all chains of tasks, and no chain changes by more
    // than the sum of its own changes. Infinite if the interference differs.
    [[nodiscard]] Seconds most(const Cluster& other);

private:
    [[nodiscard]] PriceClasses::Paths paths(const Cluster& other) const;
    // The change along the path if class c costs new_price(c).
    template <class Price>
    [[nodiscard]] Seconds repriced_path(const Price& new_price) const;

    const TaskGraph& graph_;
    const Cluster& cluster_;
    PriceClasses classes_;
    EventEngine engine_;
    Costs other_costs_;  // these two are reused by every simulation
    Timeline other_timeline_;
    PriceClasses::Paths paths_;
    std::vector<Seconds> prices_;
    Costs costs_;
    Timeline timeline_;
    std::vector<PathSegment> path_;
    std::vector<Seconds> time_on_path_;  // by class
    double calls_on_path_ = 0;           // host calls that issue the path's segments
};

// For every parameter of the cluster, strongest first. Parameters without effect are listed in
// `without_effect` instead. If a parameter changes the step by less than the share `negligible`, by
// WhatIf::most(), nothing is simulated, and the change along the path counts.
std::vector<Elasticity> elasticities(WhatIf& step, const Cluster& cluster, double change,
                                     std::vector<std::string>& without_effect);
inline constexpr double negligible = 1e-3;

// Widest first. The error of a parameter is the fit's standard error if the data determined it, the
// width of its prior if they did not, and an assumed error if nobody fitted it. Datasheet values
// and measured tables count as exact. The result is half the difference between the steps with the
// parameter one error up and one error down. It is computed along the critical path and scaled by
// the ratio of simulated change to change along the path that `elasticities` found; the three
// widest are simulated.
std::vector<Uncertainty> uncertainties(WhatIf& step, const Cluster& cluster,
                                       const std::vector<Elasticity>& elasticities, double change);

// Errors of the logarithm, for constants that nobody fitted. Shares of a datasheet rate are alike
// on all devices; latencies and host costs differ by factors between machines.
inline constexpr double assumed_share_error = 0.15, assumed_time_error = 0.5;

}  // namespace stepcast
