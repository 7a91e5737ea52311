#include "sim/bounds/tables.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "model/step.h"
#include "model/transformer/counts.h"
#include "sim/bounds/least.h"

namespace stepcast {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void mix(std::size_t& hash, std::size_t part) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
}

bool same_ranks(const Parallelism& a, const Parallelism& b) {
    return a.tp == b.tp && a.cp == b.cp && a.dp == b.dp && a.pp == b.pp && a.ep == b.ep && a.shard == b.shard &&
           (a.zero == 3) == (b.zero == 3) && a.expert_tensor_parallel == b.expert_tensor_parallel &&
           a.rank_order == b.rank_order;
}

// Whether the plans that fill a gradient run once or are added to.
bool accumulates(const Parallelism& p) { return !p.fused_accumulation && p.zero != 3 && micro_batches(p) != 1; }

bool same_shape(const Parallelism& a, const Parallelism& b) {
    return a.tp == b.tp && a.cp == b.cp && a.ep == b.ep && a.micro_batch == b.micro_batch &&
           a.sequence_parallel == b.sequence_parallel &&
           (a.recompute == Recompute::selective) == (b.recompute == Recompute::selective) &&
           a.recompute_stops_early == b.recompute_stops_early && a.overlap_tp == b.overlap_tp &&
           a.overlap_weight_gradient == b.overlap_weight_gradient && a.context_exchange == b.context_exchange &&
           a.gradient_dtype == b.gradient_dtype && a.eager == b.eager && a.fused_accumulation == b.fused_accumulation &&
           accumulates(a) == accumulates(b) && a.expert_tensor_parallel == b.expert_tensor_parallel &&
           a.dispatch_once == b.dispatch_once && a.rank_order == b.rank_order;
}

bool same_pipeline(const Parallelism& a, const Parallelism& b) {
    return a.schedule == b.schedule && a.pp == b.pp && a.vp == b.vp && micro_batches(a) == micro_batches(b) &&
           a.recompute == b.recompute && a.recompute_layers == b.recompute_layers && a.overlap_p2p == b.overlap_p2p &&
           a.stage_layers == b.stage_layers;
}

bool same_sends(const Parallelism& a, const Parallelism& b) {
    return a.scatter_p2p == b.scatter_p2p && a.messages_per_tensor == b.messages_per_tensor;
}

constexpr const char* default_order = "tp-cp-dp-pp";

}  // namespace

