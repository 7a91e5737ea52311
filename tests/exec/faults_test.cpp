#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "exec/execute.h"
#include "exec/host_device.h"
#include "model/base/errors.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// The host device with one rank that fails or hangs in one launch.
class FaultyDevice final : public Device {
public:
    enum class Fault { fail, hang };
    FaultyDevice(int rank, int launch, Fault fault)
        : faulty_rank_(rank), faulty_launch_(launch), fault_(fault) {}

    [[nodiscard]] std::string description() const override { return host_->description(); }
    [[nodiscard]] std::vector<std::string> versions() const override { return host_->versions(); }
    [[nodiscard]] int rank_count() const override { return host_->rank_count(); }
    [[nodiscard]] std::vector<int> local_ranks() const override { return host_->local_ranks(); }
    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override {
        return host_->prepare(graph, timeout);
    }
    void attach(int rank) override { host_->attach(rank); }
    Seconds begin_step(int rank) override { return host_->begin_step(rank); }
    void wait(TaskId task, int rank, TaskId predecessor) override {
        host_->wait(task, rank, predecessor);
    }
    void launch(TaskId task, const Op& op, int rank) override {
        if (rank == faulty_rank_ && ++launches_ == faulty_launch_) {
            if (fault_ == Fault::fail) throw DeviceError("out of order");
            while (!aborted_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        host_->launch(task, op, rank);
    }
    void record(TaskId task, int rank, Edge edge) override { host_->record(task, rank, edge); }
    void synchronize(int rank) override { host_->synchronize(rank); }
    [[nodiscard]] Seconds elapsed(TaskId task, int rank, Edge edge) const override {
        return host_->elapsed(task, rank, edge);
    }
    [[nodiscard]] std::vector<std::string> kernels() const override { return host_->kernels(); }
    [[nodiscard]] double cpu_share(int rank) const override { return host_->cpu_share(rank); }
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override {
        return host_->gather(rank, std::move(values));
    }
    double broadcast(int rank, double value) override { return host_->broadcast(rank, value); }
    void abort(int failed) noexcept override {
        host_->abort(failed);
        aborted_ = true;
    }

private:
    std::unique_ptr<Device> host_ = open_host_device(2);
    int faulty_rank_, faulty_launch_, launches_ = 0;
    Fault fault_;
    std::atomic<bool> aborted_ = false;
};

// Per rank and step: a memory pass and an exchange, so launch 2 s + 1 of a rank is its pass of step
// s.
TaskGraph pass_and_exchange() {
    TaskGraph graph(2, true);
    const TaskId zero =
        graph.add("pass", Phase::forward, MemoryPass{64_B, 64_B}, {Place(0, Lane::compute)}, {});
    const TaskId one =
        graph.add("pass", Phase::forward, MemoryPass{64_B, 64_B}, {Place(1, Lane::compute)}, {});
    graph.add("exchange", Phase::forward, AllReduce{64_B},
              {Place(0, Lane::collective), Place(1, Lane::collective)}, {zero, one});
    return graph;
}

std::string failure_of(Device& device, Seconds timeout, std::size_t& finished) {
    ExecuteOptions options;
    options.steps = 5;
    options.warmup = 0;
    options.check_idle = false;
    options.timeout = timeout;
    options.on_step = [&](const Measurement& measurement) { finished = measurement.steps.size(); };
    const TaskGraph graph = pass_and_exchange();
    try {
        execute(graph, device, options);
    } catch (const DeviceError& error) {
        return error.what();
    }
    return "no failure";
}

}  // namespace

TEST_CASE(
    "a rank that fails ends the run with its number and task, and the finished samples have been "
    "handed out") {
    FaultyDevice device(1, 5, FaultyDevice::Fault::fail);  // the pass of the third step
    std::size_t finished = 0;
    CHECK(failure_of(device, Seconds(60), finished) ==
          "rank 1, task 1 \"pass\" (memory_pass): out of order");
    CHECK(finished == 2);
}

// Three seconds: on a busy machine the two steps before took more than one.
TEST_CASE(
    "a rank that does not come to a collective ends the run after the timeout, and is named") {
    FaultyDevice device(1, 6, FaultyDevice::Fault::hang);  // the exchange of the third step
    std::size_t finished = 0;
    CHECK(failure_of(device, Seconds(3), finished) ==
          "rank 0, task 2 \"exchange\" (all_reduce): rank 1 did not arrive within 3 s");
    CHECK(finished == 2);
}
