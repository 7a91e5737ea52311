#include "exec/cuda/cuda_rank.h"

#include <algorithm>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "exec/footprint.h"
#include "model/errors.h"

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

CudaRank::CudaRank(int rank, int gpu)
    : rank_(rank), gpu_(gpu), facts_(describe_gpu(gpu)), clocks_(pci_bus_of(gpu)) {}

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
    estimates_.clear();
    setting_.reset();
}

void CudaRank::attach(Setting setting, const ncclUniqueId& id, const Watch& watch) {
    check(cudaSetDevice(gpu_));
    setting_.emplace(std::move(setting));
    timeline_ = std::make_unique<Timeline>(setting_->graph, rank_, setting_->replay);
    memory_ = std::make_unique<CudaMemory>(setting_->plan, setting_->graph.rank_count(),
                                           setting_->seed * 1000 + static_cast<std::uint64_t>(rank_),
                                           timeline_->any_stream());
    products_ = std::make_unique<Products>();
    grouped_ = std::make_unique<GroupedProducts>();
    choose_algorithms();
    connect(id, watch);
    ask_estimates();
    check(cudaDeviceSynchronize());
}

// Communicators that an earlier run of this device made are kept; what is missing is missing on every rank.
void CudaRank::connect(const ncclUniqueId& id, const Watch& watch) {
    const int ranks = setting_->graph.rank_count();
    if (ranks < 2) return;
    if (world_.empty()) world_ = Communicator(id, ranks, rank_, watch);
    for (const CommunicatorKey& key : setting_->communicators) {
        if (communicators_.contains(key)) continue;
        const auto self = std::find(key.ranks.begin(), key.ranks.end(), rank_);
        const bool member = self != key.ranks.end();
        communicators_.emplace(
            key, world_.split(member ? 0 : -1, static_cast<int>(self - key.ranks.begin()), watch));
    }
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
            products_->prepare({fused->blocks * fused->rows_per_block, fused->n, fused->k, 1, fused->dtype, false, true});
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
        const auto pass = op.access == MemoryPass::Access::stream      ? stream_memory
                          : op.access == MemoryPass::Access::transpose ? transpose_memory
                                                                       : optimizer_memory;
        check(pass(input.take(read), read, rank.memory_->output.take(written), written, rank.memory_->sink.data(),
                   stream));
    }
    // A training framework's host work is none of ours: there is nothing to wait for.
    void operator()(const HostWork&) const {}
    template <typename Communication>
    void operator()(const Communication&) const {}  // of one rank: nothing to do
};

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
    template <typename Other>
    void operator()(const Other& op) const {
        throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op)));
    }
};

void CudaRank::launch(TaskId task, const Op& op, const Watch& watch) {
    const std::uint32_t at = setting_->communicator_of[task];
    if (at == no_communicator) return std::visit(Compute{*this, task, timeline_->stream(task)}, op);
    const CommunicatorKey& key = setting_->communicators[at];
    const auto index = std::find(key.ranks.begin(), key.ranks.end(), rank_) - key.ranks.begin();
    std::visit(Collective{*this, communicators_.at(key), static_cast<int>(index), key.ranks.size(),
                          timeline_->stream(task), watch},
               op);
}

// One copy for each peer beside one product: gather before it, from the peers' inputs; scatter after it, into this rank's
// part of the peers' windows.
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

void CudaRank::ask_estimates() {
    std::map<std::pair<std::uint32_t, OpId>, std::optional<Seconds>> known;
    const TaskGraph& graph = setting_->graph;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::uint32_t at = setting_->communicator_of[task];
        if (at == no_communicator) continue;
        const CommunicatorKey& key = setting_->communicators[at];
        Communicator& group = communicators_.at(key);
        if (group.empty()) continue;
        const auto [entry, is_new] = known.try_emplace({at, graph.op_id(task)});
        const std::size_t count = key.ranks.size();
        const auto ask = [&](Communicator::Kind kind, Bytes bytes, std::size_t parts) {
            const std::size_t floats = (float_count(bytes) + parts - 1) / parts;
            entry->second = group.estimate(kind, memory_->input(memory_->common).data(), memory_->output.data(), floats,
                                           timeline_->stream(task));
        };
        const Op& op = graph.op(task);
        if (is_new) {
            if (const auto* all = std::get_if<AllReduce>(&op)) ask(Communicator::Kind::all_reduce, all->bytes, 1);
            if (const auto* all = std::get_if<AllGather>(&op)) ask(Communicator::Kind::all_gather, all->bytes, count);
            if (const auto* all = std::get_if<ReduceScatter>(&op))
                ask(Communicator::Kind::reduce_scatter, all->bytes, count);
            if (const auto* one = std::get_if<Broadcast>(&op)) ask(Communicator::Kind::broadcast, one->bytes, 1);
            if (const auto* one = std::get_if<Reduce>(&op)) ask(Communicator::Kind::reduce, one->bytes, 1);
        }
        if (entry->second) estimates_.push_back({task, *entry->second});
    }
}

void CudaRank::check_health() const {
    world_.check_health();
    for (const auto& [key, communicator] : communicators_) communicator.check_health();
}

void CudaRank::abort() noexcept {
    for (auto& [key, communicator] : communicators_) communicator.abort();
    world_.abort();
    communicators_.clear();
}

}  // namespace stepcast
