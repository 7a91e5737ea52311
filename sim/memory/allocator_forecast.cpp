#include "sim/memory/allocator_forecast.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "model/step.h"
#include "model/transformer/schedule.h"
#include "sim/memory/lifetimes.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"
#include "sim/memory/transformer_memory.h"

namespace stepcast {
namespace {

constexpr std::size_t samples = 240;
constexpr double most_passes = 50'000;  // of a layer, in a step
constexpr double nearly_full = 0.95;    // of what the device can give: remedies are told, too

Bytes bytes_of(std::int64_t bytes) { return Bytes(real(bytes)); }

struct StageReplay {
    int stage = 0;
    Lifetimes list;
    AllocatorReplay result;
};

AllocatorReplay held(const Experiment& e, const Lifetimes& list, Bytes capacity = Bytes(0),
                     Levels levels = Levels::peaks_only, Driver driver = Driver::waits) {
    const auto most = static_cast<std::int64_t>(capacity.si());
    if (e.runtime.allocator == AllocatorKind::arena) driver = Driver::planned;
    return replay(list.events, parse_allocator_settings(e.run.allocator), most, levels, driver);
}

StageReplay replay_of(const Experiment& e, const Routing& routing, int stage) {
    StageReplay one{stage, lifetimes_of(e, routing, stage), {}};
    one.result = held(e, one.list);
    return one;
}

// Of the two stages that are fullest by the closed forms, which are within some per cent of the
// replay.
StageReplay likely_fullest(const Experiment& e, const Routing& routing) {
    constexpr double near = 0.93;
    const std::vector<MemoryUse> closed = memory_of_stages(e, routing);
    std::vector<int> stages(closed.size());
    std::iota(stages.begin(), stages.end(), 0);
    const auto peak = [&](int stage) { return closed[as_index(stage)].peak; };
    std::ranges::stable_sort(stages, std::ranges::greater(), peak);
    StageReplay fullest = replay_of(e, routing, stages[0]);
    if (stages.size() < 2 || peak(stages[1]) < near * peak(stages[0])) return fullest;
    StageReplay second = replay_of(e, routing, stages[1]);
    return second.result.peak.reserved > fullest.result.peak.reserved ? second : fullest;
}

double passes_of_layers(const Experiment& e, int micro_batches) {
    return real(e.workload.layers) / e.parallelism.pp * micro_batches;
}

// Sums that no device could hold, and lists of more than some million requests, tell no more when
// they are replayed.
bool is_replayed_in_time(const Experiment& e, const MemoryUse& closed) {
    constexpr Bytes most(1e14);
    const Parallelism& p = e.parallelism;
    const int all = micro_batches(p);
    // the others repeat (lifetimes.cpp)
    const bool repeats = !traits(p.schedule).forwards_first && all % p.pp == 0;
    return closed.peak < most &&
           passes_of_layers(e, repeats ? std::min(all, 8 + 4 * p.pp * p.vp) : all) < most_passes;
}

// The stage that reserves most; `stages` gets the peaks of all.
StageReplay fullest_stage(const Experiment& e, std::vector<AllocatorForecast::Level>& stages) {
    const Routing routing = fullest_draw(e).routing;
    StageReplay fullest;
    for (int stage = 0; stage < e.parallelism.pp; ++stage) {
        StageReplay one = replay_of(e, routing, stage);
        stages.push_back({bytes_of(one.result.peak.allocated), bytes_of(one.result.peak.reserved)});
        if (stage == 0 || one.result.peak.reserved > fullest.result.peak.reserved)
            fullest = std::move(one);
    }
    return fullest;
}

TensorMoment moment_of(const Lifetimes& list, std::size_t event) {
    const StepTensor& t = list.tensors[list.events[event].id];
    return {list.names[as_index(t.what)], t.phase, t.step, t.micro_batch, t.layer};
}

// Which tensors live after an event.
std::vector<bool> living(const Lifetimes& list, std::size_t event) {
    std::vector<bool> lives(list.tensors.size());
    for (std::size_t i = 0; i <= event; ++i)
        if (const auto kind = list.events[i].kind;
            kind == AllocatorEvent::Kind::allocate || kind == AllocatorEvent::Kind::free)
            lives[list.events[i].id] = kind == AllocatorEvent::Kind::allocate;
    return lives;
}

void add_living(AllocatorForecast& forecast, const Lifetimes& list, std::size_t event) {
    const std::vector<bool> lives = living(list, event);
    std::map<TensorKind, Bytes> kinds;
    std::map<int, AllocatorForecast::OfLayer> layers;
    for (std::size_t id = 0; id < lives.size(); ++id) {
        if (!lives[id]) continue;
        const StepTensor& t = list.tensors[id];
        const Bytes bytes = bytes_of(t.bytes);
        kinds[t.kind] += bytes;
        AllocatorForecast::OfLayer& layer = layers[t.layer];
        layer.layer = t.layer;
        switch (t.kind) {
            case TensorKind::activations:
            case TensorKind::logits: layer.activations += bytes; break;
            case TensorKind::weights:
            case TensorKind::gradients:
            case TensorKind::optimizer: layer.lasting += bytes; break;
            case TensorKind::work:
            case TensorKind::gathered:
            case TensorKind::exchanged:
            case TensorKind::workspaces: layer.work += bytes; break;
        }
    }
    for (const auto& [kind, bytes] : kinds) forecast.kinds.push_back({kind, bytes});
    for (const auto& [number, layer] : layers) forecast.layers.push_back(layer);
}

void add_over_time(AllocatorForecast& forecast, const Experiment& e, const Lifetimes& list) {
    const auto levels = held(e, list, Bytes(0), Levels::all).levels;
    const std::size_t each = std::max<std::size_t>(1, (levels.size() + samples - 1) / samples);
    for (std::size_t i = 0; i < levels.size(); i += each) {
        AllocatorLevel most;
        for (std::size_t j = i; j < std::min(i + each, levels.size()); ++j) {
            most.allocated = std::max(most.allocated, levels[j].allocated);
            most.reserved = std::max(most.reserved, levels[j].reserved);
        }
        forecast.over_time.push_back({bytes_of(most.allocated), bytes_of(most.reserved)});
    }
}

// Settings that may take less memory, one at a time.
std::vector<Override> other_settings(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    std::vector<Override> keys;
    if (!parse_allocator_settings(e.run.allocator).expandable_segments)
        keys.push_back({"run.allocator", "expandable_segments:True"});
    if (p.micro_batch > 1) keys.push_back({"parallelism.micro_batch", "1"});
    if (p.recompute != Recompute::full) keys.push_back({"parallelism.recompute", "full"});
    if (ranks_of_weights(p) > 1)
        for (int zero = p.zero + 1; zero <= 3; ++zero)
            keys.push_back({"parallelism.zero", std::to_string(zero)});
    return keys;
}

void add_remedies(AllocatorForecast& forecast, const Experiment& e, Bytes available) {
    for (const Override& key : other_settings(e)) {
        Experiment other = e;
        // as many sequences a step as before
        other.parallelism.global_batch = sequences_of_step(e.parallelism);
        try {
            set_key(other, key);
            check_experiment(other);
        } catch (const ConfigError&) {  // not legal here
            continue;
        }
        std::vector<AllocatorForecast::Level> stages;
        const Bytes reserved = bytes_of(fullest_stage(other, stages).result.peak.reserved);
        if (reserved < forecast.reserved)
            forecast.remedies.push_back({key.key, key.value, reserved, reserved <= available});
    }
    std::ranges::sort(forecast.remedies, {}, &AllocatorForecast::Remedy::reserved);
}

}  // namespace

bool is_replayed(const Experiment& e) {
    return e.workload.kind == Workload::Kind::transformer && e.parallelism.cut == StageCut::layers;
}

MemoryUse memory_forecast(const Experiment& e) {
    auto [use, routing] = fullest_draw(e);
    if (!is_replayed(e) || !is_replayed_in_time(e, use)) return use;
    const StageReplay fullest = likely_fullest(e, routing);
    const AllocatorReplay& result = fullest.result;
    AllocatorForecast living;
    add_living(living, fullest.list, result.fullest);
    use.weights = use.gradients = use.optimizer = use.activations = Bytes(0);
    for (const auto& [kind, bytes] : living.kinds) {
        if (kind == TensorKind::weights) use.weights += bytes;
        if (kind == TensorKind::gradients) use.gradients += bytes;
        if (kind == TensorKind::optimizer) use.optimizer += bytes;
        if (kind == TensorKind::activations || kind == TensorKind::logits) use.activations += bytes;
    }
    use.peak = bytes_of(result.peak.allocated);
    // the others, and what sizes are rounded up by
    use.buffers = use.peak - use.weights - use.gradients - use.optimizer - use.activations;
    use.reserved = bytes_of(result.peak.reserved);
    const Bytes context = process_memory(e), available = use.capacity - context;
    use.out_of_memory = chance_out_of_memory(e, use.reserved, available);
    use.fits = use.capacity == Bytes(0) || use.reserved <= available;
    if (!use.fits && available > Bytes(0) && !held(e, fullest.list, available).failed) {
        use.fits = true;  // by giving cached memory back
        use.reserved = available;
    }
    use.overheads = context + (use.reserved - use.peak);
    use.tight = use.fits && is_tight(e, use.reserved + context, use);
    return use;
}

std::vector<SlotMemory> memory_of_slots(const Experiment& e, const Routing& routing, int stage) {
    if (passes_of_layers(e, micro_batches(e.parallelism)) >= most_passes) return {};
    const Lifetimes list = lifetimes_of(e, routing, stage, MicroBatches::all);
    const auto levels = held(e, list, Bytes(0), Levels::all).levels;
    std::vector<SlotMemory> slots;
    for (std::size_t i = 0; i < list.slots.size(); ++i) {
        const std::size_t end = i + 1 < list.slots.size() ? list.slots[i + 1] : levels.size();
        std::int64_t most = 0;
        for (std::size_t j = list.slots[i] - 1; j < end; ++j)  // the weights come before
            most = std::max(most, levels[j].allocated);
        slots.push_back({bytes_of(most), bytes_of(levels[end - 1].allocated)});
    }
    return slots;
}

AllocatorForecast allocator_forecast(const Experiment& e) {
    if (!is_replayed(e))
        throw ConfigError(
            "memory over time: of transformers cut by layers only; expected "
            "workload.kind = \"transformer\", parallelism.cut = layers");
    AllocatorForecast forecast;
    const StageReplay fullest = fullest_stage(e, forecast.stages);
    const AllocatorReplay& result = fullest.result;
    forecast.stage = fullest.stage;
    forecast.allocated = bytes_of(result.peak.allocated);
    forecast.reserved = bytes_of(result.peak.reserved);
    forecast.fullest = moment_of(fullest.list, result.fullest);
    add_living(forecast, fullest.list, result.fullest);
    add_over_time(forecast, e, fullest.list);
    forecast.capacity = e.cluster.gpu.memory;
    forecast.context = process_memory(e);
    if (!e.cluster.overheads.context)
        for_process_parts(e, rank_groups(e), [&](std::string_view what, Bytes bytes) {
            forecast.process.push_back({std::string(what), bytes});
        });
    if (forecast.capacity == Bytes(0)) return forecast;
    const Bytes available = forecast.capacity - forecast.context;
    if (available <= Bytes(0))
        throw ConfigError(
            "cluster.overheads.context: the context, with NCCL's buffers where it is not stated, "
            "takes " +
            to_string(forecast.context) + "; expected less than cluster.gpu.memory, " +
            to_string(forecast.capacity));
    const AllocatorReplay limited = held(e, fullest.list, available);
    forecast.retries = limited.retries;
    forecast.hangs_on_driver =
        limited.failed.has_value() !=
        held(e, fullest.list, available, Levels::peaks_only, Driver::does_not_wait)
            .failed.has_value();
    if (limited.failed) {
        const std::size_t event = *limited.failed;
        forecast.failure = {moment_of(fullest.list, event),
                            bytes_of(fullest.list.events[event].bytes),
                            bytes_of(limited.last.allocated), bytes_of(limited.last.reserved)};
    }
    if (limited.failed || forecast.reserved > nearly_full * available)
        add_remedies(forecast, e, available);
    return forecast;
}

}  // namespace stepcast
