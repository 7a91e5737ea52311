// What a fit of tables writes down next to its constants.
#include <algorithm>

#include "calibrate/fit_tables.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

template <typename Row, typename Same>
void replace_or_add(std::vector<Row>& rows, const Row& row, Same same) {
    const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& other) { return same(other, row); });
    if (at == rows.end())
        rows.push_back(row);
    else
        *at = row;
}

// Adds `value` to the range `what`.
void widen(std::vector<FittedRange>& ranges, const std::string& what, double value) {
    const auto at = std::find_if(ranges.begin(), ranges.end(), [&](const FittedRange& r) { return r.what == what; });
    if (at == ranges.end()) return ranges.push_back({what, value, value});
    at->least = std::min(at->least, value);
    at->most = std::max(at->most, value);
}

}  // namespace

std::vector<FittedRange> ranges_of(const BuildingBlocks& blocks) {
    std::vector<FittedRange> ranges;
    for (const GemmRow& row : blocks.gemms) {
        widen(ranges, "gemm.m", static_cast<double>(row.gemm.m));
        widen(ranges, "gemm.n", static_cast<double>(row.gemm.n));
        widen(ranges, "gemm.k", static_cast<double>(row.gemm.k));
    }
    for (const AttentionRow& row : blocks.attentions)
        widen(ranges, "attention.queries", static_cast<double>(row.shape.op.seq_q));
    for (const CollectiveRow& row : blocks.collectives) {
        widen(ranges, row.op + ".bytes", row.bytes.si());
        widen(ranges, row.op + ".ranks", row.ranks);
    }
    return ranges;
}

Fitted merged(const Fitted& earlier, const Fitted& later) {
    Fitted all = earlier;
    all.date = later.date;
    all.samples += later.samples;
    all.condition = std::max(earlier.condition, later.condition);
    for (const std::string& source : later.sources)
        replace_or_add(all.sources, source, [](const auto& a, const auto& b) { return a == b; });
    for (const FittedParameter& p : later.parameters)
        replace_or_add(all.parameters, p, [](const auto& a, const auto& b) { return a.key == b.key; });
    for (const HeldOutError& e : later.errors) {
        const auto same = [&](const HeldOutError& a) { return a.kind == e.kind && a.method == e.method; };
        for (const HeldOutError& a : earlier.errors)
            if (same(a)) all.samples -= a.samples;  // a kind that is fitted again counts once
        replace_or_add(all.errors, e, [&](const auto& a, const auto&) { return same(a); });
    }
    std::stable_partition(all.errors.begin(), all.errors.end(), [](const auto& e) { return e.method != "fitted"; });
    for (const FittedRange& r : later.ranges)
        replace_or_add(all.ranges, r, [](const auto& a, const auto& b) { return a.what == b.what; });
    for (const FittedConstants& c : later.constants)
        replace_or_add(all.constants, c, [](const auto& a, const auto& b) { return a.what == b.what; });
    all.rows = joined(std::move(all.rows), later.rows);
    return all;
}

}  // namespace stepcast
