// The closed list of causes that `diagnose` weighs, as data (model/presets/causes.toml), and what a
// step takes under each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/graph/step_times.h"
#include "sim/costs/costs.h"
#include "sim/results/rank_use.h"

namespace stepcast {

// What an experiment must have for a cause to be possible.
NAMED_ENUM(CauseNeeds, "what a cause needs", nodes, linked_node, unlinked_node, unblocked, blocked,
           flash, fused, no_recompute, trains, zero3, accumulates, shards_inside, overlaps,
           reduces_gradients, half_precision, spreads_experts, experts, ranks, stated_rate,
           stated_tokens, stated_total);

// Whose kernels take longer. `some`: a group of ranks, all alike; `each`: every rank otherwise, as
// tokens choose their experts.
NAMED_ENUM(SlowRanks, "which ranks compute longer", all, one, some, each);

struct Cause {
    KEY(std::string, name, {}, "short");
    KEY(std::string, what, {}, "a sentence");
    KEY(double, weight, 0, "how often it is met; nothing wrong: 1", 0, 1);
    KEY(double, half_at, 0, "of a few ranks: the weight is half of it at so many ranks", 0, 1e6);
    KEY(std::vector<std::string>, when, {}, "what the experiment must have");
    KEY(std::vector<std::string>, changes, {}, "of the experiment, the machine or the step");
    KEY(std::vector<std::string>, undone, {}, "of an experiment that states it: without it");
    KEY(double, least, 1, "least severity", 1e-4, 1e4);
    KEY(double, most, 1, "largest severity", 1e-4, 1e4);
    KEY(bool, doubling, false, "severities are 2, 4, 8 ..");
    KEY(double, some, 0, "chance that it slows down some steps, not every one", 0, 1);
    KEY(double, regular, 0.05, "chance that slow steps come at equal distances", 0, 1);
    KEY(double, every_least, 2, "steps from one slow step to the next, at least", 1, 1e6);
    KEY(double, every_most, 1000, "and at most, where distances are equal", 1, 1e6);
    KEY(SlowRanks, ranks, SlowRanks::all, "which ranks compute longer");
    KEY(bool, at_once, false, "devices do nothing in one stretch as long as what it costs");
    KEY(std::vector<std::string>, frees, {}, "what is then not in a device's memory");
    KEY(bool, clock, false, "devices run at the severity's share of their clock");
    KEY(std::string, test, {}, "test that confirms it");
    KEY(double, minutes, 5, "that the test takes", 0, 1e4);
    KEY(std::string, remedy, {}, "what to change");
    friend bool operator==(const Cause&, const Cause&) = default;
};

// The shipped list, or that of a file. Throws ConfigError with file:line:column, also for a change
// or a need that nobody knows.
std::vector<Cause> read_causes(const std::string& path = "");

// Whether the experiment has what the cause needs; that a rate or tokens are stated is a need of
// what was measured.
bool is_possible(const Cause& cause, const Experiment& e);
bool needs(const Cause& cause, CauseNeeds need);
// The cause as often as it is met among so many ranks: one of many is bad more often than one of
// few.
Cause among(Cause cause, int ranks);
// Whether it sets keys of the experiment, and not of its machine alone.
bool sets_keys(const Cause& cause);
// How likely slow steps at equal distances are `every` steps apart: the same for each logarithm of
// the cause's range.
double chance_of_distance(const Cause& cause, double every);
// At which it is tried: logarithmic steps.
std::vector<double> severities_of(const Cause& cause);

// The experiment as the cause makes it, and what comes on top of its simulated step. Empty if that
// is no legal experiment. Texts that do not parse throw ConfigError.
struct UnderCause {
    Experiment experiment;
    double times = 1;  // the step takes so many times longer
    double work = 1;   // and so does everything in it
    // and so much, in forward, backward and optimizer
    Seconds in_forward = {}, in_backward = {}, in_optimizer = {};
    double device_share = 1;  // of the time, how much of its devices the step has
    bool same = true;         // the experiment is the one as stated
};
std::optional<UnderCause> under(const Cause& cause, double severity, const Experiment& e);
// The experiment without what it states of the cause; empty if it states nothing of it.
std::optional<Experiment> without(const Cause& cause, const Experiment& e);

// What each simulated rank computes, in seconds.
std::vector<double> kernel_times(const TaskGraph& graph, const Costs& costs);

// One step of the experiment, without noise: what `diagnose` compares. `kernels`: the sum of what
// the reporting rank computes, `computing` the same without the host's work, and `kinds` the shares
// of that. `typical`: what the median rank computes; `uneven`: what the busiest one does, over
// that. `idle`: the longest stretch in which the reporting rank does nothing, over the step;
// `busy`: how much of the step it computes or exchanges, or waits in an exchange for other ranks.
struct QuickStep {
    StepTimes times;
    Seconds kernels, computing;
    KernelShares kinds;
    Seconds typical;
    double uneven = 1, idle = 0, busy = 1;
};
QuickStep quick_step(const Experiment& e);

}  // namespace stepcast
