// The buffers of one host rank, sized before anything runs, and taken in rotation.
//
// `input` holds random numbers and is only read, `output` is only written. Results never feed back,
// so values stay sane and peers may read inputs at any time. Each take() moves on, and together the
// regions exceed the last-level cache, so an op finds its operands in memory, not in a cache,
// whatever ran before. A training step sees its weights and stored activations in the same way. It
// makes an op's time independent of its neighbours, and equal in a calibration sweep and in a step.
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

    // The next `count` floats, from the start again if the end is too near; count <= size().
    std::span<float> take(std::size_t count);
    [[nodiscard]] std::span<float> all() { return {data_.get(), size_}; }
    [[nodiscard]] std::size_t size() const { return size_; }
    void rewind() { next_ = 0; }

private:
    struct Free {
        void operator()(float* data) const { std::free(data); }
    };
    std::unique_ptr<float, Free> data_;
    std::size_t size_ = 0, next_ = 0;
};

// Floats in each region of a rank: enough for the largest op and for the rank's share of the
// machine's cache (`cache` bytes).
struct MemoryPlan {
    std::size_t input = 0, output = 0;
};

struct HostMemory {
    Region input, output;

    [[nodiscard]] Bytes size() const {
        return Bytes(static_cast<double>((input.size() + output.size()) * sizeof(float)));
    }
    [[nodiscard]] bool holds(const MemoryPlan& plan) const {
        return input.size() >= plan.input && output.size() >= plan.output;
    }
    void rewind() {
        input.rewind();
        output.rewind();
    }
};

// The next buffers for participant `index`'s share of an op, in the order of footprint().
struct Operands {
    std::array<std::span<float>, 6> in;
    std::array<std::span<float>, 4> out;
};
Operands take(HostMemory& memory, const Op& op, std::size_t index, std::size_t count);

void fill_random(std::span<float> values, std::uint64_t seed);  // uniform in [-1, 1)

// Throws ConfigError if `ranks_here` ranks do not fit into `available`.
MemoryPlan plan_memory(const TaskGraph& graph, int ranks_here, Bytes cache, Bytes available);
HostMemory allocate(const MemoryPlan& plan, int rank);

}  // namespace stepcast
