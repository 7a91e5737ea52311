// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a counter and
// a key become 128 random bits, so that any thread can make any number again.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast {

struct PhiloxWords {
    std::uint32_t words[4];
};

// What a key gives each of the ten rounds: made once, not by every thread.
struct PhiloxKeys {
    std::uint32_t low[10], high[10];
};
__host__ __device__ inline PhiloxKeys philox_keys(std::uint64_t key) {
    PhiloxKeys keys{};
    auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        keys.low[round] = low;
        keys.high[round] = high;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return keys;
}

__host__ __device__ inline PhiloxWords philox(PhiloxWords counter, const PhiloxKeys& keys) {
    auto& [a, b, c, d] = counter.words;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xD2511F53u} * a,
                            second = std::uint64_t{0xCD9E8D57u} * c;
        const auto second_high = static_cast<std::uint32_t>(second >> 32),
                   first_high = static_cast<std::uint32_t>(first >> 32);
        counter = {{second_high ^ b ^ keys.low[round], static_cast<std::uint32_t>(second),
                    first_high ^ d ^ keys.high[round], static_cast<std::uint32_t>(first)}};
    }
    return counter;
}

// Sixteen bits decide about an element: eight elements share a counter, `offset` keeps the draws of
// different calls apart.
__host__ __device__ inline PhiloxWords dropout_bits(std::uint64_t eight, std::uint64_t offset,
                                                    const PhiloxKeys& seed) {
    return philox({{static_cast<std::uint32_t>(eight), static_cast<std::uint32_t>(eight >> 32),
                    static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32)}},
                  seed);
}
// Dropped below this: p in 65536ths, as which it counts.
__host__ __device__ inline std::uint32_t dropout_threshold(float p) {
    return static_cast<std::uint32_t>(p * 65536.0f + 0.5f);
}
__host__ __device__ inline bool is_kept(const PhiloxWords& bits, unsigned place,
                                        std::uint32_t threshold) {
    return (bits.words[place / 2] >> 16 * (place % 2) & 0xffffu) >= threshold;
}

}  // namespace stepcast
