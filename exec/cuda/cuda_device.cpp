#include "exec/cuda/cuda_device.h"

#include <cublasLt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ranges>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "exec/cuda/check_graph.h"
#include "exec/cuda/cuda_rank.h"
#include "exec/cuda/processes.h"
#include "exec/rank_group.h"
#include "exec/shared_id.h"
#include "exec/steady_clock.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"

namespace stepcast {

namespace {

std::string host_name() {
    char text[256] = "";
    gethostname(text, sizeof text - 1);
    return text;
}

// The state of one graph.
struct Run {
    CudaRun shared;
    RankThreads threads;
    Seconds offset;               // add to this process's clock to get rank 0's
    std::vector<CudaPlan> plans;  // of the ranks here
};

class CudaDevice final : public Device {
public:
    CudaDevice(const CudaRequest& request, Launch launch, int gpus)
        : rank_count_(launch.processes > 1 ? launch.processes
                                           : (request.ranks > 0 ? request.ranks : gpus)),
          replay_(request.graph),
          seed_(request.seed),
          launch_(std::move(launch)) {
        if (processes() && request.ranks > 0 && request.ranks != launch_.processes)
            throw ConfigError(
                fmt::format("execute: started as {} processes, but the experiment has {} ranks; "
                            "start as many processes as "
                            "ranks, or one process without the launcher",
                            launch_.processes, request.ranks));
        if (!processes() && rank_count_ > gpus)
            throw ConfigError(
                fmt::format("execute: {} ranks on {} GPU{} here; NCCL refuses two ranks on one "
                            "GPU, expected at most "
                            "one rank a GPU "
                            "(change parallelism with --set, or start one process a rank over "
                            "several machines)",
                            rank_count_, gpus, gpus == 1 ? "" : "s"));
        // NCCL kernels of different communicators must start in the same order on all ranks, which
        // is the order of the calls.
        setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
        if (processes()) {
            ranks_.push_back(std::make_unique<CudaRank>(launch_.rank, launch_.local_rank % gpus));
            meet_others(Seconds(60));
            return;
        }
        for (int rank = 0; rank < rank_count_; ++rank)
            ranks_.push_back(std::make_unique<CudaRank>(rank, rank));
    }

    // NCCL ends a communicator when all its ranks have ended theirs, so they end in parallel; the
    // first of several would wait forever.
    ~CudaDevice() override {
        others_.reset();
        std::vector<std::jthread> threads;
        for (std::unique_ptr<CudaRank>& rank : ranks_)
            threads.emplace_back([&rank] { rank.reset(); });
    }

    [[nodiscard]] std::string description() const override {
        return fmt::format("cuda, {} rank{} as {}, {} ({} SMs, {}){}", rank_count_,
                           rank_count_ == 1 ? "" : "s", processes() ? "processes" : "threads",
                           gpu().name, gpu().multiprocessors, to_string(gpu().memory),
                           replay_ ? ", steps replayed as CUDA graphs" : "");
    }

    [[nodiscard]] std::vector<std::string> versions() const override {
        int runtime = 0, driver = 0, nccl = 0;
        check(cudaRuntimeGetVersion(&runtime));
        check(cudaDriverGetVersion(&driver));
        check(ncclGetVersion(&nccl));
        return {"CUDA runtime " + cuda_version(runtime), "driver for CUDA " + cuda_version(driver),
                fmt::format("cuBLASLt {}", cublasLtGetVersion()), fmt::format("NCCL {}", nccl),
                fmt::format("cuBLASLt workspace {}", to_string(Bytes(real(workspace_bytes))))};
    }

    [[nodiscard]] std::vector<int> local_ranks() const override {
        if (processes()) return {launch_.rank};
        const auto ranks = std::views::iota(0, rank_count_);
        return {ranks.begin(), ranks.end()};
    }

    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override {
        if (graph.rank_count() != rank_count_)
            throw ConfigError(
                fmt::format("execute: the experiment has {} ranks, but the CUDA device {}",
                            graph.rank_count(), rank_count_));
        failed_ = -1;
        check_edges(graph, processes(), replay_);
        check_ops(graph, gpu(), processes());
        run_.reset(new Run{CudaRun(graph, replay_, seed_),
                           RankThreads(local_ranks(), graph.size(), {timeout, false}, failed_),
                           {},
                           {}});
        for (const int rank : local_ranks()) run_->shared.peers[as_index(rank)] = &at(rank);
        plan(graph);
        if (processes()) {
            others_->set_timeout(timeout);
            run_->offset = others_->clock_offset();
        } else if (rank_count_ > 1 && !id_) {
            id_ = make_unique_id();
        }
        std::vector<std::string> doubts = execution_doubts(graph);
        if (shares_gpus_)
            doubts.emplace_back("ranks share a GPU: the results are right, the times mean nothing");
        return doubts;
    }