StepBounds::Tables::Tables(const Experiment& base) : base_(base), now_(base), prices_(base_.cluster), data_(prices_) {
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

std::size_t StepBounds::Tables::KeyHash::operator()(const PipelineKey& key) const {
    std::size_t hash = at(static_cast<int>(key.schedule));
    for (const int part :
         {key.pp, key.pieces, key.micro_batches, key.recompute_layers, key.overlap_p2p ? 1 : 0, key.node, key.stride})
        mix(hash, at(part));
    for (const int layers : key.stage_layers) mix(hash, at(layers));
    return hash;
}

// Where ranks are laid out otherwise, groups of a shape depend on all sizes.
StepBounds::Tables::ShapeKey StepBounds::Tables::shape_key(const Parallelism& p) {
    const bool usual = p.rank_order == default_order;
    int flags = 0;
    for (const bool flag : {p.sequence_parallel, p.recompute == Recompute::selective, p.recompute_stops_early,
                            p.overlap_tp, p.overlap_weight_gradient, p.context_exchange == ContextExchange::ring,
                            p.eager, p.fused_accumulation, accumulates(p), p.expert_tensor_parallel, p.dispatch_once})
        flags = 2 * flags + (flag ? 1 : 0);
    return {{p.tp, p.cp, p.ep, p.micro_batch, flags, static_cast<int>(p.gradient_dtype), usual ? 0 : p.dp,
             usual ? 0 : p.pp},
            usual ? std::string() : p.rank_order};
}

PipelineKey StepBounds::Tables::pipeline_key(const Parallelism& p) const {
    const int m = micro_batches(p);
    PipelineKey key;
    key.schedule = p.schedule;
    key.pp = p.pp;
    key.pieces = pieces_per_stage(p);
    key.micro_batches = rounds_of(p.schedule, p.pp, m).least;
    key.recompute_layers = p.recompute == Recompute::full ? p.recompute_layers : 0;
    key.overlap_p2p = p.overlap_p2p;
    key.stage_layers = p.stage_layers;
    key.node = base_.cluster.gpus_per_node;
    key.stride = groups_.pipeline_neighbour.stride;
    int near = 0;
    for (int s = 0; s + 1 < p.pp; ++s) near += near_link(key, s);
    if (near == 0 || near == p.pp - 1) key.node = key.stride = 0;
    return key;
}

// Steps in which sends, recompute, the ends or hosts weigh more or less; of the workload's own layers on one rank. Sends
// are relative to the forward of a piece.
StepBounds::Tables::Directions StepBounds::Tables::directions(const PipelineKey& key) const {
    Directions found;
    std::vector<Features>& all = found.plain;
    const int pieces = model_pieces(key.schedule, key.pp, key.pieces);
    const std::size_t kind = has_experts(base_.workload, base_.workload.layers - 1) ? 1 : 0;
    const double layer = reference_[feature::unit(static_cast<UnitKind>(kind), Pass::forward)];
    const double piece = layer * std::max(1.0, static_cast<double>(base_.workload.layers) / pieces);
    const auto add = [&](double send, double again, double host, double backward, double weights = 1) {
        Features f = reference_;
        for (const UnitKind k : {UnitKind::dense, UnitKind::experts}) {
            f[feature::again(k)] *= again;
            f[feature::host_again(k)] *= again;
            for (const Pass pass : {Pass::forward, Pass::backward, Pass::input_backward, Pass::weight_backward})
                f[feature::host(k, pass)] = host * layer * (pass == Pass::weight_backward ? 0.5 : 1);
            for (const Pass pass : {Pass::backward, Pass::input_backward, Pass::weight_backward})
                f[feature::unit(k, pass)] *= backward;
            f[feature::unit(k, Pass::weight_backward)] *= weights;
            f[feature::host_again(k)] = again * host * layer;
        }
        f[feature::send_far] = f[feature::send_wrap] = send * piece;
        f[feature::send_near] = (key.node == 0 ? 1 : 0.1) * send * piece;
        all.push_back(f);
    };
    if (key.pp == 1) {
        for (const double host : {0.0, 1.3, 10.0}) add(0, 0, host, 1);
        return found;
    }
    for (const double again : {0.0, 1.0})
        for (const double send : {0.0, 0.03, 0.15, 0.6, 2.5}) add(send, again, 0, 1);
    for (const double send : {0.05, 0.3}) add(send, 0, 0, 0.6);
    if (key.schedule == Schedule::zb_v || key.schedule == Schedule::dualpipe)
        for (const double send : {0.02, 0.3})
            for (const double inputs : {0.6, 1.0, 1.5, 2.2})
                for (const double weights : {0.6, 1.0, 1.4})
                    for (const double again : {0.0, 1.0}) add(send, again, 0, inputs, weights);
    for (const double host : {1.3, 10.0}) add(0.03, 0, host, 1);
    // zero 3: exchanges of a layer of all lengths, and what they keep waiting.
    Parallelism sharded = parallelism_of(key);
    sharded.zero = 3;
    StageUnits units;
    units.layers[kind] = 1;
    for (const double gather : {0.5, 1.0, 2.5})
        for (const double scatter : {0.0, 1.5})
            for (const auto& [send, again] : {std::pair(0.03, 0.0), {0.03, 1.0}, {0.3, 0.0}}) {
                add(send, again, 0, 1);
                DataTimes data;
                data.gathered.fill(gather * layer);
                data.exchanged.fill(gather * scatter * layer);
                found.sharded.push_back(with_sharding(all.back(), all.back(), sharded, data, units, 0.25));
                all.pop_back();
            }
    return found;
}

void StepBounds::Tables::bind(const Parallelism& p) {
    const Parallelism last = std::exchange(now_.parallelism, p);
    const bool ranks = !bound_ || !same_ranks(p, last), shape = !bound_ || !same_shape(p, last);
    if (ranks) bind_groups();
    if (shape) bind_shape();
    if (ranks || shape) context_.emplace(LayerContext{now_, shape_->shape.shape, groups_, shape_->routing});
    const bool pipeline = ranks || !same_pipeline(p, last);
    if (pipeline) bind_pipeline();
    const bool times = pipeline || shape || !same_sends(p, last);
    if (times) bind_sends();
    if (shape || pipeline) bind_memory();
    if (times) bind_slots();
    if (times || p.zero != last.zero || p.bucket != last.bucket) bind_data();
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
        entry->routing = routing_of(now_);
        entry->shape = bound_shape(now_, entry->routing, prices_);
    }
    shape_ = entry.get();
}

void StepBounds::Tables::bind_pipeline() {
    const Parallelism& p = now_.parallelism;
    key_ = pipeline_key(p);
    rounds_ = rounds_of(p.schedule, p.pp, micro_batches(p));
    auto& entry = pipelines_[key_];
    if (!entry) {
        const Directions found = directions(key_);
        entry = std::make_unique<Pipeline>(find_pipeline(key_, base_.workload, found.plain, found.sharded));
    }
    pipeline_ = entry.get();
    if (ends_.size() < pipeline_->groups.size()) ends_.resize(pipeline_->groups.size());
    if (full_.size() < pipeline_->memory.size()) full_.resize(pipeline_->memory.size());
}

