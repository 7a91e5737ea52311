// injected_faults CLUSTER.toml [RUNS [SEED [FAULT]]]: calibrates this host into CLUSTER.toml,
// executes small experiments with a fault in each, and prints what diagnose says of them: one line
// a run, then a table of how often it is right; with FAULT only that fault is drawn.
// scripts/host-faults.sh runs it. A busy machine adds faults of its own: the same experiment runs
// without a fault before and after each run, and where one of these is a tenth slower or faster
// than its forecast the run is thrown away and drawn again; so is one in which others had more
// than a fiftieth of the machine, by the kernel's own account. After three of these in a row the
// host is calibrated again, since what a shared core reaches drifts by a tenth in minutes.
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "calibrate/host_fit.h"
#include "calibrate/host_sweep.h"
#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/host_machine.h"
#include "measured/medians.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/whole_files.h"
#include "model/machine/cluster_file.h"
#include "model/records/measurements.h"
#include "model/step.h"
#include "sim/engine/simulate.h"
#include "sim/sweep/point_evaluator.h"
#include "sim/why/diagnose.h"

namespace {

using namespace stepcast;
using Random = std::mt19937_64;

// slow_rank: rank 1's kernels take `severity` times as long. late_data: in every third step all
// ranks wait `severity` steps first. slow_link: what ranks exchange takes `severity` times as long
// as forecast. recompute: the run does it, the stated experiment does not. small_buckets: the run
// reduces each bucket of gradients in `severity` pieces. slow_launches: every launch waits
// `severity` times 10 us. one_core: both ranks share a core.
enum class Kind {
    none,
    slow_rank,
    late_data,
    slow_link,
    recompute,
    small_buckets,
    slow_launches,
    one_core
};
struct FaultKind {
    Kind kind;
    std::string_view name;   // for people
    std::string_view cause;  // of model/presets/causes.toml
    double least, most;      // severity
};
constexpr FaultKind kinds[] = {
    {Kind::none, "(no fault)", "", 1, 1},
    {Kind::slow_rank, "one slow rank", "one slow rank", 1.3, 3},
    {Kind::late_data, "every third step waits", "waits for data", 0.4, 2},
    {Kind::slow_link, "slow exchanges", "links inside the node", 10, 40},
    {Kind::recompute, "recompute", "recompute is on", 1, 1},
    {Kind::small_buckets, "small buckets", "gradients in small pieces", 1024, 4096},
    {Kind::slow_launches, "slow launches", "launches that wait", 5, 50},
    {Kind::one_core, "one core of two", "shared devices", 1, 1},
};

void spin(Seconds time) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(time.si());
    while (std::chrono::steady_clock::now() < until) {
    }
}

// The host with a fault. Everything else is the device's own.
class FaultyDevice : public Device {
public:
    FaultyDevice(Device& device, const FaultKind& fault, double severity, Seconds step,
                 Costs forecast)
        : device_(&device),
          kind_(fault.kind),
          severity_(severity),
          step_(step),
          forecast_(std::move(forecast)),
          steps_(static_cast<std::size_t>(device.rank_count())) {}

    void attach(int rank) override {
        device_->attach(rank);
        if (kind_ != Kind::one_core) return;
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(0, &first);
        pthread_setaffinity_np(pthread_self(), sizeof first, &first);
    }
    Seconds begin_step(int rank) override {
        const Seconds begun = device_->begin_step(rank);
        if (kind_ == Kind::late_data && steps_[static_cast<std::size_t>(rank)]++ % 3 == 2)
            std::this_thread::sleep_for(std::chrono::duration<double>((severity_ * step_).si()));
        return begun;
    }
    void launch(TaskId task, const Op& op, int rank) override {
        const auto begun = std::chrono::steady_clock::now();
        device_->launch(task, op, rank);
        const bool moves = is_collective(op);
        if (kind_ == Kind::slow_link && moves) spin((severity_ - 1) * forecast_.duration[task]);
        if (kind_ == Kind::slow_rank && rank == 1 && !moves)
            spin((severity_ - 1) *
                 Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
                             .count()));
    }

    [[nodiscard]] std::string description() const override { return device_->description(); }
    [[nodiscard]] std::vector<std::string> versions() const override { return device_->versions(); }
    [[nodiscard]] int rank_count() const override { return device_->rank_count(); }
    [[nodiscard]] std::vector<int> local_ranks() const override { return device_->local_ranks(); }
    std::vector<std::string> prepare(const TaskGraph& graph, Seconds timeout) override {
        return device_->prepare(graph, timeout);
    }
    void wait(TaskId task, int rank, TaskId before) override { device_->wait(task, rank, before); }
    void record(TaskId task, int rank, Edge edge) override {
        if (kind_ == Kind::slow_launches && edge == Edge::start) spin(severity_ * Seconds(10e-6));
        device_->record(task, rank, edge);
    }
    void synchronize(int rank) override { device_->synchronize(rank); }
    [[nodiscard]] Seconds elapsed(TaskId task, int rank, Edge edge) const override {
        return device_->elapsed(task, rank, edge);
    }
    [[nodiscard]] double cpu_share(int rank) const override { return device_->cpu_share(rank); }
    [[nodiscard]] std::vector<std::string> kernels() const override { return device_->kernels(); }
    std::vector<std::vector<double>> gather(int rank, std::vector<double> values) override {
        return device_->gather(rank, std::move(values));
    }
    double broadcast(int rank, double value) override { return device_->broadcast(rank, value); }
    void abort(int failed) noexcept override { device_->abort(failed); }

