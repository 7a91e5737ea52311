#include "import/profiles/call_contexts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <optional>
#include <tuple>

#include "import/profiles/profiled_steps.h"
#include "import/profiles/trace_records.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

constexpr std::int32_t no_call = -1;

struct Open {
    std::size_t span;
    std::int32_t product, attention, exchange;
    ProfilePhase phase;
};

// The phase that a training loop's own range names.
std::optional<ProfilePhase> phase_in_words(std::string_view range) {
    const auto is = [&](std::string_view word) {
        return std::ranges::equal(word, range, {}, {},
                                  [](unsigned char c) { return std::tolower(c); });
    };
    constexpr std::array backward{"backward", "backward_pass", "backward pass", "bwd"};
    constexpr std::array optimizer{"optimizer",      "optimizer_step",   "optimizer step",
                                   "optimizer.step", "optimizer.step()", "opt.step()"};
    if (std::ranges::any_of(backward, is)) return ProfilePhase::backward;
    if (std::ranges::any_of(optimizer, is)) return ProfilePhase::optimizer;
    return std::nullopt;
}

// The phase inside `name` when the phase around it is `outer`: autograd's nodes run the backward, a
// checkpoint's node runs the forward again, and nodes inside that one run the backward.
ProfilePhase phase_below(std::string_view name, ProfilePhase outer) {
    if (name.starts_with("Optimizer.step")) return ProfilePhase::optimizer;
    if (name.starts_with("autograd::engine::evaluate_function"))
        return !has(name, "CheckpointFunctionBackward") ? ProfilePhase::backward
                                                        : ProfilePhase::recompute;
    return phase_in_words(name).value_or(outer);
}

bool is_exchange(std::string_view name) {
    return name.starts_with("nccl:") || name.starts_with("c10d::");
}

class Linker {
public:
    explicit Linker(const TraceRecords& records) : r_(records), host_(order(records.host)) {
        std::vector<HostSpan> ranges;
        for (const HostSpan& span : r_.host)
            if (phase_in_words(r_.names[span.name])) ranges.push_back(span);
        ranges_ = outermost(std::move(ranges));
    }

    // One context for each call, in the calls' order.
    std::vector<CallContext> contexts() {
        std::vector<CallContext> found(r_.calls.size());
        const auto calls = order(r_.calls);
        std::size_t next = 0;
        for (const std::uint32_t c : calls) {
            const DriverCall& call = r_.calls[c];
            while (next < host_.size() && before(r_.host[host_[next]], call)) push(host_[next++]);
            close(call.thread, call.start);
            found[c] = top(call.start);
        }
        return found;
    }

private:
    // Sorted by thread, then start, longer spans first, so that a span comes before those inside
    // it.
    template <typename Record>
    static std::vector<std::uint32_t> order(const Records<Record>& records) {
        std::vector<std::uint32_t> ids(records.size());
        std::iota(ids.begin(), ids.end(), 0U);
        std::sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) {
            const auto &x = records[a], &y = records[b];
            return std::tuple(x.thread, x.start, -x.length.ns(), a) <
                   std::tuple(y.thread, y.start, -y.length.ns(), b);
        });
        return ids;
    }
    static bool before(const HostSpan& span, const DriverCall& call) {
        return std::pair(span.thread, span.start) <= std::pair(call.thread, call.start);
    }
    void close(std::uint32_t thread, std::int64_t time) {
        while (!open_.empty() &&
               (r_.host[open_.back().span].thread != thread ||
                r_.host[open_.back().span].finish() + (whole_microseconds() ? rounding : 0) < time))
            open_.pop_back();
    }
    [[nodiscard]] bool whole_microseconds() const {
        return r_.host.empty() ||
               (r_.host.front().start % 1000 == 0 && r_.host.back().start % 1000 == 0);
    }
    // A span that begins where another ends is its sibling, even if both times are rounded.
    void push(std::size_t s) {
        const HostSpan& span = r_.host[s];
        while (!open_.empty() && (r_.host[open_.back().span].thread != span.thread ||
                                  r_.host[open_.back().span].finish() <= span.start))
            open_.pop_back();
        const std::string& name = r_.names[span.name];
        Open next{s, no_call, no_call, no_call, around(span.start)};
        if (!open_.empty())
            next = {s, open_.back().product, open_.back().attention, open_.back().exchange,
                    open_.back().phase};
        next.phase = phase_below(name, next.phase);
        const auto id = static_cast<std::int32_t>(s);
        if (is_product(name)) next.product = id;
        if (is_attention(name)) next.attention = id;
        if (is_exchange(name)) next.exchange = id;
        open_.push_back(next);
    }
    // If nothing on the call's own thread tells the phase, a range of another thread does: autograd
    // has own threads, and the caller waits.
    [[nodiscard]] ProfilePhase around(std::int64_t time) const {
        const auto next = std::ranges::upper_bound(ranges_, time, {}, &HostSpan::start);
        if (next == ranges_.begin() || std::prev(next)->finish() < time)
            return ProfilePhase::forward;
        return *phase_in_words(r_.names[std::prev(next)->name]);
    }
    [[nodiscard]] CallContext top(std::int64_t time) const {
        if (open_.empty()) return {no_call, no_call, false, around(time)};
        const Open& o = open_.back();
        const auto innermost = static_cast<std::int32_t>(o.span);
        return {o.product >= 0     ? o.product
                : o.attention >= 0 ? o.attention
                                   : innermost,
                o.exchange, o.product >= 0, o.phase};
    }

    const TraceRecords& r_;
    std::vector<std::uint32_t> host_;
    std::vector<Open> open_;
    std::vector<HostSpan> ranges_;  // those that name phases, by start
};

}  // namespace

std::vector<CallContext> call_contexts(const TraceRecords& records) {
    return Linker(records).contexts();
}

}  // namespace stepcast
