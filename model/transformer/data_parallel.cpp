#include "model/transformer/data_parallel.h"

#include <algorithm>
#include <optional>

#include "model/base/numbers.h"
#include "model/transformer/chunks.h"

namespace stepcast {
namespace {

// An unfused framework without autocast updates 16-bit weights in place, with no fp32 copies and no
// loss scale.
bool keeps_masters(const Experiment& e) {
    return e.runtime.optimizer.master_weights && (!runs_operations(e) || e.runtime.autocast);
}

// Bytes of Adam as nine fp32 operations: first moment (scale, add), second moment (scale, add
// product), root, add, divide and add to the weight, decay or clip. Tensors have the states' type.
MemoryPass unfused_adam(Bytes state) { return {12.0 * state, 8.0 * state}; }
// LAMB adds norms of weight and update, and scales and applies the update.
constexpr MemoryPass unfused_lamb{(12 + 5) * Bytes(4), (8 + 2) * Bytes(4)};

// Around Muon's products: momentum from gradient and momentum, their mean, its cast to 16 bits, its
// norm, the division by it, two scales of weight and update, and their sum.
MemoryPass muon_update(Bytes state, Bytes weight) {
    const Bytes narrow(2);
    return {(2 + 2 + 1 + 1 + 1) * state + (1 + 1 + 1 + 1) * narrow,
            (1 + 1 + 1 + 1) * state + (1 + 1 + 1) * narrow + weight};
}

// Adafactor, operation by operation on fp32 tensors of the weights' shape: the weight's mean
// square, the gradient's square, a constant added, means over columns and over rows, their product,
// times the gradient, its mean square, two scales, negated, added to the weight.
constexpr MemoryPass adafactor_update{(1 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 1 + 1 + 2) * Bytes(4),
                                      8 * Bytes(4)};

// Of a weight whose moments are in 8 bits: the kernel looks for the nearest of 256 codes for both.
// 1.24e9 weights took 48.7 ms on an H200 (AdamW8bit; 50.2 paged; calibrate/measurements/h200/
// users_steps.csv), whose fp32 peak is 67 TFLOP/s: one machine, so a guess elsewhere.
constexpr double eight_bit_operations = 2600;

// Where each operation of the optimizer is a kernel; nothing of others.
std::optional<MemoryPass> unfused_bytes(const Experiment& e, Bytes state, Bytes weight) {
    const Optimizer optimizer = e.workload.optimizer;
    const bool adam = optimizer == Optimizer::adam || optimizer == Optimizer::muon;
    if (runs_operations(e) && optimizer == Optimizer::lamb) return unfused_lamb;
    if (!adam) return std::nullopt;
    if (runs_operations(e)) return unfused_adam(Bytes(4));
    if (e.runtime.optimizer.fused) return std::nullopt;
    const MemoryPass update = unfused_adam(state);
    return MemoryPass{update.read + (weight > Bytes(0) ? state : Bytes(0)),
                      update.written + weight};
}

// Bytes per parameter: reads the fp32 gradient, the master weight and two moments; writes master,
// moments and the weight (unfused: in a copy behind the update). In fp32 training, under automatic
// casting and without masters, the weight is its own, and all tensors have its type. LAMB also
// writes, reads and applies the update, for the layer's norms.
MemoryPass state_bytes(const Experiment& e) {
    const Workload& w = e.workload;
    const Bytes stored = size_of(trained_dtype(e));
    const Bytes state = e.runtime.optimizer.master_weights ? Bytes(4) : stored,
                weight = stored < state && !casts_weights(e) ? stored : Bytes(0);
    if (!keeps_masters(e) && w.optimizer == Optimizer::sgd) return {2.0 * stored, stored};
    if (const auto unfused = unfused_bytes(e, state, weight)) return *unfused;
    const Bytes moments(2 * (1 + 4.0 / 256));  // of adam8bit
    switch (w.optimizer) {
        case Optimizer::none: return {};
        case Optimizer::sgd: return {2.0 * state, state + weight};
        case Optimizer::adam:
        case Optimizer::muon: return {4.0 * state, 3.0 * state + weight};
        case Optimizer::lamb: return {(4.0 + 2.0) * state, (3.0 + 1.0) * state + weight};
        case Optimizer::adam8bit: return {2.0 * state + moments, state + moments + weight};
        case Optimizer::adafactor:
            // a weight without fp32 copy is cast for it and back
            return state < Bytes(4)
                       ? MemoryPass{adafactor_update.read + state + Bytes(4),
                                    adafactor_update.written + state + Bytes(4)}
                       : MemoryPass{adafactor_update.read, adafactor_update.written + weight};
    }
    return {};
}

// One pass of the host over fp32 gradient, weight and two moments, and the links. Where gradients
// are the host's, every micro-batch but the last brings what was there, adds and returns it
// (DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py: async_accumulate_grad_in_cpu_via_gpu), and the
// host casts the weights (bit16_partition_buffer). Else both cross in fp32 (megatron-core 0.16.1,
// optimizer/cpu_offloading/hybrid_optimizer.py). Without masters all is of the weights' type, as
// under FSDP's CPUOffload of 16-bit weights (torch 2.6, distributed/fsdp/api.py).
void move_to_host(UpdatePasses& passes, const Experiment& e, double updated) {
    const Bytes stored = size_of(trained_dtype(e)), wide = keeps_masters(e) ? Bytes(4) : stored;
    const bool gradients = e.runtime.optimizer.host_gradients;
    const int before = gradients ? micro_batches(e.parallelism) - 1 : 0;
    constexpr auto link = MemoryPass::Access::host_link;
    passes.to_host = {updated * before * size_of(trained_gradients(e)),
                      updated * (wide + before * size_of(trained_gradients(e))), link};
    if (!e.run.offload_parameters)
        passes.from_host = {updated * (gradients ? stored : wide), Bytes(0), link};
    passes.optimizer = {updated * (4.0 * wide + (gradients ? wide : Bytes(0))),
                        updated * (3.0 * wide + (gradients ? stored : Bytes(0))),
                        MemoryPass::Access::host};
    passes.optimizer_calls = 1;
}

// What a framework states for each ZeRO stage; the last value holds for all further stages.
double at_stage(const std::vector<int>& counts, int zero) {
    return counts.empty() ? 0 : counts[std::min(as_index(zero), counts.size() - 1)];
}

// Gradients are reduced once, or under zero 2 and 3 without a pipeline in every micro-batch.
double rounds_of_reduction(const Parallelism& p) {
    return shards_each_pass(p) ? micro_batches(p) / directions(p) : 1;
}

// Copies through buckets read and write each gradient in the type in which it is reduced.
// Frameworks make them during the backward (zero 2 and 3) or after it; here all come after it,
// because backward and copies both wait for the memory.
MemoryPass bucket_copies(const Experiment& e, double gradients) {
    const Parallelism& p = e.parallelism;
    const Bytes moved = rounds_of_reduction(p) * at_stage(e.runtime.gradients.copies, p.zero) *
                        gradients * size_of(gradient_type(e));
    return {moved, moved};
}

}  // namespace

Bytes gathered_weight(const Experiment& e) {
    return size_of(casts_weights(e) && e.parallelism.zero < 3 ? Dtype::fp32
                                                              : between_products(e.workload.dtype));
}

// Where the host casts, it keeps what is gathered; else the master weights come and are cast here.
MemoryPass from_host(const Experiment& e, double weights) {
    const bool cast_there = e.runtime.optimizer.host_gradients || !keeps_masters(e);
    const Bytes stored = cast_there ? gathered_weight(e) : Bytes(4);
    return {weights * stored, Bytes(0), MemoryPass::Access::host_link};
}

namespace {

// 16-bit gradients are first cast to fp32. With fp16 they are divided by the loss scale. A norm in
// fp64 is taken before the cast.
void add_norm_passes(UpdatePasses& passes, const Experiment& e, double updated) {
    const Bytes kept = size_of(trained_gradients(e)), wide(4);
    const OptimizerKernels& f = e.runtime.optimizer;
    const double groups = optimizer_groups(e), flat = f.copies.empty() ? groups : 1;
    const auto add = [&](std::string_view name, Bytes read, Bytes written, double calls,
                         bool reads = false) {
        const auto i = as_index(passes.norm_passes++);
        passes.norm_names[i] = name;
        passes.norm[i] = {updated * read, updated * written};
        passes.norm_calls[i] = calls;
        passes.norm_reads[i] = reads && f.waits;
    };
    const bool masters = keeps_masters(e), wide_norm = f.wide_norm && e.parallelism.zero > 0;
    if (const double copies = at_stage(f.copies, e.parallelism.zero); copies > 0)
        add("copy_gradients", copies * kept, copies * kept,
            groups * std::max(1.0, at_stage(f.copy_calls, e.parallelism.zero)), true);
    if (wide_norm) add("widen_gradients", kept, Bytes(8), groups);
    if (wide_norm) add("gradient_norm", Bytes(8), Bytes(0), groups, true);
    if (masters && kept < wide) add("cast_gradients", kept, wide, flat);
    if (masters && e.workload.dtype == Dtype::fp16) add("unscale_gradients", wide, wide, flat);
    const Bytes gradient = masters ? wide : kept;
    if (!wide_norm) add("gradient_norm", gradient, Bytes(0), flat, true);
    if (e.runtime.optimizer.clip_scales) add("clip_gradients", gradient, gradient, flat);
}

}  // namespace

UpdatePasses update_passes(const Experiment& e, double updated, double gradients, double matrices) {
    const Bytes kept = size_of(trained_gradients(e));
    const OptimizerKernels& f = e.runtime.optimizer;
    UpdatePasses passes;
    const double groups = optimizer_groups(e), flat = f.copies.empty() ? groups : 1;
    passes.copies = bucket_copies(e, gradients);
    passes.copies_calls = rounds_of_reduction(e.parallelism) * groups;
    add_norm_passes(passes, e, updated);
    const MemoryPass state = state_bytes(e);
    passes.optimizer_calls = flat * f.calls;
    const double others = std::max(0.0, updated - matrices);
    const Bytes wide_state = keeps_masters(e) ? Bytes(4) : size_of(trained_dtype(e));
    const MemoryPass muon = muon_update(
        wide_state, size_of(trained_dtype(e)) < wide_state ? size_of(trained_dtype(e)) : Bytes(0));
    passes.optimizer = {others * state.read + matrices * muon.read,
                        others * state.written + matrices * muon.written,
                        MemoryPass::Access::optimizer};
    if (e.workload.optimizer == Optimizer::adam8bit)
        passes.optimizer.operations = eight_bit_operations * updated;
    if (e.run.offload_optimizer) move_to_host(passes, e, updated);
    if (!e.runtime.gradients.freed)
        passes.zero_gradients = {Bytes(0), (e.parallelism.zero >= 2 ? updated : gradients) * kept};
    return passes;
}

DataParallel::DataParallel(TaskGraph& graph, const LayerContext& context, Stage& stage)
    : graph_(graph), context_(context), stage_(stage) {
    const RankGroups& g = context.groups;
    const auto bucket = [&](const Group& of, const Group& replicas) {
        return Bucket{0, graph.add_group(of), of.size(), replicas};
    };
    dense_ = bucket(g.shard, g.shard_replicas);
    experts_ = bucket(g.expert_shard, g.expert_shard_replicas);
}

void DataParallel::count_matrices(int layer) { matrices_.add_layer(context_, layer); }

UpdatePasses DataParallel::passes() const {
    const Experiment& e = context_.experiment;
    const double matrices =
        e.workload.optimizer == Optimizer::muon ? matrices_.update(context_).elements : 0;
    return update_passes(e, updated(), total_.all(), matrices);
}

TasksByRank DataParallel::gather(const RankWeights& weights, Phase phase,
                                 const TasksByRank& after) {
    const NameId name = graph_.name_id("gather_parameters");
    TasksByRank done;
    for (const auto& [bucket, elements] :
         {std::pair(&dense_, weights.dense), std::pair(&experts_, weights.experts)}) {
        if (elements == 0) continue;
        TasksByRank there = after;
        if (keeps_weights_on_host(context_.experiment))
            done = there = stage_.collective(
                graph_.task_of("parameters_from_host", phase,
                               from_host(context_.experiment, elements / bucket->ranks)),
                Lane::data, after);
        if (bucket->ranks <= 1) continue;
        const OpId op = graph_.add_op(AllGather{elements * gathered_weight(context_.experiment)});
        done = stage_.collective({name, phase, op, 1, bucket->group}, Lane::data, there);
    }
    return done;
}

void DataParallel::collective(const Bucket& bucket, const TasksByRank& after) {
    const Experiment& e = context_.experiment;
    const Parallelism& p = e.parallelism;
    const int pieces = e.runtime.gradients.pieces;
    const Bytes bytes = bucket.elements * size_of(trained_gradients(e)) / real(pieces);
    const auto send = [&](std::string_view name, const Op& op, GroupId group,
                          const TasksByRank& follows) {
        NewTask task = graph_.task_of(name, Phase::gradient_sync, op);
        task.group = group;
        return stage_.collective(task, Lane::data, follows);
    };
    for (int i = 0; i < pieces; ++i) {  // one after the other: they share a lane
        TasksByRank sent = after;
        if (bucket.ranks > 1 && p.zero >= 1)
            sent = send("gradient_reduce_scatter", ReduceScatter{bytes}, bucket.group, sent);
        if (bucket.ranks > 1 && p.zero == 0)
            sent = send("gradient_all_reduce", AllReduce{bytes}, bucket.group, sent);
        if (bucket.replicas.size() > 1)
            sent = send("gradient_all_reduce", AllReduce{bytes / real(bucket.ranks)},
                        graph_.add_group(bucket.replicas), sent);
        if (i + 1 == pieces) sent_.push_back(std::move(sent));
    }
}

void DataParallel::close(Bucket& bucket) {
    if (bucket.elements == 0) return;
    const bool exchanged = bucket.ranks > 1 || bucket.replicas.size() > 1;
    if (exchanged && overlaps_gradients(context_.experiment)) collective(bucket, stage_.last());
    if (exchanged && !overlaps_gradients(context_.experiment)) waiting_.push_back(bucket);
    bucket.elements = 0;
}

void DataParallel::add_gradients(const RankWeights& weights, bool last) {
    const Parallelism& p = context_.experiment.parallelism;
    if (!last && !shards_each_pass(p)) return;
    dense_.elements += weights.dense;
    experts_.elements += weights.experts;
    for (Bucket* bucket : {&dense_, &experts_})
        if (p.zero == 3 || bucket->elements * size_of(trained_gradients(context_.experiment)) >=
                               bucket_bytes(context_.experiment))
            close(*bucket);
}

void DataParallel::flush() {
    close(dense_);
    close(experts_);
}

void DataParallel::finish_gradients() {
    flush();
    for (const Bucket& bucket : waiting_) collective(bucket, stage_.last());
    for (const TasksByRank& tasks : sent_) stage_.follow(tasks);
    const UpdatePasses passes = this->passes();
    if (passes.copies.read == Bytes(0)) return;
    Planner planner(graph_);
    planner.compute("bucket_copies", passes.copies, static_cast<float>(passes.copies_calls));
    stage_.stamp(planner.take(), Phase::gradient_sync);
}

void DataParallel::add_norm() {
    const Experiment& e = context_.experiment;
    const UpdatePasses passes = this->passes();
    Planner planner(graph_);
    if (e.runtime.optimizer.waits)
        planner.host("backward_end", HostWork{HostWork::Kind::read, 0}, true);
    for (std::size_t i = 0; i < as_index(passes.norm_passes); ++i) {
        planner.compute(passes.norm_names[i], passes.norm[i],
                        static_cast<float>(passes.norm_calls[i]));
        if (passes.norm_reads[i])
            planner.host("gradients_read", HostWork{HostWork::Kind::read, 1}, true);
    }
    stage_.stamp(planner.take(), Phase::optimizer);
}

void DataParallel::add_optimizer() {
    const Experiment& e = context_.experiment;
    const Parallelism& p = e.parallelism;
    const UpdatePasses passes = this->passes();
    Planner planner(graph_);
    if (e.runtime.optimizer.reads_loss)
        planner.host("loss_read", HostWork{HostWork::Kind::framework, 1}, true);
    const Bytes copied = 2.0 * total_.dense * size_of(trained_gradients(e));
    // A framework that stores gradients outside of the buckets copies them in and back.
    if (runs_operations(e) && p.zero == 0 && dense_.ranks > 1)
        planner.compute("bucket_copies", MemoryPass{copied, copied});
    if (e.run.offload_optimizer) planner.compute("gradients_to_host", passes.to_host);
    if (e.workload.optimizer == Optimizer::muon)
        for (const auto& [product, count] : matrices_.update(context_).products)
            for (int i = 0; i < count; ++i) planner.compute("orthogonalize", product);
    planner.compute("optimizer", passes.optimizer, static_cast<float>(passes.optimizer_calls));
    if (e.run.offload_optimizer && !e.run.offload_parameters)
        planner.compute("weights_from_host", passes.from_host);
    if (!e.runtime.gradients.freed) planner.compute("zero_gradients", passes.zero_gradients);
    stage_.stamp(planner.take(), Phase::optimizer);
    if ((p.zero == 1 || p.zero == 2) && !e.runtime.exchanges.parameters)
        stage_.follow(gather(total_, Phase::optimizer, stage_.last()));
}

}  // namespace stepcast
