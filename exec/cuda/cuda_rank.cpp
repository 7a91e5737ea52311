#include "exec/cuda/cuda_rank.h"

#include <algorithm>

#include "exec/cuda/check.h"
#include "exec/footprint.h"

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
    constexpr double transfers = 2;  // a clock: double data rate
    return {properties.name,
            properties.multiProcessorCount,
            10 * properties.major + properties.minor,
            Bytes(static_cast<double>(properties.totalGlobalMem)),
            Bytes(static_cast<double>(properties.l2CacheSize)),
            BytesPerSecond(transfers * 1e3 * static_cast<double>(clock) * static_cast<double>(width) / 8)};
}

CudaRank::CudaRank(int rank, int gpu) : rank_(rank), gpu_(gpu), facts_(describe_gpu(gpu)), clocks_(pci_bus_of(gpu)) {}

CudaRank::~CudaRank() {
    cudaSetDevice(gpu_);
    clear();
}

void CudaRank::clear() {
    cudaSetDevice(gpu_);
    grouped_.reset();
    products_.reset();
    timeline_.reset();
    memory_.reset();
    setting_.reset();
}

void CudaRank::attach(Setting setting, const ncclUniqueId& id, const Watch& watch) {
    check(cudaSetDevice(gpu_));
    setting_.emplace(std::move(setting));
    timeline_ = std::make_unique<StreamTimeline>(setting_->graph, rank_, setting_->replay);
    memory_ = std::make_unique<CudaMemory>(setting_->plan, setting_->graph.rank_count(),
                                           setting_->seed * 1000 + static_cast<std::uint64_t>(rank_),
                                           timeline_->any_stream());
    products_ = std::make_unique<Products>();
    grouped_ = std::make_unique<GroupedProducts>(*products_);
    choose_algorithms();
    connect(id, watch);
    check(cudaDeviceSynchronize());
}

void CudaRank::choose_algorithms() {
    std::size_t next = 0;
    std::array<bool, lane_count> seen{};
    const TaskGraph& graph = setting_->graph;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::span<const Place> places = graph.places(task);
        const Op& op = graph.op(task);
        if (std::none_of(places.begin(), places.end(), [&](const Place& p) { return p.rank() == rank_; })) continue;
        if (is_compute(op) && !seen[timeline_->lane_index(task)]) {
            seen[timeline_->lane_index(task)] = true;
            workspace_of_[timeline_->lane_index(task)] = workspace_bytes * next++;
        }
        if (const auto* gemm = std::get_if<Gemm>(&op)) products_->prepare(product_of(*gemm));
        if (const auto* groups = std::get_if<GroupedGemm>(&op))
            grouped_->prepare(*groups, *memory_, facts_.cache, timeline_->any_stream());
        if (const auto* attention = std::get_if<Attention>(&op)) prepare_attention(*products_, *attention);
        if (const auto* fused = std::get_if<FusedGemm>(&op); fused != nullptr && fused->blocks > 0)
            products_->prepare(
                {fused->blocks * fused->rows_per_block, fused->n, fused->k, 1, fused->dtype, false, true});
    }
}

char* CudaRank::workspace(TaskId task) const {
    return memory_->workspaces.data() + workspace_of_[timeline_->lane_index(task)];
}

// Ops that need no other rank, on operands from the buffers.
struct CudaRank::Compute {
    CudaRank& rank;
    TaskId task;
    cudaStream_t stream;

