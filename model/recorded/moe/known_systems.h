// The MoE systems, which differ in how a layer with experts moves its tokens. To add one, add a
// file for its tasks beside this one, an enumerator here and its row.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/base/names.h"
#include "model/base/numbers.h"

namespace stepcast {

class Program;
enum class Phase : std::uint8_t;
struct MoeLayer;
struct Routing;

// Appends the forward or backward of one layer. Throws ConfigError unless the routing has what the
// system needs: slots of every source and expert, or block totals for a system that accepts them.
using AddMoeLayer = void(Program& program, const MoeLayer& layer, const Routing& routing,
                         Phase phase);
AddMoeLayer add_fast_moe, add_faster_moe, add_mix_moe, add_alltoall;

enum class MoeSystem : std::uint8_t { fast_moe, faster_moe, mix_moe, alltoall };

struct MoeSystemTraits {
    MoeSystem system;
    std::string_view name;  // in files
    AddMoeLayer* add;
};

inline constexpr MoeSystemTraits known_systems[] = {
    {MoeSystem::fast_moe, "fast_moe", add_fast_moe},
    {MoeSystem::faster_moe, "faster_moe", add_faster_moe},
    {MoeSystem::mix_moe, "mix_moe", add_mix_moe},
    {MoeSystem::alltoall, "alltoall", add_alltoall},
};

constexpr const MoeSystemTraits& traits(MoeSystem system) {
    return known_systems[as_index(system)];
}
constexpr auto names_of(MoeSystem) {
    return names_of_rows<MoeSystem>("an MoE system", known_systems, &MoeSystemTraits::system);
}

}  // namespace stepcast