private:
    Device* device_;
    Kind kind_;
    double severity_;
    Seconds step_;
    Costs forecast_;
    std::vector<int> steps_;  // begun by each rank
};

constexpr int rank_count = 2;  // of each experiment below

struct Subject {
    std::string name;
    Experiment experiment;
    TriedCauses tried;
};

// The host as stepcast calibrate --device host measures it; at most three tries, until no sweep was
// disturbed.
void calibrate_into(const std::string& file, Device& device) {
    constexpr int tries = 3;
    for (int i = 0; i < tries; ++i) {
        std::vector<SweepResult> results;
        for (TaskGraph& graph : host_sweeps(rank_count)) {
            Measurement measured = execute(graph, device, sweep_options(0));
            results.push_back({std::move(graph), std::move(measured)});
        }
        write_whole({{file, write_cluster(fit_host(results, processor_name(),
                                                   available_memory() / rank_count))}});
        if (busy_warning(results).empty()) return;
    }
}

std::vector<Subject> subjects_of(const std::string& cluster) {
    std::vector<Subject> subjects;
    for (const char* name : {"host_ddp", "host_pipeline", "host_moe", "host_zero1", "host_block"}) {
        const Experiment e =
            read_experiment(name, std::vector<Override>{{"cluster.preset", cluster}});
        subjects.push_back({name, e, try_causes(e, read_causes())});
    }
    return subjects;
}

// What costs less than a tenth is within what forecasts of sound runs are off, and is not judged.
constexpr double least_cost = 1.1;

// The experiment as it is executed, where the fault is one of its keys.
Experiment with_fault(Experiment e, const FaultKind& fault, double severity) {
    if (fault.kind == Kind::recompute) set_key(e, {"parallelism.recompute", "full"});
    if (fault.kind == Kind::small_buckets)
        set_key(e, {"runtime.gradients.pieces", fmt::format("{:.0f}", severity)});
    return e;
}

// Whether the experiment can be so: its layers recompute, its ranks reduce gradients, and are
// forecast to lose a tenth by it (host_zero1's gradients are few).
bool can_have(const Subject& subject, const FaultKind& fault, double severity) {
    const Experiment& e = subject.experiment;
    const bool transformer = e.workload.kind == Workload::Kind::transformer;
    if (fault.kind == Kind::recompute) return transformer;
    if (fault.kind == Kind::small_buckets)
        return e.parallelism.dp > 1 && (transformer || e.workload.kind == Workload::Kind::mlp) &&
               simulated_step(with_fault(e, fault, severity)) >=
                   least_cost * subject.tried.forecast.p50;
    return true;
}

// What each rank computes in a step: the mean sum of its kernels.
std::vector<double> rank_times(const TaskGraph& graph, const Measurement& run) {
    std::vector<double> times(static_cast<std::size_t>(graph.rank_count()));
    const auto steps = static_cast<double>(run.traces.size());
    for (const Trace& trace : run.traces)
        for (const Span& s : trace.spans)
            if (!is_collective(graph.op(s.task)))
                times[static_cast<std::size_t>(s.place.rank())] +=
                    (s.finish - s.start).si() / steps;
    return times;
}

// The longest stretch of a step in which rank 0 does nothing, over the step: the median.
double idle_of(const Measurement& run) {
    std::vector<double> longest;
    for (std::size_t i = 0; i < run.traces.size(); ++i) {
        std::vector<BusySpan> spans;
        for (const Span& s : run.traces[i].spans)
            if (s.place.rank() == 0) spans.emplace_back(s.start, s.finish);
        longest.push_back(longest_idle(std::move(spans), Seconds(0), run.steps[i].times.step));
    }
    return median(longest);
}

