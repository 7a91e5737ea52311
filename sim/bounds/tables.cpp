#include "sim/bounds/tables.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "model/step.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

void mix(std::size_t& hash, std::size_t part) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
}

// Whether the plans that fill a gradient run once or are added to.
bool accumulates(const Parallelism& p) { return !p.fused_accumulation && p.zero != 3 && micro_batches(p) != 1; }

// What tables are kept by, or were made for: what says where ranks are, what shape a rank's share has, which pipeline runs,
// and what it sends.
auto ranks_of(const Parallelism& p) {
    return std::tie(p.tp, p.cp, p.dp, p.pp, p.ep, p.shard, p.expert_tensor_parallel, p.rank_order);
}
// Full recompute is counted apart, so that it shares a shape with none.
int of_shape(Recompute recompute) { return recompute == Recompute::full ? 0 : static_cast<int>(recompute); }
auto shape_of(const Parallelism& p) {
    return std::tuple(p.tp, p.cp, p.ep, p.micro_batch, p.sequence_parallel, of_shape(p.recompute),
                      p.recompute_stops_early, p.overlap_tp, p.gather_copies, p.overlap_weight_gradient, p.context_exchange, p.gradient_dtype,
                      p.eager, p.fused_accumulation, accumulates(p), p.expert_tensor_parallel, p.dispatch_once, p.expert_products);
}
auto pipeline_of(const Parallelism& p) {
    return std::tie(p.schedule, p.pp, p.vp, p.recompute, p.recompute_layers, p.overlap_p2p, p.stage_layers);
}
auto sends_of(const Parallelism& p) { return std::tie(p.scatter_p2p, p.messages_per_tensor); }

constexpr const char* default_order = "tp-cp-dp-pp";

}  // namespace

StepBounds::Tables::Tables(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines, int draw)
    : base_(base), draw_(draw), now_(base), prices_(base_.cluster), data_(prices_), pipelines_(std::move(pipelines)) {
    if (base.workload.kind != Workload::Kind::transformer)
        throw std::logic_error("StepBounds: the workload is no transformer");
    Experiment one = base_;
    one.parallelism = {};
    reference_ = bound_shape(one, {}, prices_).estimate;
}

std::size_t StepBounds::Tables::KeyHash::operator()(const ShapeKey& key) const {
    std::size_t hash = std::hash<std::string>{}(key.rank_order);
    for (const int number : key.numbers) mix(hash, at(number));
    return hash;
}

std::size_t PipelineKeyHash::operator()(const PipelineKey& key) const {
    std::size_t hash = at(static_cast<int>(key.schedule));
    for (const int part :
         {key.pp, key.chunks, key.micro_batches, key.recompute_layers, key.overlap_p2p ? 1 : 0, key.node, key.stride})
        mix(hash, at(part));
    for (const int layers : key.stage_layers) mix(hash, at(layers));
    return hash;
}

// Where ranks are laid out otherwise, groups of a shape depend on all sizes.
StepBounds::Tables::ShapeKey StepBounds::Tables::shape_key(const Parallelism& p) {
    const bool usual = p.rank_order == default_order;
    ShapeKey key{.numbers = {}, .rank_order = usual ? std::string() : p.rank_order};
    std::apply([&](auto... part) { key.numbers = {static_cast<int>(part)..., usual ? 0 : p.dp, usual ? 0 : p.pp}; }, shape_of(p));
    return key;
}

PipelineKey StepBounds::Tables::pipeline_key(const Parallelism& p) const {
    const int m = micro_batches(p);
    PipelineKey key;
    key.schedule = p.schedule;
    key.pp = p.pp;
    key.chunks = chunks_per_stage(p);
    key.micro_batches = rounds_of(p.schedule, p.pp, m).least;
    key.recompute_layers = recomputes_layers(p) ? p.recompute_layers : 0;
    key.overlap_p2p = p.overlap_p2p;
    key.stage_layers = p.stage_layers;
    key.node = base_.cluster.gpus_per_node;
    key.stride = groups_.pipeline_neighbour.stride;
    int near = 0;
    for (int s = 0; s + 1 < p.pp; ++s) near += near_link(key, s);
    if (near == 0 || near == p.pp - 1) key.node = key.stride = 0;
    return key;
}

namespace {

// One of the steps below: how much each part weighs.
struct Weighed {
    double send = 0, again = 0, host = 0, backward = 1, weights = 1;
};

// Of `reference`; `layer`, `chunk`: their forwards. Sends are relative to that of a chunk, near ones cheaper where there are
// any.
Features weighed(Features f, double layer, double chunk, bool all_far, const Weighed& by) {
    for (const UnitKind k : {UnitKind::dense, UnitKind::experts}) {
        f[feature::again(k)] *= by.again;
        for (const Pass pass : {Pass::forward, Pass::backward, Pass::input_backward, Pass::weight_backward})
            f[feature::host(k, pass)] = by.host * layer * (pass == Pass::weight_backward ? 0.5 : 1);
        for (const Pass pass : {Pass::backward, Pass::input_backward, Pass::weight_backward})
            f[feature::unit(k, pass)] *= by.backward;
        f[feature::unit(k, Pass::weight_backward)] *= by.weights;
        f[feature::host_again(k)] = by.again * by.host * layer;
    }
    f[feature::send_far] = f[feature::send_wrap] = by.send * chunk;
    f[feature::send_near] = (all_far ? 1 : 0.1) * by.send * chunk;
    return f;
}

}  // namespace