    void attach(int rank) override {
        const CudaPlan& plan = run_->plans[processes() ? 0 : as_index(rank)];
        at(rank).attach(run_->shared, plan, id_.value_or(ncclUniqueId{}), watch(rank));
    }

    Seconds begin_step(int rank) override {
        if (processes()) others_->meet();
        run_->threads.begin_step(rank);
        return at(rank).timeline().begin_step() + run_->offset;
    }

    void wait(TaskId task, int rank, TaskId predecessor) override {
        StreamTimeline& timeline = at(rank).timeline();
        if (!timeline.issues()) return;
        const TaskGraph& graph = run_->shared.graph;
        const std::vector<int> before = participants(graph.places(predecessor));
        if (has(before, rank)) return timeline.wait(task, predecessor, watch(rank));
        // the task's collective makes it wait: see check_edges()
        if (processes() || replay_) return;
        // until they have queued it, so that there is an event to wait for
        run_->threads.wait(rank, predecessor, before);
        if (graph.on_host(predecessor)) return;
        for (const int other : before)
            timeline.wait(task, at(other).timeline().finished(predecessor), watch(rank));
    }

    void launch(TaskId task, const Op& op, int rank) override {
        if (at(rank).timeline().issues()) at(rank).launch(task, op, watch(rank));
    }

    void record(TaskId task, int rank, Edge edge) override {
        StreamTimeline& timeline = at(rank).timeline();
        if (!timeline.issues()) return;
        if (edge == Edge::start) return timeline.start(task);
        timeline.finish(task);
        run_->threads.finish(task);
        const TaskGraph& graph = run_->shared.graph;
        const auto* message = std::get_if<SendRecv>(&graph.op(task));
        if (graph.launch_blocking() || (message != nullptr && message->blocking))
            timeline.await(task, watch(rank));
    }

    void synchronize(int rank) override {
        CudaRank& here = at(rank);
        TaskId task = 0;
        Seconds begin = steady_now();
        try {
            here.timeline().synchronize([&] {
                here.clocks().look();
                const TaskId first = here.timeline().first_unfinished();
                if (first != task) begin = steady_now();
                task = first;
                if (const Seconds timeout = run_->threads.timeout(); steady_now() - begin > timeout)
                    throw DeviceError(fmt::format("did not finish within {}", to_string(timeout)));
                look_after(rank);
            });
        } catch (const DeviceError& error) {
            const TaskGraph& graph = run_->shared.graph;
            if (task >= graph.size())
                throw DeviceError(fmt::format("rank {}: {}", rank, error.what()));
            throw DeviceError(fmt::format("rank {}, task {} \"{}\" ({}): {}", rank, task,
                                          graph.name(task), kind_name(graph.op(task)),
                                          error.what()));
        }
        here.clocks().look();
    }

    [[nodiscard]] Seconds elapsed(TaskId task, int rank, Edge edge) const override {
        return at(rank).timeline().elapsed(task, edge) + run_->offset;
    }

    std::vector<std::string> doubts() override {
        std::vector<std::string> all;
        for (const std::unique_ptr<CudaRank>& rank : ranks_)
            for (std::string& doubt : rank->clocks().doubts()) all.push_back(std::move(doubt));
        const std::vector<std::string>& attention = ranks_.front()->doubts();
        all.insert(all.end(), attention.begin(), attention.end());
        return all;
    }
    [[nodiscard]] std::vector<std::string> kernels() const override {
        return ranks_.front()->kernels();
    }

    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override {
        if (!processes()) return run_->threads.gather(rank, std::move(values));
        std::vector<std::vector<double>> all;
        const std::string bytes(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(double));
        for (const std::string& text : others_->all_gather(bytes)) {
            if (rank > 0) break;
            all.emplace_back(text.size() / sizeof(double));
            std::memcpy(all.back().data(), text.data(), text.size());
        }
        return all;
    }

    double broadcast(int rank, double value) override {
        if (!processes()) return run_->threads.broadcast(rank, value);
        return as_number<double>(others_->all_gather(fmt::format("{}", value)).front())
            .value_or(value);
    }

    // Each rank that gives up ends its own communicators, and thereby the kernels that wait for the
    // failed rank.
    void abort(int failed) noexcept override {
        int none = -1;
        failed_.compare_exchange_strong(none, failed);
        cudaSetDevice(at(failed).gpu());
        at(failed).abort();
    }

