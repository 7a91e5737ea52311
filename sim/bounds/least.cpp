// Lower bounds of the time lost during collectives. While a collective is in flight on a rank,
// kernels of the rank run at 1 / (1 + s).
//
// A plan. Between two moments a rank runs kernels (w seconds alone) and collectives (c seconds).
// The time is that of running kernels plus idle time. Of the time that kernels run during
// collectives, the share s / (1 + s) is lost. Hence
//   time >= w + s / (1 + s) c, and time >= c.
// The moments are points of a plan that all tasks before them precede and all tasks after them
// follow.
//
// A path through slots. If collectives take D without a gap from a moment on, then at the end of D
// the work after that moment cannot be further along than if it had begun at once, with its kernels
// at the slower rate. So it loses s / (1 + s) of D, except for the part of D that passes during the
// plans' own collectives, in which nothing is lost twice. Waiting does not help, because it costs
// more than it saves.
//   zero 0, 1  a bucket that a layer fills in the last backward of a chunk is in flight during the
//              layer after it
//   zero 2     the same holds in every backward
//   zero 3     during a layer the parameters of the next layer are gathered, in a backward after
//              the gradients of the layer before: a layer lasts no less than both. Between slots of
//              a stage the last gradients go first, then the parameters of the next layer,
//              overlapped with nothing.
// The lane that carries them is in order, so nothing of this depends on when other collectives end.

#include "sim/bounds/least.h"

#include <algorithm>

