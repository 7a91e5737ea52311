// What the types of a device's products say of it.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// Narrow types name the generation: fp4 at three times fp8 Blackwell Ultra, fp4 Blackwell, fp8 Hopper and Ada, tf32 Ampere, fp16
// without bf16 Volta; other makers have none of these, which is far from all of them. Hopper is two on from Ampere: its tensor cores take operands from shared memory,
// asynchronously.
enum class Generation { other = -6, volta = -1, ampere, hopper = 2, blackwell, blackwell_ultra };

inline Generation generation(const Gpu& gpu) {
    const FlopsPerSecond none(0), fp8 = gpu.peaks[Dtype::fp8], fp4 = gpu.peaks[Dtype::fp4];
    if (fp4 > 2.5 * fp8) return Generation::blackwell_ultra;
    if (fp4 > none) return Generation::blackwell;
    if (fp8 > none) return Generation::hopper;
    if (gpu.peaks[Dtype::tf32] > none) return Generation::ampere;
    return gpu.peaks[Dtype::fp16] > none && gpu.peaks[Dtype::bf16] == none ? Generation::volta : Generation::other;
}

// Products with a scale for each block of a few elements, and experts fused with what is around them.
inline bool is_blackwell(const Gpu& gpu) { return generation(gpu) >= Generation::blackwell; }

}  // namespace stepcast
