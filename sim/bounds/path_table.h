// The longest paths of a pipeline, packed: of their features only those that occur in any of them, side by side, so that
// the time of a path is a short product.
#pragma once

#include "sim/bounds/pipeline.h"

namespace stepcast {

class PathTable {
public:
    // Times of the features that occur, in the order kept here; those that data parallelism changes and the others
    // apart.
    using Times = std::array<double, std::tuple_size_v<Features>>;
    struct Group {
        std::size_t first = 0, first_sharded = 0, last = 0;  // of its paths
    };

    explicit PathTable(const Pipeline& pipeline);

    [[nodiscard]] std::size_t size() const { return by_host_.size(); }
    [[nodiscard]] const Group& group(std::size_t g) const { return groups_[g]; }
    [[nodiscard]] bool by_host(std::size_t path) const { return by_host_[path] != 0; }

    [[nodiscard]] Times changing(const Features& times) const { return take(times, 0, changing_); }
    [[nodiscard]] Times settled(const Features& times) const { return take(times, changing_, features_.size()); }
    // Of a path with so many rounds: the part of its time that these times are about.
    [[nodiscard]] double changing_time(std::size_t path, int rounds, const Times& times) const {
        return time(path * features_.size(), changing_, rounds, times);
    }
    [[nodiscard]] double settled_time(std::size_t path, int rounds, const Times& times) const {
        return time(path * features_.size() + changing_, features_.size() - changing_, rounds, times);
    }

private:
    void keep(std::size_t begin, std::size_t end, const Pipeline& pipeline);
    void add(const std::vector<PipelinePath>& paths);
    [[nodiscard]] Times take(const Features& times, std::size_t begin, std::size_t end) const {
        Times taken;
        for (std::size_t i = begin; i < end; ++i) taken[i - begin] = times[features_[i]];
        return taken;
    }
    [[nodiscard]] double time(std::size_t at, std::size_t count, int rounds, const Times& times) const {
        const double once = product(once_.data() + at, times, count);
        return rounds > 0 ? once + rounds * product(round_.data() + at, times, count) : once;
    }
    // In four sums, which a compiler keeps apart.
    static double product(const double* a, const Times& b, std::size_t count) {
        std::array<double, 4> sums{};
        for (std::size_t i = 0; i < count; i += 4)
            for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    std::vector<std::uint8_t> features_;  // those that change, then the others; both fours
    std::size_t changing_ = 0;
    std::vector<double> once_, round_;  // [path][feature kept]
    std::vector<char> by_host_;
    std::vector<Group> groups_;
};

}  // namespace stepcast