Observed observed_of(const TaskGraph& graph, const Measurement& run) {
    Observed seen{.name = "run", .step = {}};
    Seconds sum;
    for (const MeasuredStep& step : run.steps) {
        seen.steps.push_back(step.times.step);
        sum += step.times.step;
    }
    seen.step = sum / static_cast<double>(run.steps.size());
    const StepTimes times = median_times(run);
    seen.forward = times.forward;
    seen.backward = times.backward;
    seen.gradient_sync = times.gradient_sync;
    seen.optimizer = times.optimizer;
    seen.rank_times = rank_times(graph, run);
    seen.idle = idle_of(run);
    std::vector<double> shares;
    for (const MeasuredStep& step : run.steps) shares.push_back(step.cpu_share);
    seen.device_share = median(shares);
    return seen;
}

ExecuteOptions options_of(int steps) {
    ExecuteOptions how;
    how.steps = steps;
    how.check_idle = false;
    how.median_width = 1;
    how.retry.extra_steps = 0;
    return how;
}

// What nccl-tests does on GPUs: an all-reduce of 16 MiB, over its forecast.
MeasuredLink link_of(const Cluster& cluster, Device& host, const FaultKind& fault,
                     double severity) {
    TaskGraph graph(rank_count, true);
    const auto both = {Place(0, Lane::collective), Place(1, Lane::collective)};
    graph.add("all_reduce", Phase::gradient_sync, AllReduce{Bytes(1 << 24)}, both, {});
    const Costs costs = price(graph, cluster);
    FaultyDevice device(host, fault, severity, Seconds(0), costs);
    const Measurement run = execute(graph, device, options_of(9));
    return {.between_nodes = false, .slower = median_times(run).step / costs.duration[0]};
}

struct Judged {
    Observed seen;
    Diagnosis diagnosis;
};

Judged run_with(const Subject& subject, Device& host, const FaultKind& fault, double severity) {
    const Experiment e = with_fault(subject.experiment, fault, severity);
    const TaskGraph graph = build_step(e, routing_of(e), Folding::never);
    FaultyDevice device(host, fault, severity, subject.tried.forecast.p50, price(graph, e.cluster));
    Observed seen = observed_of(graph, execute(graph, device, options_of(18)));
    seen.links = {link_of(e.cluster, host, fault, severity)};
    return {seen, diagnose(subject.tried, seen)};
}

struct Tally {
    int runs = 0, small = 0, first = 0, two = 0;
    std::map<std::string, int> taken_for;
};

// What the ranks compute in a step, over their forecast.
double kernels_of(const Subject& subject, const Observed& seen) {
    std::vector<double> shares;
    for (std::size_t r = 0; r < seen.rank_times.size(); ++r)
        shares.push_back(seen.rank_times[r] / subject.tried.rank_times[r]);
    return median(std::move(shares));
}

void count(Tally& tally, const FaultKind& fault, const Diagnosis& d) {
    const bool nothing = d.verdict == Diagnosis::Verdict::nothing_wrong;
    const auto name = [&](std::size_t i) {
        return !nothing && i < d.causes.size() ? d.causes[i].name : std::string("nothing");
    };
    const bool none = fault.kind == Kind::none;
    if (!none && d.measured < least_cost * d.forecast.p50) {
        ++tally.small;
        return;
    }
    const bool first = none ? nothing : name(0) == fault.cause;
    ++tally.runs;
    tally.first += first;
    tally.two += first || (!none && name(1) == fault.cause);
    if (!first) ++tally.taken_for[name(0)];
}

// CPU time since the machine and the program began, in seconds of one core: of everybody, with what
// a hypervisor keeps from this machine (proc(5), stat), and of this program.
struct CpuTime {
    double machine, own;
};

CpuTime cpu_time() {
    std::ifstream in("/proc/stat");
    std::string all;
    double user = 0, nice = 0, system = 0, idle = 0, waits = 0, irq = 0, soft = 0, stolen = 0;
    in >> all >> user >> nice >> system >> idle >> waits >> irq >> soft >> stolen;
    if (!in) throw ConfigError("/proc/stat: expected the machine's CPU times in its first line");
    rusage mine{};
    getrusage(RUSAGE_SELF, &mine);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return {
        (user + nice + system + irq + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK)),
        seconds(mine.ru_utime) + seconds(mine.ru_stime)};
}

