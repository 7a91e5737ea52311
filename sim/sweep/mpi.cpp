// A search over the processes of MPI.
#include "sim/sweep/pool.h"

#include <mpi.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "model/base/errors.h"
#include "model/base/launcher.h"
#include "model/base/numbers.h"
#include "sim/sweep/records.h"

namespace stepcast {
namespace {

// Kinds of messages. A job and its result have the job's number in the first line; records follow.
enum Tag : int { ready_tag = 1, job_tag, result_tag, failed_tag, stop_tag };

// between looks for messages, so that the core is free for work
constexpr auto pause = std::chrono::microseconds(100);

void check(int code) {
    if (code != MPI_SUCCESS)
        throw DeviceError("sweep: MPI failed with code " + std::to_string(code));
}

void start_mpi() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    if (provided < MPI_THREAD_FUNNELED)
        throw DeviceError("sweep: this MPI cannot run with threads");
    int processes = 0;
    check(MPI_Comm_size(MPI_COMM_WORLD, &processes));
    if (processes == mpi_processes()) return;
    MPI_Finalize();
    throw DeviceError("environment: says that " + std::to_string(mpi_processes()) +
                      " processes were started, but MPI finds " + std::to_string(processes) +
                      "; unset what another launcher left (OMPI_COMM_WORLD_SIZE, PMI_SIZE, "
                      "SLURM_STEP_NUM_TASKS)");
}

void send(int to, Tag tag, const std::string& text) {
    if (text.size() > 2'000'000'000) throw DeviceError("sweep: a message is too long for MPI");
    check(MPI_Send(text.data(), as_int(text.size()), MPI_CHAR, to, tag, MPI_COMM_WORLD));
}

struct Message {
    int from = 0, tag = 0;
    std::string text;
    [[nodiscard]] std::size_t job() const { return std::stoull(text); }
    [[nodiscard]] std::string_view records() const {
        return std::string_view(text).substr(text.find('\n') + 1);
    }
};
std::optional<Message> receive(int from) {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status));
    if (there == 0) return std::nullopt;
    int count = 0;
    check(MPI_Get_count(&status, MPI_CHAR, &count));
    Message message{status.MPI_SOURCE, status.MPI_TAG, std::string(as_index(count), '\0')};
    check(MPI_Recv(message.text.data(), count, MPI_CHAR, message.from, message.tag, MPI_COMM_WORLD,
                   &status));
    return message;
}

std::string numbered(std::size_t job, const std::string& records) {
    return std::to_string(job) + "\n" + records;
}

// The first process: its main thread hands out jobs, and a second thread works on them.
class MpiPool {
public:
    MpiPool(const SweepSpace& space, const SweepQuestion& question)
        : worker_(space, question, std::make_shared<SweepCommons>()) {
        start_mpi();
    }
    MpiPool(const MpiPool&) = delete;
    MpiPool& operator=(const MpiPool&) = delete;
    // After a failure the other processes may be anywhere. Without MPI_Finalize the launcher ends
    // them.
    ~MpiPool() {
        if (failed_) return;
        for (int helper = 1; helper < mpi_processes(); ++helper)
            MPI_Send("", 0, MPI_CHAR, helper, stop_tag, MPI_COMM_WORLD);
        MPI_Finalize();
    }

    std::vector<SweepJobResult> run(std::span<const SweepJob> jobs,
                                    const std::function<void(const SweepJobResult&)>& on_done) {
        failed_ = true;  // until it gets to the end
        SweepJobs taken(jobs, on_done);
        std::future<void> own = std::async(std::launch::async, [&] { taken.work(worker_); });
        try {
            while (taken.done() < jobs.size() || own.valid()) {
                const bool heard = hand_out_and_take_in(taken, jobs);
                if (own.valid() &&
                    own.wait_for(heard ? pause.zero() : pause) == std::future_status::ready)
                    own.get();  // throws what stopped it
                else if (!own.valid() && !heard)
                    std::this_thread::sleep_for(pause);
            }
        } catch (...) {
            taken.stop();  // so that the worker thread ends after its current job
            throw;
        }
        failed_ = false;
        return taken.results();
    }

private:
    // Returns whether there was a message.
    bool hand_out_and_take_in(SweepJobs& taken, std::span<const SweepJob> jobs) {
        while (!idle_.empty()) {
            const auto job = taken.take();
            if (!job) break;
            send(idle_.back(), job_tag, numbered(*job, records_of(jobs[*job])));
            idle_.pop_back();
        }
        const auto message = receive(MPI_ANY_SOURCE);
        if (!message) return false;
        idle_.push_back(message->from);
        if (message->tag == failed_tag)
            throw std::runtime_error("process " + std::to_string(message->from) +
                                     " of the sweep: " + message->text);
        if (message->tag == result_tag) taken.finish(message->job(), result_of(message->records()));
        return true;
    }

    SweepWorker worker_;
    std::vector<int> idle_;
    bool failed_ = false;
};

}  // namespace

std::string mpi_library() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "of an unknown version";
    const std::string whole(text);
    return whole.substr(0, whole.find_first_of(",\n"));
}

RunJobs open_mpi_team(const SweepSpace& space, const SweepQuestion& question) {
    const auto pool = std::make_shared<MpiPool>(space, question);
    return [pool](std::span<const SweepJob> jobs,
                  const std::function<void(const SweepJobResult&)>& on_done) {
        return pool->run(jobs, on_done);
    };
}

void help_mpi_team(const SweepSpace& space, const SweepQuestion& question) {
    start_mpi();
    SweepWorker worker(space, question, std::make_shared<SweepCommons>());
    send(0, ready_tag, "");
    while (true) {
        const auto message = receive(0);
        if (!message) {
            std::this_thread::sleep_for(pause);
            continue;
        }
        if (message->tag == stop_tag) break;
        try {
            send(0, result_tag,
                 numbered(message->job(), records_of(worker.run(job_of(message->records())))));
        } catch (const std::exception& error) {
            send(0, failed_tag, error.what());
        }
    }
    MPI_Finalize();
}

}  // namespace stepcast