    [[nodiscard]] const CudaGpu& gpu() const { return ranks_.front()->facts(); }
    [[nodiscard]] int rank_count() const override { return rank_count_; }
    [[nodiscard]] Seconds clock_error(int rank) const override {
        return at(rank).timeline().clock_error();
    }
    [[nodiscard]] double cpu_share(int) const override { return 1; }

private:
    [[nodiscard]] bool processes() const { return launch_.processes > 1; }
    [[nodiscard]] CudaRank& at(int rank) const { return *ranks_[processes() ? 0 : as_index(rank)]; }

    // NCCL identifies GPUs by host and bus, and refuses two ranks on one. For tests, NCCL_HOSTID
    // gives processes of one host different names.
    void meet_others(Seconds timeout) {
        CudaRank& own = at(launch_.rank);
        ncclUniqueId id{};
        if (launch_.rank == 0) id = make_unique_id();
        const SharedId shared(launch_, {id.internal, sizeof id.internal}, timeout);
        if (shared.text().size() != sizeof id.internal)
            throw DeviceError("rank 0 is of a program with another NCCL; expected the same on all");
        std::memcpy(id.internal, shared.text().data(), sizeof id.internal);
        own.join(id, rank_count_, [begin = steady_now(), timeout] {
            if (steady_now() - begin > timeout)
                throw DeviceError(
                    fmt::format("NCCL: not all processes arrived within {}", to_string(timeout)));
        });
        others_ = std::make_unique<CudaProcesses>(own.world(), own.gpu(), timeout);
        std::set<std::string> seen;
        for (const std::string& gpu :
             others_->all_gather(host_name() + " " + pci_bus_of(own.gpu())))
            shares_gpus_ = !seen.insert(gpu).second || shares_gpus_;
    }

    void plan(const TaskGraph& graph) {
        for (const std::unique_ptr<CudaRank>& rank : ranks_) rank->clear();
        CudaPlan most;  // fused kernels read and write the buffers of other ranks
        for (const int rank : local_ranks()) {
            check(cudaSetDevice(at(rank).gpu()));
            std::size_t available = 0, whole = 0;
            check(cudaMemGetInfo(&available, &whole));
            // room that cuBLAS and NCCL need
            constexpr std::size_t libraries = std::size_t{1} << 30;
            available -= std::min(available, libraries);
            run_->plans.push_back(plan_cuda_memory(graph, rank, at(rank).facts().cache,
                                                   Bytes(real(available)), Bytes(real(whole))));
            most.window = std::max(most.window, run_->plans.back().window);
            for (std::size_t i = 0; i < element_count; ++i)
                most.inputs[i] = std::max(most.inputs[i], run_->plans.back().inputs[i]);
        }
        for (CudaPlan& plan : run_->plans) {
            plan.window = most.window;
            if (moves_rows(graph)) plan.inputs = most.inputs;
        }
    }

    // Throws if another rank or a communicator has failed.
    void look_after(int rank) {
        if (const int failed = failed_.load(std::memory_order_relaxed);
            failed >= 0 && failed != rank)
            throw DeviceError(fmt::format("given up because rank {} failed", failed));
        at(rank).check_health();
    }

    // Watches one wait of the host, which must end within the run's timeout.
    Watch watch(int rank) {
        return [this, rank, begin = steady_now(), look = steady_now()]() mutable {
            constexpr Seconds pause(1e-3);
            const Seconds time = steady_now();
            if (time - look < pause) return;
            look = time;
            look_after(rank);
            if (time - begin >= run_->threads.timeout())
                throw DeviceError(
                    fmt::format("no progress within {}", to_string(run_->threads.timeout())));
        };
    }

    int rank_count_;
    bool replay_;
    std::uint64_t seed_;
    Launch launch_;
    std::vector<std::unique_ptr<CudaRank>> ranks_;  // of this process
    std::unique_ptr<CudaProcesses> others_;         // if each rank is a process
    std::optional<ncclUniqueId> id_;
    bool shares_gpus_ = false;
    FailedRank failed_{-1};
    std::unique_ptr<Run> run_;
};

}  // namespace

CudaDeviceAndGpu make_cuda_device(const CudaRequest& request, const Launch& launch, int gpus) {
    auto device = std::make_unique<CudaDevice>(request, launch, gpus);
    const CudaGpu gpu = device->gpu();
    return {std::move(device), gpu};
}

}  // namespace stepcast
