#include "exec/host_device.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <stdexcept>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "exec/host_machine.h"
#include "exec/host_ops.h"
#include "exec/host_rank.h"
#include "exec/rank_group.h"
#include "exec/shared_collectives.h"
#include "model/base/launcher.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {

namespace {

// What the rank threads share during a run. prepare() makes it anew.
struct Shared {
    const TaskGraph& graph;
    RankThreads threads;
    std::map<std::vector<int>, std::unique_ptr<RankGroup>> groups;
    std::vector<RankGroup*> group_of;  // by task; null when one rank takes part
    // by target, then source: where fused kernels scatter to
    std::vector<std::vector<std::vector<float>>> windows;
};

class HostDevice final : public Device {
public:
    explicit HostDevice(int rank_count)
        : rank_count_(rank_count), cores_(allowed_cores()), ranks_(as_index(rank_count)) {}

    [[nodiscard]] std::string description() const override {
        return fmt::format("host, {} ranks as threads on {} of {} cores, {}", rank_count_,
                           std::min(as_index(rank_count_), cores_.size()), cores_.size(),
                           processor_name());
    }

    [[nodiscard]] std::vector<std::string> versions() const override { return host_versions(); }
    [[nodiscard]] int rank_count() const override { return rank_count_; }
    [[nodiscard]] std::vector<int> local_ranks() const override {
        const auto ranks = std::views::iota(0, rank_count_);
        return {ranks.begin(), ranks.end()};
    }

    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override {
        if (graph.rank_count() != rank_count_)
            throw std::logic_error(fmt::format("the graph has {} ranks, the host device {}",
                                               graph.rank_count(), rank_count_));
        failed_ = -1;
        const Patience patience{timeout, ranks_.size() <= cores_.size()};
        shared_.reset(new Shared{
            graph, RankThreads(local_ranks(), graph.size(), patience, failed_), {}, {}, {}});
        shared_->group_of.resize(graph.size());
        for (TaskId task = 0; task < graph.size(); ++task) {
            const std::vector<int> ranks = participants(graph.places(task));
            if (ranks.size() < 2) continue;
            auto& group = shared_->groups[ranks];
            if (!group) group = std::make_unique<RankGroup>(ranks, patience, failed_);
            shared_->group_of[task] = group.get();
        }
        shared_->windows.assign(ranks_.size(),
                                std::vector<std::vector<float>>(
                                    ranks_.size(), std::vector<float>(scattered_floats(graph))));
        Bytes kept;
        for (const HostRank& rank : ranks_) kept += rank.kept();
        const MemoryPlan plan =
            plan_memory(graph, rank_count_, last_level_cache(), available_memory() + kept);
        for (HostRank& rank : ranks_) rank.prepare(plan, graph.size());

        return host_doubts(graph, ranks_.size(), cores_.size());
    }

    void attach(int rank) override {
        pin_to_core(cores_[as_index(rank) % cores_.size()]);
        at(rank).attach(rank);
    }

    Seconds begin_step(int rank) override {
        shared_->threads.begin_step(rank);
        at(rank).begin_step();
        return at(rank).begin();
    }

    // Within a rank, id order is enough. For another rank's task, all ranks of that task must have
    // finished it in this step.
    void wait(TaskId, int rank, TaskId predecessor) override {
        const std::vector<int> before = participants(shared_->graph.places(predecessor));
        if (!has(before, rank)) shared_->threads.wait(rank, predecessor, before);
    }

    void record(TaskId task, int rank, Edge edge) override {
        at(rank).record(task, edge);
        if (edge == Edge::finish) shared_->threads.finish(task);
    }

    void launch(TaskId task, const Op& op, int rank) override {
        if (RankGroup* group = shared_->group_of[task]; group != nullptr) {
            const std::size_t index = group->index_of(rank);
            communicate(*group, index, op, take(at(rank).memory(), op, index, group->size()));
        } else if (const auto* fused = std::get_if<FusedGemm>(&op)) {
            run_fused(*fused, rank);
        } else {
            at(rank).compute(op);  // a collective of a single rank has nothing to do
        }
    }

    void synchronize(int rank) override { at(rank).end_step(); }
    [[nodiscard]] std::vector<std::string> kernels() const override {
        return host_kernels(shared_->graph, 0, "own loops over memory that the threads share");
    }

    [[nodiscard]] Seconds elapsed(TaskId task, int rank, Edge edge) const override {
        return ranks_[as_index(rank)].elapsed(task, edge);
    }

    [[nodiscard]] double cpu_share(int rank) const override {
        return ranks_[as_index(rank)].cpu_share();
    }

    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override {
        return shared_->threads.gather(rank, std::move(values));
    }
    double broadcast(int rank, double value) override {
        return shared_->threads.broadcast(rank, value);
    }

    void abort(int failed) noexcept override {
        int none = -1;
        failed_.compare_exchange_strong(none, failed);
    }

private:
    HostRank& at(int rank) { return ranks_[as_index(rank)]; }
    void run_fused(const FusedGemm& op, int rank) {
        const auto fetch = [&](int peer, std::size_t offset, std::span<float> rows) {
            const std::span<float> theirs = at(peer).memory().input.all();
            std::copy_n(theirs.begin() +
                            static_cast<std::ptrdiff_t>(offset % (theirs.size() - rows.size() + 1)),
                        rows.size(), rows.begin());
        };
        const auto deliver = [&](int peer, std::span<const float> rows) {
            std::copy(rows.begin(), rows.end(),
                      shared_->windows[as_index(peer)][as_index(rank)].begin());
        };
        stepcast::run_fused(op, rank, rank_count_, take(at(rank).memory(), op, 0, 1),
                            {fetch, deliver});
    }

    int rank_count_;
    std::vector<int> cores_;
    std::vector<HostRank> ranks_;
    FailedRank failed_{-1};
    std::unique_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<Device> open_host_device(int rank_count) {
    const int processes = mpi_processes();
    if (processes <= 1) return std::make_unique<HostDevice>(rank_count);
    if (processes != rank_count)
        refuse(
            "execute: started as {} processes, but the experiment has {} ranks; start as many "
            "processes as ranks, or one process without mpirun",
            processes, rank_count);
    return open_mpi_device();
}

}  // namespace stepcast
