// The host as a device whose ranks are MPI processes.

#include <algorithm>
#include <exception>
#include <map>
#include <set>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "exec/host_device.h"
#include "exec/host_machine.h"
#include "exec/host_ops.h"
#include "exec/host_rank.h"
#include "exec/mpi_group.h"
#include "exec/mpi_ops.h"
#include "exec/rank_group.h"
#include "exec/shared_collectives.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {

namespace {

constexpr TaskId least_tags = 32768;  // the number of tags that every MPI has at least

class MpiDevice final : public Device {
public:
    MpiDevice() {
        world_.failed = &failed_;
        int provided = 0;
        check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
        check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        world_.comm = MPI_COMM_WORLD;
        int size = 0;
        int index = 0;
        check(MPI_Comm_rank(MPI_COMM_WORLD, &index));
        check(MPI_Comm_size(MPI_COMM_WORLD, &size));
        world_.index = as_index(index);
        for (int rank = 0; rank < size; ++rank) world_.ranks.push_back(rank);
        share_node();
        if (provided < MPI_THREAD_SERIALIZED)
            throw DeviceError("MPI: this library does not let one thread after another call it");
    }

    // After a failure the other processes may be anywhere, and MPI_Finalize would wait for them.
    // Without it, the launcher ends the job.
    ~MpiDevice() override {
        if (failed_ >= 0 || std::uncaught_exceptions() > 0) return;
        free_groups();
        MPI_Finalize();
    }

    [[nodiscard]] std::string description() const override {
        return fmt::format("host, {} ranks as MPI processes, {}", rank_count(), processor_name());
    }

    [[nodiscard]] std::vector<std::string> versions() const override {
        std::vector<std::string> versions = host_versions();
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        if (MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
            const std::string_view version(text, as_index(length));
            versions.emplace_back(version.substr(0, version.find(',')));
        }
        return versions;
    }

    [[nodiscard]] int rank_count() const override { return as_int(world_.ranks.size()); }
    [[nodiscard]] std::vector<int> local_ranks() const override { return {own_rank()}; }
    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override {
        if (graph.rank_count() != rank_count())
            refuse("execute: the experiment has {} ranks, but {} processes were started",
                   graph.rank_count(), rank_count());
        world_.patience = {timeout, cores_ == local_size_};
        graph_ = &graph;
        rank_.prepare(plan_memory(graph, local_size_, last_level_cache(),
                                  available_memory() + local_size_ * rank_.kept()),
                      graph.size());
        // names a rank that stays away; making communicators would wait for it forever
        meet(world_);
        connect(graph);
        offset_ = clock_offset(world_);
        return host_doubts(graph, as_index(local_size_), as_index(cores_));
    }

    void attach(int rank) override {
        pin_to_core(core_);
        rank_.attach(rank);
        open_windows();
    }

    Seconds begin_step(int) override {
        ++step_;
        meet(world_);
        rank_.begin_step();
        return rank_.begin() + offset_;
    }

    void wait(TaskId, int rank, TaskId predecessor) override {
        const std::vector<int> before = participants(graph_->places(predecessor));
        if (has(before, rank) || seen_[predecessor] == step_) return;
        const int tag = as_int(predecessor) + 1;
        for (const int peer : before)
            run(world_, {peer}, [&](MPI_Request* r) {
                return MPI_Irecv(nullptr, 0, MPI_BYTE, peer, tag, world_.comm, r);
            });
        seen_[predecessor] = step_;
    }

    void launch(TaskId task, const Op& op, int) override {
        if (const MpiGroup* group = group_of_[task]; group != nullptr) {
            communicate(*group, op, take(rank_.memory(), op, group->index, group->ranks.size()));
        } else if (const auto* fused = std::get_if<FusedGemm>(&op)) {
            run_fused(*fused);
        } else {
            rank_.compute(op);
        }
    }

    void record(TaskId task, int, Edge edge) override {
        rank_.record(task, edge);
        if (edge == Edge::start) return;
        for (const int peer : notify_[task]) {
            notices_.push_back(MPI_REQUEST_NULL);
            check(MPI_Isend(nullptr, 0, MPI_BYTE, peer, as_int(task) + 1, MPI_COMM_WORLD,
                            &notices_.back()));
        }
    }

    void synchronize(int) override {
        for (const MPI_Request notice : notices_) finish(world_, notice, world_.ranks);
        notices_.clear();
        rank_.end_step();
    }

    [[nodiscard]] std::vector<std::string> kernels() const override {
        return host_kernels(*graph_, own_rank(), "MPI");
    }

    [[nodiscard]] Seconds elapsed(TaskId task, int, Edge edge) const override {
        return rank_.elapsed(task, edge) + offset_;
    }

    [[nodiscard]] double cpu_share(int) const override { return rank_.cpu_share(); }
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override {
        const auto size = world_.ranks.size();
        const int count = mpi_count(values.size());
        std::vector<int> counts(size), offsets(size);
        run(world_, world_.ranks, [&](MPI_Request* request) {
            return MPI_Igather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, world_.comm,
                               request);
        });
        std::size_t sum = 0;
        for (std::size_t peer = 0; rank == 0 && peer < size; ++peer) {
            offsets[peer] = mpi_count(sum);
            sum += as_index(counts[peer]);
        }
        std::vector<double> joined(sum);
        run(world_, world_.ranks, [&](MPI_Request* request) {
            return MPI_Igatherv(values.data(), count, MPI_DOUBLE, joined.data(), counts.data(),
                                offsets.data(), MPI_DOUBLE, 0, world_.comm, request);
        });
        std::vector<std::vector<double>> all;
        for (std::size_t peer = 0; rank == 0 && peer < size; ++peer)
            all.emplace_back(joined.begin() + offsets[peer],
                             joined.begin() + offsets[peer] + counts[peer]);
        return all;
    }

