// Who ran a step, and what its forecast is of. Frameworks' files describe published recipes; steps
// of anybody else take longer and scatter more (model/presets/scatter.toml, [[class]]).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "sim/results/forecast.h"
#include "sim/scatter.h"

namespace stepcast {

// own: the user of this program, whose p50 is what the experiment states, while p10 .. p90 are
// those of anyone; recipe: those who published the steps that the framework's file describes;
// thread: a user who tells of it; complaint: one who finds it slow; anyone: another whose steps the
// widths of scatter.toml are of; stranger: one whom nothing here has met.
NAMED_ENUM(RunBy, "who ran a step", own, recipe, anyone, thread, complaint, stranger);

struct Circumstances {
    RunBy by = RunBy::own;
    bool network_stated = true;  // of users' steps: what links their nodes
    bool software_named = true;  // else by what it is made of: as wide as the unnamed
    // its step says how far forecasts are off: no known cause explains it
    bool evidence = true;
    friend bool operator==(const Circumstances&, const Circumstances&) = default;
};
// Steps that others published and that follow no recipe.
bool of_others(const Circumstances& circumstances);

// The step with a network that reaches this rate between the nodes of a machine.
struct NetworkStep {
    BytesPerSecond of_node;
    Seconds step;
};
// The rate of a node with which the step would take as long as measured, between these steps by its
// reciprocal and beyond the slowest one as its last two lie; nothing where no rate does, or where
// the network decides less than a hundredth of the step. Fastest network first.
std::optional<BytesPerSecond> rate_explaining(const std::vector<NetworkStep>& steps,
                                              Seconds measured);

// The experiment that a forecast simulates, with the steps of the other ways to read what was left
// open, relative to its own.
struct AsRun {
    Experiment experiment;
    Circumstances circumstances = {};
    std::vector<OtherReading> readings = {};
    std::vector<std::string> said = {};  // for the row's assumptions
    // of its own software, where users' nodes are linked by an unstated network: fastest first
    std::vector<NetworkStep> networks = {};
    // Of a neighbouring step, in place of this one's own where experts would be drawn: a simulation
    // of all ranks, of which p10 and p90 alone depend.
    std::optional<DrawnExperts> drawn = std::nullopt;
    // where it is known already
    std::optional<MemoryUse> memory = std::nullopt;
};

// Of steps of others: reads an unnamed framework as that one of its kinds (framework.may_be), and
// an unstated network between users' nodes as that rate (scatter.toml, [network]), whose step is
// the median of all.
AsRun as_run(const Experiment& experiment, const Circumstances& circumstances);

// "named", "untuned" (a framework's file that describes nobody's recipe) or "unnamed" of anyone's
// steps, else who ran them; "" where class_of() has none.
std::string class_name(const Experiment& experiment, const Circumstances& circumstances);

// What of a step makes its forecast less sure, whoever ran it: "experts", "narrow" (products in 8
// bits or fewer), "device" (no rate of whole steps was fitted on it).
std::vector<std::string> traits_of(const Experiment& experiment);
// The trait of a stranger's steps. Leaving a source out hides its rows from the widths, but not
// from who wrote the model, so its width is of forecasts that were frozen
// (scripts/first-contact.py).
inline constexpr const char* first_contact = "first_contact";

// The class of these steps in the table, as wide as their traits make it; none for recipes, for a
// framework that was fitted to the user's own steps, and where no framework is.
std::optional<ClassScatter> class_of(const ScatterTable& table, const Experiment& experiment,
                                     const Circumstances& circumstances);

}  // namespace stepcast
