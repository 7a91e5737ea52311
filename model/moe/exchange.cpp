#include "model/moe/exchange.h"

#include <algorithm>

namespace stepcast {

void add_exchange_groups(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase,
                         Direction direction, const std::vector<bool>& skip) {
    const auto ranks = static_cast<std::size_t>(layer.ranks);
    const char* name = direction == Direction::dispatch ? "dispatch" : "combine";
    for (int local = 0; local < layer.experts_per_rank(); ++local) {
        AllToAll group{std::vector<Bytes>(ranks * ranks)};
        bool moves = false;
        for (std::size_t source = 0; source < ranks; ++source) {
            for (std::size_t owner = 0; owner < ranks; ++owner) {
                const int expert = static_cast<int>(owner) * layer.experts_per_rank() + local;
                const int slots = routing.count(static_cast<int>(source), expert);
                if (slots == 0 || skip[static_cast<std::size_t>(expert)]) continue;
                const std::size_t cell =
                    direction == Direction::dispatch ? source * ranks + owner : owner * ranks + source;
                group.bytes[cell] = slots * layer.row();
                moves = true;
            }
        }
        if (!moves) continue;
        program.on_each("exchange_setup", phase, HostWork{HostWork::Kind::exchange_setup, 1}, Lane::host);
        program.on_all(name, phase, std::move(group));
    }
}

std::vector<int> world_load(const Routing& routing) {
    std::vector<int> load(static_cast<std::size_t>(routing.experts));
    for (int r = 0; r < routing.ranks; ++r)
        for (int e = 0; e < routing.experts; ++e) load[static_cast<std::size_t>(e)] += routing.count(r, e);
    return load;
}

}  // namespace stepcast