namespace stepcast {
namespace {

double share_lost(double slowdown) { return slowdown / (1 + slowdown); }

// The tasks of a plan between two neighbouring points that everything passes.
struct Section {
    TaskId first = 0;
    int tasks = 0;
    double kernels = 0, collectives = 0, start = 0, end = 0;
};

// Empty if the plan has no such points, because a task skips one. A host that waits for the device
// is a task like others: what it issues then waits for it.
std::vector<Section> sections_of(const TaskGraph& plan, const Costs& costs,
                                 const Timeline& timeline) {
    std::vector<Section> sections;
    // tasks that this section follows; tasks that have no successor so far
    std::vector<TaskId> entry, open;
    for (TaskId t = 0; t < plan.size(); ++t) {
        const auto before = plan.predecessors(t);  // ascending
        if (plan.on_host(t) && before.empty()) continue;
        const auto follows = [&](const std::vector<TaskId>& all) {
            return before.size() == all.size() && std::ranges::is_permutation(before, all);
        };
        if (sections.empty() || follows(open)) {
            sections.push_back({.first = t, .start = timeline.start[t].si()});
            entry = open;
        } else if (!follows(entry) && (before.empty() || before.front() < sections.back().first)) {
            return {};
        }
        Section& section = sections.back();
        ++section.tasks;
        const Lane lane = plan.places(t).front().lane();
        if (lane == Lane::compute) section.kernels += costs.duration[t].si();
        if (lane == Lane::collective) section.collectives += costs.duration[t].si();
        section.start = std::min(section.start, timeline.start[t].si());
        section.end = std::max(section.end, timeline.finish[t].si());
        std::erase_if(open, [&](TaskId o) { return std::ranges::find(before, o) != before.end(); });
        open.push_back(t);
    }
    return sections;
}

}  // namespace

LeastTimes least_times(const TaskGraph& plan, const Costs& costs, double slowdown) {
    Timeline timeline;
    run_in_order(plan, costs, timeline);
    LeastTimes least;
    for (const Section& s : sections_of(plan, costs, timeline)) {
        const double time =
            std::max(s.end - s.start, s.kernels + share_lost(slowdown) * s.collectives);
        least.all += time;
        least.after += time;
        least.alone += std::max(0.0, s.kernels - s.collectives / (1 + slowdown));
        if (s.tasks != 1 || !plan.on_host(s.first)) continue;
        least.waits = true;
        least.after = 0;
    }
    least.all = std::max(least.all, timeline.end.si());
    return least;
}

LeastCollectives::LeastCollectives(const LeastInputs& in)
    : in_(in), lost_(share_lost(in.slowdown)), split_(traits(in.schedule).splits_backward) {
    forward_ = layers(Pass::forward, false);
    backward_ = layers(Pass::backward, true);
    weights_ = split_ ? layers(Pass::weight_backward, false) : backward_;
    const Layers inputs = split_ ? layers(Pass::input_backward, true) : backward_;
    for (const Layers& pass : {forward_, backward_, inputs, weights_}) {
        shortest_ = std::min(shortest_, pass.fewest + in_.slowdown * pass.alone);
        overlapped_ = std::max(overlapped_, pass.overlapped);
        overlapped_share_ = std::clamp(pass.overlapped / (pass.fewest + in_.slowdown * pass.alone),
                                       overlapped_share_, 1.0);
    }
    for (const UnitKind kind : {UnitKind::embedding, UnitKind::head})
        for (const Pass pass : all_passes)
            ends_ = std::max(
                ends_, in.lower[feature::unit(kind, pass)] - in.alone[feature::unit(kind, pass)]);
}

FeatureTimes LeastCollectives::features(const ParallelPlan& plan, const DataTimes& data) const {
    const Parallelism& p = plan.parallelism;
    FeatureTimes f = in_.lower;
    std::fill_n(f.values.begin() + feature::stalls, feature::settled - feature::stalls, 0.0);
    if (p.zero == 3 && shards_each_pass(p))
        shard(f, plan, data);
    else if (overlaps_gradients(plan.exchanges, p))
        collective(f, p, data);
    return f;
}

// A path begins with the embedding and, where all chunks have layers, a layer. Each waits for its
// own parameters and for all that are gathered before them.
double LeastCollectives::first(const DataTimes& data) const {
    const double gathered = data.gathered[at(UnitKind::embedding)],
                 embedding = in_.lower[feature::unit(UnitKind::embedding, Pass::forward)];
    if (in_.chunk_layers == 0) return gathered;
    return std::max(gathered, gathered + of_layers(data.gathered) - embedding);
}

double LeastCollectives::start(const Parallelism& p, const DataTimes& data,
                               double parameters) const {
    const double one = first(data);
    if (p.zero == 3 || in_.chunk_layers == 0) return one;
    const double gathered = data.gathered[at(UnitKind::embedding)],
                 layer = of_layers(data.gathered),
                 embedding = in_.lower[feature::unit(UnitKind::embedding, Pass::forward)];
    // Only gathers during the forward of one micro-batch count, because gradients may follow it.
    const double until = std::min(parameters, all_layers(in_.model) * forward_.fewest);
    const auto overlapping = [&](double from) {
        const double slot = in_.chunk_layers * shortest_, between = in_.send + ends_;
        const double share = (overlapped_share_ * slot + between) / (slot + between);
        return std::max(0.0, lost_ * (std::max(0.0, until - from) * (1 - share) -
                                      in_.chunk_layers * overlapped_ - between));
    };
    const int n = in_.chunk_layers;
    const double all = gathered + n * layer, waited = all - embedding - (n - 1) * forward_.all;
    return std::max({one + overlapping(gathered + layer), waited + overlapping(all), 0.0});
}

LeastCollectives::Layers LeastCollectives::layers(Pass pass, bool repeats) const {
    Layers layers{0, 1e300, 1e300, 0};
    for (const UnitKind kind : layer_kinds) {
        if (in_.model[at(kind)] == 0) continue;
        const std::size_t f = feature::unit(kind, pass), again = feature::again(kind);
        const double more = repeats ? in_.lower[again] : 0, alone = repeats ? in_.alone[again] : 0;
        const double always = in_.recomputes_some ? 0 : 1;
        layers.all = std::max(layers.all, in_.lower[f] + more);
        layers.fewest = std::min(layers.fewest, in_.lower[f] + always * more);
        layers.alone = std::min(layers.alone, in_.alone[f] + always * alone);
        layers.overlapped = std::max(layers.overlapped, in_.lower[f] + more - in_.alone[f] - alone);
    }
    return layers;
}
double LeastCollectives::of_layers(const std::array<double, unit_kinds>& times) const {
    double least = 1e300;
    for (const UnitKind kind : layer_kinds)
        if (in_.model[at(kind)] > 0) least = std::min(least, times[at(kind)]);
    return least;
}

// The least by which a layer gets longer if `collectives` begin with it. `awaited`: what follows
// the layer waits for them too.
double LeastCollectives::longer(const Layers& layers, double collectives, bool awaited) const {
    const double lost = lost_ * std::max(0.0, collectives - layers.overlapped);
    return awaited ? std::max(lost, collectives - layers.all)
                   : std::min(lost, in_.slowdown * layers.alone);
}

// The least delay of the first layer of a slot, while collectives of the slot before continue.
double LeastCollectives::overlapping_first(double collectives) const {
    return std::max(0.0, lost_ * (std::min(collectives, shortest_) * (1 - overlapped_share_) -
                                  overlapped_ - ends_));
}

void LeastCollectives::add(FeatureTimes& f, Pass pass, double time) const {
    for (const UnitKind kind : layer_kinds)
        if (in_.model[at(kind)] > 0) f[feature::unit(kind, pass)] += time;
}

// What the gradients of a layer delay: the next layer in its slot (`inside`), and the first layer
// of the stage's next slot (`next`). An embedding is the last unit of its slot, so that it takes
// the place of that first layer.
void LeastCollectives::collective(FeatureTimes& f, const Parallelism& p,
                                  const DataTimes& data) const {
    const double gradients = of_layers(data.filled),
                 inside = std::min(longer(backward_, gradients, false),
                                   longer(weights_, gradients, false));
    if (shards_each_pass(p)) {
        const double next = overlapping_first(gradients);
        const Pass pass = split_ ? Pass::weight_backward : Pass::backward;
        add(f, pass, inside);
        f[feature::filling] = f[feature::filling_single] = -inside;
        f[feature::filled] = f[feature::filled_single] = next;
        f[feature::unit(UnitKind::embedding, pass)] -= next;
        return;
    }
    // Only if chunks go there and back, another slot of the stage can follow that of the embedding.
    const bool ends_first = traits(in_.schedule).chunks == StageChunks::there_and_back;
    double last = of_layers(data.flushed);
    if (ends_first) last = std::min(last, data.flushed[at(UnitKind::embedding)]);
    f[feature::inside_last] = inside;
    f[feature::after_last] = overlapping_first(last);
}

// During each layer the parameters of the next layer are gathered, in a backward after the
// gradients of the layer before. For the first and last layer of a slot this is certain only if the
// slots before and after are of the same stage, so slots that wait for their input subtract it.
// Between split backwards nothing is gathered.
void LeastCollectives::shard(FeatureTimes& f, const ParallelPlan& plan,
                             const DataTimes& data) const {
    if (split_) return;
    const bool overlaps = overlaps_gradients(plan.exchanges, plan.parallelism);
    const double gather = of_layers(data.gathered),
                 scatter = overlaps ? of_layers(data.exchanged) : 0;
    const double both = longer(backward_, gather + scatter, true);
    const double next = in_.chunk_layers < 2
                            ? 0
                            : std::max(0.0, std::min(longer(forward_, gather, true),
                                                     longer(backward_, gather, true)));
    add(f, Pass::backward, both);
    f[feature::filling] = -2 * both;
    f[feature::filling_single] = -both;
    add(f, Pass::forward, next);
    f[feature::opened] = 2 * next;
    f[feature::filled] = f[feature::filled_single] = next + (overlaps ? gather + scatter : 0);
    // An end of the model in the place of such a layer may take less time, or move less.
    const auto less = [&](UnitKind kind, const auto& times, double usual) {
        return std::max(0.0, usual - times[at(kind)]);
    };
    f[feature::unit(UnitKind::embedding, Pass::forward)] -=
        std::max(next, less(UnitKind::embedding, data.gathered, gather));
    f[feature::unit(UnitKind::head, Pass::forward)] -= next;
    f[feature::unit(UnitKind::head, Pass::backward)] -=
        std::max(next, less(UnitKind::head, data.gathered, gather));
    f[feature::unit(UnitKind::embedding, Pass::backward)] -=
        less(UnitKind::embedding, data.exchanged, scatter);
}

}  // namespace stepcast
