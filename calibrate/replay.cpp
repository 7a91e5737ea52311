#include "calibrate/replay.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "calibrate/building_blocks.h"
#include "import/profiles/collective_times.h"
#include "import/profiles/profile_times.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/records/measurements.h"
#include "sim/engine/simulate.h"
#include "sim/explain/attribution.h"

namespace stepcast {
namespace {

// ns: work that began this soon after another may have waited for it
constexpr std::int64_t held_time = 2000;
// ns: work that began later than this after another did not wait for it
constexpr std::int64_t released = 50000;

// An action of a rank in the host's order: a launch, a wait for the device, or work without known
// launch. `at`: when the host had done it at the latest.
struct Item {
    std::int64_t at = 0;
    const DeviceSpan* span = nullptr;  // nullptr: a wait
    const HostWait* wait = nullptr;
};

struct RankState {
    const Profile* profile = nullptr;
    std::int64_t shift = 0;  // from its clock to the common one
    std::vector<Item> items;
    std::size_t next = 0;
    // until when its host, and launchers outside the trace, are busy
    std::int64_t host = 0, elsewhere = 0;
    std::map<std::uint32_t, Lane> lanes;  // by stream
    struct Issued {
        TaskId task;
        std::int64_t start, finish;
    };
    std::map<Lane, std::vector<Issued>> issued;
    // of work whose launch is not in the trace, and of the first work
    std::unordered_map<const DeviceSpan*, TaskId> launchers;
};

bool is_exchange(const DeviceSpan& s) { return s.kind == SpanKind::communication; }

// Lanes of streams: the one that computes most gets Lane::compute, those that mostly communicate
// get the lanes for that, the others the rest.
std::map<std::uint32_t, Lane> lanes_of(const Profile& p) {
    std::map<std::uint32_t, std::array<std::int64_t, 2>> busy;  // computing, communicating
    for (const DeviceSpan& s : p.spans)
        busy[s.stream][is_exchange(s) ? 1 : 0] += s.finish - s.start + 1;
    std::vector<std::pair<std::int64_t, std::uint32_t>> computing, communicating;
    for (const auto& [stream, time] : busy)
        (time[1] > time[0] ? communicating : computing)
            .emplace_back(-std::max(time[0], time[1]), stream);
    std::ranges::sort(computing);
    std::ranges::sort(communicating);
    constexpr std::array own{Lane::compute, Lane::send_up, Lane::send_down, Lane::receive_down};
    std::map<std::uint32_t, Lane> lanes;
    for (const std::size_t i : indices_of(computing))
        lanes[computing[i].second] = own[std::min(i, own.size() - 1)];
    for (const std::size_t i : indices_of(communicating))
        lanes[communicating[i].second] = i == 0 ? Lane::collective : Lane::data;
    return lanes;
}

// A stream runs its work in the order of the launches. So work whose launch is not in the trace,
// because it came before the window, goes before what was launched to its stream later, though that
// launch may lie before the work's start.
std::vector<Item> items_of(const Profile& p) {
    std::vector<Item> items;
    // by stream: when what starts next was launched
    std::map<std::uint32_t, std::int64_t> follower;
    for (auto s = p.spans.rbegin(); s != p.spans.rend(); ++s) {
        std::int64_t& next =
            follower.try_emplace(s->stream, std::numeric_limits<std::int64_t>::max()).first->second;
        next = std::min(next, s->launched == not_launched ? s->start : s->launched);
        items.push_back({next, &*s, nullptr});
    }
    std::ranges::reverse(items);
    for (const HostWait& w : p.waits) items.push_back({w.finish, nullptr, &w});
    std::ranges::stable_sort(items, {}, &Item::at);
    // what the host does after its last launch is no work of the device
    while (!items.empty() && items.back().span == nullptr) items.pop_back();
    return items;
}

const CollectiveCall* call_of(const Profile& p, const DeviceSpan& s) {
    return is_exchange(s) && s.collective >= 0 ? &p.collectives[as_index(s.collective)] : nullptr;
}

// Medians of similar calls: of a kernel by name and operator's sizes, of a collective over all
// ranks. The mean, which keeps the sum over the calls, serves kernels without sizes, as nothing
// tells which calls are similar, and collectives of a single rank, as their times include waiting.
class Tables {
public:
    explicit Tables(const std::vector<Profile>& ranks) {
        for (const Profile& p : ranks)
            for (const DeviceSpan& s : p.spans)
                if (!is_exchange(s)) kernels_[key(p, s)].push_back(duration(s).si());
        for (auto& [kernel, times] : kernels_) {
            const bool sized = std::get<1>(kernel) >= 0 || std::get<2>(kernel) > 0;
            times = {sized ? median(times)
                           : std::accumulate(times.begin(), times.end(), 0.0) / real(times.size())};
        }
        for (const CollectiveTimes& t : collective_times(ranks))
            collectives_[alike(t.call)] = t.ranks_seen > 1 ? t.transfer : t.total / t.calls;
    }
    [[nodiscard]] Seconds kernel(const Profile& p, const DeviceSpan& s) const {
        return Seconds(kernels_.at(key(p, s)).front());
    }
    [[nodiscard]] Seconds collective(const CollectiveCall& c) const {
        return collectives_.at(alike(c));
    }

private:
    using Kernel = std::tuple<std::string, int, double>;
    static Kernel key(const Profile& p, const DeviceSpan& s) {
        return {p.names[s.name], s.sized, static_cast<double>(s.bytes)};
    }
    std::map<Kernel, std::vector<double>> kernels_;
    std::map<decltype(alike(CollectiveCall())), Seconds> collectives_;
};

class Builder {
public:
    explicit Builder(const std::vector<Profile>& ranks)
        : tables_(ranks),
          meetings_(meetings_of(ranks)),
          result_{TaskGraph(as_int(ranks.size())), {}, {}, {}, {}, {}} {
        std::int64_t first = std::numeric_limits<std::int64_t>::max();
        for (const Profile& p : ranks) first = std::min(first, p.origin);
        for (const Profile& p : ranks) {
            RankState& s = states_.emplace_back();
            s.profile = &p;
            s.shift = p.origin - first;
            s.items = items_of(p);
            s.lanes = lanes_of(p);
            if (s.items.empty()) continue;
            s.host = s.items.front().at;  // the trace does not show what the host did before
            begin_ = std::min(begin_, s.host + s.shift);
            work_ = std::min(work_, p.spans.front().start + s.shift);
        }
        for (RankState& s : states_) s.host = s.elsewhere = begin_ - s.shift;
    }

