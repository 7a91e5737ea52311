// Started by mpirun as two processes: the collectives' results, then a whole graph. Exit code 0
// when all is right.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>

#include "exec/execute.h"
#include "exec/host_device.h"
#include "exec/mpi_group.h"
#include "exec/mpi_ops.h"
#include "tests/exec/all_ops.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

using Floats = std::vector<float>;

void expect(const char* what, const Floats& found, const Floats& expected) {
    if (found == expected) return;
    std::fprintf(stderr, "%s: wrong values\n", what);
    std::exit(1);
}

// Rank r holds r + 1 in the sums; rows of the exchange are tagged 10 (source) + row.
void check_collectives(const MpiGroup& world) {
    const auto rank = static_cast<float>(world.index);
    const bool first = world.index == 0;
    Floats in(3, rank + 1), out(3), none;
    communicate(world, AllReduce{12_B}, {{in}, {out}});
    expect("all_reduce", out, {3, 3, 3});

    Floats part(first ? 1 : 2), all(3);  // 3 elements over 2 ranks: [0, 1), [1, 3)
    communicate(world, ReduceScatter{12_B}, {{in}, {part}});
    expect("reduce_scatter", part, Floats(part.size(), 3));
    std::iota(part.begin(), part.end(), 10 * rank);
    communicate(world, AllGather{12_B}, {{part}, {all}});
    expect("all_gather", all, {0, 10, 11});

    Floats copy(2, first ? 7 : 8);
    communicate(world, Broadcast{8_B, 1}, {{first ? none : copy}, {first ? copy : none}});
    expect("broadcast", copy, {8, 8});
    Floats sum(2, -1);
    communicate(world, Reduce{8_B, 1}, {{copy}, {sum}});
    expect("reduce", sum, first ? Floats{-1, -1} : Floats{16, 16});

    // Rank 0 sends 2 rows, rank 1 sends 3.
    Floats rows(first ? 2 : 3), received(first ? 3 : 2);
    std::iota(rows.begin(), rows.end(), 10 * rank);
    communicate(world, AllToAll{{0_B, 8_B, 12_B, 0_B}}, {{rows}, {received}});
    expect("all_to_all", received, first ? Floats{10, 11, 12} : Floats{0, 1});

    Floats message = first ? Floats{1, 2, 3, 4, 5} : Floats(5);
    communicate(world, SendRecv{20_B, 2}, {{first ? message : none}, {first ? none : message}});
    expect("send_receive", message, {1, 2, 3, 4, 5});
}

// Rank r shows 8 floats, 10 r + 0 .. 7. An offset past the last place for two floats starts again:
// 9 mod 7 = 2.
void check_windows(const MpiGroup& world) {
    const bool first = world.index == 0;
    const int peer = first ? 1 : 0;
    Floats shown(8), landed(4, -1), rows(2);
    std::iota(shown.begin(), shown.end(), first ? 0.0f : 10.0f);
    MpiWindow source(world, shown), target(world, landed);
    source.fetch(world, peer, 9, rows);
    expect("fetch", rows, first ? Floats{12, 13} : Floats{2, 3});
    target.deliver(peer, 2 * world.index, rows);
    meet(world);
    expect("deliver", landed, first ? Floats{-1, -1, 2, 3} : Floats{12, 13, -1, -1});
    meet(world);
    source.close();
    target.close();
}

ExecuteOptions options() {
    ExecuteOptions options;
    options.steps = 3;
    options.warmup = 1;
    options.check_idle = false;
    options.retry.extra_steps = 0;
    options.timeout = Seconds(30);
    return options;
}

}  // namespace

// With "--lost": rank 1 stays away, and rank 0 must say so.
int main(int count, char** arguments) {
    const std::unique_ptr<Device> device = open_host_device(2);
    const FailedRank failed{-1};
    const bool lost = count > 1 && std::string(arguments[1]) == "--lost";
    MpiGroup world{MPI_COMM_WORLD,
                   static_cast<std::size_t>(device->local_ranks().front()),
                   {0, 1},
                   {Seconds(lost ? 1 : 30), false},
                   &failed};
    if (lost) {
        try {
            // mpirun ends it before
            if (world.index == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
            meet(world);
        } catch (const std::exception& error) {
            std::printf("%s\n", error.what());
        }
        std::fflush(stdout);
        std::_Exit(0);
    }
    check_collectives(world);
    check_windows(world);
    const TaskGraph graph = all_ops(3);
    const Measurement measurement = execute(graph, *device, options());
    if (!device->reports()) return 0;
    for (const Trace& trace : measurement.traces) check_trace(graph, trace, Seconds(1e-4));
    std::printf("%s: %zu steps\n", measurement.device.c_str(), measurement.steps.size());
    return measurement.steps.size() == 3 ? 0 : 1;
}
