#include "sim/bounds/data.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

constexpr std::size_t known_times = 1 << 14;

RankWeights total(const DataInputs& in, const UnitCounts& units) {
    RankWeights sum;
    for (std::size_t k = 0; k < unit_kinds; ++k) sum += units[k] * in.weights[k].trained;
    return sum;
}

}  // namespace

DataPrices::DataPrices(OpPrices& prices) : prices_(prices), known_(known_times) {}

void DataPrices::bind(const RankGroups& groups) {
    const auto path = [&](const Group& group) {
        return group.size() > 1 ? &prices_.path(group) : nullptr;
    };
    dense_ = path(groups.shard);
    experts_ = path(groups.expert_shard);
    replicas_ = path(groups.shard_replicas);
    expert_replicas_ = path(groups.expert_shard_replicas);
}

double DataPrices::collective(Kind kind, const RingPath* path, double bytes) {
    if (!path || bytes == 0) return 0;
    const auto mixed =
        (std::bit_cast<std::uint64_t>(bytes) ^ reinterpret_cast<std::uintptr_t>(path) * 31 ^
         static_cast<std::uint64_t>(kind) << 60) *
        0x9E3779B97F4A7C15ull;
    Known& known = known_[mixed >> 50];
    if (known.path == path && known.kind == kind && known.bytes == bytes) return known.time;
    const Bytes b(bytes);
    const Op op = kind == Kind::all_reduce   ? Op(AllReduce{b})
                  : kind == Kind::all_gather ? Op(AllGather{b})
                                             : Op(ReduceScatter{b});
    known = {path, kind, bytes, time_in_step(op, *path, prices_.cluster()).si()};
    return known.time;
}

double DataPrices::gradients(const DataInputs& in, double dense, double experts) {
    const Parallelism& p = in.context.experiment.parallelism;
    const int pieces = in.context.experiment.runtime.gradients.pieces;
    const double element = size_of(gradient_type(in.context.experiment)).si() / pieces;
    const Kind kind = p.zero >= 1 ? Kind::reduce_scatter : Kind::all_reduce;
    const RankGroups& groups = in.context.groups;
    double time =
        collective(kind, dense_, dense * element) + collective(kind, experts_, experts * element);
    if (replicas_)
        time += collective(Kind::all_reduce, replicas_, dense * element / groups.shard.size());
    if (expert_replicas_)
        time += collective(Kind::all_reduce, expert_replicas_,
                           experts * element / groups.expert_shard.size());
    return pieces * time;
}

double DataPrices::gathers(const DataInputs& in, const RankWeights& weights) {
    const Experiment& e = in.context.experiment;
    const double element = gathered_weight(e).si();
    const double copied = weights.dense / in.context.groups.shard.size() +
                          weights.experts / in.context.groups.expert_shard.size();
    return collective(Kind::all_gather, dense_, weights.dense * element) +
           collective(Kind::all_gather, experts_, weights.experts * element) +
           (keeps_weights_on_host(e) ? prices_.local(from_host(e, copied), Phase::forward).si()
                                     : 0);
}

// Units close buckets in the order head, layers, embedding. Every chunk ends its last bucket.
void DataPrices::add_buckets(const DataInputs& in, const UnitCounts& units, DataTimes& times) {
    const double limit = bucket_bytes(in.context.experiment).si() /
                         size_of(gradient_type(in.context.experiment)).si();
    const int layers = all_layers(units);
    const int of_chunk = std::max(1, (layers + in.chunks - 1) / in.chunks);
    RankWeights layer;
    for (std::size_t k = 0; k < 2 && layers > 0; ++k) {
        layer.dense += units[k] * in.weights[k].trained.dense / layers;
        layer.experts += units[k] * in.weights[k].trained.experts / layers;
    }
    times.first_layers = 1;
    for (const bool dense : {true, false}) {
        const double weight = dense ? layer.dense : layer.experts;
        if (weight == 0 || !(dense ? dense_ : experts_)) continue;
        const int fill =
            std::min(of_chunk, std::max(1, static_cast<int>(std::ceil(limit / weight))));
        const int full = of_chunk / fill, rest = of_chunk % fill;
        const auto time = [&](double elements) {
            return dense ? gradients(in, elements, 0) : gradients(in, 0, elements);
        };
        const double chunk = full * time(fill * weight) + (rest > 0 ? time(rest * weight) : 0);
        times.gradients += chunk * layers / of_chunk;
        times.last_bucket += time((rest > 0 ? rest : fill) * weight);
        if (dense) times.first_layers = fill;
    }
    for (const UnitKind end : {UnitKind::embedding, UnitKind::head}) {
        const double once = gradients(in, in.weights[at(end)].trained.dense, 0);
        times.gradients += units[at(end)] * once;
        if (end == UnitKind::embedding && units[at(UnitKind::embedding)] > 0)
            times.last_bucket = once;
    }
}