    Replay build() {
        add_other_launchers();
        for (bool moved = true; moved;) {
            moved = false;
            for (const std::size_t r : indices_of(states_))
                while (states_[r].next < states_[r].items.size() && step(r)) moved = true;
        }
        for (const RankState& s : states_)
            if (s.next < s.items.size())
                refuse(
                    "{}: its collectives come in another order than those of the other "
                    "ranks; expected "
                    "traces of one job, the same steps",
                    s.profile->path);
        result_.traced.origin = Trace::Origin::imported;
        result_.traced.spans = std::move(traced_);
        return std::move(result_);
    }
    [[nodiscard]] const std::vector<std::vector<std::pair<int, TaskId>>>& waits_of() const {
        return waits_of_;
    }
    // From the beginning of the replay, the first launch, to the first work on any device.
    [[nodiscard]] Seconds before_work() const { return seconds(work_ - begin_); }

private:
    // Adds the rank's next item; false if it is a collective that other ranks have not reached yet.
    bool step(std::size_t r) {
        RankState& s = states_[r];
        const Item& item = s.items[s.next];
        if (item.span == nullptr) {
            wait(r, *item.wait);
        } else if (const CollectiveCall* call = call_of(*s.profile, *item.span)) {
            const std::size_t meeting = meetings_.of.at(item.span);
            const std::vector<std::size_t>& together = meetings_.all[meeting].ranks;
            if (!std::ranges::all_of(
                    together, [&](std::size_t other) { return comes_to(states_[other], meeting); }))
                return false;
            launch(together, call);
            for (const std::size_t other : together) ++states_[other].next;
            return true;
        } else {
            launch({r}, nullptr);
        }
        ++s.next;
        return true;
    }

    [[nodiscard]] bool comes_to(const RankState& s, std::size_t meeting) const {
        if (s.next >= s.items.size() || s.items[s.next].span == nullptr) return false;
        const auto at = value_in(meetings_.of, s.items[s.next].span);
        return at && *at == meeting;
    }

    // Adds the launcher's time from `until` to `at` as a task and moves `until` there.
    TaskId launcher_task(std::string_view name, Place place, std::int64_t& until, std::int64_t at,
                         std::span<const TaskId> after) {
        const auto length = seconds(std::max<std::int64_t>(0, at - until));
        until = std::max(until, at);
        return add(result_.graph.task_of(name, Phase::between, HostWork{}, 0), {place}, after,
                   {length, length});
    }
    TaskId host_task(std::size_t r, std::int64_t at, std::span<const TaskId> after) {
        return launcher_task("host", Place(as_int(r), Lane::host), states_[r].host, at, after);
    }
    // Launches that are not in the trace, and what held the device up before its first work in it:
    // their time passes on a lane of its own, from the beginning on, since no host waits for them.
    void add_other_launchers() {
        for (const std::size_t r : indices_of(states_)) {
            RankState& s = states_[r];
            for (const DeviceSpan& span : s.profile->spans)  // by start
                if (span.launched == not_launched || &span == &s.profile->spans.front())
                    s.launchers[&span] =
                        launcher_task("launched elsewhere", Place(as_int(r), Lane::receive_up),
                                      s.elsewhere, span.start, {});
        }
    }

