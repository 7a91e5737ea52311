// How a rank takes part in what several ranks do together.
#include <algorithm>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "exec/cuda/check_graph.h"
#include "exec/cuda/cuda_rank.h"
#include "exec/footprint.h"

namespace stepcast {

// Communicators that an earlier run of this device made are kept; what is missing is missing on every rank.
void CudaRank::connect(const ncclUniqueId& id, const Watch& watch) {
    const int ranks = setting_->graph.rank_count();
    if (ranks < 2) return;
    if (world_.empty()) world_ = Communicator(id, ranks, rank_, watch);
    for (const CommunicatorKey& key : setting_->communicators) {
        if (communicators_.contains(key)) continue;
        const auto self = std::find(key.ranks.begin(), key.ranks.end(), rank_);
        const bool member = self != key.ranks.end();
        communicators_.emplace(key, world_.split(member ? 0 : -1, static_cast<int>(self - key.ranks.begin()), watch));
    }
    if (!moves_rows(setting_->graph)) return;  // memory that others reach makes CUDA's calls wait for them
    for (CudaRank* peer : setting_->peers) {
        int can = 0;
        if (peer == nullptr || peer == this) continue;
        check(cudaDeviceCanAccessPeer(&can, gpu_, peer->gpu()));
        if (can == 0) continue;
        const cudaError_t code = cudaDeviceEnablePeerAccess(peer->gpu(), 0);
        if (code == cudaErrorPeerAccessAlreadyEnabled)
            cudaGetLastError();
        else
            check(code);
    }
}

struct CudaRank::Collective {
    CudaRank& rank;
    Communicator& group;
    int index;
    std::size_t count;
    cudaStream_t stream;
    const Watch& watch;

    // Begins the op with so many bytes in and out.
    struct Operands {
        char *input, *output;
    };
    [[nodiscard]] Operands take(std::size_t in, std::size_t out) const {
        CudaRegion& input = rank.memory_->input(rank.memory_->common);
        input.begin(in);
        rank.memory_->output.begin(out);
        return {input.take(in), rank.memory_->output.take(out)};
    }
    [[nodiscard]] std::size_t share(Bytes bytes) const { return (float_count(bytes) + count - 1) / count; }

    void operator()(const AllReduce& op) const {
        const std::size_t floats = float_count(op.bytes);
        const Operands at = take(4 * floats, 4 * floats);
        group.all_reduce(at.input, at.output, floats, stream, watch);
    }
    void operator()(const AllGather& op) const {
        const Operands at = take(4 * share(op.bytes), 4 * share(op.bytes) * count);
        group.all_gather(at.input, at.output, share(op.bytes), stream, watch);
    }
    void operator()(const ReduceScatter& op) const {
        const Operands at = take(4 * share(op.bytes) * count, 4 * share(op.bytes));
        group.reduce_scatter(at.input, at.output, share(op.bytes), stream, watch);
    }
    void operator()(const Broadcast& op) const {
        const std::size_t floats = float_count(op.bytes);
        const Operands at = take(4 * floats, 4 * floats);
        group.broadcast(at.input, at.output, floats, op.root, stream, watch);
    }
    void operator()(const Reduce& op) const {
        const std::size_t floats = float_count(op.bytes);
        const Operands at = take(4 * floats, 4 * floats);
        group.reduce(at.input, at.output, floats, op.root, stream, watch);
    }
    void operator()(const AllToAll& op) const {
        ExchangeCounts counts = exchange_counts(op, static_cast<std::size_t>(index), count);
        std::size_t sent = 0, received = 0;
        for (std::size_t peer = 0; peer < count; ++peer) {
            sent += counts.to[peer] *= 4;
            received += counts.from[peer] *= 4;
        }
        const Operands at = take(sent, received);
        group.all_to_all(at.input, counts.to, at.output, counts.from, stream, watch);
    }
    void operator()(const SendRecv& op) const {
        const auto bytes = static_cast<std::size_t>(op.bytes.si());
        const Operands at = take(index == 0 ? bytes : 0, index == 0 ? 0 : bytes);
        const auto messages = static_cast<std::size_t>(op.messages);
        for (std::size_t message = 0; message < messages; ++message) {
            const Part part = part_of(bytes, message, messages);
            if (index == 0)
                group.send(at.input + part.begin, part.end - part.begin, 1, stream, watch);
            else
                group.receive(at.output + part.begin, part.end - part.begin, 0, stream, watch);
        }
    }
    // NCCL has no barrier: a sum of one number needs everybody.
    void operator()(const Barrier&) const {
        const Operands at = take(sizeof(float), sizeof(float));
        group.all_reduce(at.input, at.output, 1, stream, watch);
    }
    void operator()(const LocalOp auto& op) const {
        throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op)));
    }
};

void CudaRank::communicate(TaskId task, const Op& op, const Watch& watch) {
    const CommunicatorKey& key = setting_->communicators[setting_->communicator_of[task]];
    const auto index = std::find(key.ranks.begin(), key.ranks.end(), rank_) - key.ranks.begin();
    std::visit(Collective{*this, communicators_.at(key), static_cast<int>(index), key.ranks.size(),
                          timeline_->stream(task), watch},
               op);
}

void CudaRank::check_health() const {
    world_.check_health();
    for (const auto& [key, communicator] : communicators_) communicator.check_health();
}

void CudaRank::abort() noexcept {
    if (timeline_) timeline_->give_up();
    for (auto& [key, communicator] : communicators_) communicator.abort();
    world_.abort();
    communicators_.clear();
}

}  // namespace stepcast
