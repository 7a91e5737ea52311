#include "exec/cuda/cuda_rank.h"

#include <algorithm>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "exec/kernel_table.h"
#include "model/base/numbers.h"

namespace stepcast {

std::string pci_bus_of(int gpu) {
    char text[32] = "";
    check(cudaDeviceGetPCIBusId(text, sizeof text, gpu));
    return text;
}

CudaGpu describe_gpu(int gpu) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu));
    int clock = 0, width = 0;  // kHz and bits
    check(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, gpu));
    check(cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, gpu));
    constexpr double transfers = 2;  // transfers in a clock: double data rate
    return {properties.name,
            properties.multiProcessorCount,
            10 * properties.major + properties.minor,
            Bytes(real(properties.totalGlobalMem)),
            Bytes(real(properties.l2CacheSize)),
            BytesPerSecond(transfers * 1e3 * real(clock) * real(width) / 8)};
}

CudaRun::CudaRun(const TaskGraph& run, bool replays, std::uint64_t first_seed)
    : graph(run),
      replay(replays),
      seed(first_seed),
      peers(as_index(run.rank_count())),
      communicator_of(run.size(), no_communicator) {
    std::map<CommunicatorKey, std::uint32_t> known;
    for (TaskId task = 0; task < run.size(); ++task) {
        CommunicatorKey key{participants(run.places(task)), run.places(task).front().lane()};
        if (key.ranks.size() < 2) continue;
        const auto [entry, is_new] =
            known.try_emplace(key, static_cast<std::uint32_t>(communicators.size()));
        if (is_new) communicators.push_back(std::move(key));
        communicator_of[task] = entry->second;
    }
}

CudaRank::CudaRank(int rank, int gpu)
    : rank_(rank), gpu_(gpu), facts_(describe_gpu(gpu)), clocks_(pci_bus_of(gpu)) {}

CudaRank::~CudaRank() {
    cudaSetDevice(gpu_);
    clear();
}

void CudaRank::clear() {
    cudaSetDevice(gpu_);
    passes_.reset();
    attentions_.reset();
    grouped_.reset();
    products_.reset();
    timeline_.reset();
    memory_.reset();
}

void CudaRank::attach(const CudaRun& run, const CudaPlan& plan, const ncclUniqueId& id,
                      const Watch& watch) {
    check(cudaSetDevice(gpu_));
    run_ = &run;
    window_ = plan.window;
    timeline_ = std::make_unique<StreamTimeline>(run.graph, rank_, run.replay);
    memory_ = std::make_unique<CudaMemory>(plan, run.graph.rank_count(),
                                           run.seed * 1000 + static_cast<std::uint64_t>(rank_),
                                           timeline_->any_stream());
    products_ = std::make_unique<Products>();
    grouped_ = std::make_unique<GroupedProducts>(*products_);
    attentions_ = std::make_unique<Attentions>(*products_);
    passes_ = std::make_unique<LibraryPasses>(run.graph, rank_, plan.common);
    choose_algorithms();
    connect(id, watch);
    check(cudaDeviceSynchronize());
}

void CudaRank::choose_algorithms() {
    std::size_t next = 0;
    std::array<bool, lane_count> seen{};
    const TaskGraph& graph = run_->graph;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::span<const Place> places = graph.places(task);
        const Op& op = graph.op(task);
        if (std::none_of(places.begin(), places.end(),
                         [&](const Place& p) { return p.rank() == rank_; }))
            continue;
        if (is_compute(op) && !seen[timeline_->lane_index(task)]) {
            seen[timeline_->lane_index(task)] = true;
            workspace_of_[timeline_->lane_index(task)] = workspace_bytes * next++;
        }
        if (const auto* gemm = std::get_if<Gemm>(&op)) products_->prepare(product_of(*gemm));
        if (const auto* groups = std::get_if<GroupedGemm>(&op))
            grouped_->prepare(*groups, *memory_, facts_.cache, timeline_->any_stream());
        if (const auto* attention = std::get_if<Attention>(&op))
            attentions_->prepare(*attention, timeline_->stream(task));
        if (const auto* fused = std::get_if<FusedGemm>(&op); fused != nullptr && fused->blocks > 0)
            products_->prepare(product_of(*fused));
    }
}

char* CudaRank::workspace(TaskId task) const {
    return memory_->workspaces.data() + workspace_of_[timeline_->lane_index(task)];
}

void CudaRank::join(const ncclUniqueId& id, int ranks, const Watch& watch) {
    check(cudaSetDevice(gpu_));
    if (world_.empty()) world_ = Communicator(id, ranks, rank_, watch);
}

