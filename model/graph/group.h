// Who takes part in a collective, as a rule over rank numbers: enough to price it on a topology when a folded graph shows
// only one representative of identical ranks.
#pragma once

#include <compare>
#include <cstdint>

namespace stepcast {

using GroupId = std::uint16_t;

// Members first + i * stride + j * outer_stride for i < ranks, j < outer_ranks, in that order. All ranks of the cluster
// (of the pipeline stage) form groups of this shape at once, so what they share follows from the cluster. With
// outer_ranks = 1 the outer stride means nothing. A send/recv has ranks = 2 and the stride between sender and receiver.
struct Group {
    int ranks = 1, stride = 1;
    int outer_ranks = 1, outer_stride = 0;
    int first = 0;  // of the group to look at, where groups of one shape lie differently on the nodes
    int block = 0;  // such a group begins at every rank from which it ends within one block of so many ranks; 0 = the
                    // groups share no rank
    [[nodiscard]] int size() const { return ranks * outer_ranks; }
    friend auto operator<=>(const Group&, const Group&) = default;
};

}  // namespace stepcast
