#include "exec/mpi_device.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exec/footprint.h"
#include "exec/host_machine.h"
#include "exec/host_ops.h"
#include "exec/host_rank.h"
#include "exec/rank_group.h"
#include "model/errors.h"

namespace stepcast {

namespace {

void check(int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw DeviceError(fmt::format("MPI: {}", std::string_view(text, static_cast<std::size_t>(length))));
}

int to_count(std::size_t count) {
    if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw ConfigError(fmt::format("execute: a buffer of {} floats, MPI takes at most {}; run ranks as threads, without "
                                      "the launcher", count, std::numeric_limits<int>::max()));
    return static_cast<int>(count);
}

// Ranks that take part in one kind of task, and how long to wait for them.
struct Peers {
    MPI_Comm comm = MPI_COMM_NULL;
    int index = 0;
    std::vector<int> ranks;
};

class MpiDevice final : public Device {
public:
    MpiDevice();
    ~MpiDevice() override;

    [[nodiscard]] std::string description() const override;
    [[nodiscard]] std::vector<std::string> versions() const override;
    [[nodiscard]] int rank_count() const override { return static_cast<int>(world_.ranks.size()); }
    [[nodiscard]] std::vector<int> local_ranks() const override { return {world_.index}; }
    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override;
    void attach(int rank) override;
    Seconds begin_step(int rank) override;
    void wait(TaskId task, int rank, TaskId predecessor) override;
    void launch(TaskId task, const Op& op, std::span<const Place> places, int rank) override;
    void record(TaskId task, int rank, Edge edge) override;
    void synchronize(int rank, Seconds timeout) override;
    [[nodiscard]] Seconds elapsed(TaskId task, int, Edge edge) const override { return rank_.elapsed(task, edge) + offset_; }
    [[nodiscard]] double cpu_share(int) const override { return rank_.cpu_share(); }
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override;
    double broadcast(int rank, double value) override;
    void abort(int failed) noexcept override { failed_ = failed; }

    // Waits for a request; DeviceError naming who may be missing after the timeout.
    void finish(MPI_Request request, const std::vector<int>& waits_for);
    [[nodiscard]] HostMemory& memory() { return rank_.memory(); }

private:
    void connect(const TaskGraph& graph);
    void align_clock();
    double exchange_time(int peer, bool first);

    Peers world_;
    int local_index_ = 0, local_size_ = 1;
    Patience patience_;
    FailedRank failed_{-1};
    HostRank rank_;
    Seconds offset_;  // added to this process's clock to read rank 0's
    const TaskGraph* graph_ = nullptr;
    std::map<std::vector<int>, Peers> groups_;
    std::vector<const Peers*> peers_of_;        // by task; null when this rank is alone in it or not in it
    std::vector<std::vector<int>> notify_;      // by task: ranks that wait for it without taking part
    std::vector<std::uint64_t> seen_;           // by task: the last step in which its end was received
    std::vector<MPI_Request> notices_;
    std::uint64_t step_ = 0;
};

MpiDevice::MpiDevice() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    world_.comm = MPI_COMM_WORLD;
    int size = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &world_.index));
    check(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int rank = 0; rank < size; ++rank) world_.ranks.push_back(rank);
    MPI_Comm node = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_.index, MPI_INFO_NULL, &node));
    check(MPI_Comm_rank(node, &local_index_));
    check(MPI_Comm_size(node, &local_size_));
    check(MPI_Comm_free(&node));
    if (provided < MPI_THREAD_SERIALIZED) throw DeviceError("MPI: this library does not let one thread after another call it");
}

// After a failure the other processes may be anywhere, and MPI_Finalize would wait for them: leaving without it lets the
// launcher end the job.
MpiDevice::~MpiDevice() {
    if (failed_ >= 0 || std::uncaught_exceptions() > 0) return;
    for (auto& [ranks, peers] : groups_)
        if (peers.comm != MPI_COMM_NULL) MPI_Comm_free(&peers.comm);
    MPI_Finalize();
}

std::string MpiDevice::description() const {
    return fmt::format("host, {} ranks as MPI processes, {}", rank_count(), processor_name());
}

