// What PYTORCH_CUDA_ALLOC_CONF says (run.allocator).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

namespace stepcast {

inline constexpr std::int64_t mebibyte = 1 << 20;

// Settings of PyTorch's caching allocator, with its defaults. Sizes are in bytes.
struct AllocatorSettings {
    bool expandable_segments = false;
    // blocks from this size on are not split
    std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
    // how much larger such a block may be than what it serves
    std::int64_t max_non_split_rounding = 20 * mebibyte;
    std::int64_t large_segment = 20 * mebibyte;  // for requests below 10 MiB
    double garbage_collection_threshold = 0;     // of what the process may use; 0 = never
    double memory_fraction = 1;                  // of the device that the process may use
    // Steps between powers of two to which a request is rounded, for requests from 1 MiB, 2 MiB, ..
    // on; 0 and 1: not rounded.
    std::array<int, 16> roundup_divisions{};
    friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

// Throws ConfigError for what PyTorch refuses, with its words, and for a backend that is not
// modelled. "" gives the defaults.
AllocatorSettings parse_allocator_settings(const std::string& text);

}  // namespace stepcast