    [[nodiscard]] static std::size_t bytes(long a, long b, long c, std::size_t size) {
        return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c) * size;
    }

    void operator()(const Gemm& op) const {
        const std::size_t size = size_of(element_of(op.dtype));
        const std::size_t a = bytes(op.batch, op.m, op.k, size), b = bytes(op.batch, op.k, op.n, size);
        const std::size_t c = bytes(op.batch, op.m, op.n, op.accumulate ? sizeof(float) : size_of(result_of(op.dtype)));
        CudaRegion& input = rank.memory_->input(element_of(op.dtype));
        input.begin(a + b);
        rank.memory_->output.begin(c);
        const void* first = input.take(a);
        const void* second = input.take(b);
        rank.products_->run(product_of(op), first, second, rank.memory_->output.take(c), rank.workspace(task), stream);
    }
    void operator()(const GroupedGemm& op) const { rank.grouped_->run(op, rank.workspace(task), stream); }
    void operator()(const FusedGemm& op) const { rank.run_fused(op, task); }
    void operator()(const Attention& op) const {
        const std::size_t size = size_of(score_element(op.dtype));
        const long heads = op.batch * op.heads, values = op.value_dim > 0 ? op.value_dim : op.head_dim;
        const std::size_t q = bytes(heads, op.seq_q, op.head_dim, size), k = bytes(heads, op.seq_k, op.head_dim, size);
        const std::size_t v = bytes(heads, op.seq_k, values, size), o = bytes(heads, op.seq_q, values, size);
        const std::size_t scores = bytes(heads, op.seq_q, op.seq_k, size);
        CudaRegion& input = rank.memory_->input(score_element(op.dtype));
        CudaRegion& output = rank.memory_->output;
        input.begin(q + k + v + (op.backward ? scores + o : 0));
        output.begin(scores + (op.backward ? q + k + v : o));
        const void* q_in = input.take(q);
        const void* k_in = input.take(k);
        const void* v_in = input.take(v);
        void* scores_out = output.take(scores);
        if (!op.backward) {
            attend(*rank.products_, op, {q_in, k_in, v_in, output.take(o), scores_out}, rank.workspace(task), stream);
            return;
        }
        const void* softmax = input.take(scores);
        const void* d_out = input.take(o);
        void* d_q = output.take(q);
        void* d_k = output.take(k);
        void* d_v = output.take(v);
        attend_backward(*rank.products_, op, {q_in, k_in, v_in, softmax, d_out, d_q, d_k, d_v, scores_out},
                        rank.workspace(task), stream);
    }
    void operator()(const MemoryPass& op) const {
        const auto read = static_cast<std::size_t>(op.read.si()), written = static_cast<std::size_t>(op.written.si());
        CudaRegion& input = rank.memory_->input(rank.memory_->common);
        input.begin(read);
        rank.memory_->output.begin(written);
        const auto pass = op.access == MemoryPass::Access::optimizer   ? optimizer_memory
                          : op.access == MemoryPass::Access::transpose ? transpose_memory
                                                                       : stream_memory;
        check(pass(input.take(read), read, rank.memory_->output.take(written), written, rank.memory_->sink.data(),
                   stream));
    }
    // A training framework's host work is none of ours: there is nothing to wait for.
    void operator()(const HostWork&) const {}
    void operator()(const ExchangeOp auto&) const {}  // of one rank: nothing to do
};

void CudaRank::launch(TaskId task, const Op& op, const Watch& watch) {
    if (setting_->communicator_of[task] == no_communicator)
        std::visit(Compute{*this, task, timeline_->stream(task)}, op);
    else
        communicate(task, op, watch);
}

// One copy for each peer and one product: gather before it, from the peers' inputs; scatter after it, into this
// rank's part of the peers' windows.
void CudaRank::run_fused(const FusedGemm& op, TaskId task) {
    const std::size_t size = size_of(element_of(op.dtype));
    const long rows = op.blocks * op.rows_per_block, ranks = setting_->graph.rank_count();
    const auto block = static_cast<std::size_t>(op.remote_bytes_per_block.si());
    const auto moved = static_cast<std::size_t>(op.remote_blocks) * block;
    const std::size_t a = Compute::bytes(rows, op.k, 1, size), b = Compute::bytes(op.k, op.n, 1, size);
    const std::size_t c = Compute::bytes(rows, op.n, 1, size_of(result_of(op.dtype)));
    CudaRegion& input = memory_->input(element_of(op.dtype));
    input.begin(a + b);
    memory_->output.begin(std::max(c, moved) + moved);
    const void* first = input.take(a);
    const void* second = input.take(b);
    char* result = memory_->output.take(std::max(c, moved));
    char* staged = memory_->output.take(moved);
    const cudaStream_t stream = timeline_->stream(task);
    const auto copy_all = [&](bool gathers) {
        std::size_t done = 0;
        for (long other = 1; other < ranks; ++other) {
            CudaRank& peer = *setting_->peers[static_cast<std::size_t>((rank_ + other) % ranks)];
            const Part part = part_of(static_cast<std::size_t>(op.remote_blocks), static_cast<std::size_t>(other - 1),
                                      static_cast<std::size_t>(ranks - 1));
            const std::size_t bytes = (part.end - part.begin) * block;
            if (bytes == 0) continue;
            char* window = peer.memory_->window.data() + static_cast<std::size_t>(rank_) * setting_->plan.window;
            if (gathers)
                check(cudaMemcpyPeerAsync(staged + done, gpu_, peer.memory_->input(element_of(op.dtype)).data(),
                                          peer.gpu_, bytes, stream));
            else
                check(cudaMemcpyPeerAsync(window, peer.gpu_, result + done, gpu_, bytes, stream));
            done += bytes;
        }
    };
    if (op.transfer == FusedGemm::Transfer::gather) copy_all(true);
    if (op.blocks > 0)
        products_->run({rows, op.n, op.k, 1, op.dtype, false, true}, first, second, result, workspace(task), stream);
    if (op.transfer == FusedGemm::Transfer::scatter) copy_all(false);
}

}  // namespace stepcast