    // The host waits for work that had ended when its waiting call ended; the host's own time
    // before the wait ends where the call began.
    void wait(std::size_t r, const HostWait& w) {
        RankState& s = states_[r];
        std::vector<TaskId> after;
        std::int64_t done = w.start;
        for (const auto& [lane, issued] : s.issued)
            for (auto i = issued.rbegin(); i != issued.rend(); ++i)
                if (i->finish <= w.finish + held_time) {
                    after.push_back(i->task);
                    done = std::max(done, i->finish);
                    break;
                }
        host_task(r, std::min(w.start, w.finish), {});
        s.host = std::clamp(done, w.start, w.finish);  // from here on the host runs by itself again
        host_task(r, w.finish, after);
    }

    // The latest task of a lane if it had ended by `start`; nothing if it was still running.
    static std::optional<TaskId> ended_before(const std::vector<RankState::Issued>& issued,
                                              std::int64_t start) {
        if (issued.empty() || issued.back().finish > start + held_time) return std::nullopt;
        return issued.back().task;
    }

    std::vector<TaskId> dependencies(std::size_t r, const DeviceSpan& span, Lane lane) {
        RankState& s = states_[r];
        std::vector<TaskId> after;
        const bool exchange_lane = lane == Lane::collective || lane == Lane::data;
        for (const auto& [other, issued] : s.issued) {
            if (other == lane || issued.empty()) continue;
            const bool other_exchanges = other == Lane::collective || other == Lane::data;
            if (exchange_lane && !other_exchanges) {
                if (const auto task = ended_before(issued, span.start)) after.push_back(*task);
            } else {  // it was held up: it began right after the other's end, was launched before,
                      // and its own stream was free
                const auto& end = issued.back();
                const auto& own = s.issued[lane];
                const bool stream_free = own.empty() || own.back().finish < end.finish - held_time;
                if (span.start + held_time >= end.finish && span.start - end.finish < released &&
                    span.launched < end.finish - held_time && span.launched != not_launched &&
                    stream_free)
                    after.push_back(end.task);
            }
        }
        return after;
    }

    void launch(const std::vector<std::size_t>& together, const CollectiveCall* call) {
        std::vector<Place> places;
        std::vector<TaskId> after;
        std::vector<std::pair<int, TaskId>> by_rank;
        Seconds shortest(std::numeric_limits<double>::infinity());
        const Profile& first = *states_[together.front()].profile;
        const DeviceSpan& shown =
            *states_[together.front()].items[states_[together.front()].next].span;
        for (const std::size_t r : together) {
            RankState& s = states_[r];
            const DeviceSpan& span = *s.items[s.next].span;
            const Lane lane = s.lanes.at(span.stream);
            std::vector<TaskId> needs = dependencies(r, span, lane);
            if (span.launched != not_launched) needs.push_back(host_task(r, span.launched, {}));
            if (const auto launcher = value_in(s.launchers, &span)) needs.push_back(*launcher);
            if (!s.issued[lane].empty()) needs.push_back(s.issued[lane].back().task);
            for (const TaskId t : needs) {
                by_rank.emplace_back(as_int(r), t);
                add_once(after, t);
            }
            places.emplace_back(as_int(r), lane);
            shortest = std::min(shortest, duration(span));
        }
        const Seconds by_table = call ? tables_.collective(*call) : tables_.kernel(first, shown);
        std::ranges::sort(after);
        const bool copy = shown.kind == SpanKind::copy || shown.kind == SpanKind::set;
        const std::string& name = first.names[shown.name];
        const NewTask added =
            result_.graph.task_of(copy && !name.starts_with("Mem") ? "Memcpy" : name,
                                  phase_of(shown.phase), op_of(first, shown), 0);
        const TaskId task = add(added, places, after, {by_table, shortest});
        waits_of_.resize(result_.graph.size());
        waits_of_.back() = std::move(by_rank);
        for (const std::size_t r : together) {
            RankState& s = states_[r];
            const DeviceSpan& span = *s.items[s.next].span;
            const Lane lane = s.lanes.at(span.stream);
            s.issued[lane].push_back({task, span.start, span.finish});
            traced_.push_back({task, Place(as_int(r), lane), seconds(span.start + s.shift - begin_),
                               seconds(span.finish + s.shift - begin_)});
        }
    }

    struct TaskTimes {
        Seconds table, measured;
    };
    TaskId add(const NewTask& task, const std::vector<Place>& places, std::span<const TaskId> after,
               const TaskTimes& times) {
        result_.table.push_back(times.table);
        result_.measured.push_back(times.measured);
        return result_.graph.add(task, std::span(places), after);
    }

