#include "model/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/routing_file.h"

namespace stepcast {
namespace {

double normal_density(double z) { return 0.3989422804014327 * std::exp(-0.5 * z * z); }
double normal_cdf(double z) { return 0.5 * std::erfc(-0.7071067811865476 * z); }

// Splits `total` in proportion to `weights` by largest remainder, with no share above `cap`. The
// sum is exact; nothing is random.
std::vector<int> split_exactly(const std::vector<double>& weights, int total, int cap) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<int> shares(weights.size());
    std::vector<std::pair<double, std::size_t>> remainders;
    int given = 0;
    for (const std::size_t e : indices_of(weights)) {
        const double exact = std::min<double>(total * weights[e] / sum, cap);
        shares[e] = static_cast<int>(exact);
        given += shares[e];
        remainders.emplace_back(shares[e] - exact, e);
    }
    std::sort(remainders.begin(), remainders.end());
    for (std::size_t i = 0; given < total; i = (i + 1) % remainders.size()) {
        int& share = shares[remainders[i].second];
        if (share < cap) ++share, ++given;
    }
    return shares;
}

// Probability that each expert is among the `top_k` of a token, if expert e scores offset[e] + N(0,
// 1):
//   p_e = integral phi(x - o_e) * P(fewer than k of the others exceed x) dx.
// With F_j = Phi(x - o_j) and r_j = (1 - F_j) / F_j, exactly m others exceed x with probability
// prod_{j != e} F_j * s_m(r without e), where s_m are the elementary symmetric sums. Removing one
// expert from them gives s_m' = s_m - r_e * s_{m-1}'. The integral uses the midpoint rule over the
// range of the top scores.
std::vector<double> top_k_probabilities(const std::vector<double>& offsets, int top_k) {
    constexpr int steps = 240;
    const std::size_t n = offsets.size();
    const auto k = as_index(top_k);
    std::vector<double> sorted = offsets;
    std::nth_element(sorted.begin(), sorted.begin() + (top_k - 1), sorted.end(), std::greater<>());
    const double low = sorted[k - 1] - 5,
                 high = *std::max_element(offsets.begin(), offsets.end()) + 5;
    const double width = (high - low) / steps;
    std::vector<double> p(n), ratio(n), log_cdf(n), sums(k);
    for (int i = 0; i < steps; ++i) {
        const double x = low + (i + 0.5) * width;
        double log_product = 0;
        std::fill(sums.begin(), sums.end(), 0.0);
        sums[0] = 1;
        for (std::size_t j = 0; j < n; ++j) {
            const double z = x - offsets[j];
            const double cdf = z > 6 ? 1.0 : std::max(normal_cdf(z), 1e-9);
            ratio[j] = (1 - cdf) / cdf;
            log_cdf[j] = z > 6 ? 0.0 : std::log(cdf);
            log_product += log_cdf[j];
            for (std::size_t m = k - 1; m > 0; --m) sums[m] += ratio[j] * sums[m - 1];
        }
        for (std::size_t e = 0; e < n; ++e) {
            const double z = x - offsets[e];
            if (z > 6 || z < -8) continue;
            double fewer = 0, without = 0;
            for (const double sum : sums) {
                without = std::max(0.0, sum - ratio[e] * without);
                fewer += without;
            }
            p[e] += width * normal_density(z) * std::exp(log_product - log_cdf[e]) * fewer;
        }
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value = std::min(1.0, value * top_k / sum);
    return p;
}

std::mt19937_64 random_of(const RoutingSpec& spec, int draw) {
    std::seed_seq sequence{static_cast<std::uint32_t>(spec.seed),
                           static_cast<std::uint32_t>(spec.seed >> 32),
                           static_cast<std::uint32_t>(draw)};
    return std::mt19937_64(sequence);
}

// Every rank sends its slots in proportion to the same weights.
void send_alike(Routing& routing, const std::vector<double>& weights, int tokens, int top_k) {
    const std::vector<int> row = split_exactly(weights, tokens * top_k, tokens);
    for (int r = 0; r < routing.ranks; ++r) append(routing.counts, row);
}

// Tokens x = 0.5 + noise (uniform in 0..1) pass random gate weights. The constant part gives every
// expert a token-independent offset of 0.5 / sd(uniform) = 1.732 times the token-dependent spread,
// so all tokens prefer the same few experts. All ranks share the gate; each rank's counts scatter
// binomially around the same probabilities.
void fill_random_gate(const RoutingSpec& spec, Routing& routing, int tokens, int top_k, int draw) {
    std::mt19937_64 random = random_of(spec, draw);
    std::normal_distribution<double> offset(0.0, std::sqrt(3.0) * spec.skew);
    std::vector<double> offsets(as_index(routing.experts));
    for (double& o : offsets) o = offset(random);
    const std::vector<double> p = top_k_probabilities(offsets, top_k);
    for (int r = 0; r < routing.ranks; ++r) {
        std::vector<double> drawn(p.size());
        for (const std::size_t e : indices_of(p))
            drawn[e] = std::binomial_distribution<int>(tokens, p[e])(random);
        // Of few tokens no expert may be drawn, though each chooses `top_k`: then the chances tell.
        const bool some = std::ranges::any_of(drawn, [](double count) { return count > 0; });
        const std::vector<int> row = split_exactly(some ? drawn : p, tokens * top_k, tokens);
        append(routing.counts, row);
    }
}

// Popularity falls as rank^-skew. The seed determines which expert is the most popular.
void fill_zipf(const RoutingSpec& spec, Routing& routing, int tokens, int top_k, int draw) {
    std::vector<std::size_t> order(as_index(routing.experts));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 random = random_of(spec, draw);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<double> weights(order.size());
    for (const std::size_t i : indices_of(order))
        weights[order[i]] = std::pow(real(i + 1), -spec.skew);
    send_alike(routing, weights, tokens, top_k);
}

// Each expert's load is drawn independently, x from the density x^-skew between 1 and 0.8 of the
// tokens (for skew 1 the logarithm is uniform), and scaled to the sum. This is no Zipf law over
// ranks. Published expert layers are loaded this way (notes/kernel-laws.md).
void fill_power_law(const RoutingSpec& spec, Routing& routing, int tokens, int top_k, int draw) {
    std::mt19937_64 random = random_of(spec, draw);
    std::uniform_real_distribution<double> unit(0.0, 1.0);
    const double most = std::max(1.0001, 0.8 * tokens * routing.ranks), power = 1 - spec.skew;
    std::vector<double> weights(as_index(routing.experts));
    for (double& weight : weights) {
        const double u = unit(random);
        weight = std::abs(power) < 1e-6 ? std::pow(most, u)
                                        : std::pow(u * (std::pow(most, power) - 1) + 1, 1 / power);
    }
    send_alike(routing, weights, tokens, top_k);
}

// Equal counts; the remainder goes to different experts on different ranks.
void fill_uniform(Routing& routing, int tokens, int top_k) {
    const int slots = tokens * top_k, each = slots / routing.experts,
              rest = slots % routing.experts;
    for (int r = 0; r < routing.ranks; ++r)
        for (int e = 0; e < routing.experts; ++e)
            routing.counts.push_back(each + ((e + r * rest) % routing.experts < rest ? 1 : 0));
}

}  // namespace

Routing routing_of_layer(const Routing& routing, std::size_t index) {
    Routing layer{routing.ranks, routing.experts, routing.counts, routing.totals, {}};
    if (index > 0 && !routing.further.empty()) layer.counts = routing.further.at(index - 1);
    return layer;
}

Routing make_routing(const RoutingSpec& spec, const RoutingSize& size, int draw) {
    const auto& [ranks, experts, tokens_per_rank, top_k] = size;
    if (spec.kind == RoutingSpec::Kind::file) return read_routing(spec.file);
    if (ranks < 1 || experts < 1 || top_k < 1 || top_k > experts || tokens_per_rank < 0)
        throw std::logic_error("make_routing: sizes were not checked");
    const auto cells = as_index(ranks) * as_index(experts);
    // the limit of a routing file; ints count the cells
    if (constexpr std::size_t most = std::size_t{1} << 26; cells > most)
        refuse("routing.kind: {} ranks x {} experts = {} counts; expected at most {}", ranks,
               experts, cells, most);
    Routing routing{.ranks = ranks, .experts = experts, .counts = {}, .totals = {}, .further = {}};
    switch (spec.kind) {
        case RoutingSpec::Kind::uniform: fill_uniform(routing, tokens_per_rank, top_k); break;
        case RoutingSpec::Kind::power_law:
            fill_power_law(spec, routing, tokens_per_rank, top_k, draw);
            break;
        case RoutingSpec::Kind::zipf: fill_zipf(spec, routing, tokens_per_rank, top_k, draw); break;
        case RoutingSpec::Kind::random_gate:
            fill_random_gate(spec, routing, tokens_per_rank, top_k, draw);
            break;
        case RoutingSpec::Kind::file: break;
    }
    return routing;
}

}  // namespace stepcast
