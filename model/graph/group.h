// The ranks of a collective, as a rule over rank numbers. This suffices to price the collective on
// a topology when a folded graph contains one representative of identical ranks.
#pragma once

#include <compare>
#include <cstdint>

namespace stepcast {

using GroupId = std::uint16_t;

// The members are first + i * stride + j * outer_stride for i < ranks, j < outer_ranks, in that
// order. All ranks of the cluster (of the pipeline stage) form such groups at the same time, so the
// load on shared links follows from the cluster. With outer_ranks = 1 the outer stride has no
// meaning. A send/recv has ranks = 2 and the stride between sender and receiver.
struct Group {
    int ranks = 1, stride = 1;
    int outer_ranks = 1, outer_stride = 0;
    // first rank of the group to price, where groups of one shape lie differently on the nodes
    int first = 0;
    // a group starts at every rank from which it fits into one block of so many ranks; 0 = groups
    int block = 0;
    // share no rank
    [[nodiscard]] int size() const { return ranks * outer_ranks; }
    friend auto operator<=>(const Group&, const Group&) = default;
};

}  // namespace stepcast
