#include <algorithm>
#include <cmath>

#include "calibrate/profiles/import_profiles.h"
#include "calibrate/profiles/profile_times.h"

namespace stepcast {
namespace {

constexpr double ns = 1e-9;

// The part of the profile between two times, for the sums of one step. No span is longer than `longest`.
Profile between(const Profile& p, Seconds from, Seconds to, std::int64_t longest) {
    Profile part;
    const std::int64_t first = std::llround(from.si() / ns), last = std::llround(to.si() / ns);
    auto at = std::ranges::lower_bound(p.spans, first - longest, {}, &DeviceSpan::start);
    for (; at != p.spans.end() && at->start < last; ++at) {
        DeviceSpan span = *at;
        span.start = std::max(span.start, first) - first;
        span.finish = std::min(span.finish, last) - first;
        if (span.finish > span.start) part.spans.push_back(span);
    }
    return part;
}

}  // namespace

std::vector<Sample> profile_samples(const Profile& p, const Sample& like) {
    std::vector<Sample> samples;
    const auto add = [&](const char* phase, int step, double value, const char* unit) {
        Sample s = like;
        s.phase = phase;
        s.rank = p.rank;
        s.step = step;
        s.value = value;
        s.unit = unit;
        samples.push_back(s);
    };
    const bool phases = tells_phases(p);
    const auto add_parts = [&](const Profile& part, int step, Seconds whole) {
        const DeviceTimes t = device_times(part);
        const auto phase = [&](ProfilePhase of) { return t.phases.contains(of) ? t.phases.at(of) : Seconds(0); };
        if (phases) {
            add("forward", step, phase(ProfilePhase::forward).si(), "s");
            add("backward", step, (phase(ProfilePhase::backward) + phase(ProfilePhase::recompute)).si(), "s");
            add("optimizer", step, phase(ProfilePhase::optimizer).si(), "s");
        }
        add("gradient_sync", step, t.exposed.si(), "s");
        add("busy", step, t.busy.si(), "s");
        add("idle", step, std::max(0.0, (whole - t.busy).si()), "s");
    };
    std::int64_t longest = 0;
    for (const DeviceSpan& span : p.spans) longest = std::max(longest, span.finish - span.start);
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
        const ProfiledStep& step = p.steps[i];
        const bool last = i + 1 == p.steps.size();
        const Seconds length = last ? step.duration : p.steps[i + 1].start - step.start;
        const int number = static_cast<int>(i) + step.skipped;
        add("step", number, length.si(), "s");
        add_parts(between(p, step.start, step.start + length, longest), number, length);
    }
    const DeviceTimes whole = device_times(p);
    if (p.steps.empty()) {
        add("window", 0, whole.span.si(), "s");
        add_parts(p, 0, whole.span);
    }
    if (p.peak_reserved > Bytes(0)) add("peak_reserved", -1, p.peak_reserved.si(), "B");
    if (p.peak_allocated > Bytes(0)) add("peak_allocated", -1, p.peak_allocated.si(), "B");
    return samples;
}

}  // namespace stepcast
