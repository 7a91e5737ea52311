#include "sim/network/mesh_rings.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "model/base/lists.h"

namespace stepcast {
namespace {

constexpr std::size_t most_exact = 8;  // at most 2520 orders

struct Links {
    std::size_t ranks;
    std::vector<double> rates;  // of each pair, in both directions
    [[nodiscard]] std::size_t pair(std::size_t a, std::size_t b) const {
        const auto [low, high] = std::minmax(a, b);
        return low * ranks - low * (low + 1) / 2 + high - low - 1;
    }
};

// Every order in which a ring closes over links, as the pairs that it uses; each order and its
// reverse once.
class Orders {
public:
    explicit Orders(const Links& links) : links_(links), used_(links.ranks) { go_on(); }
    std::vector<std::vector<std::size_t>> found;

private:
    [[nodiscard]] bool joined(std::size_t a, std::size_t b) const {
        return links_.rates[links_.pair(a, b)] > 0;
    }
    void close() {
        if (!joined(order_.back(), 0) || order_[1] > order_.back()) return;
        auto& pairs = found.emplace_back();
        for (const std::size_t i : indices_of(order_))
            pairs.push_back(links_.pair(order_[i], order_[(i + 1) % order_.size()]));
    }
    void go_on() {
        if (order_.size() == links_.ranks) return close();
        for (std::size_t next = 1; next < links_.ranks; ++next) {
            if (used_[next] || !joined(order_.back(), next)) continue;
            used_[next] = true;
            order_.push_back(next);
            go_on();
            order_.pop_back();
            used_[next] = false;
        }
    }

    const Links& links_;
    std::vector<bool> used_;
    std::vector<std::size_t> order_{0};
};

// Rows of the simplex method, the last one of the objective; the last column has the bounds.
using SimplexTable = std::vector<std::vector<double>>;
constexpr double zero = 1e-9;

// The row of the least ratio, of several the one with the least variable in the base.
std::size_t leaving_row(const SimplexTable& table, const std::vector<std::size_t>& base,
                        std::size_t enters) {
    std::size_t leaves = base.size();
    const auto ratio = [&](std::size_t row) { return table[row].back() / table[row][enters]; };
    for (const std::size_t r : indices_of(base)) {
        if (table[r][enters] < zero) continue;
        if (leaves == base.size() || ratio(r) < ratio(leaves) - zero ||
            (ratio(r) < ratio(leaves) + zero && base[r] < base[leaves]))
            leaves = r;
    }
    return leaves;
}

void pivot(SimplexTable& table, std::size_t leaves, std::size_t enters) {
    std::vector<double>& of = table[leaves];
    const double by = of[enters];
    for (double& value : of) value /= by;
    for (const std::size_t r : indices_of(table)) {
        const double times = table[r][enters];
        if (r == leaves || times == 0) continue;
        for (const std::size_t c : indices_of(of)) table[r][c] -= times * of[c];
    }
}

// The most that rings of these orders carry in one direction while no pair carries more than its
// links: the simplex method on a table with a row for each pair, from no ring at all. The rule of
// Bland ends it.
double most_carried(const Links& links, const std::vector<std::vector<std::size_t>>& orders) {
    const std::size_t rows = links.rates.size(), columns = orders.size() + rows;
    SimplexTable table(rows + 1, std::vector<double>(columns + 1));
    std::vector<std::size_t> base(rows);
    const double unit = std::ranges::max(links.rates);
    for (std::size_t r = 0; r < rows; ++r) {
        table[r][orders.size() + r] = 1;
        table[r][columns] = links.rates[r] / unit;
        base[r] = orders.size() + r;
    }
    for (const std::size_t c : indices_of(orders)) {
        for (const std::size_t r : orders[c]) table[r][c] = 1;
        table[rows][c] = -1;
    }
    for (;;) {
        std::size_t enters = 0;
        while (enters < columns && table[rows][enters] > -zero) ++enters;
        if (enters == columns) return table[rows][columns] * unit;
        const std::size_t leaves = leaving_row(table, base, enters);
        pivot(table, leaves, enters);
        base[leaves] = enters;
    }
}

double fewest_links(const Links& links) {
    double least = 0;
    for (std::size_t a = 0; a < links.ranks; ++a) {
        double of_rank = 0;
        for (std::size_t b = 0; b < links.ranks; ++b)
            if (a != b) of_rank += links.rates[links.pair(a, b)];
        if (a == 0 || of_rank < least) least = of_rank;
    }
    return least;
}

}  // namespace

BytesPerSecond mesh_rings(std::span<const int> locals, const Cluster& cluster) {
    Links links{locals.size(), {}};
    for (const std::size_t a : indices_of(locals))
        for (std::size_t b = a + 1; b < locals.size(); ++b)
            links.rates.push_back(mesh_bandwidth(cluster, locals[a], locals[b]).si());
    if (links.ranks < 2) return {};
    if (links.ranks == 2) return BytesPerSecond(links.rates.front());
    // If all are alike, so are all orders, and together they use up every link.
    const bool alike =
        std::ranges::all_of(links.rates, [&](double rate) { return rate == links.rates.front(); });
    if (links.ranks > most_exact || alike) return BytesPerSecond(fewest_links(links));
    const auto orders = Orders(links).found;
    if (orders.empty()) return {};
    return BytesPerSecond(2 * most_carried(links, orders));  // rings in both directions
}

BytesPerSecond least_link(const Cluster& cluster) {
    BytesPerSecond least;
    for (int a = 0; a < cluster.gpus_per_node; ++a)
        for (int b = a + 1; b < cluster.gpus_per_node; ++b) {
            const auto rate = mesh_bandwidth(cluster, a, b);
            if (rate > BytesPerSecond(0) && (least == BytesPerSecond(0) || rate < least))
                least = rate;
        }
    return least;
}

}  // namespace stepcast
