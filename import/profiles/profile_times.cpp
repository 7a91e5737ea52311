#include "import/profiles/profile_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

// The key by which calls count as alike.
using Alike = std::tuple<std::string, std::string, std::vector<double>>;
Alike alike(const OperatorCall& c) {
    const auto numbers = [](auto... all) {
        return std::vector<double>{static_cast<double>(all)...};
    };
    std::vector<double> sizes;
    if (const auto* g = std::get_if<Gemm>(&c.work))
        sizes = numbers(g->batch, g->m, g->n, g->k, as_int(g->layout));
    if (const auto* a = std::get_if<Attention>(&c.work))
        sizes = numbers(a->batch, a->heads, c.kv_heads, a->seq_q, a->seq_k, a->head_dim, a->causal);
    if (const auto* pass = std::get_if<MemoryPass>(&c.work)) sizes = numbers(pass->read.si());
    return {c.op, c.dtype, sizes};
}

// Attention first: its kernels are products too.
double KernelShares::*kind_of(const Profile& p, const DeviceSpan& span) {
    using namespace std::string_view_literals;
    static constexpr std::array attention{"flash"sv, "fmha"sv, "sdpa"sv, "attention"sv, "attn"sv};
    static constexpr std::array products{"gemm"sv,   "cutlass"sv, "nvjet"sv,
                                         "cublas"sv, "xmma"sv,    "Cijk_"sv};
    if (span.sized >= 0) {
        const Op& work = p.operators[as_index(span.sized)].work;
        if (std::holds_alternative<Attention>(work)) return &KernelShares::attention;
        return is_compute(work) ? &KernelShares::products : &KernelShares::passes;
    }
    const std::string& name = p.names[span.name];
    if (has_any(name, attention)) return &KernelShares::attention;
    return has_any(name, products) ? &KernelShares::products : &KernelShares::passes;
}

}  // namespace

KernelShares kernel_shares(const Profile& profile) {
    const auto ns = [](Seconds time) { return std::llround(time.si() * 1e9); };
    std::int64_t begin = 0, end = 0;
    if (!profile.steps.empty()) {
        begin = ns(profile.steps.front().start);
        end = ns(profile.steps.back().start + profile.steps.back().duration);
    } else {
        for (const DeviceSpan& span : profile.spans) end = std::max(end, span.finish);
    }
    KernelShares shares;
    if (end <= begin) return shares;
    for (const DeviceSpan& span : profile.spans) {
        const auto inside = std::min(span.finish, end) - std::max(span.start, begin);
        if (span.kind == SpanKind::compute && inside > 0)
            shares.*kind_of(profile, span) += real(inside) / real(end - begin);
    }
    return shares;
}

std::optional<double> idle_stretch(const Profile& profile) {
    if (profile.steps.empty()) return std::nullopt;
    std::vector<double> longest;
    for (const std::size_t i : indices_of(profile.steps)) {
        const Seconds begin = profile.steps[i].start, end = begin + length_of_step(profile, i);
        std::vector<BusySpan> spans;
        for (const DeviceSpan& span : profile.spans)
            if (seconds(span.finish) > begin && seconds(span.start) < end)
                spans.emplace_back(seconds(span.start), seconds(span.finish));
        longest.push_back(longest_idle(std::move(spans), begin, end));
    }
    return median(std::move(longest));
}

DeviceTimes device_times(const Profile& profile) {
    const auto computes = [](const DeviceSpan& s) { return s.kind == SpanKind::compute; };
    const auto communicates = [](const DeviceSpan& s) { return s.kind == SpanKind::communication; };
    const auto compute = covered(profile.spans, computes),
               communication = covered(profile.spans, communicates);
    const auto either =
        covered(profile.spans, [&](const DeviceSpan& s) { return computes(s) || communicates(s); });
    std::int64_t end = 0;
    for (const DeviceSpan& span : profile.spans) end = std::max(end, span.finish);
    DeviceTimes times;
    times.span = seconds(end);
    times.busy = seconds(covered(profile.spans, [](const DeviceSpan&) { return true; }));
    times.idle = times.span - times.busy;
    times.compute = seconds(compute);
    times.communication = seconds(communication);
    times.copies = seconds(covered(
        profile.spans, [&](const DeviceSpan& s) { return !computes(s) && !communicates(s); }));
    times.overlapped = seconds(compute + communication - either);
    times.exposed = times.communication - times.overlapped;
    for (const DeviceSpan& span : profile.spans)
        if (computes(span)) times.phases[span.phase] += duration(span);
    return times;
}

bool tells_phases(const Profile& profile) {
    return std::ranges::any_of(profile.spans, [](const DeviceSpan& s) {
        return s.kind == SpanKind::compute && s.phase == ProfilePhase::backward;
    });
}

std::vector<OperatorTimes> operator_times(const Profile& profile) {
    struct Gathered {
        const OperatorCall* call = nullptr;
        // for each kernel its call and time; a float, since there may be millions
        std::vector<std::pair<std::int32_t, float>> parts;
    };
    std::map<Alike, Gathered> gathered;
    std::vector<Gathered*> of_operator;
    for (const OperatorCall& call : profile.operators)
        of_operator.push_back(&gathered[alike(call)]);
    for (const DeviceSpan& span : profile.spans) {
        if (span.sized < 0 || span.kind != SpanKind::compute) continue;
        const auto at = as_index(span.sized);
        Gathered& of = *of_operator[at];
        of.call = &profile.operators[at];
        // nanoseconds: exact up to 16 ms
        of.parts.emplace_back(span.instance, static_cast<float>(span.finish - span.start));
    }
    std::vector<OperatorTimes> all;
    for (auto& [_, of] : gathered) {
        if (of.parts.empty()) continue;
        std::ranges::sort(of.parts);
        std::vector<double> each;  // by call; a call may have several kernels
        for (const std::size_t i : indices_of(of.parts)) {
            if (i == 0 || of.parts[i].first != of.parts[i - 1].first) each.push_back(0);
            each.back() += static_cast<double>(of.parts[i].second);
        }
        OperatorTimes times{*of.call, as_int(each.size()), as_int(of.parts.size()), {}, {}};
        for (double& time : each) times.total += Seconds(time *= 1e-9);
        times.typical = Seconds(median(each));
        all.push_back(times);
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &OperatorTimes::total);
    return all;
}

}  // namespace stepcast
