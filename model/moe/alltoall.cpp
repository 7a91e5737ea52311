// alltoall: the usual expert-parallel layer. Permute, one all-to-all-v, grouped GEMMs, all-to-all-v back, weighted
// sum; the backward mirrors it with data and weight gradients. With overlap_chunks = c every all-to-all and the experts
// are cut into c chunks: chunk i computes on the compute lane while chunk i + 1 is exchanged on the collective lane.
#include "model/moe/layer.h"

namespace stepcast {
namespace {

// Rows of slot count n that fall into chunk c of `chunks`; the chunks add up to n.
long chunk(long n, int c, int chunks) { return n * (c + 1) / chunks - n * c / chunks; }

struct ExpertChunk {
    AllToAll dispatch, combine;
    std::vector<std::vector<long>> rows;  // per rank, per local expert
};

ExpertChunk chunk_of(const MoeLayer& layer, const Routing& routing, int c) {
    const auto ranks = static_cast<std::size_t>(layer.ranks);
    ExpertChunk x{{std::vector<Bytes>(ranks * ranks)}, {std::vector<Bytes>(ranks * ranks)}, {}};
    x.rows.assign(ranks, std::vector<long>(static_cast<std::size_t>(layer.experts_per_rank())));
    for (std::size_t source = 0; source < ranks; ++source) {
        for (int e = 0; e < layer.experts; ++e) {
            const auto owner = static_cast<std::size_t>(layer.owner(e));
            const long rows = chunk(routing.count(static_cast<int>(source), e), c, layer.overlap_chunks);
            x.dispatch.bytes[source * ranks + owner] += static_cast<double>(rows) * layer.row();
            x.combine.bytes[owner * ranks + source] += static_cast<double>(rows) * layer.row();
            x.rows[owner][static_cast<std::size_t>(e % layer.experts_per_rank())] += rows;
        }
    }
    return x;
}

// Tasks of one pass, with the edges that overlap needs: lanes order the rest.
class ChunkedExperts {
public:
    ChunkedExperts(TaskGraph& graph, const MoeLayer& layer, Phase phase) : graph_(graph), layer_(layer), phase_(phase) {
        for (int r = 0; r < layer.ranks; ++r) everywhere_.emplace_back(r, Lane::collective);
    }
    TaskId compute(int rank, std::string_view name, Op op, std::span<const TaskId> after) {
        const Place place(rank, Lane::compute);
        return graph_.add(name, phase_, std::move(op), {&place, 1}, after);
    }
    TaskId all_to_all(std::string_view name, Op op, std::span<const TaskId> after) {
        return graph_.add(name, phase_, std::move(op), everywhere_, after);
    }
    // Grouped kernels of one chunk on one rank; returns the last.
    TaskId experts(int rank, const std::vector<long>& rows, TaskId after) {
        for (const NamedOp& kernel : perceptron_kernels(layer_.expert(), phase_, rows, "expert_", true))
            after = compute(rank, kernel.name, kernel.op, {&after, 1});
        return after;
    }

private:
    TaskGraph& graph_;
    const MoeLayer& layer_;
    Phase phase_;
    std::vector<Place> everywhere_;
};

// All-to-all, experts and all-to-all back of all chunks. `ready[r]` is what each rank must have done before; returns the
// last all-to-all.
TaskId add_chunks(ChunkedExperts& chunked, const MoeLayer& layer, const Routing& routing, std::span<const TaskId> ready) {
    std::vector<ExpertChunk> chunks;
    std::vector<TaskId> dispatched;
    for (int c = 0; c < layer.overlap_chunks; ++c) {
        chunks.push_back(chunk_of(layer, routing, c));
        dispatched.push_back(chunked.all_to_all("dispatch", chunks.back().dispatch, ready));
    }
    TaskId combined{};
    for (std::size_t c = 0; c < chunks.size(); ++c) {
        std::vector<TaskId> computed;
        for (int r = 0; r < layer.ranks; ++r)
            computed.push_back(chunked.experts(r, chunks[c].rows[static_cast<std::size_t>(r)], dispatched[c]));
        combined = chunked.all_to_all("combine", std::move(chunks[c].combine), computed);
    }
    return combined;
}

// The last task on each rank's compute lane, so that an all-to-all knows what to wait for.
std::vector<TaskId> on_each(Program& program, const MoeLayer& layer, std::string_view name, Phase phase) {
    std::vector<TaskId> tasks;
    for (int r = 0; r < layer.ranks; ++r)
        tasks.push_back(program.on_rank(r, name, phase, MemoryPass{layer.slots_bytes(), layer.slots_bytes()}));
    return tasks;
}

}  // namespace

void add_alltoall_forward(Program& program, const MoeLayer& layer, const Routing& routing) {
    if (layer.unfused) return add_unfused_alltoall_forward(program, layer);
    need_counts(routing, "alltoall");
    add_gate_forward(program, layer);
    const std::vector<TaskId> permuted = on_each(program, layer, "permute", Phase::forward);
    ChunkedExperts chunked(program.graph(), layer, Phase::forward);
    program.follow_all(add_chunks(chunked, layer, routing, permuted));
    add_slot_pass(program, layer, "weighted_sum", Phase::forward);
}

void add_alltoall_backward(Program& program, const MoeLayer& layer, const Routing& routing) {
    if (layer.unfused) return add_unfused_alltoall_backward(program, layer);
    const std::vector<TaskId> weighted = on_each(program, layer, "weighted_sum_backward", Phase::backward);
    ChunkedExperts chunked(program.graph(), layer, Phase::backward);
    program.follow_all(add_chunks(chunked, layer, routing, weighted));
    add_slot_pass(program, layer, "permute_backward", Phase::backward);
    add_gate_backward(program, layer);
}

}  // namespace stepcast