std::vector<std::string> MpiDevice::versions() const {
    std::vector<std::string> versions = host_versions();
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
        const std::string_view version(text, static_cast<std::size_t>(length));
        versions.emplace_back(version.substr(0, version.find(',')));
    }
    return versions;
}

void MpiDevice::finish(MPI_Request request, const std::vector<int>& waits_for) {
    const auto done = [&] {
        int flag = 0;
        check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        return flag != 0;
    };
    if (wait_until(done, patience_, failed_)) return;
    std::vector<int> others;
    for (const int rank : waits_for)
        if (rank != world_.index) others.push_back(rank);
    throw DeviceError(fmt::format("{} {} did not arrive within {}", others.size() == 1 ? "rank" : "one of the ranks",
                                  fmt::join(others, ", "), to_string(patience_.timeout)));
}

// Communicators in the order of first use, the same on all ranks; and who must be told when a task ends.
void MpiDevice::connect(const TaskGraph& graph) {
    peers_of_.assign(graph.size(), nullptr);
    notify_.assign(graph.size(), {});
    seen_.assign(graph.size(), 0);
    MPI_Group world = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &world));
    const auto has = [](const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); };
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::vector<int> ranks = participants(graph.places(task));
        for (const TaskId predecessor : graph.predecessors(task)) {
            const std::vector<int> before = participants(graph.places(predecessor));
            if (!has(before, world_.index)) continue;
            for (const int rank : ranks)
                if (!has(before, rank) && !has(notify_[predecessor], rank)) notify_[predecessor].push_back(rank);
        }
        if (ranks.size() < 2 || !has(ranks, world_.index)) continue;
        Peers& peers = groups_[ranks];
        if (peers.comm == MPI_COMM_NULL) {
            peers.ranks = ranks;
            MPI_Group group = MPI_GROUP_NULL;
            check(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group));
            check(MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(groups_.size()), &peers.comm));
            check(MPI_Group_free(&group));
            check(MPI_Comm_set_errhandler(peers.comm, MPI_ERRORS_RETURN));
            check(MPI_Comm_rank(peers.comm, &peers.index));
        }
        peers_of_[task] = &peers;
    }
    check(MPI_Group_free(&world));
}

double MpiDevice::exchange_time(int peer, bool first) {
    double value = wall_clock().si();
    MPI_Request request = MPI_REQUEST_NULL;
    for (const bool send : {first, !first}) {
        if (send) check(MPI_Isend(&value, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &request));
        else check(MPI_Irecv(&value, 1, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &request));
        finish(request, {peer});
        if (!send && !first) value = wall_clock().si();
    }
    return value;
}

// Rank 0's clock at the middle of the quickest of some round trips.
void MpiDevice::align_clock() {
    constexpr int trips = 20;
    if (world_.index == 0) {
        for (const int peer : world_.ranks)
            for (int trip = 0; peer != 0 && trip < trips; ++trip) exchange_time(peer, false);
        return;
    }
    Seconds quickest(INFINITY);
    for (int trip = 0; trip < trips; ++trip) {
        const Seconds sent = wall_clock();
        const Seconds theirs(exchange_time(0, true));
        const Seconds back = wall_clock();
        if (back - sent >= quickest) continue;
        quickest = back - sent;
        offset_ = theirs - 0.5 * (sent + back);
    }
}

std::vector<std::string> MpiDevice::prepare(const TaskGraph& graph, Seconds timeout) {
    if (graph.rank_count() != rank_count())
        throw ConfigError(fmt::format("execute: the experiment has {} ranks, but {} processes were started", graph.rank_count(), rank_count()));
    for (const Op& op : graph.ops())
        if (const auto* fused = std::get_if<FusedGemm>(&op); fused != nullptr && fused->remote_blocks > 0)
            throw ConfigError("execute: fused_gemm works on other ranks' memory, which MPI processes do not share; run the "
                              "ranks as threads, without the launcher");
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const bool enough = local_size_ <= cores;
    patience_ = {timeout, enough};
    graph_ = &graph;
    rank_.prepare(plan_memory(graph, local_size_, last_level_cache(), available_memory()), graph.size());
    connect(graph);
    align_clock();
    std::vector<std::string> doubts = host_doubts(graph);
    if (!enough) doubts.push_back(fmt::format("{} ranks share {} cores: the results are right, the times mean nothing", local_size_, cores));
    return doubts;
}

