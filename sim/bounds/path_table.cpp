#include "sim/bounds/path_table.h"

#include <algorithm>

namespace stepcast {

PathTable::PathTable(const Pipeline& pipeline) {
    keep(0, feature::settled, pipeline);
    changing_ = features_.size();
    keep(feature::settled, std::tuple_size_v<Features>, pipeline);
    for (const StageGroup& group : pipeline.groups) {
        Group& paths = groups_.emplace_back();
        paths.first = size();
        add(group.paths);
        paths.first_sharded = size();
        add(group.sharded_paths);
        paths.last = size();
    }
}

// Filled up with features that occur in no path, of which each range has enough: it is fours itself.
void PathTable::keep(std::size_t begin, std::size_t end, const Pipeline& pipeline) {
    const auto occurs = [&](std::size_t f) {
        const auto has = [&](const PipelinePath& path) { return path.once[f] != 0 || path.round[f] != 0; };
        return std::ranges::any_of(pipeline.groups, [&](const StageGroup& group) {
            return std::ranges::any_of(group.paths, has) || std::ranges::any_of(group.sharded_paths, has);
        });
    };
    std::vector<std::uint8_t> others;
    for (std::size_t f = begin; f < end; ++f) (occurs(f) ? features_ : others).push_back(static_cast<std::uint8_t>(f));
    for (std::size_t i = 0; features_.size() % 4 != 0; ++i) features_.push_back(others[i]);
}

void PathTable::add(const std::vector<PipelinePath>& paths) {
    for (const PipelinePath& path : paths) {
        by_host_.push_back(path.by_host ? 1 : 0);
        for (const std::uint8_t f : features_) {
            once_.push_back(path.once[f]);
            round_.push_back(path.round[f]);
        }
    }
}

}  // namespace stepcast
