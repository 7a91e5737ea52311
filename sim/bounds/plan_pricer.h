// Prices a plan of the step by simulating it alone on its rank: what it takes at least, what it
// takes behind another, and how long the device waits where its host does.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/transformer/layer_plans.h"
#include "model/transformer/plan.h"
#include "model/transformer/stage.h"
#include "sim/bounds/least.h"
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

    // `ahead` layers of a forward and `back` of a backward by turns, and for each the first moment
    // at which the forward's host waits for the device, if it does. Nothing where the passes have
    // unequal parts.
    struct Turns : Run {
        // which pass a task belongs to, and which of its parts
        struct Of {
            Pass pass = Pass::forward;
            std::size_t part = 0;
        };
        std::vector<TaskId> waits;
        std::vector<Of> of;  // by task
        std::size_t parts = 0;
    };
    std::optional<Turns> by_turns(const PassPlans& plans, int ahead, int back, int rank);

    using Tasks = std::vector<bool>;  // by task
    // Of a turn of one layer each.
    struct PairTasks {
        Tasks ahead;    // what the forward exchanges before its first kernel
        Tasks apart;    // these, and what the backward exchanges in its last part
        Tasks first;    // the backward's first part
        Tasks left;     // what the backward's result does not wait for
        Tasks kernels;  // of the forward
        Tasks backward;
    };
    static PairTasks tasks_of(const Turns& one);
    static Tasks on_device(const Turns& r);
    // In seconds: until its wait, without `ahead`; from there to the forward's last kernel; of the
    // host, until it waits.
    struct PairTimes {
        double base = 0, kernels = 0, host_begin = 0;
    };
    PairTimes take_pair(const Turns& one, const PairTasks& tasks, BoundShape& s);
    void take_alone(const Turns& forward, const Turns& backward, const PairTimes& pair,
                    BoundShape& s);
    // A layer of a forward alone.
    void take_first(const Turns& forward, BoundShape& s);

    // When the host has waited, if nothing waits for its own work, and `done` takes no time.
    double until(const Turns& r, TaskId wait, const Tasks& done);
    // Runs on from a wait; what comes before takes no time.
    void run_behind(const Turns& r, TaskId wait);
    // When the last of these has ended.
    [[nodiscard]] double end_of(const Tasks& tasks) const;
    // K + s / (1 + s) C of these tasks, and C.
    [[nodiscard]] std::pair<double, double> lanes_of(const Turns& r, const Tasks& tasks) const;
    // What the host takes for the tasks [first, last).
    static double issue_time(const Run& r, TaskId first, TaskId last = ~TaskId{0});

    static bool waits_for_device(const TaskGraph& graph, TaskId t);

    void add(const Stamp& stamp, Stage& stage, Run& r);
    Seconds price(const TaskGraph& graph, TaskId task, Phase phase);

    // A plan alone: how many tasks it has, and what the device takes for them.
    struct Alone {
        TaskId tasks = 0;
        LeastTimes least;
    };
    const Alone& alone(const Stamp& stamp, int rank);

    // The plans one behind the other, in place of what was there.
    const Run& stamped(std::initializer_list<Stamp> stamps, int rank, std::optional<Run>& into);

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
    std::optional<Run> once_, twice_;
    Timeline timeline_;
    // what was priced: stamps of a plan share its operations
    std::map<std::tuple<OpId, GroupId, Phase>, Seconds> priced_;
    std::map<std::tuple<const Plan*, Phase, int>, Alone> alone_;
};

}  // namespace stepcast