    Tables tables_;
    Meetings meetings_;
    Replay result_;
    std::vector<RankState> states_;
    // by task: (rank, task that it waits for)
    std::vector<std::vector<std::pair<int, TaskId>>> waits_of_;
    std::vector<Span> traced_;
    std::int64_t begin_ = std::numeric_limits<std::int64_t>::max(), work_ = begin_;
};

// On each rank a collective's kernel begins when this rank arrives.
Trace with_arrivals(const TaskGraph& graph, const Timeline& timeline,
                    const std::vector<std::vector<std::pair<int, TaskId>>>& waits) {
    Trace trace = to_trace(graph, timeline);
    for (Span& span : trace.spans) {
        if (span.task >= waits.size() || graph.places(span.task).size() < 2) continue;
        Seconds arrived(0);
        for (const auto& [rank, task] : waits[span.task])
            if (rank == span.place.rank()) arrived = std::max(arrived, timeline.finish[task]);
        span.start = std::min(span.start, arrived);
    }
    return trace;
}

}  // namespace

// Ops do not determine times in a replay; they only name the kind of work.
Op op_of(const Profile& p, const DeviceSpan& s) {
    if (s.sized >= 0) return p.operators[as_index(s.sized)].work;
    if (const CollectiveCall* call = call_of(p, s)) {
        const Bytes bytes = collective_bytes(*call);
        const std::string kind = collective_kind(*call);
        if (kind == "send_recv") return SendRecv{bytes};
        return collective_op(kind, bytes, 1).value_or(AllReduce{bytes});
    }
    return MemoryPass{Bytes(static_cast<double>(s.bytes)), Bytes(0)};
}

Phase phase_of(ProfilePhase phase) {
    switch (phase) {
        case ProfilePhase::backward:
        case ProfilePhase::recompute: return Phase::backward;
        case ProfilePhase::optimizer: return Phase::optimizer;
        case ProfilePhase::unlinked: return Phase::between;
        case ProfilePhase::forward: break;
    }
    return Phase::forward;
}

Replay replay(const std::vector<Profile>& ranks) {
    const bool any = std::ranges::any_of(ranks, [](const Profile& p) {
        return std::ranges::any_of(p.spans,
                                   [](const DeviceSpan& s) { return s.launched != not_launched; });
    });
    if (!any)
        throw ConfigError(
            ranks.front().path +
            ": no kernel's launch lies in the window; expected a trace of host and device");
    Builder builder(ranks);
    Replay r = builder.build();
    const Costs by_table{r.table, std::vector<Seconds>(r.graph.size())},
        as_measured{r.measured, std::vector<Seconds>(r.graph.size())};
    Timeline timeline;
    run_in_order(r.graph, as_measured, timeline);
    const Seconds replayed = timeline.end;
    run_in_order(r.graph, by_table, timeline);
    // All three from the first work on a device to the last, as the spans of the ranks are.
    r.step.error = {timeline.end - builder.before_work(),
                    replayed - builder.before_work(),
                    step_end(r.traced) - builder.before_work(),
                    {}};
    r.predicted = with_arrivals(r.graph, timeline, builder.waits_of());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const auto traced = use_of(r.graph, r.traced, as_int(i)),
                   predicted = use_of(r.graph, r.predicted, as_int(i));
        r.step.ranks.push_back(
            {ranks[i].rank, traced.span, predicted.span, traced.exposed, predicted.exposed});
    }
    const auto last = std::ranges::max_element(r.traced.spans, {}, &Span::finish);
    r.step.error.kinds = kind_errors(r.graph, as_measured, replayed, r.table, [&](const Place& p) {
        return p.rank() == last->place.rank() && on_device(p.lane());
    });
    r.step.name = ranks.front().path;
    return r;
}

DeviceUse use_of(const TaskGraph& graph, const Trace& trace, int rank) {
    std::vector<Span> spans = trace.spans;
    std::erase_if(
        spans, [&](const Span& s) { return s.place.rank() != rank || !on_device(s.place.lane()); });
    if (spans.empty()) return {};
    std::ranges::sort(spans, {}, &Span::start);
    const Seconds length = std::ranges::max(spans, {}, &Span::finish).finish - spans.front().start;
    // copies
    std::erase_if(spans, [&](const Span& s) { return graph.name(s.task).starts_with("Mem"); });
    const auto computes = [&](const Span& s) {
        const std::string_view kind = kind_name(graph.op(s.task));
        return kind == "gemm" || kind == "attention" || kind == "memory_pass";
    };
    return {length, covered(spans, [](const Span&) { return true; }) - covered(spans, computes)};
}

}  // namespace stepcast