void MpiDevice::attach(int rank) {
    const std::vector<int> cores = allowed_cores();
    pin_to_core(cores[static_cast<std::size_t>(local_index_) % cores.size()]);
    rank_.attach(rank);
}

Seconds MpiDevice::begin_step(int) {
    ++step_;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    finish(request, world_.ranks);
    rank_.begin_step();
    return rank_.begin() + offset_;
}

void MpiDevice::wait(TaskId, int rank, TaskId predecessor) {
    const std::vector<int> before = participants(graph_->places(predecessor));
    if (std::find(before.begin(), before.end(), rank) != before.end() || seen_[predecessor] == step_) return;
    for (const int peer : before) {
        MPI_Request request = MPI_REQUEST_NULL;
        check(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, static_cast<int>(predecessor) + 1, MPI_COMM_WORLD, &request));
        finish(request, {peer});
    }
    seen_[predecessor] = step_;
}

void MpiDevice::record(TaskId task, int, Edge edge) {
    rank_.record(task, edge);
    if (edge == Edge::start) return;
    for (const int peer : notify_[task]) {
        notices_.push_back(MPI_REQUEST_NULL);
        check(MPI_Isend(nullptr, 0, MPI_BYTE, peer, static_cast<int>(task) + 1, MPI_COMM_WORLD, &notices_.back()));
    }
}

void MpiDevice::synchronize(int, Seconds) {
    for (const MPI_Request notice : notices_) finish(notice, world_.ranks);
    notices_.clear();
    rank_.end_step();
}

// One rank's share of a collective, on buffers from its memory.
struct MpiCollective {
    MpiDevice& device;
    const Peers& peers;

    [[nodiscard]] float* in(std::size_t count) const { return device.memory().input.take(count).data(); }
    [[nodiscard]] float* out(std::size_t count) const { return device.memory().output.take(count).data(); }
    [[nodiscard]] std::size_t size() const { return peers.ranks.size(); }
    [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(peers.index); }

    // Calls `start` with the request to fill, then waits.
    template <typename Start>
    void run(Start start) const {
        MPI_Request request = MPI_REQUEST_NULL;
        check(start(&request));
        device.finish(request, peers.ranks);
    }
    struct Layout {
        std::vector<int> counts, offsets;
    };
    static Layout layout(const std::vector<std::size_t>& sizes) {
        Layout layout;
        std::size_t offset = 0;
        for (const std::size_t count : sizes) {
            layout.counts.push_back(to_count(count));
            layout.offsets.push_back(to_count(offset));
            offset += count;
        }
        return layout;
    }
    [[nodiscard]] Layout parts(std::size_t count) const {
        std::vector<std::size_t> sizes;
        for (std::size_t i = 0; i < size(); ++i) sizes.push_back(part_of(count, i, size()).end - part_of(count, i, size()).begin);
        return layout(sizes);
    }

