// Which share of its ranks' links a collective needs while it runs, and what those get who want more of a link than it
// has.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

// Directed links as a rank sees them: to and from other nodes, and to and from its own node.
enum class RankLink : std::uint8_t { to_nodes, from_nodes, to_node, from_node };
inline constexpr std::size_t rank_links = 4;

// Of each link the share of its bandwidth that a collective takes over its duration, when it runs alone: 1 fills it.
using LinkDemand = std::array<double, rank_links>;

// Of the collectives of a graph. Use 0 takes nothing. A message leaves its first rank and arrives at the others.
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

// Max-min fairness on one link (Bertsekas, Gallager, Data Networks, 2nd edition, section 6.5.2; flows as in SimGrid,
// Casanova et al. 2014): everybody gets what he wants up to a level at which the link is full. The level: infinite
// while demands sum up to no more than 1; demand / level is how many times longer somebody above it takes.
double fair_level(std::span<const double> demands);

}  // namespace stepcast
