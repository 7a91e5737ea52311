#include "model/parallelism.h"

#include "model/names.h"

namespace stepcast {
namespace {

constexpr std::array<Named<MoeSystem>, 4> systems{{{MoeSystem::fast_moe, "fast_moe"},
                                                   {MoeSystem::faster_moe, "faster_moe"},
                                                   {MoeSystem::mix_moe, "mix_moe"},
                                                   {MoeSystem::alltoall, "alltoall"}}};
constexpr std::array<Named<Schedule>, 5> schedules{{{Schedule::gpipe, "gpipe"},
                                                    {Schedule::one_f_one_b, "1f1b"},
                                                    {Schedule::zb_h1, "zb-h1"},
                                                    {Schedule::zb_v, "zb-v"},
                                                    {Schedule::dualpipe, "dualpipe"}}};
constexpr std::array<Named<ContextExchange>, 2> exchanges{
    {{ContextExchange::ring, "ring"}, {ContextExchange::all_gather, "all-gather"}}};
constexpr std::array<Named<StageCut>, 2> cuts{{{StageCut::layers, "layers"}, {StageCut::modules, "modules"}}};
constexpr std::array<Named<ExpertProducts>, 3> products{
    {{ExpertProducts::grouped, "grouped"}, {ExpertProducts::each, "each"}, {ExpertProducts::fused, "fused"}}};
constexpr std::array<Named<Recompute>, 3> recomputes{
    {{Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}}};

}  // namespace

std::string_view to_string(MoeSystem system) { return name_of(systems, system); }
MoeSystem parse_moe_system(std::string_view text) { return value_named(systems, text, "an MoE system"); }

std::string_view to_string(Schedule schedule) { return name_of(schedules, schedule); }
Schedule parse_schedule(std::string_view text) { return value_named(schedules, text, "a schedule"); }

std::string_view to_string(Recompute recompute) { return name_of(recomputes, recompute); }
Recompute parse_recompute(std::string_view text) { return value_named(recomputes, text, "a recompute mode"); }

std::string_view to_string(StageCut cut) { return name_of(cuts, cut); }
StageCut parse_stage_cut(std::string_view text) { return value_named(cuts, text, "a cut of stages"); }

std::string_view to_string(ExpertProducts of) { return name_of(products, of); }
ExpertProducts parse_expert_products(std::string_view text) { return value_named(products, text, "a kind of expert products"); }

std::string_view to_string(ContextExchange exchange) { return name_of(exchanges, exchange); }
ContextExchange parse_context_exchange(std::string_view text) {
    return value_named(exchanges, text, "a context exchange");
}

}  // namespace stepcast
