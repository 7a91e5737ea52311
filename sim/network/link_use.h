// The share of its ranks' links that a collective needs while it runs, and what collectives get
// that together want more than a link has.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

// Directed links as a rank sees them: to and from other nodes, and to and from its own node.
enum class RankLink : std::uint8_t { to_nodes, from_nodes, to_node, from_node };
inline constexpr std::size_t rank_links = 4;

// For each link, the share of its bandwidth that a collective takes while it runs alone: 1 fills
// it.
using LinkDemand = std::array<double, rank_links>;

// How a collective uses links. Use 0 of LinkUses takes nothing. A message leaves its first rank and
// arrives at the others.
struct LinkUse {
    LinkDemand demand{};
    bool message = false;
    friend bool operator==(const LinkUse&, const LinkUse&) = default;
};
struct LinkUses {
    std::vector<std::uint16_t> of_task;  // by task id, into `uses`
    std::vector<LinkUse> uses;
    [[nodiscard]] bool empty() const { return of_task.empty(); }
    friend bool operator==(const LinkUses&, const LinkUses&) = default;
};

// Max-min fairness on one link (Bertsekas, Gallager, Data Networks, 2nd edition, section 6.5.2;
// flows as in SimGrid, Casanova et al. 2014): each demand is met up to a level at which the link is
// full. Returns the level: infinite while the demands sum up to no more than
// 1. A demand above it takes demand / level times as long.
double fair_level(std::span<const double> demands);

}  // namespace stepcast