    double broadcast(int, double value) override {
        run(world_, world_.ranks,
            [&](MPI_Request* r) { return MPI_Ibcast(&value, 1, MPI_DOUBLE, 0, world_.comm, r); });
        return value;
    }

    void abort(int failed) noexcept override { failed_ = failed; }

private:
    [[nodiscard]] int own_rank() const { return as_int(world_.index); }
    // Pins each rank of a node to one of the cores that its launcher allows. Two ranks may get the
    // same core.
    void share_node() {
        MPI_Comm node = MPI_COMM_NULL;
        int index = 0;
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, own_rank(), MPI_INFO_NULL,
                                  &node));
        check(MPI_Comm_rank(node, &index));
        check(MPI_Comm_size(node, &local_size_));
        const std::vector<int> allowed = allowed_cores();
        core_ = allowed[as_index(index) % allowed.size()];
        std::vector<int> taken(as_index(local_size_));
        check(MPI_Allgather(&core_, 1, MPI_INT, taken.data(), 1, MPI_INT, node));
        cores_ = as_int(std::set<int>(taken.begin(), taken.end()).size());
        check(MPI_Comm_free(&node));
    }

    void free_groups() {
        for (auto& [ranks, group] : groups_) MPI_Comm_free(&group.comm);
        groups_.clear();
        shown_.close();
        landing_.close();
    }

    MpiGroup make_group(const std::vector<int>& ranks, int tag) {
        MpiGroup made = world_;
        made.ranks = ranks;
        MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
        check(MPI_Comm_group(MPI_COMM_WORLD, &world));
        check(MPI_Group_incl(world, as_int(ranks.size()), ranks.data(), &group));
        check(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &made.comm));
        check(MPI_Group_free(&group));
        check(MPI_Group_free(&world));
        check(MPI_Comm_set_errhandler(made.comm, MPI_ERRORS_RETURN));
        made.index = as_index(std::find(ranks.begin(), ranks.end(), own_rank()) - ranks.begin());
        return made;
    }

    // Makes communicators in the order of first use, which is the same on all ranks, as is their
    // tag, the task of first use. Also notes which ranks must be told when a task ends.
    void connect(const TaskGraph& graph) {
        free_groups();
        group_of_.assign(graph.size(), nullptr);
        notify_.assign(graph.size(), {});
        seen_.assign(graph.size(), 0);
        for (TaskId task = 0; task < graph.size(); ++task) {
            const std::vector<int> ranks = participants(graph.places(task));
            for (const TaskId predecessor : graph.predecessors(task)) {
                const std::vector<int> before = participants(graph.places(predecessor));
                if (!has(before, own_rank())) continue;
                for (const int rank : ranks)
                    if (!has(before, rank) && !has(notify_[predecessor], rank))
                        notify_[predecessor].push_back(rank);
            }
            if (ranks.size() < 2 || !has(ranks, own_rank())) continue;
            MpiGroup& group = groups_[ranks];
            if (group.comm == MPI_COMM_NULL) group = make_group(ranks, as_int(task % least_tags));
            group_of_[task] = &group;
        }
    }

    // Only if a fused kernel has remote rows, which all ranks see in the graph.
    void open_windows() {
        if (!moves_rows(*graph_)) return;
        landing_part_ = scattered_floats(*graph_);
        landed_.assign(landing_part_ * world_.ranks.size(), 0);
        shown_ = MpiWindow(world_, rank_.memory().input.all());
        landing_ = MpiWindow(world_, landed_);
    }

    void run_fused(const FusedGemm& op) {
        const auto fetch = [&](int peer, std::size_t offset, std::span<float> rows) {
            shown_.fetch(world_, peer, offset, rows);
        };
        const auto deliver = [&](int peer, std::span<const float> rows) {
            landing_.deliver(peer, landing_part_ * world_.index, rows);
        };
        stepcast::run_fused(op, own_rank(), rank_count(), take(rank_.memory(), op, 0, 1),
                            {fetch, deliver});
    }

    MpiGroup world_;
    // ranks of this node, this rank's core, distinct cores of the node's ranks
    int local_size_ = 1, core_ = 0, cores_ = 1;
    FailedRank failed_{-1};
    HostRank rank_;
    Seconds offset_;  // add to this process's clock to get rank 0's
    const TaskGraph* graph_ = nullptr;
    std::map<std::vector<int>, MpiGroup> groups_;
    // by task; null if this rank is alone in it or not part of it
    std::vector<const MpiGroup*> group_of_;
    std::vector<std::vector<int>> notify_;  // by task: ranks that wait for it without taking part
    std::vector<std::uint64_t> seen_;       // by task: the last step in which its end was received
    std::vector<MPI_Request> notices_;
    std::uint64_t step_ = 0;
    // For fused kernels with remote rows: this rank's input, and the memory that others scatter to,
    // one part for each rank.
    MpiWindow shown_, landing_;
    std::size_t landing_part_ = 0;
    std::vector<float> landed_;
};

}  // namespace

std::unique_ptr<Device> open_mpi_device() { return std::make_unique<MpiDevice>(); }

}  // namespace stepcast