// Steps in which sends, recompute, the ends or hosts weigh more or less; of the workload's own layers on one rank.
StepBounds::Tables::Directions StepBounds::Tables::directions(const PipelineKey& key) const {
    Directions found;
    const int chunks = model_chunks(key.schedule, key.pp, key.chunks);
    const std::size_t kind = has_experts(base_.workload, base_.workload.layers - 1) ? 1 : 0;
    const double layer = reference_[feature::unit(static_cast<UnitKind>(kind), Pass::forward)];
    const double chunk = layer * std::max(1.0, static_cast<double>(base_.workload.layers) / chunks);
    const auto of = [&](const Weighed& by) { return weighed(reference_, layer, chunk, key.node == 0, by); };
    const auto add = [&](const Weighed& by) { found.plain.push_back(of(by)); };
    if (key.pp == 1) {
        for (const double host : {0.0, 1.3, 10.0}) add({.host = host});
        return found;
    }
    for (const double again : {0.0, 1.0})
        for (const double send : {0.0, 0.03, 0.15, 0.6, 2.5}) add({send, again});
    for (const double send : {0.05, 0.3}) add({.send = send, .backward = 0.6});
    if (traits(key.schedule).chunks == StageChunks::there_and_back)
        for (const double send : {0.02, 0.3})
            for (const double inputs : {0.6, 1.0, 1.5, 2.2})
                for (const double weights : {0.6, 1.0, 1.4})
                    for (const double again : {0.0, 1.0}) add({send, again, 0, inputs, weights});
    for (const double host : {1.3, 10.0}) add({.send = 0.03, .host = host});
    // zero 3: collectives of a layer of all lengths, and what they keep waiting.
    Parallelism sharded = parallelism_of(key);
    sharded.zero = 3;
    StageUnits units;
    units.layers[kind] = 1;
    for (const double gather : {0.5, 1.0, 2.5})
        for (const double scatter : {0.0, 1.5})
            for (const Weighed& by : {Weighed{0.03, 0}, {0.03, 1}, {0.3, 0}}) {
                const Features plain = of(by);
                DataTimes data;
                data.gathered.fill(gather * layer);
                data.exchanged.fill(gather * scatter * layer);
                found.sharded.push_back(with_sharding(plain, plain, sharded, data, units, 0.25));
            }
    return found;
}

void StepBounds::Tables::bind(const Parallelism& p) {
    const Parallelism last = std::exchange(now_.parallelism, p);
    const bool ranks = !bound_ || ranks_of(p) != ranks_of(last) || (p.zero == 3) != (last.zero == 3);
    const bool shape = !bound_ || shape_of(p) != shape_of(last) || p.rank_order != last.rank_order ||
                       (ranks && p.rank_order != default_order);  // as shape_key()
    if (ranks) bind_groups();
    if (shape) bind_shape();
    if (ranks || shape) context_.emplace(LayerContext{now_, shape_->shape.shape, groups_, shape_->routing});
    const bool pipeline = ranks || micro_batches(p) != micro_batches(last) || pipeline_of(p) != pipeline_of(last);
    if (pipeline) bind_pipeline();
    const bool times = pipeline || shape || sends_of(p) != sends_of(last);
    if (times) bind_sends();
    if (shape || pipeline) bind_memory();
    if (times) bind_slots();
    const bool data = times || p.zero != last.zero || p.bucket != last.bucket;
    if (data) bind_data();
    if (data || p.overlap != last.overlap) bind_least();
    bind_ends();
    bound_ = true;
}

void StepBounds::Tables::bind_groups() {
    const Parallelism& p = now_.parallelism;
    groups_ = rank_groups(p);
    data_.bind(groups_, p.zero == 3);
    const int everybody = p.dp * p.tp * p.pp * p.cp;
    norm_all_reduce_ =
        base_.workload.optimizer == Optimizer::none || p.clip_per_rank ? 0 : across(Bytes(8), Group{everybody, 1});
}

void StepBounds::Tables::bind_shape() {
    auto& entry = shapes_[shape_key(now_.parallelism)];
    if (!entry) {
        entry = std::make_unique<ShapeEntry>();
        entry->routing = routing_of(now_, draw_);
        entry->shape = bound_shape(now_, entry->routing, prices_);
    }
    shape_ = entry.get();
}

void StepBounds::Tables::bind_pipeline() {
    const Parallelism& p = now_.parallelism;
    key_ = pipeline_key(p);
    rounds_ = rounds_of(p.schedule, p.pp, micro_batches(p));
    const FoundPipeline*& entry = met_[key_];
    if (!entry) {
        entry = &pipelines_->find(key_, [&] {
            const Directions found = directions(key_);
            Pipeline pipeline = find_pipeline(key_, base_.workload, found.plain, found.sharded);
            PathTable paths(pipeline);
            for (StageGroup& group : pipeline.groups) group.paths = group.sharded_paths = {};
            return FoundPipeline{std::move(pipeline), std::move(paths)};
        });
    }
    pipeline_ = &entry->pipeline;
    paths_ = &entry->paths;
    if (ends_.size() < pipeline_->groups.size()) ends_.resize(pipeline_->groups.size());
    if (full_.size() < pipeline_->memory.size()) full_.resize(pipeline_->memory.size());
}

double StepBounds::Tables::across(Bytes bytes, const Group& group) {
    return group.size() > 1 ? prices_.collective(AllReduce{bytes}, group).si() : 0;
}

StepBound StepBounds::Tables::bound(const Parallelism& p) {
    bind(p);
    StepBound bound;
    time(bound);
    verdict(bound);
    return bound;
}

}  // namespace stepcast
