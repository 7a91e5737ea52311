#include "sim/costs/fitted_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>


namespace stepcast {
namespace {

struct Extent {
    double least = 0, most = 0;
};

class Sizes {
public:
    void operator()(const Gemm& op) {
        add("gemm.m", static_cast<double>(op.m));
        add("gemm.n", static_cast<double>(op.n));
        add("gemm.k", static_cast<double>(op.k));
    }
    void operator()(const OneOf<GroupedGemm, FusedGemm, Attention, MemoryPass, HostWork> auto&) {}
    void operator()(const ExchangeOp auto& op) {
        if (const Bytes bytes = bytes_moved(Op(op)); bytes > Bytes(0))
            add(std::string(kind_name(Op(op))) + ".bytes", bytes.si());
    }
    [[nodiscard]] const Extent* find(const std::string& what) const {
        const auto at = extents_.find(what);
        return at == extents_.end() ? nullptr : &at->second;
    }

private:
    void add(const std::string& what, double value) {
        const auto [at, fresh] = extents_.emplace(what, Extent{value, value});
        at->second = {std::min(at->second.least, value), std::max(at->second.most, value)};
    }
    std::map<std::string, Extent> extents_;
};

}  // namespace

std::vector<std::string> outside_fitted_ranges(std::span<const Op> ops, const Cluster& cluster) {
    std::vector<std::string> notes;
    if (!cluster.fitted || cluster.fitted->ranges.empty()) return notes;
    Sizes sizes;
    for (const Op& op : ops) std::visit(sizes, op);
    for (const FittedRange& range : cluster.fitted->ranges) {
        const Extent* found = sizes.find(range.what);
        if (!found) continue;
        if (found->most > range.most)
            notes.push_back(fmt::format("extrapolated: {} up to {}, fitted on {} to {}", range.what, found->most,
                                        range.least, range.most));
        if (found->least < range.least)
            notes.push_back(fmt::format("extrapolated: {} down to {}, fitted on {} to {}", range.what, found->least,
                                        range.least, range.most));
    }
    return notes;
}

}  // namespace stepcast