// As in DataParallel::add_norm() and add_optimizer().
void DataPrices::add_update(const DataInputs& in, const UnitCounts& units, DataTimes& times) {
    const Experiment& e = in.context.experiment;
    const Parallelism& p = e.parallelism;
    const RankWeights all = total(in, units);
    const UpdatePasses passes = update_passes(e, shared_out(in.context, all, 1), all.all());
    const auto time = [&](const MemoryPass& pass) {
        return prices_.local(pass, Phase::optimizer).si();
    };
    times.norm = passes.copies.read > Bytes(0) ? time(passes.copies) : 0;
    for (int i = 0; i < passes.norm_passes; ++i) times.norm += time(passes.norm[as_index(i)]);
    times.update =
        time(passes.optimizer) + (e.runtime.gradients.freed ? 0 : time(passes.zero_gradients));
    if (e.run.offload_optimizer)
        times.update +=
            time(passes.to_host) + (e.run.offload_parameters ? 0 : time(passes.from_host));
    if (p.zero == 1 || p.zero == 2) times.parameters_joined = gathers(in, all);
}

// The last bucket holds at least the last unit. Joined collectives take no longer than one by one.
// zero 2 joins what is left of a micro-batch with the next micro-batch.
void DataPrices::add_least(const DataInputs& in, const UnitCounts& units, DataTimes& times) {
    const Parallelism& p = in.context.experiment.parallelism;
    const RankWeights all = total(in, units);
    times.elements = shared_out(in.context, all, 1);
    const int of_copy = micro_batches(p) / directions(p);  // of the copy with fewer
    const int rounds = shards_each_pass(p) ? of_copy : std::min(1, of_copy);
    const double bucket =
        bucket_bytes(in.context.experiment) / size_of(gradient_type(in.context.experiment));
    double least = all.dense, one_by_one = 0, gathered = 0;
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        const RankWeights& unit = in.weights[k].trained;
        times.flushed[k] = gradients(in, unit.dense, 0);
        times.filled[k] = (unit.dense >= bucket ? times.flushed[k] : 0) +
                          (unit.experts >= bucket ? gradients(in, 0, unit.experts) : 0);
        if (units[k] > 0) least = std::min(least, unit.dense);
        one_by_one += units[k] * rounds * (p.zero == 3 ? times.exchanged[k] : times.filled[k]);
        if (p.zero == 3) gathered += units[k] * rounds * 2 * times.gathered[k];
    }
    const double in_one =
        p.zero == 3 ? 0
                    : gradients(in, rounds * all.dense, 0) + gradients(in, 0, rounds * all.experts);
    times.least_waited = std::max(in_one, one_by_one);
    times.least_lane = times.least_waited + gathered;
    times.least_last = of_copy > 0 ? gradients(in, least, 0) : 0;
}

DataTimes DataPrices::times(const DataInputs& in, const UnitCounts& units) {
    const Parallelism& p = in.context.experiment.parallelism;
    DataTimes times;
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        times.exchanged[k] =
            gradients(in, in.weights[k].trained.dense, in.weights[k].trained.experts);
        if (p.zero >= 1) times.gathered[k] = gathers(in, in.weights[k].trained);
        times.parameters += units[k] * times.gathered[k];
    }
    if (p.zero == 3 && shards_each_pass(p)) {
        for (std::size_t k = 0; k < unit_kinds; ++k)
            times.gradients += units[k] * times.exchanged[k];
        times.last_bucket = units[at(UnitKind::embedding)] > 0
                                ? times.exchanged[at(UnitKind::embedding)]
                                : times.exchanged[units[0] > 0 ? 0 : 1];
        times.first_layers = 1;
    } else {
        add_buckets(in, units, times);
    }
    if (in.context.experiment.workload.optimizer != Optimizer::none) add_update(in, units, times);
    add_least(in, units, times);
    return times;
}

}  // namespace stepcast
