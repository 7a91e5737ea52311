#include "import/machine/gpu_samples.h"

#include <catch2/catch.hpp>

#include "tests/model/files.h"

using namespace stepcast;

// GPU 0 works in three samples, at 990, 1485 and 1980 of 1980 MHz: median 0.75. GPU 1 is idle in
// one sample (reason 1), else at 1980. Of five samples two are at the power limit (4), one is
// slowed down by heat (0x40) beside it. The last line was cut off.
TEST_CASE("samples of nvidia-smi say the clocks of working GPUs") {
    const TestFolder folder;
    const std::string path = folder.write(
        "smi.csv",
        "index, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active\n"
        "0, 990 MHz, 1980 MHz, 0x0000000000000044\n"
        "1, 210 MHz, 1980 MHz, 0x0000000000000001\n"
        "0, 1485 MHz, 1980 MHz, 0x0000000000000004\n"
        "1, 1980 MHz, 1980 MHz, 0x0000000000000000\n"
        "0, 1980 MHz, 1980 MHz, 0x0000000000000000\n"
        "1, 1980 MHz, 1980 MHz, 0x0000000000000000\n"
        "0, 19");
    const GpuSamples found = read_gpu_samples(path);
    CHECK(found.clocks == std::vector<double>{0.75, 1});
    CHECK(found.samples == 5);
    CHECK(found.at_power_limit == 0.4);
    CHECK(found.slowed_down == 0.2);
}

// Columns in another order, with the older name and without units or index: one GPU.
TEST_CASE("columns of nvidia-smi are found by name") {
    const TestFolder folder;
    const std::string path = folder.write(
        "smi.csv",
        "clocks_throttle_reasons.active, clocks.max.sm [MHz], clocks.current.sm [MHz]\n"
        "0x8, 1410, 705\n");
    CHECK(read_gpu_samples(path) ==
          GpuSamples{.clocks = {0.5}, .samples = 1, .at_power_limit = 0, .slowed_down = 1});
}

TEST_CASE("samples that say no clock are refused with the query that does") {
    const TestFolder folder;
    const auto refused = [&](const std::string& text) {
        const std::string path = folder.write("smi.csv", text);
        return complaint([&] { (void)read_gpu_samples(path); }, folder.path());
    };
    CHECK(refused("") ==
          "smi.csv:1: is empty; expected the output of nvidia-smi "
          "--query-gpu=index,clocks.sm,clocks.max.sm,clocks_event_reasons.active "
          "--format=csv -l 1");
    CHECK(refused("0, 1980 MHz, 700 W\n").find("smi.csv:1: has no column clocks.current.sm") == 0);
    CHECK(refused("clocks.current.sm [MHz]\n1980 MHz\n").find("no column clocks.max.sm") !=
          std::string::npos);
    const std::string head =
        "clocks.current.sm [MHz], clocks.max.sm [MHz], "
        "clocks_event_reasons.active\n";
    CHECK(refused(head + "[N/A], 1980 MHz, 0x0\n").find("smi.csv:2: \"[N/A]\" is no clock") == 0);
    CHECK(refused(head + "210 MHz, 1980 MHz, 0x1\n").find("no sample of a GPU that works") !=
          std::string::npos);
}