    void operator()(const AllReduce& op) const {
        const std::size_t count = float_count(op.bytes);
        run([&](MPI_Request* r) { return MPI_Iallreduce(in(count), out(count), to_count(count), MPI_FLOAT, MPI_SUM, peers.comm, r); });
    }
    void operator()(const AllGather& op) const {
        const std::size_t count = float_count(op.bytes);
        const Layout all = parts(count);
        const int own = all.counts[index()];
        run([&](MPI_Request* r) {
            return MPI_Iallgatherv(in(static_cast<std::size_t>(own)), own, MPI_FLOAT, out(count), all.counts.data(), all.offsets.data(),
                                   MPI_FLOAT, peers.comm, r);
        });
    }
    void operator()(const ReduceScatter& op) const {
        const std::size_t count = float_count(op.bytes);
        const Layout all = parts(count);
        run([&](MPI_Request* r) {
            return MPI_Ireduce_scatter(in(count), out(static_cast<std::size_t>(all.counts[index()])), all.counts.data(), MPI_FLOAT, MPI_SUM,
                                       peers.comm, r);
        });
    }
    void operator()(const Broadcast& op) const {
        const std::size_t count = float_count(op.bytes);
        float* values = peers.index == op.root ? in(count) : out(count);
        run([&](MPI_Request* r) { return MPI_Ibcast(values, to_count(count), MPI_FLOAT, op.root, peers.comm, r); });
    }
    void operator()(const Reduce& op) const {
        const std::size_t count = float_count(op.bytes);
        float* sum = out(peers.index == op.root ? count : 0);
        run([&](MPI_Request* r) { return MPI_Ireduce(in(count), sum, to_count(count), MPI_FLOAT, MPI_SUM, op.root, peers.comm, r); });
    }
    void operator()(const AllToAll& op) const {
        const ExchangeCounts counts = exchange_counts(op, index(), size());
        const Layout to = layout(counts.to), from = layout(counts.from);
        const Footprint sizes = footprint(op, index(), size());
        float* sent = in(static_cast<std::size_t>(sizes.input));
        float* received = out(static_cast<std::size_t>(sizes.output));
        run([&](MPI_Request* r) {
            return MPI_Ialltoallv(sent, to.counts.data(), to.offsets.data(), MPI_FLOAT, received, from.counts.data(), from.offsets.data(),
                                  MPI_FLOAT, peers.comm, r);
        });
    }
    void operator()(const SendRecv& op) const {
        const std::size_t count = float_count(op.bytes);
        const auto messages = static_cast<std::size_t>(op.messages);
        float* values = peers.index == 0 ? in(count) : out(count);
        for (std::size_t message = 0; message < messages; ++message) {
            const Part part = part_of(count, message, messages);
            const int length = to_count(part.end - part.begin);
            run([&](MPI_Request* r) {
                if (peers.index == 0) return MPI_Isend(values + part.begin, length, MPI_FLOAT, 1, 0, peers.comm, r);
                return MPI_Irecv(values + part.begin, length, MPI_FLOAT, 0, 0, peers.comm, r);
            });
        }
    }
    void operator()(const Barrier&) const {
        run([&](MPI_Request* r) { return MPI_Ibarrier(peers.comm, r); });
    }
    template <typename Other>
    void operator()(const Other& op) const { throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op))); }
};

void MpiDevice::launch(TaskId task, const Op& op, std::span<const Place>, int) {
    if (const Peers* peers = peers_of_[task]; peers != nullptr) {
        std::visit(MpiCollective{*this, *peers}, op);
    } else if (const auto* fused = std::get_if<FusedGemm>(&op)) {
        rank_.compute(Gemm{fused->blocks * fused->rows_per_block, fused->n, fused->k, 1, fused->dtype});
    } else {
        rank_.compute(op);
    }
}

std::vector<std::vector<double>> MpiDevice::gather(int rank, std::vector<double> values) {
    const auto size = world_.ranks.size();
    const int count = to_count(values.size());
    std::vector<int> counts(size), offsets(size);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Igather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
    finish(request, world_.ranks);
    std::size_t sum = 0;
    for (std::size_t peer = 0; rank == 0 && peer < size; ++peer) {
        offsets[peer] = to_count(sum);
        sum += static_cast<std::size_t>(counts[peer]);
    }
    std::vector<double> joined(sum);
    check(MPI_Igatherv(values.data(), count, MPI_DOUBLE, joined.data(), counts.data(), offsets.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD, &request));
    finish(request, world_.ranks);
    std::vector<std::vector<double>> all;
    for (std::size_t peer = 0; rank == 0 && peer < size; ++peer)
        all.emplace_back(joined.begin() + offsets[peer], joined.begin() + offsets[peer] + counts[peer]);
    return all;
}

double MpiDevice::broadcast(int, double value) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request));
    finish(request, world_.ranks);
    return value;
}

}  // namespace

std::unique_ptr<Device> open_mpi_device() { return std::make_unique<MpiDevice>(); }

}  // namespace stepcast
