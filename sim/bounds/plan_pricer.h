// Prices a plan of the step by simulating it alone on its rank: what it takes at least, what it
// takes behind another, and how long the device waits where its host does.
#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "model/transformer/layer_plans.h"
#include "model/transformer/plan.h"
#include "model/transformer/stage.h"
#include "sim/bounds/op_prices.h"
#include "sim/bounds/shape.h"
#include "sim/engine/simulate.h"

namespace stepcast {

class PlanPricer {
public:
    PlanPricer(const TaskGraph& ops, OpPrices& prices, bool by_turns)
        : ops_(ops), prices_(prices), by_turns_(by_turns) {}

    // What the host takes to issue a plan, and LeastTimes::waits.
    struct HostPart {
        double time = 0;
        bool waits = false;
    };
    // Fills in unit `unit` of the shape, priced on the expert-parallel rank `rank`.
    HostPart price(const Plan& plan, Phase phase, int rank, std::size_t unit, BoundShape& s);

    struct Stamp {
        const Plan* plan;
        Phase phase;
    };
    // In the first of these plans the host waits. What is lost behind that moment until the last of
    // them ends, compared with what they take on the device one by one.
    double lost_behind_wait(std::initializer_list<Stamp> stamps, int rank);

    // What layers that go by turns take beyond their kernels (sim/bounds/turns.h).
    void take_cycle(const PassPlans& plans, int rank, BoundShape& s);

private:
    struct Run {
        TaskGraph graph;
        Costs costs;
    };

    void take_turns(const TaskGraph& graph, const Costs& costs, std::size_t unit,
                    BoundShape& s) const;

    // Layers of a forward and of a backward by turns, and for each the first moment at which the
    // forward's host waits for the device. Nothing where it does not, or where the passes have
    // unequal parts.
    struct Turns : Run {
        std::vector<TaskId> waits;
    };
    std::optional<Turns> by_turns(const Stamp& forward, const Stamp& backward, int layers,
                                  int rank);

    // When the host has waited, if nothing waits for its own work.
    double until(const Turns& r, TaskId wait);
    // From a wait on until `last`, or all on the device if none, ends; what comes before takes no
    // time.
    double behind(const Turns& r, TaskId wait, std::optional<TaskId> last = {});

    static bool waits_for_device(const TaskGraph& graph, TaskId t);

    void add(const Stamp& stamp, Stage& stage, Run& r);

    Run stamped(std::initializer_list<Stamp> stamps, int rank);

    // Host time is zero, except for host tasks that wait for the device.
    static Costs without_hosts(const Run& r);

    // The kernel time of the last run during which no collective runs.
    double computing(const TaskGraph& graph) const;

    // The time of the last run before its first collective, and after its last.
    [[nodiscard]] std::pair<double, double> outside_collectives(const TaskGraph& graph) const;

    double end_of(const TaskGraph& graph, const Costs& costs);

    const TaskGraph& ops_;
    OpPrices& prices_;
    bool by_turns_;
    Timeline timeline_;
};

}  // namespace stepcast
