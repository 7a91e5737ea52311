// One rank on its GPU: its buffers, lanes and communicators, and what it launches for each op.
#pragma once

#include <map>

#include "exec/cuda/attention.h"
#include "exec/cuda/clocks.h"
#include "exec/cuda/communicator.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/library_pass.h"
#include "exec/cuda_plugin.h"

namespace stepcast {

// Each group of ranks has a communicator for each lane: lanes run concurrently, but two operations
// of one communicator do not.
struct CommunicatorKey {
    std::vector<int> ranks;  // in the order of the task's places
    Lane lane = Lane::collective;
    friend auto operator<=>(const CommunicatorKey&, const CommunicatorKey&) = default;
};

class CudaRank;
CudaGpu describe_gpu(int gpu);
std::string pci_bus_of(int gpu);  // "0000:17:00.0"

// One graph, as all ranks of this process run it.
struct CudaRun {
    // the caller sets `peers`
    CudaRun(const TaskGraph& run, bool replays, std::uint64_t first_seed);

    static constexpr std::uint32_t no_communicator = static_cast<std::uint32_t>(-1);
    const TaskGraph& graph;
    bool replay;
    std::uint64_t seed;
    std::vector<CudaRank*> peers;                // by rank; null for a rank in another process
    std::vector<CommunicatorKey> communicators;  // on all ranks, in the order of first use
    std::vector<std::uint32_t> communicator_of;  // by task; index into it, or no_communicator
};

class CudaRank {
public:
    CudaRank(int rank, int gpu);
    CudaRank(const CudaRank&) = delete;
    CudaRank& operator=(const CudaRank&) = delete;
    ~CudaRank();

    [[nodiscard]] int gpu() const { return gpu_; }
    [[nodiscard]] const CudaGpu& facts() const { return facts_; }
    // Connects with all other ranks, once; they call it together.
    void join(const ncclUniqueId& id, int ranks, const Watch& watch);
    [[nodiscard]] Communicator& world() { return world_; }
    void clear();  // gives buffers, streams and events back; communicators stay

    // Runs in the rank's thread: allocates, fills and connects, and lets the library choose its
    // algorithms.
    void attach(const CudaRun& run, const CudaPlan& plan, const ncclUniqueId& id,
                const Watch& watch);

    [[nodiscard]] StreamTimeline& timeline() { return *timeline_; }
    [[nodiscard]] const StreamTimeline& timeline() const { return *timeline_; }
    void launch(TaskId task, const Op& op, const Watch& watch);

    void check_health() const;  // of the communicators
    void abort() noexcept;
    [[nodiscard]] Clocks& clocks() { return clocks_; }
    // The lines of Device::kernels(), and what about them a reader must know.
    [[nodiscard]] std::vector<std::string> kernels() const;
    [[nodiscard]] const std::vector<std::string>& doubts() const { return attentions_->doubts(); }

private:
    struct Compute;
    struct Ran;
    void connect(const ncclUniqueId& id, const Watch& watch);
    void choose_algorithms();
    [[nodiscard]] char* workspace(TaskId task) const;
    void run_fused(const FusedGemm& op, const CudaOperands& at, void* workspace,
                   cudaStream_t stream);

    int rank_, gpu_;
    CudaGpu facts_;
    Clocks clocks_;
    Communicator world_;
    std::map<CommunicatorKey, Communicator> communicators_;
    const CudaRun* run_ = nullptr;
    std::size_t window_ = 0;  // bytes of the window that each rank has on another
    std::unique_ptr<CudaMemory> memory_;
    std::unique_ptr<StreamTimeline> timeline_;
    std::unique_ptr<Products> products_;
    std::unique_ptr<GroupedProducts> grouped_;
    std::unique_ptr<Attentions> attentions_;
    std::unique_ptr<LibraryPasses> passes_;
    std::array<std::size_t, lane_count> workspace_of_{};  // by lane
};

}  // namespace stepcast