// The share of the machine's cores that others had while `run` went.
template <typename Run>
double others_share(Run run) {
    const auto begun = std::chrono::steady_clock::now();
    const CpuTime before = cpu_time();
    run();
    const CpuTime after = cpu_time();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;
    return (after.machine - before.machine - (after.own - before.own)) /
           (wall.count() * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
}

// What others may have of it: a tick of a core in a run of a second is half a percent.
constexpr double most_of_others = 0.02;

// The step that the machine does now without a fault, over its forecast.
double sound_step(const Subject& subject, Device& host) {
    const TaskGraph graph =
        build_step(subject.experiment, routing_of(subject.experiment), Folding::never);
    FaultyDevice device(host, kinds[0], 1, subject.tried.forecast.p50,
                        price(graph, subject.experiment.cluster));
    return median_times(execute(graph, device, options_of(6))).step / subject.tried.forecast.p50;
}

// What the machine did round a run, and what of it is of the machine and not of the run.
struct Surroundings {
    double before, others, after;

    [[nodiscard]] bool are_quiet() const {
        const auto sound = [](double step) { return step < least_cost && step > 1 / least_cost; };
        return sound(before) && sound(after) && others < most_of_others;
    }
};

int run_all(const std::string& cluster, int runs, unsigned seed, std::string_view only) {
    if (!only.empty() && std::ranges::find(kinds, only, &FaultKind::name) == std::end(kinds))
        throw ConfigError(
            fmt::format("injected_faults: no fault \"{}\"; expected one of a table's "
                        "first column, as \"{}\"",
                        only, kinds[1].name));
    Random random(seed);
    const auto host = open_host_device(rank_count);  // keeps its memory
    calibrate_into(cluster, *host);
    std::vector<Subject> subjects = subjects_of(cluster);
    std::map<std::string, Tally> tallies;
    int disturbed = 0, in_a_row = 0, calibrations = 1;
    for (int i = 0; i < runs; ++i) {
        const Subject& subject = subjects[random() % subjects.size()];
        const FaultKind& fault = kinds[random() % std::size(kinds)];
        const double severity =
            std::uniform_real_distribution<double>(fault.least, fault.most)(random);
        if ((!only.empty() && only != fault.name) || !can_have(subject, fault, severity)) {
            --i;
            continue;
        }
        Judged judged;
        Surroundings round;
        round.before = sound_step(subject, *host);
        round.others = others_share([&] { judged = run_with(subject, *host, fault, severity); });
        round.after = sound_step(subject, *host);
        const auto& [seen, d] = judged;
        if (!round.are_quiet()) {
            std::cerr << fmt::format(
                "disturbed: {}: {:.2f} of the forecast before, {:.2f} after, "
                "others {:.3f}\n",
                subject.name, round.before, round.after, round.others);
            if (++disturbed > 3 * runs)
                throw ConfigError(
                    fmt::format("injected_faults: {} of {} runs were disturbed; "
                                "expected a quiet machine",
                                disturbed, disturbed + i));
            --i;
            if (++in_a_row < 3) continue;
            in_a_row = 0;
            ++calibrations;
            calibrate_into(cluster, *host);
            subjects = subjects_of(cluster);
            continue;
        }
        in_a_row = 0;
        count(tallies[std::string(fault.name)], fault, d);
        std::cout << fmt::format("{},{},{:.2f},{:.4f},{:.4f}", subject.name, fault.name, severity,
                                 d.measured.si(), d.forecast.p50.si());
        for (std::size_t c = 0; c < 2 && c < d.causes.size(); ++c)
            std::cout << fmt::format(",{} {:.2f}", d.causes[c].name, d.causes[c].probability);
        std::cout << fmt::format(",nothing {:.2f} {:.2f}", d.probability_of_nothing,
                                 d.probability_of_no_pattern)
                  << fmt::format(",link {:.2f} share {:.2f} idle {:.2f} kernels {:.2f}\n",
                                 seen.links.front().slower, *seen.device_share, *seen.idle,
                                 kernels_of(subject, seen))
                  << std::flush;
    }
    std::cout << fmt::format("\n{} more runs were disturbed, {} calibrations\n", disturbed,
                             calibrations);
    std::cout
        << "\n| injected | runs | first | first two | below a tenth | most often taken for |\n"
           "|---|---:|---:|---:|---:|---|\n";
    for (const auto& [name, t] : tallies) {
        const auto wrong =
            std::ranges::max_element(t.taken_for, {}, [](const auto& w) { return w.second; });
        std::cout << fmt::format(
            "| {} | {} | {:.0f} % | {:.0f} % | {} | {} |\n", name, t.runs, 100.0 * t.first / t.runs,
            100.0 * t.two / t.runs, t.small,
            wrong == t.taken_for.end() ? "" : fmt::format("{} ({})", wrong->first, wrong->second));
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::cerr << "usage: injected_faults CLUSTER.toml [RUNS [SEED [FAULT]]]\n";
        return 1;
    }
    try {
        return run_all(argv[1], argc > 2 ? std::atoi(argv[2]) : 20,
                       argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1,
                       argc > 4 ? argv[4] : "");
    } catch (const ConfigError& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