// Keeps communicators that an earlier run of this device made. A missing one is missing on every
// rank.
void CudaRank::connect(const ncclUniqueId& id, const Watch& watch) {
    const int ranks = run_->graph.rank_count();
    if (ranks < 2) return;
    join(id, ranks, watch);
    for (const CommunicatorKey& key : run_->communicators) {
        if (communicators_.contains(key)) continue;
        communicators_.emplace(key, world_.split(key.ranks, rank_, watch));
    }
    if (!moves_rows(run_->graph)) return;  // peer access makes CUDA calls wait for the peers
    for (CudaRank* peer : run_->peers) {
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

// Runs ops that need no other rank, on operands from the buffers.
struct CudaRank::Compute {
    CudaRank& rank;
    const CudaOperands at;
    void* workspace;
    cudaStream_t stream;
    TaskId task;

    void operator()(const Gemm& op) const {
        rank.products_->run(product_of(op), {at.in[0], at.in[1], at.out[0], workspace}, stream);
    }
    void operator()(const GroupedGemm&) const {}  // has its own places: launch() runs it
    void operator()(const FusedGemm& op) const { rank.run_fused(op, at, workspace, stream); }
    void operator()(const Attention& op) const { rank.attentions_->run(op, at, workspace, stream); }
    void operator()(const MemoryPass& op) const {
        if (const LibraryPass& known = rank.passes_->of(task);
            !std::holds_alternative<StandIn>(known))
            return run_pass(known, at, rank.memory_->scratch.data(), rank.passes_->targets(),
                            stream);
        const auto read = static_cast<std::size_t>(op.read.si()),
                   written = static_cast<std::size_t>(op.written.si());
        const auto pass = op.access == MemoryPass::Access::optimizer   ? optimizer_memory
                          : op.access == MemoryPass::Access::transpose ? transpose_memory
                                                                       : stream_memory;
        check(pass({at.in[0], read, at.out[0], written, rank.memory_->sink.data()}, stream));
    }
    // The host work of a training framework does not exist here, so there is nothing to wait for.
    void operator()(const HostWork&) const {}
    void operator()(const ExchangeOp auto&) const {}
};

void CudaRank::launch(TaskId task, const Op& op, const Watch& watch) {
    const cudaStream_t stream = timeline_->stream(task);
    if (const std::uint32_t group = run_->communicator_of[task];
        group != CudaRun::no_communicator) {
        Communicator& communicator = communicators_.at(run_->communicators[group]);
        const Need need = need_of(op, communicator.index(), communicator.size());
        communicator.run(op, memory_->take(need), stream, watch);
    } else if (const auto* groups = std::get_if<GroupedGemm>(&op)) {
        grouped_->run(*groups, workspace(task), stream);
    } else if (!is_collective(op)) {  // a collective of a single rank has nothing to do
        std::visit(Compute{*this, memory_->take(need_of(op, 0, 1)), workspace(task), stream, task},
                   op);
    }
}

// One product, with one copy for each peer: a gather copies first, from peers' inputs, a scatter
// last, to its part of the peers' windows.
void CudaRank::run_fused(const FusedGemm& op, const CudaOperands& at, void* workspace,
                         cudaStream_t stream) {
    const long ranks = run_->graph.rank_count();
    const auto block = static_cast<std::size_t>(op.remote_bytes_per_block.si());
    char *const result = at.out[0], *const staged = at.out[1];
    const auto copy_all = [&](bool gathers) {
        std::size_t done = 0;
        for (long other = 1; other < ranks; ++other) {
            CudaRank& peer = *run_->peers[as_index((rank_ + other) % ranks)];
            const Part part =
                part_of(as_index(op.remote_blocks), as_index(other - 1), as_index(ranks - 1));
            const std::size_t bytes = part.size() * block;
            if (bytes == 0) continue;
            char* window = peer.memory_->window.data() + as_index(rank_) * window_;
            if (gathers)
                check(cudaMemcpyPeerAsync(staged + done, gpu_,
                                          peer.memory_->input(element_of(op.dtype)).data(),
                                          peer.gpu_, bytes, stream));
            else
                check(cudaMemcpyPeerAsync(window, peer.gpu_, result + done, gpu_, bytes, stream));
            done += bytes;
        }
    };
    if (op.transfer == FusedGemm::Transfer::gather) copy_all(true);
    if (op.blocks > 0)
        products_->run(product_of(op), {at.in[0], at.in[1], result, workspace}, stream);
    if (op.transfer == FusedGemm::Transfer::scatter) copy_all(false);
}

// What ran an op, in words.
struct CudaRank::Ran {
    const CudaRank& rank;
    TaskId task;

    std::string operator()(const Gemm&) const { return "cuBLASLt"; }
    std::string operator()(const GroupedGemm& op) const { return rank.grouped_->ran(op); }
    std::string operator()(const FusedGemm&) const {
        return "copies between GPUs and one product by cuBLASLt";
    }
    std::string operator()(const Attention& op) const { return rank.attentions_->ran(op); }
    std::string operator()(const MemoryPass& op) const {
        const LibraryPass& pass = rank.passes_->of(task);
        const auto* stands_in = std::get_if<StandIn>(&pass);
        if (stands_in == nullptr) return ran_by(pass);
        return fmt::format("as many bytes, by {}{}", mover(op.access),
                           stands_in->why.empty() ? "" : fmt::format(": {}", stands_in->why));
    }
    static std::string_view mover(MemoryPass::Access access) {
        switch (access) {
            case MemoryPass::Access::optimizer: return "own kernel over pieces";
            case MemoryPass::Access::transpose: return "own transposing kernel";
            case MemoryPass::Access::stream: return "own streaming kernel";
            case MemoryPass::Access::rows:
            case MemoryPass::Access::strided:
            case MemoryPass::Access::host_link:
            case MemoryPass::Access::host: break;
        }
        return "own streaming kernel, in order (no reduction, no stride)";
    }
    std::string operator()(const HostWork&) const { return "nothing: no framework here"; }
    std::string operator()(const OneOf<AllToAll, SendRecv> auto&) const {
        return "NCCL, sends and receives";
    }
    std::string operator()(
        const OneOf<AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Barrier> auto&) const {
        return "NCCL";
    }
};

std::vector<std::string> CudaRank::kernels() const {
    return kernel_table(run_->graph, rank_, [&](TaskId task, const Op& op) {
        return std::visit(Ran{*this, task}, op);
    });
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
