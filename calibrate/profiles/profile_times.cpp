#include "calibrate/profiles/profile_times.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "model/records/measurements.h"

namespace stepcast {
namespace {

using Stretch = std::pair<std::int64_t, std::int64_t>;

// Disjoint, ascending, of the spans that `counts`.
template <typename Counts>
std::vector<Stretch> union_of(const Profile& profile, Counts counts) {
    std::vector<Stretch> joined;
    for (const DeviceSpan& span : profile.spans) {  // by start
        if (!counts(span)) continue;
        if (!joined.empty() && span.start <= joined.back().second)
            joined.back().second = std::max(joined.back().second, span.finish);
        else
            joined.emplace_back(span.start, span.finish);
    }
    return joined;
}

std::int64_t length(const std::vector<Stretch>& intervals) {
    std::int64_t sum = 0;
    for (const auto& [from, to] : intervals) sum += to - from;
    return sum;
}

std::int64_t common_length(const std::vector<Stretch>& a, const std::vector<Stretch>& b) {
    std::int64_t sum = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        sum += std::max<std::int64_t>(0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
        a[i].second < b[j].second ? ++i : ++j;
    }
    return sum;
}

// Calls with one key, and the time of each of their instances.
template <typename Call>
struct Gathered {
    const Call* call = nullptr;
    int kernels = 0;
    std::vector<std::pair<std::int32_t, float>> parts;  // of each kernel: its instance and time; a float, as there may be millions
    // Times of the instances.
    [[nodiscard]] std::vector<double> instances() {
        std::ranges::sort(parts);
        std::vector<double> sums;
        std::int32_t last = -1;
        for (const auto& [instance, time] : parts) {
            if (sums.empty() || instance != last) sums.push_back(0);
            sums.back() += static_cast<double>(time);
            last = instance;
        }
        return sums;
    }
};

template <typename Times, typename Call, typename Key>
std::vector<Times> gather(const Profile& profile, const std::vector<Call>& calls, std::int32_t DeviceSpan::*instance, Key key,
                          void (*finish)(Times&, const Gathered<Call>&)) {
    std::map<decltype(key(calls.front())), Gathered<Call>> by_key;
    for (const DeviceSpan& span : profile.spans) {
        const std::int32_t id = span.*instance;
        if (id < 0 || span.kind != SpanKind::compute) continue;
        auto& of = by_key[key(calls[static_cast<std::size_t>(id)])];
        of.call = &calls[static_cast<std::size_t>(id)];
        ++of.kernels;
        of.parts.emplace_back(span.instance, static_cast<float>(span.finish - span.start));  // nanoseconds: whole up to 16 ms
    }
    std::vector<Times> all;
    for (auto& [_, of] : by_key) {
        Times times;
        times.call = *of.call;
        std::vector<double> each = of.instances();
        times.calls = static_cast<int>(each.size());
        for (double& time : each) times.total += Seconds(time *= 1e-9);
        times.typical = Seconds(median(each));
        finish(times, of);
        all.push_back(times);
    }
    std::ranges::sort(all, std::ranges::greater{}, &Times::total);
    return all;
}

}  // namespace

DeviceTimes device_times(const Profile& profile) {
    const auto of_kind = [&](SpanKind kind) {
        return union_of(profile, [kind](const DeviceSpan& s) { return s.kind == kind; });
    };
    const auto compute = of_kind(SpanKind::compute), communication = of_kind(SpanKind::communication);
    const auto copies =
        union_of(profile, [](const DeviceSpan& s) { return s.kind == SpanKind::copy || s.kind == SpanKind::set; });
    std::int64_t end = 0;
    for (const DeviceSpan& span : profile.spans) end = std::max(end, span.finish);
    DeviceTimes times;
    times.span = seconds(end);
    times.busy = seconds(length(union_of(profile, [](const DeviceSpan&) { return true; })));
    times.idle = times.span - times.busy;
    times.compute = seconds(length(compute));
    times.communication = seconds(length(communication));
    times.copies = seconds(length(copies));
    times.overlapped = seconds(common_length(compute, communication));
    times.exposed = times.communication - times.overlapped;
    for (const DeviceSpan& span : profile.spans) {
        if (span.kind != SpanKind::compute) continue;
        times.phases[span.phase] += seconds(span.finish - span.start);
        ++times.phase_kernels[span.phase];
    }
    return times;
}

bool tells_phases(const Profile& profile) {
    return std::ranges::any_of(profile.spans, [](const DeviceSpan& s) { return s.kind == SpanKind::compute && s.phase == ProfilePhase::backward; });
}

std::vector<ProductTimes> product_times(const Profile& profile) {
    const auto key = [](const ProductCall& c) {
        return std::tuple(c.op, c.gemm.batch, c.gemm.m, c.gemm.n, c.gemm.k, c.dtype, c.gemm.layout);
    };
    return gather<ProductTimes, ProductCall>(profile, profile.products, &DeviceSpan::product, key,
                                             +[](ProductTimes& t, const Gathered<ProductCall>& of) { t.kernels = of.kernels; });
}

std::vector<PassTimes> pass_times(const Profile& profile) {
    const auto key = [](const PassCall& c) {
        const Attention a = c.attention.value_or(Attention{});
        return std::tuple(c.op, c.dtype, c.bytes.si(), a.batch, a.heads, c.kv_heads, a.seq_q, a.seq_k, a.head_dim, a.causal);
    };
    return gather<PassTimes, PassCall>(profile, profile.passes, &DeviceSpan::pass, key,
                                       +[](PassTimes&, const Gathered<PassCall>&) {});
}

}  // namespace stepcast
