// The generation of a device, derived from the types that its matrix products support.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// The narrowest types identify the generation: fp4 at three times fp8 is Blackwell Ultra, fp4
// Blackwell, fp8 Hopper and Ada, tf32 Ampere, fp16 without bf16 Volta. Other makers support none of
// these and get `other`, a value far from all of them. Hopper is two steps from Ampere because its
// tensor cores read operands from shared memory, asynchronously.
enum class Generation { other = -6, volta = -1, ampere, hopper = 2, blackwell, blackwell_ultra };

inline Generation generation(const Gpu& gpu) {
    const FlopsPerSecond none(0), fp8 = gpu.peaks[Dtype::fp8], fp4 = gpu.peaks[Dtype::fp4];
    if (fp4 > 2.5 * fp8) return Generation::blackwell_ultra;
    if (fp4 > none) return Generation::blackwell;
    if (fp8 > none) return Generation::hopper;
    if (gpu.peaks[Dtype::tf32] > none) return Generation::ampere;
    return gpu.peaks[Dtype::fp16] > none && gpu.peaks[Dtype::bf16] == none ? Generation::volta
                                                                           : Generation::other;
}

// Only one maker's devices are assigned generations.
inline bool has_generations(const Gpu& gpu) { return generation(gpu) != Generation::other; }

// Such devices have products with a scale per block of a few elements, and experts fused with the
// work around them.
inline bool is_blackwell(const Gpu& gpu) { return generation(gpu) >= Generation::blackwell; }

}  // namespace stepcast
