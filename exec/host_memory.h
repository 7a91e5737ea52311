// The buffers of one host rank, sized before anything runs, and taken in rotation.
//
// `input` holds random numbers and is only read, `output` is only written: results never feed back, so values stay
// sane and peers may read inputs at any time. Each take() moves on, and together the regions exceed the last-level
// cache, so an op finds its operands in memory, not in a cache, whatever ran before. That is what a training step
// sees of its weights and stored activations, it makes an op's time independent of its neighbours, and it is the same
// in a calibration sweep and in a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "model/graph/task_graph.h"

namespace stepcast {

class Region {
public:
    Region() = default;
    explicit Region(std::size_t floats);

    // The next `count` floats, from the start again when the end is near; count <= size().
    std::span<float> take(std::size_t count);
    [[nodiscard]] std::span<float> all() { return {data_.get(), size_}; }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    struct Free {
        void operator()(float* data) const { std::free(data); }
    };
    std::unique_ptr<float, Free> data_;
    std::size_t size_ = 0, next_ = 0;
};

struct HostMemory {
    Region input, output;
};

// The next buffers for participant `index`'s share of an op, as footprint() lists them.
struct Operands {
    std::array<std::span<float>, 5> in;
    std::array<std::span<float>, 4> out;
};
Operands take(HostMemory& memory, const Op& op, std::size_t index, std::size_t count);

void fill_random(std::span<float> values, std::uint64_t seed);  // uniform in [-1, 1)

// Floats per region of each rank: the largest op, and no less than the machine's cache shared out (`cache` bytes).
struct MemoryPlan {
    std::size_t input = 0, output = 0;
};
// Throws ConfigError when `ranks_here` ranks do not fit `available`.
MemoryPlan plan_memory(const TaskGraph& graph, int ranks_here, Bytes cache, Bytes available);
HostMemory allocate(const MemoryPlan& plan, int rank);

}  // namespace stepcast
