// GPUs as a device: ranks are threads of this process, one for each GPU, or one process each as a launcher started
// them.
#pragma once

#include <memory>
#include <optional>

#include "exec/cuda/cuda_rank.h"
#include "exec/launcher.h"
#include "exec/rank_group.h"
#include "exec/rendezvous.h"

namespace stepcast {

class CudaDevice final : public Device {
public:
    // `gpus` is how many this process sees. Throws as open_cuda_device() (exec/cuda_plugin.h) does.
    CudaDevice(const CudaRequest& request, Launch launch, int gpus);
    ~CudaDevice() override;

    [[nodiscard]] const CudaGpu& gpu() const { return ranks_.front()->facts(); }

    [[nodiscard]] std::string description() const override;
    [[nodiscard]] std::vector<std::string> versions() const override;
    [[nodiscard]] int rank_count() const override { return rank_count_; }
    [[nodiscard]] std::vector<int> local_ranks() const override;
    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override;
    void attach(int rank) override;
    Seconds begin_step(int rank) override;
    void wait(TaskId task, int rank, TaskId predecessor) override;
    void launch(TaskId task, const Op& op, int rank) override;
    void record(TaskId task, int rank, Edge edge) override;
    void synchronize(int rank) override;
    [[nodiscard]] Seconds elapsed(TaskId task, int rank, Edge edge) const override;
    [[nodiscard]] Seconds clock_error(int rank) const override { return at(rank).timeline().clock_error(); }
    [[nodiscard]] double cpu_share(int) const override { return 1; }
    std::vector<std::string> doubts() override;
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override;
    double broadcast(int rank, double value) override;
    void abort(int failed) noexcept override;

private:
    struct Run;  // what belongs to one graph
    [[nodiscard]] bool processes() const { return launch_.processes > 1; }
    [[nodiscard]] CudaRank& at(int rank) const { return *ranks_[processes() ? 0 : static_cast<std::size_t>(rank)]; }
    void require_own_gpus();
    void connect(const TaskGraph& graph);
    void plan(const TaskGraph& graph);
    void look_after(int rank);
    Watch watch(int rank);

    int rank_count_;
    bool replay_;
    std::uint64_t seed_;
    Launch launch_;
    std::vector<std::unique_ptr<CudaRank>> ranks_;  // of this process
    std::unique_ptr<Rendezvous> rendezvous_;        // of processes
    std::optional<ncclUniqueId> id_;
    bool shares_gpus_ = false;
    FailedRank failed_{-1};
    std::unique_ptr<Run> run_;
};

}  // namespace stepcast
