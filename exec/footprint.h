// How much memory one rank's share of an op reads and writes on the host, in floats: the sizes of
// its buffers.
#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "model/base/numbers.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// The distinct ranks of a task, in the order of its places. For a collective these are its
// participants.
std::vector<int> participants(std::span<const Place> places);
bool has(const std::vector<int>& ranks, int rank);

bool moves_rows(const TaskGraph& graph);  // whether fused kernels use other ranks' memory

// Floats that an all-to-all moves, and those that one participant sends and receives. What a rank
// keeps for itself does not move: 0.
std::size_t exchanged(const AllToAll& op, std::size_t source, std::size_t target,
                      std::size_t count);
struct ExchangeCounts {
    std::vector<std::size_t> to, from;
};
ExchangeCounts exchange_counts(const AllToAll& op, std::size_t index, std::size_t count);

// The bounds of part `index` if `size` elements are split over `count` ranks.
struct Part {
    std::size_t begin = 0, end = 0;
    [[nodiscard]] std::size_t size() const { return end - begin; }
};
Part part_of(std::size_t size, std::size_t index, std::size_t count);

std::size_t float_count(Bytes bytes);  // rounded up
inline double area(long a, long b) { return real(a) * real(b); }

// Sizes of each operand, in the order of the kernels' arguments. Inputs are only read, outputs only
// written. Doubles hold any size.
struct Footprint {
    std::array<double, 6> inputs{};
    std::array<double, 4> outputs{};
    [[nodiscard]] double input() const {
        return std::accumulate(inputs.begin(), inputs.end(), 0.0);
    }
    [[nodiscard]] double output() const {
        return std::accumulate(outputs.begin(), outputs.end(), 0.0);
    }
    friend bool operator==(const Footprint&, const Footprint&) = default;
};
// For participant `index` of `count`.
Footprint footprint(const Op& op, std::size_t index, std::size_t count);

}  // namespace stepcast
