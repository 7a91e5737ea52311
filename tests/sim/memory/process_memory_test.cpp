#include "sim/memory/process_memory.h"

#include <map>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/machine/allocator_settings.h"
#include "model/machine/libraries.h"
#include "sim/memory/allocator_forecast.h"

using namespace stepcast;

namespace {

Experiment llama_on_eight(const std::vector<Override>& more = {}) {
    std::vector<Override> keys{{"cluster.preset", "dgx-h100"},
                               {"parallelism.global_batch", "64"},
                               {"parallelism.zero", "1"}};
    keys.insert(keys.end(), more.begin(), more.end());
    return read_experiment("llama3-8b", keys);
}

std::map<std::string, double> mebibytes_of(const Experiment& e) {
    std::map<std::string, double> parts;
    for_process_parts(e, rank_groups(e), [&](std::string_view what, Bytes bytes) {
        parts[std::string(what)] = bytes.si() / mebibyte;
    });
    return parts;
}

}  // namespace

// 512 KiB of LL, 4,800 KiB of LL128 and 4 MiB of Simple are 9.1875 MiB, which take 10 in whole ones
// of 2 MiB, and a sender one of 2. Eight H100: 24 channels, ring and tree, 576 MiB; the switch
// reduces on 16 channels, out and back, 1 MiB for each of 8 ranks: 256 MiB.
TEST_CASE("a communicator within a node holds a connection a channel for ring and tree") {
    const auto parts =
        mebibytes_of(llama_on_eight({{"cluster.gpus", "8"}, {"parallelism.tp", "8"}}));
    CHECK(parts.size() == 2);
    CHECK(parts.at("tensor parallelism") == 576 + 256);
    CHECK(parts.at("context") == Approx(0.95 * 1024));
    // too few ranks for the switch
    CHECK(mebibytes_of(
              llama_on_eight(
                  {{"cluster.gpus", "4"}, {"cluster.gpus_per_node", "4"}, {"parallelism.tp", "4"}}))
              .at("tensor parallelism") == 576);
}

// Two channels of a rank's NIC; each end holds LL128 and Simple, 8.6875 MiB, and the receiver LL:
// 17.875. Zero 1 scatters and gathers, but this version connects trees too: 2 x 2 x 17.875.
TEST_CASE("between nodes both ends of a connection hold buffers") {
    const auto parts =
        mebibytes_of(llama_on_eight({{"cluster.gpus", "16"}, {"parallelism.tp", "8"}}));
    CHECK(parts.at("data parallelism") == 71.5);
}

// Of 16 ranks over two nodes each node's ring has one way of eight between nodes: 7 / 8 x 12 +
// 1 / 8 x 17.875 MiB a channel, two channels a rank, ring and tree, and the switch.
TEST_CASE("a communicator over whole nodes crosses between them once a ring") {
    const auto parts = mebibytes_of(llama_on_eight({{"cluster.gpus", "16"}}));
    CHECK(parts.at("data parallelism") == 16 * 2 * (10.5 + 17.875 / 8) + 256);
}

// A stage receives from the one before and from the one behind, on 32 channels for each peer of its
// node; between nodes sends and receives share a pool each, 64 MiB.
TEST_CASE("stages hold buffers for each peer of their node, and pools between nodes") {
    const auto pipeline = [](const char* gpus, const char* pp) {
        return mebibytes_of(llama_on_eight({{"cluster.gpus", gpus}, {"parallelism.pp", pp}}))
            .at("pipeline");
    };
    CHECK(pipeline("16", "2") == 2 * 64);
    CHECK(pipeline("8", "2") == 32 * 12);
    CHECK(pipeline("8", "4") == 2 * 32 * 12);
}

TEST_CASE("what a cluster states is the whole, and other makers' devices have no rule") {
    const Experiment e = llama_on_eight(
        {{"cluster.gpus", "8"}, {"parallelism.tp", "8"}, {"cluster.overheads.context", "3 GiB"}});
    CHECK(process_memory(e) == Bytes(3.0 * 1024 * mebibyte));
    CHECK(allocator_forecast(e).process.empty());
    CHECK(process_memory(Experiment{}) == Bytes(0));
    CHECK(context_in(Gpu{}) == Bytes(0));
}

TEST_CASE("a forecast of memory says what the process holds beside the allocator") {
    const Experiment e = llama_on_eight({{"cluster.gpus", "8"}, {"parallelism.tp", "8"}});
    const AllocatorForecast f = allocator_forecast(e);
    Bytes sum;
    for (const auto& part : f.process) sum += part.bytes;
    CHECK(f.process.size() == 2);
    CHECK(f.context.si() == Approx(sum.si()));
    CHECK(f.context == process_memory(e));
}

TEST_CASE("ranks of a group on a node") {
    CHECK(ranks_on_node(Group{}, 8) == 1);
    CHECK(ranks_on_node(Group{.ranks = 16}, 8) == 8);
    CHECK(ranks_on_node(Group{.ranks = 4, .stride = 2}, 8) == 4);
    CHECK(ranks_on_node(Group{.ranks = 4, .stride = 8}, 8) == 1);
    CHECK(ranks_on_node(Group{.ranks = 2, .stride = 1, .outer_ranks = 4, .outer_stride = 4}, 8) ==
          4);
}
