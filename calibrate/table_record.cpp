#include "calibrate/table_record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "calibrate/fit.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/experiment.h"
#include "model/input/key_values.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

// Widens the range `what` to include `value`.
void widen(std::vector<FittedRange>& ranges, const std::string& what, double value) {
    const auto at = first_with(ranges, what, &FittedRange::what);
    if (!at) return ranges.push_back({what, value, value});
    at->least = std::min(at->least, value);
    at->most = std::max(at->most, value);
}

// How many numbers a constant has that is a list; 0 for a single number.
std::size_t entries(const Key& key, void* holder) {
    constexpr std::size_t of_attention = 13, of_experts = 6;  // numbers in a row
    std::size_t count = 0;
    use_field<Curve, std::vector<GemmPoint>, std::vector<double>>(
        key, holder, [&](auto& list) { count = list.size(); });
    use_field<std::vector<AttentionKernel>>(
        key, holder, [&](auto& rows) { count = of_attention * rows.size(); });
    use_field<std::vector<ExpertKernel>>(key, holder,
                                         [&](auto& rows) { count = of_experts * rows.size(); });
    return count;
}

bool is_number(const Key& key) {
    return holds<double>(key) || holds<Seconds>(key) || holds<Bytes>(key) ||
           holds<BytesPerSecond>(key);
}

// The table of a cost constant ("link.intra" for "link.intra.low_latency.launch"); "" for values of
// the datasheet and sizes.
std::string table_of(const std::string& key) {
    constexpr std::array tables{"link.intra",   "link.inter", "kernel", "host",
                                "interference", "overheads",  "noise"};
    if (key.ends_with("bandwidth")) return "";  // the datasheet's
    for (const std::string_view table : tables)
        if (key.starts_with(table) && key[table.size()] == '.') return std::string(table);
    return key == "network.partial_ring" ? "network" : "";
}

std::string earlier_origin(const Cluster& start, const std::string& what,
                           const std::string& otherwise) {
    if (start.fitted)
        for (const FittedConstants& c : start.fitted->constants)
            if (c.what == what) return c.from;
    return otherwise;
}

}  // namespace

std::vector<FittedRange> ranges_of(const BuildingBlocks& blocks) {
    std::vector<FittedRange> ranges;
    for (const GemmRow& row : blocks.gemms) {
        widen(ranges, "gemm.m", real(row.gemm.m));
        widen(ranges, "gemm.n", real(row.gemm.n));
        widen(ranges, "gemm.k", real(row.gemm.k));
    }
    for (const AttentionRow& row : blocks.attentions)
        widen(ranges, "attention.queries", real(row.shape.op.seq_q));
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
    for (const std::string& source : later.sources) put(all.sources, source);
    for (const FittedParameter& p : later.parameters) put(all.parameters, p, &FittedParameter::key);
    const auto kind_and_method = [](const HeldOutError& e) { return std::pair(e.kind, e.method); };
    for (const HeldOutError& e : later.errors) {
        for (const HeldOutError& a : earlier.errors)
            // a kind that is fitted again counts once
            if (kind_and_method(a) == kind_and_method(e)) all.samples -= a.samples;
        put(all.errors, e, kind_and_method);
    }
    std::stable_partition(all.errors.begin(), all.errors.end(),
                          [](const auto& e) { return e.method != "fitted"; });
    for (const FittedRange& r : later.ranges) put(all.ranges, r, &FittedRange::what);
    for (const FittedConstants& c : later.constants) put(all.constants, c, &FittedConstants::what);
    all.rows = joined(std::move(all.rows), later.rows);
    return all;
}

std::vector<FittedConstants> other_constants(const Cluster& cluster, const Cluster& start,
                                             const std::string& files) {
    constexpr std::string_view prefix = "cluster.";
    const std::string prior =
        cluster.inherits.empty() ? "prior" : "prior, or copied from " + cluster.inherits;
    Experiment now, before;
    now.cluster = cluster;
    before.cluster = start;
    std::vector<FittedConstants> lists, priors;
    for (const Key& key : keys_of("cluster.")) {
        if (is_preset(key)) continue;
        const std::string name(key.path.substr(prefix.size()));
        if (const std::size_t count = entries(key, &now); count > 0) {
            const bool fitted = text_of(key, now) != text_of(key, before);
            lists.push_back(
                {name, as_int(count), fitted ? files : earlier_origin(start, name, prior)});
            continue;
        }
        const std::string table = table_of(name);
        if (table.empty() || !is_number(key) || is_unset(key, now)) continue;
        const auto& stated = cluster.fitted->parameters;
        if (contains(stated, name, &FittedParameter::key)) continue;
        const auto at = first_with(priors, table, &FittedConstants::what);
        if (!at)
            priors.push_back({table, 1, prior});
        else
            ++at->count;
    }
    append(lists, priors);
    return lists;
}

}  // namespace stepcast
