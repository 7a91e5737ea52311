// PyTorch's caching allocator as a function of what is asked of it: which memory it takes from the
// driver, and which request fails. Sizes are whole bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/machine/allocator_settings.h"

namespace stepcast {

// What a program asks of the allocator. A tensor has an id of its own while it lives.
struct AllocatorEvent {
    enum class Kind : std::uint8_t {
        allocate,       // `bytes` for tensor `id` on `stream`
        free,           // tensor `id`
        record_stream,  // tensor `id` is also used on `stream`
        synchronize,    // what was asked of `stream` so far is done
        capture,        // a CUDA graph begins: what is cached goes, and what is asked for from then
                        // on lies in pools of its own that give nothing back
    };
    Kind kind = Kind::allocate;
    std::uint8_t stream = 0;  // below 32
    std::uint32_t id = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const AllocatorEvent&, const AllocatorEvent&) = default;
};

// What tensors take, in rounded sizes, and what the allocator holds of the device.
struct AllocatorLevel {
    std::int64_t allocated = 0, reserved = 0;
    friend bool operator==(const AllocatorLevel&, const AllocatorLevel&) = default;
};

// Memory that came from the driver in one piece; of an expandable segment, a piece of it without
// gaps.
struct AllocatorSegment {
    struct Piece {
        std::int64_t bytes = 0;
        bool used = false;
        friend bool operator==(const Piece&, const Piece&) = default;
    };
    std::int64_t bytes = 0;
    int stream = 0;
    bool small = false;  // serves requests of up to 1 MiB
    std::vector<Piece> pieces;
    friend bool operator==(const AllocatorSegment&, const AllocatorSegment&) = default;
};

struct AllocatorReplay {
    AllocatorLevel peak;                // of either by itself
    std::size_t fullest = 0;            // first event after which `allocated` was at its peak
    AllocatorLevel at_fullest, last;    // after that event, and after the last one
    std::size_t retries = 0;            // requests that were met after cached memory was given back
    std::optional<std::size_t> failed;  // event that got no memory; the replay ends with it
    std::vector<AllocatorSegment> segments;  // at the end, by address
    std::vector<AllocatorLevel> levels;      // after each event, if asked for
};

enum class Levels : std::uint8_t { peaks_only, all };

// Whether the driver waits for the device before it gives memory, so that what other streams used
// is free afterwards. CUDA's C++ Programming Guide (up to 12, "Implicit Synchronization", from
// memory) says that no two commands from different streams run at once where the host allocated
// device memory between them; cuda_runtime_api.h of CUDA 13 says of cudaFree alone that it may
// synchronize. That the host waits is read into the guide and agrees with ten runs over two ranks
// (notes/published-steps.md), so where it decides a verdict the forecast says so.
// planned: no cache, but a region planned ahead (XLA), which holds what lives and nothing else.
enum class Driver : std::uint8_t { waits, does_not_wait, planned };

// `capacity`: what the driver can give; 0 = any amount. Throws std::logic_error where a tensor is
// used that does not live, or allocated while it lives.
AllocatorReplay replay(std::span<const AllocatorEvent> events, const AllocatorSettings& settings,
                       std::int64_t capacity = 0, Levels levels = Levels::peaks_only,
                       Driver driver = Driver::waits);

}  // namespace stepcast
