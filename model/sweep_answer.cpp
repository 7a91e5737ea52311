#include "model/sweep_answer.h"

#include <fmt/format.h>

#include "model/names.h"

namespace stepcast {
namespace {

constexpr std::array<Named<Objective>, 4> objectives{{{Objective::step, "step"},
                                                      {Objective::tokens, "tokens"},
                                                      {Objective::cost, "cost"},
                                                      {Objective::memory, "memory"}}};

}  // namespace

std::string_view to_string(Objective objective) { return name_of(objectives, objective); }
Objective parse_objective(std::string_view text) { return value_named(objectives, text, "an objective"); }

std::string proof_text(const SweepAnswer& r) {
    const SweepCounts& c = r.counts;
    const std::string best = r.second ? "this front" : fmt::format("the best {}", r.best.size());
    if (r.broken_bounds > 0)
        return fmt::format("NOT proven: {} of {} simulated configurations were faster than their lower bound",
                           r.broken_bounds, c.simulated);
    const std::string twins =
        c.twins > 0 ? fmt::format(" ({} of them as a twin that differs only in switches without effect)", c.twins) : "";
    if (c.bounded_away == 0)
        return fmt::format("proven: all {} feasible configurations were simulated{}", c.feasible, twins);
    return fmt::format(
        "proven: {} of {} feasible configurations; {} were simulated{}, each of the other {} has a lower bound that is "
        "no better",
        best, c.feasible, c.simulated, twins, c.bounded_away);
}

}  // namespace stepcast
