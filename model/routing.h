// Which tokens go to which experts: an input of a step, equal for simulator and executor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/input/keyed.h"

namespace stepcast {

struct RoutingSpec {
    NAMED_ENUM_AT(friend, Kind, "a routing kind", "uniform, zipf, power-law, random-gate, file",
                  uniform, zipf, power_law, random_gate, file);
    KEY(Kind, kind, Kind::uniform, "which tokens go where");
    KEY(std::uint64_t, seed, 1, "seed of the first draw", 0, 9e18);
    KEY(double, skew, 1.0,
        "zipf, power-law: exponent; random-gate: offset over token-dependent spread, in units of "
        "1.732",
        0, 1000);
    // if its gates are unknown: log-normal around `skew`
    KEY(double, skew_spread, 0,
        "transformer with a MoE system: spread of the skew over draws, standard deviation of its "
        "logarithm",
        0, 10);
    KEY(std::string, file, {}, "routing file, for kind = file");
    KEY(int, draws, 1, "Monte Carlo draws", 1, 100000);  // seeds seed .. seed + draws - 1
    friend bool operator==(const RoutingSpec&, const RoutingSpec&) = default;
};

// Record of a run that kept only sums: 64-row blocks that a rank computes, of which `remote` hold
// rows of another rank.
struct BlockTotals {
    int blocks = 0;
    int remote = 0;
    friend bool operator==(const BlockTotals&, const BlockTotals&) = default;
};

// Either full counts (slots per source rank and expert, row-major [source][expert]) or block totals
// per rank. `counts` belongs to the first layer with experts; the other layers have the same counts
// if `further` is empty, else their own. Expert e lives on rank e / (experts / ranks). A slot is
// one pair of token and chosen expert.
struct Routing {
    int ranks = 0;
    int experts = 0;                  // total over all ranks
    std::vector<int> counts;          // ranks * experts, or empty
    std::vector<BlockTotals> totals;  // ranks, or empty
    // counts of the second layer with experts, the third ..
    std::vector<std::vector<int>> further{};
    [[nodiscard]] int experts_per_rank() const { return experts / ranks; }
    [[nodiscard]] int count(int source, int expert) const {
        return counts[as_index(source * experts + expert)];
    }
    friend bool operator==(const Routing&, const Routing&) = default;
};

// The routing of the index-th layer with experts, counted from 0.
Routing routing_of_layer(const Routing& routing, std::size_t index);

struct RoutingSize {
    int ranks, experts, tokens_per_rank, top_k;
};

// Routes tokens * top_k slots of every rank; the counts of each source rank sum to that.
// random_gate (x = 0.5 + noise through random weights): routing.cpp has the formula. Deterministic
// per seed. kind = file reads `spec.file` and ignores `draw`. Throws ConfigError.
Routing make_routing(const RoutingSpec& spec, const RoutingSize& size, int draw = 0);

}  // namespace stepcast
