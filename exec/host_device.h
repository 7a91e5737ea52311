// The host as a device: ranks are threads of this process, each pinned to a core of its own while there are enough,
// with OpenBLAS at one thread a rank and collectives through shared memory. A rank's thread does each task at once, so
// its lanes never overlap: the host behaves like launch_blocking = true, and host clusters say so.
#pragma once

#include <memory>

#include "exec/host_rank.h"
#include "exec/rank_group.h"

namespace stepcast {

class HostDevice final : public Device {
public:
    explicit HostDevice(int rank_count);
    ~HostDevice() override;

    [[nodiscard]] std::string description() const override;
    [[nodiscard]] std::vector<std::string> versions() const override { return host_versions(); }
    [[nodiscard]] int rank_count() const override { return rank_count_; }
    [[nodiscard]] std::vector<int> local_ranks() const override;
    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override;
    void attach(int rank) override;
    Seconds begin_step(int rank) override;
    void wait(TaskId task, int rank, TaskId predecessor) override;
    void launch(TaskId task, const Op& op, std::span<const Place> places, int rank) override;
    void record(TaskId task, int rank, Edge edge) override;
    void synchronize(int rank, Seconds timeout) override;
    [[nodiscard]] Seconds elapsed(TaskId task, int rank, Edge edge) const override;
    [[nodiscard]] double cpu_share(int rank) const override;
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override;
    double broadcast(int rank, double value) override;
    void abort(int failed) noexcept override;

private:
    struct Shared;  // what the rank threads share during a run; made anew by prepare()
    HostRank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    void run_fused(const FusedGemm& op, int rank);

    int rank_count_;
    std::vector<int> cores_;
    std::vector<HostRank> ranks_;
    FailedRank failed_{-1};
    std::unique_ptr<Shared> shared_;
};

// The host as this process was started: its MPI rank under mpirun or srun (when built with MPI), else threads.
// `rank_count` must then be the number of processes.
std::unique_ptr<Device> open_host_device(int rank_count);

}  // namespace stepcast
