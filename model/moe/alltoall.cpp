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

// All-to-all, experts and all-to-all back of all chunks, each of which follows what every rank has done before.
void add_chunks(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    std::vector<Program> programs(static_cast<std::size_t>(layer.overlap_chunks), program);
    std::vector<ExpertChunk> chunks;
    for (Program& of_chunk : programs) {
        chunks.push_back(chunk_of(layer, routing, static_cast<int>(chunks.size())));
        of_chunk.on_all("dispatch", phase, chunks.back().dispatch);
    }
    for (std::size_t c = 0; c < chunks.size(); ++c) {
        for (int r = 0; r < layer.ranks; ++r)
            for (const NamedOp& kernel : perceptron_kernels(layer.expert(), phase, chunks[c].rows[static_cast<std::size_t>(r)], "expert_", true))
                programs[c].on_rank(r, kernel.name, phase, kernel.op);
        program.follow_all(programs[c].on_all("combine", phase, std::move(chunks[c].combine)));
    }
}

}  // namespace

void add_alltoall(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    if (layer.unfused) return add_unfused_alltoall(program, layer, phase);
    need_counts(routing, "alltoall");
    const bool forward = phase == Phase::forward;
    if (forward) add_gate_forward(program, layer);
    add_slot_pass(program, layer, forward ? "permute" : "weighted_sum_backward", phase);
    add_chunks(program, layer, routing, phase);
    add_slot_pass(program, layer, forward ? "weighted_sum" : "permute_backward", phase);
    if (!forward) add_gate_backward(program, layer);
}

}  // namespace stepcast
