#include "exec/execute.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "exec/host_machine.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"

namespace stepcast {

bool Device::reports() const { return has(local_ranks(), 0); }

namespace {

// What the ranks of one run share. It is read-only except for `measurement`, which only rank 0
// writes, and the first failure.
struct Repetitions {
    const TaskGraph& graph;
    Device& device;
    const ExecuteOptions& options;
    std::vector<std::vector<TaskId>> tasks_of;  // by rank, in id order
    Measurement measurement;
    std::vector<Seconds> clock_errors;  // by sample
    Seconds first_sample;
    std::mutex failure_mutex;
    std::exception_ptr failure;
};

std::vector<std::vector<TaskId>> split_by_rank(const TaskGraph& graph) {
    std::vector<std::vector<TaskId>> tasks(as_index(graph.rank_count()));
    for (TaskId task = 0; task < graph.size(); ++task)
        for (const int rank : participants(graph.places(task)))
            tasks[as_index(rank)].push_back(task);
    return tasks;
}

void run_task(Repetitions& run, TaskId task, int rank) {
    try {
        for (const TaskId predecessor : run.graph.predecessors(task))
            run.device.wait(task, rank, predecessor);
        run.device.record(task, rank, Edge::start);
        run.device.launch(task, run.graph.op(task), rank);
        run.device.record(task, rank, Edge::finish);
    } catch (const DeviceError& error) {
        throw DeviceError(fmt::format("rank {}, task {} \"{}\" ({}): {}", rank, task,
                                      run.graph.name(task), kind_name(run.graph.op(task)),
                                      error.what()));
    }
}

// A rank's report of one step: when it began, its CPU share, the error of its clock, whether its
// process was asked to stop, and then start and finish of each of its tasks.
constexpr std::size_t report_head = 4;

std::vector<double> run_step(Repetitions& run, int rank) {
    const std::vector<TaskId>& tasks = run.tasks_of[as_index(rank)];
    std::vector<double> report;
    report.push_back(run.device.begin_step(rank).si());
    for (const TaskId task : tasks) run_task(run, task, rank);
    run.device.synchronize(rank);
    report.push_back(run.device.cpu_share(rank));
    report.push_back(run.device.clock_error(rank).si());
    report.push_back(run.options.stop_asked && run.options.stop_asked() ? 1 : 0);
    for (const TaskId task : tasks) {
        report.push_back(run.device.elapsed(task, rank, Edge::start).si());
        report.push_back(run.device.elapsed(task, rank, Edge::finish).si());
    }
    return report;
}

// Times count from the start of the earliest rank. A task on several ranks starts at the latest
// arrival, so that waiting does not count as transfer. A rank that may leave early (the root of a
// broadcast) starts no later than it finishes.
Trace trace_of(const Repetitions& run, const std::vector<std::vector<double>>& reports) {
    double zero = reports.front()[0];
    for (const std::vector<double>& report : reports) zero = std::min(zero, report[0]);
    std::vector<std::size_t> next(reports.size(), report_head);
    Trace trace{Trace::Origin::executed, {}};
    for (TaskId task = 0; task < run.graph.size(); ++task) {
        const std::vector<int> ranks = participants(run.graph.places(task));
        double arrival = 0;
        for (const int rank : ranks) {
            const auto at = as_index(rank);
            arrival = std::max(arrival, reports[at][next[at]] - zero);
        }
        for (const Place& place : run.graph.places(task)) {
            const auto at = as_index(place.rank());
            const double finish = reports[at][next[at] + 1] - zero;
            trace.spans.push_back(
                {task, place, Seconds(std::min(arrival, finish)), Seconds(finish)});
        }
        for (const int rank : ranks) next[as_index(rank)] += 2;
    }
    return trace;
}

std::vector<double> accepted_times(const Measurement& measurement) {
    std::vector<double> times;
    for (const MeasuredStep& step : measurement.steps)
        if (step.accepted) times.push_back(step.times.step.si());
    return times;
}

// Runs on rank 0: keeps a sample and returns whether another one follows.
bool keep_sample(Repetitions& run, const std::vector<std::vector<double>>& reports) {
    Measurement& measurement = run.measurement;
    MeasuredStep step;
    double clock_error = 0;
    for (const std::vector<double>& report : reports) {
        step.cpu_share = std::min(step.cpu_share, report[1]);
        clock_error = std::max(clock_error, report[2]);
    }
    run.clock_errors.emplace_back(2 * clock_error);  // the error between two ranks
    step.accepted = accepts(step.cpu_share);
    Trace trace = trace_of(run, reports);
    step.times = step_times(run.graph, trace);
    measurement.steps.push_back(step);
    measurement.traces.push_back(std::move(trace));
    if (run.options.on_step) run.options.on_step(measurement);
    const bool stop = std::any_of(reports.begin(), reports.end(),
                                  [](const auto& report) { return report[3] > 0; });
    if (stop) {
        measurement.warnings.emplace_back("ended by a signal before all samples were taken");
        return false;
    }
    const std::vector<double> times = accepted_times(measurement);
    const int taken = as_int(measurement.steps.size()), accepted = as_int(times.size());
    const int wanted = run.options.steps;
    if (run.options.progress)  // further ones replace those that were disturbed
        run.options.progress(taken <= wanted ? fmt::format("step {} of {}", taken, wanted)
                                             : fmt::format("step {}, {} of {} undisturbed", taken,
                                                           accepted, wanted));
    const Seconds spent = Seconds(reports[0][0]) - run.first_sample;
    const bool vague =
        wanted >= fewest_for_median && median_uncertainty(times) > run.options.median_width;
    return wants_another(wanted, {taken, accepted, vague, spent}, run.options.retry);
}

void drive_rank(Repetitions& run, int rank) {
    run.device.attach(rank);
    for (int step = 0; step < run.options.warmup; ++step) run_step(run, rank);
    bool more = run.options.steps > 0;
    for (bool first = true; more; first = false) {
        const std::vector<std::vector<double>> reports =
            run.device.gather(rank, run_step(run, rank));
        if (rank == 0 && first) run.first_sample = Seconds(reports[0][0]);
        const bool wanted = rank == 0 && keep_sample(run, reports);
        more = run.device.broadcast(rank, wanted ? 1 : 0) > 0;
    }
}

// Keeps only the first failure, because the others follow from it.
void drive_until_failure(Repetitions& run, int rank) noexcept {
    try {
        drive_rank(run, rank);
    } catch (...) {
        {
            const std::lock_guard lock(run.failure_mutex);
            if (!run.failure) run.failure = std::current_exception();
        }
        run.device.abort(rank);
    }
}

double relative_spread(const std::vector<double>& times) {
    double sum = 0, squares = 0;
    for (const double time : times) {
        sum += time;
        squares += time * time;
    }
    const auto count = real(times.size());
    const double mean = sum / count;
    return count > 1 ? std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean : 0.0;
}

void add_doubts(Measurement& measurement) {
    std::vector<double> shares;
    for (const MeasuredStep& step : measurement.steps) shares.push_back(step.cpu_share);
    const std::vector<std::string> busy = quiet_doubts(measurement.idle_share, shares);
    measurement.quiet = busy.empty();
    std::vector<std::string>& warnings = measurement.warnings;
    append(warnings, busy);
    const std::vector<double> times = accepted_times(measurement);
    if (times.empty())
        add_line(warnings, "no step of {} was undisturbed; medians are over all",
                 measurement.steps.size());
    else if (times.size() < fewest_for_median)
        add_line(warnings, "too few: {} undisturbed steps", times.size());
    constexpr double noisy = 0.10;
    if (const double spread = relative_spread(times); spread > noisy)
        add_line(warnings, "noisy: undisturbed steps spread by {:.0f} %", 100 * spread);
    constexpr double vague = 0.05;
    if (const double width = median_uncertainty(times);
        times.size() >= fewest_for_median && width > vague)
        add_line(warnings, "noisy: the median step is known to +- {:.0f} % only", 100 * width);
}

}  // namespace

ExecuteOptions execute_options(const Run& run) {
    ExecuteOptions options;
    options.steps = run.steps;
    options.warmup = run.warmup;
    options.timeout = run.timeout;
    // With a CUDA graph, the first step runs task by task, so that libraries set up what they need.
    // The second step is captured.
    constexpr int fewest = 2;
    if (run.cuda_graph && options.warmup < fewest)
        refuse(
            "execute: {} warm-up step{} with run.cuda_graph, where the first step runs "
            "task by task and the second "
            "is captured; expected at least {} (--warmup or run.warmup)",
            options.warmup, options.warmup == 1 ? "" : "s", fewest);
    return options;
}

ExecuteOptions sweep_options(int steps) {
    ExecuteOptions options;
    options.steps = steps > 0 ? steps : 11;
    options.warmup = 1;
    options.check_idle = false;
    options.retry = {5, Seconds(2)};
    options.median_width = 1;
    return options;
}

Measurement execute(const TaskGraph& graph, Device& device, const ExecuteOptions& options) {
    Repetitions run{graph, device, options, split_by_rank(graph), {}, {}, {}, {}, {}};
    Measurement& measurement = run.measurement;
    measurement.device = device.description();
    measurement.versions = device.versions();
    measurement.date = current_date();
    measurement.warmup = options.warmup;
    if (options.check_idle) measurement.idle_share = idle_share(Seconds(1));
    measurement.warnings = device.prepare(graph, options.timeout);

    {  // the block joins the threads at its end, even if a later thread cannot be started
        std::vector<std::jthread> threads;
        for (const int rank : device.local_ranks())
            threads.emplace_back(drive_until_failure, std::ref(run), rank);
    }
    if (run.failure) std::rethrow_exception(run.failure);
    if (!device.reports()) return std::move(run.measurement);

    // Clocks of processes, and of a GPU and its host, are aligned once a step; after that their
    // oscillators drift apart.
    constexpr Seconds clock_error(1e-4);
    constexpr double clock_drift = 1e-4;
    for (const std::size_t i : indices_of(measurement.traces)) {
        const Trace& trace = measurement.traces[i];
        check_trace(graph, trace,
                    clock_error + run.clock_errors[i] + clock_drift * step_end(trace));
    }
    measurement.kernels = device.kernels();
    add_doubts(measurement);
    for (std::string& doubt : device.doubts()) measurement.warnings.push_back(std::move(doubt));
    return std::move(run.measurement);
}

}  // namespace stepcast