double StepBounds::Tables::across(Bytes bytes, const Group& group) {
    return group.size() > 1 ? prices_.collective(AllReduce{bytes}, group).si() : 0;
}

double StepBounds::Tables::send_time(int a, int b) {
    const Parallelism& p = now_.parallelism;
    const bool scattered = p.scatter_p2p && !p.sequence_parallel && p.tp > 1;
    const Bytes bytes = shape_->shape.shape.outer() / (scattered ? static_cast<double>(p.tp) : 1.0);
    const Group group{
        .ranks = 2, .stride = (b - a) * groups_.pipeline_neighbour.stride, .first = rank_of(p, 0, 0, 0, a)};
    return prices_.collective(SendRecv{bytes, p.messages_per_tensor}, group).si();
}

void StepBounds::Tables::bind_sends() {
    const Parallelism& p = now_.parallelism;
    lower_ = shape_->shape.lower;
    alone_ = shape_->shape.alone;
    estimate_ = shape_->shape.estimate;
    sending_ = 0;
    if (p.recompute != Recompute::full)
        for (Features* f : {&lower_, &alone_, &estimate_})
            for (const UnitKind k : {UnitKind::dense, UnitKind::experts})
                (*f)[feature::again(k)] = (*f)[feature::host_again(k)] = 0;
    if (p.pp > 1) {
        int near = -1, far = -1;
        for (int s = p.pp - 1; s-- > 0;) (near_link(key_, s) ? near : far) = s;
        const double close = near >= 0 ? send_time(near, near + 1) : 0;
        const double distant = far >= 0 ? send_time(far, far + 1) : 0;
        const bool wraps = p.schedule == Schedule::one_f_one_b && key_.pieces > 1 && p.pp > 2;
        const double around = wraps ? send_time(0, p.pp - 1) : 0;
        for (Features* f : {&lower_, &estimate_}) {
            (*f)[feature::send_near] = close;
            (*f)[feature::send_far] = distant;
            (*f)[feature::send_wrap] = around;
        }
        const bool scattered = p.scatter_p2p && !p.sequence_parallel && p.tp > 1;
        lower_[feature::arrival] = estimate_[feature::entry] = scattered ? shape_->shape.gather.si() : 0;
        // With several pieces a stage computes while it sends one and receives another, at times of their own.
        if (key_.pieces > 1 && p.overlap_p2p) {
            const StageUnits& units = pipeline_->groups.back().most;
            double slot = 0;
            for (std::size_t k = 0; k < 2; ++k)
                for (const Pass pass : {Pass::forward, Pass::backward})
                    slot += units.layers[k] * estimate_[feature::unit(static_cast<UnitKind>(k), pass)];
            slot /= 2 * key_.pieces;
            const double send = std::max(close, distant), both = std::min(send, slot);
            const double busy = slot > 0 ? 2 * both - both * both / slot : 0;
            sending_ = slot > 0 ? busy / slot : 0;
            estimate_[feature::entry] += lost_beside(
                1e9, std::max(send, busy),
                slowdown_of(estimate_, shape_->shape.computing, units, base_.cluster.interference.compute_slowdown));
        }
    }
    weights_ = shape_->shape.weights;
    if (p.pp > 1) weights_[at(static_cast<int>(UnitKind::head))] = shape_->shape.copied_head;
    const bool joins = base_.workload.tied && p.join_tied && p.pp > 1 && p.schedule != Schedule::zb_v;
    const RankShape& s = shape_->shape.shape;
    embedding_all_reduce_ =
        joins ? across(static_cast<double>(s.vocab) * static_cast<double>(s.hidden) * size_of(p.gradient_dtype),
                       groups_.embedding)
              : 0;
}

double StepBounds::Tables::latest(const std::vector<PipelinePath>& paths, const Features& times, double start) const {
    double end = 0;
    for (const PipelinePath& path : paths) {
        const double once = dot(path.once, times) + (path.by_host ? 0 : start);
        end = std::max(end, rounds_.count > 0 ? once + rounds_.count * dot(path.round, times) : once);
    }
    return end;
}

void StepBounds::Tables::bind_slots() {
    const double slowdown = base_.cluster.interference.compute_slowdown * (1 - sending_);
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        ends_[g].slots = latest(group.paths, estimate_);
        ends_[g].slowdown = slowdown_of(estimate_, shape_->shape.computing, group.most, slowdown);
    }
}

