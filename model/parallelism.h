// How the work is split over ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/units.h"

namespace stepcast {

enum class MoeSystem : std::uint8_t { fast_moe, faster_moe, mix_moe, alltoall };
std::string_view to_string(MoeSystem system);
MoeSystem parse_moe_system(std::string_view text);

enum class Schedule : std::uint8_t { gpipe, one_f_one_b };
std::string_view to_string(Schedule schedule);
Schedule parse_schedule(std::string_view text);

enum class Recompute : std::uint8_t { none, selective, full };
std::string_view to_string(Recompute recompute);
Recompute parse_recompute(std::string_view text);

// dp counts data-parallel replicas; experts are spread over ep ranks out of the dp x cp group (ep divides dp * cp).
// Ranks = dp * tp * pp * cp.
struct Parallelism {
    int dp = 1, tp = 1, pp = 1, vp = 1, ep = 1, cp = 1;
    bool sequence_parallel = false;
    int zero = 0;
    int micro_batch = 1;   // sequences per rank and micro-batch
    int global_batch = 0;  // sequences per step over all ranks; 0 = dp * micro_batch (one micro-batch each)
    Schedule schedule = Schedule::one_f_one_b;
    Recompute recompute = Recompute::none;
    Bytes bucket = Bytes(25e6);
    bool overlap = true;
    int overlap_chunks = 1;  // alltoall: the exchange and the experts are cut into so many overlapping pieces
    MoeSystem moe_system = MoeSystem::alltoall;
    int messages_per_tensor = 1;
    friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// Micro-batches of one step on each data-parallel replica.
inline int micro_batches(const Parallelism& p) {
    return p.global_batch == 0 ? 1 : p.global_batch / (p.dp * p.micro_batch);
}

}  // namespace stepcast
