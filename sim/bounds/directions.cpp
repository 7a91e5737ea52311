#include "sim/bounds/directions.h"

#include <algorithm>

#include "model/base/numbers.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"
#include "sim/bounds/tail.h"
#include "sim/bounds/turns.h"

namespace stepcast {
namespace {

// How much each part weighs in a direction. A send is relative to the forward of a chunk, a host to
// that of a layer, and so is what the last gradients add to the layers beside them; the others
// scale the reference.
struct Weights {
    double send = 0, again = 0, host = 0, backward = 1, weights = 1, last = 0;
};

class DirectionWriter {
public:
    DirectionWriter(const PipelineKey& key, const Workload& workload, const FeatureTimes& reference)
        : key_(key), reference_(reference) {
        kind_ = has_experts(workload, workload.layers - 1) ? UnitKind::experts : UnitKind::dense;
        layer_ = reference[feature::unit(kind_, Pass::forward)];
        const int chunks = model_chunks(parallelism_of(key));
        chunk_ = layer_ * std::max(1.0, real(workload.layers) / chunks);
    }

    Directions one_stage() {
        // Without sends only the host can decide: never, where it is somewhat slower than the
        // device, and in every layer.
        for (const double host : {0.0, 1.3, 10.0}) add({.host = host});
        found_.sharded = found_.times.size();
        return found_;
    }

    Directions pipeline() {
        // From sends inside a node to sends over a slow network, which take longer than slots; a
        // recomputed layer moves work from the forwards' chain to the backwards'.
        for (const double again : {0.0, 1.0})
            for (const double send : {0.0, 0.03, 0.15, 0.6, 2.5})
                add({.send = send, .again = again});
        // Gradients beside the last backwards of a chunk: the way through all stages meets them at
        // each, and is otherwise no longer than one that stays on a stage.
        for (const double again : {0.0, 1.0}) add({.send = 0.03, .again = again, .last = 0.2});
        // Backwards of little work (frozen layers): forwards decide.
        for (const double send : {0.05, 0.3}) add({.send = send, .backward = 0.6});
        if (traits(key_.schedule).chunks == StageChunks::there_and_back) there_and_back();
        // Small layers, which their host cannot issue in time.
        for (const double host : {1.3, 10.0}) add({.send = 0.03, .host = host});
        sharded();
        return found_;
    }

    // A pair by turns takes as much as both passes alone, or less where one hides what the other
    // exchanges; its first part is half of the backward, and a part of the forward comes last.
    Directions turns() {
        for (const auto& [share, send] : {std::pair(1.0, 0.0),
                                          {1.0, 0.03},
                                          {1.0, 0.15},
                                          {1.0, 0.6},
                                          {0.75, 0.03},
                                          {0.75, 0.15}})
            found_.times.push_back(pair_of({.send = send}, share));
        // A slow host takes as long for either pass.
        const double alike = layer_ / reference_[feature::unit(kind_, Pass::backward)];
        for (const double send : {0.03, 0.15})
            found_.times.push_back(pair_of({.send = send, .backward = alike}, 1));
        found_.sharded = found_.times.size();
        return found_;
    }

private:
    [[nodiscard]] TimesOfDirection pair_of(const Weights& by, double share) const {
        TimesOfDirection d{weighed(by), {}};
        const auto unit = [&](Pass pass) { return feature::unit(kind_, pass); };
        for (const Pass pass : {Pass::forward, Pass::backward})
            d.turns[unit(pass)] = share * d.times[unit(pass)];
        d.turns[by_turns::enters] = 0.4 * d.turns[unit(Pass::backward)];
        d.turns[by_turns::leaves] = 0.1 * d.turns[unit(Pass::forward)];
        return d;
    }

    // Both halves of a backward decide the order in which a stage's two directions meet.
    void there_and_back() {
        for (const double send : {0.02, 0.3})
            for (const double inputs : {0.6, 1.0, 1.5, 2.2})
                for (const double weights : {0.6, 1.0, 1.4})
                    for (const double again : {0.0, 1.0})
                        add({.send = send, .again = again, .backward = inputs, .weights = weights});
    }

    // zero 3: gathers of a layer, shorter and longer than it; a pipeline scatters once a step.
    void sharded() {
        found_.sharded = found_.times.size();
        ParallelPlan plan{parallelism_of(key_), {}};
        plan.parallelism.zero = 3;
        UnitCounts units{};
        units[at(kind_)] = 1;
        for (const double gather : {0.5, 1.0, 2.5})
            for (const Weights& by :
                 {Weights{.send = 0.03}, {.send = 0.03, .again = 1}, {.send = 0.3}}) {
                const FeatureTimes plain = weighed(by);
                DataTimes data;
                data.gathered.fill(gather * layer_);
                found_.times.push_back(
                    {with_sharding(plain, {plain, 0.25}, plan, data, units), {}});
            }
    }

    void add(const Weights& by) { found_.times.push_back({weighed(by), {}}); }

    [[nodiscard]] FeatureTimes weighed(const Weights& by) const {
        FeatureTimes f = reference_;
        for (const UnitKind k : layer_kinds) {
            f[feature::again(k)] *= by.again;
            for (const Pass pass : all_passes) {
                f[feature::host(k, pass)] =
                    by.host * layer_ * (pass == Pass::weight_backward ? 0.5 : 1);
                if (pass != Pass::forward) f[feature::unit(k, pass)] *= by.backward;
            }
            f[feature::unit(k, Pass::weight_backward)] *= by.weights;
            f[feature::host_again(k)] = by.again * by.host * layer_;
        }
        f[feature::inside_last] = f[feature::after_last] = by.last * layer_;
        f[feature::send_far] = f[feature::send_wrap] = by.send * chunk_;
        f[feature::send_near] = (key_.node == 0 ? 1 : 0.1) * by.send * chunk_;  // if any, cheaper
        return f;
    }

    const PipelineKey& key_;
    const FeatureTimes& reference_;
    UnitKind kind_ = UnitKind::dense;
    double layer_ = 0, chunk_ = 0;  // the forward of a layer, and of a chunk
    Directions found_;
};

}  // namespace

Directions search_directions(const PipelineKey& key, const Workload& workload,
                             const FeatureTimes& reference) {
    DirectionWriter writer(key, workload, reference);
    if (key.pp == 1) return writer.one_stage();
    return key.overlap_experts ? writer.turns() : writer.pipeline();
}

}  // namespace stepcast