// dualpipe: a stage and its mirror sum the gradients of the copies that they hold.
double StepBounds::Tables::copy_join(const StageGroup& group, const DataTimes& data) {
    const Parallelism& p = now_.parallelism;
    if (stepcast::directions(p) == 1) return 0;
    const int stage = std::min(group.first_stage, p.pp - 1 - group.first_stage);
    const Group mirrored{.ranks = 2,
                         .stride = (p.pp - 1 - 2 * stage) * groups_.pipeline_neighbour.stride,
                         .first = rank_of(p, 0, 0, 0, stage)};
    return across(data.elements * size_of(p.gradient_dtype), mirrored);
}

void StepBounds::Tables::bind_data() {
    const DataInputs in{*context_, shape_->shape, weights_, key_.pieces};
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        ends_[g].most = data_.times(in, group.most);
        ends_[g].least = group.fewest == group.most ? ends_[g].most : data_.times(in, group.fewest);
        ends_[g].least_join = copy_join(group, ends_[g].least);
        ends_[g].join = copy_join(group, ends_[g].most);
    }
}

// What exchanges delay at least. Where experts are uneven, ranks wait for each other, and nothing is added.
void StepBounds::Tables::bind_least() {
    const Parallelism& p = now_.parallelism;
    least_ = lower_;
    least_start_ = 0;
    if (shape_->routing.counts.empty() && (p.dp > 1 || p.cp > 1)) {
        double parameters = std::numeric_limits<double>::infinity();
        for (std::size_t g = 0; g < pipeline_->groups.size(); ++g)
            parameters = std::min(parameters, ends_[g].least.parameters);
        const double send =
            std::max({lower_[feature::send_near], lower_[feature::send_far], lower_[feature::send_wrap]});
        const LeastInputs in{p,
                             lower_,
                             alone_,
                             ends_[0].least,
                             pipeline_->model,
                             pipeline_->shortest_piece,
                             send + lower_[feature::arrival],
                             base_.cluster.interference.compute_slowdown};
        least_ = with_least_exchanges(in);
        if (p.zero == 3 || ((p.zero == 1 || p.zero == 2) && p.overlap_params))
            least_start_ = least_start(in, parameters);
    }
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g)
        ends_[g].lower_slots = latest(pipeline_->groups[g].paths, least_, least_start_);
}

void StepBounds::Tables::bind_ends() {
    const Parallelism& p = now_.parallelism;
    bind_least();
    const double n = micro_batches(p) / static_cast<double>(stepcast::directions(p));
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const StageGroup& group = pipeline_->groups[g];
        GroupEnd& end = ends_[g];
        const double exchanged = p.overlap ? end.least.least_last : end.least.least_waited;
        end.lower = std::max(end.lower_slots + std::max(exchanged, end.least_join), end.least.least_lane);
        const auto finish = [&](const Features& times, double slots) {
            const Tail tail = tail_of({p, times, group, end.most, key_.pieces, n, end.slowdown}, slots);
            end.estimate = slots + tail.delay + std::max(tail.exposed, end.join);
        };
        if (p.zero < 3) {
            finish(estimate_, end.slots);
            continue;
        }
        const Features times = with_sharding(estimate_, shape_->shape.computing, p, end.most, group.most,
                                             base_.cluster.interference.compute_slowdown * (1 - sending_));
        finish(times, std::max(latest(group.paths, times), latest(group.sharded_paths, times)));
    }
}

// Tied embeddings are joined when the slots of both ends are done; then all stages norm, and all update.
void StepBounds::Tables::time(StepBound& bound) const {
    const Parallelism& p = now_.parallelism;
    const bool gathers = (p.zero == 1 || p.zero == 2) && !p.overlap_params;
    const auto has_ends = [](const StageGroup& group) { return group.most.embeddings + group.most.heads > 0; };
    double joined = 0;
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g)
        if (embedding_all_reduce_ > 0 && has_ends(pipeline_->groups[g]))
            joined = std::max(joined, ends_[g].slots + embedding_all_reduce_);
    double lower = 0, estimate = 0, lower_update = 0, update = 0;
    for (std::size_t g = 0; g < pipeline_->groups.size(); ++g) {
        const GroupEnd& end = ends_[g];
        const double with_join = has_ends(pipeline_->groups[g]) ? std::max(end.estimate, joined) : end.estimate;
        lower = std::max(lower, end.lower + end.least.norm);
        estimate = std::max(estimate, with_join + end.most.norm);
        lower_update = std::max(lower_update, end.least.update + (gathers ? end.least.parameters_joined : 0));
        update = std::max(update, end.most.update + (gathers ? end.most.parameters_joined : 0));
    }
    bound.lower = Seconds(lower + norm_all_reduce_ + lower_update);
    bound.estimate = std::max(Seconds(estimate + norm_all_reduce_ + update), bound.lower);
}

StepBound StepBounds::Tables::bound(const Parallelism& p) {
    bind(p);
    StepBound bound;
    time(bound);
    verdict(bound);
    return bound;
}

}  // namespace stepcast
