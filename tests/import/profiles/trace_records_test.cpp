// What a trace's records keep: names and inputs within bounds, lengths, counters, and the earlier
// half where they outgrow their memory.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "import/profiles/trace_records.h"
#include "tests/model/files.h"

using namespace stepcast;

// 8 MiB of texts: each counts twice and 100 bytes. 3996 + 4 of 4000 letters are 8100 each: after
// 1036 of them 8,391,600 > 8,388,608.
TEST_CASE(
    "texts are numbered in the order they come, cut at 4096 letters, and no more than 8 MiB of "
    "them") {
    TextTable t;
    CHECK(t.add("a") == 0);
    CHECK(t.add("b") == 1);
    CHECK(t.add("a") == 0);
    const std::string length(4096, 'x');
    CHECK(t.add(length + "y") == 2);
    CHECK(t.add(length + "z") == 2);
    CHECK(t[2] == length);
    TextTable many;
    for (std::uint32_t i = 0; i < 1036; ++i) {
        REQUIRE_FALSE(many.full());
        REQUIRE(many.add(fmt::format("{:04}", i) + std::string(3996, 'x')) == i);
    }
    CHECK(many.full());
    CHECK(many.add("new") == 1036);
    CHECK(many.add("newer") == 1036);
    CHECK(many[1036] == "(one of more names than are kept)");
    CHECK(many.add("0003" + std::string(3996, 'x')) == 3);
}

TEST_CASE(
    "inputs of operators are numbered from 1, and those of more than 4096 letters are not kept") {
    TraceRecords r;
    CHECK(r.add_inputs({"[1]", "a", "b", "c"}) == 1);
    CHECK(r.add_inputs({"[1]", "a", "b", "d"}) == 2);
    CHECK(r.add_inputs({"[1]", "a", "b", "c"}) == 1);
    CHECK(r.operator_inputs.at(2).concrete == "d");
    CHECK(r.operator_inputs.size() == 3);
    CHECK(r.add_inputs({std::string(4093, 'x'), "", "", ""}) == 3);  // with three bars 4096
    CHECK(r.add_inputs({std::string(4094, 'x'), "", "", ""}) == 0);
    for (int i = 0; !r.inputs.full(); ++i)
        r.add_inputs({std::to_string(i) + std::string(4000, 'x'), "", "", ""});
    const std::uint32_t rest = r.add_inputs({"other", "", "", ""});
    CHECK(r.operator_inputs.at(rest) == OperatorInputs{});
}

TEST_CASE("a length is exact up to 2 s and whole microseconds up to 35 minutes") {
    CHECK(Length(-5).ns() == 0);
    CHECK(Length(1).ns() == 1);
    CHECK(Length(2147483647).ns() == 2147483647);
    CHECK(Length(2147483648).ns() == 2147483000);
    CHECK(Length(2147483647LL * 1000 + 999).ns() == 2147483647000);
    CHECK(Length(2147483648LL * 1000).ns() == 2147483647000);
}

TEST_CASE("calls of drivers are known by their names") {
    for (const char* name :
         {"cudaLaunchKernelExC_v11060", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel",
          "hipLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel",
          "hipModuleLaunchKernel", "hipLaunchCooperativeKernel"}) {
        CAPTURE(name);
        CHECK((launches_kernel(name) && !launches_graph(name) && !waits_for_device(name)));
    }
    for (const char* name : {"cudaGraphLaunch_v10000", "cuGraphLaunch", "hipGraphLaunch"}) {
        CAPTURE(name);
        CHECK((launches_graph(name) && !launches_kernel(name) && !waits_for_device(name)));
    }
    for (const char* name : {"cudaDeviceSynchronize", "cudaStreamSynchronize_v3020",
                             "cudaEventSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize",
                             "hipEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize",
                             "cudaMemcpy", "hipMemcpy", "cudaMemcpy_v3020"}) {
        CAPTURE(name);
        CHECK((waits_for_device(name) && !launches_kernel(name) && !launches_graph(name)));
    }
    CHECK_FALSE(waits_for_device("cudaMemcpyAsync"));
}

// At 65536 points every second goes, and from then on every second is taken: numbers 65536, 65538
// .. 131070 fill it again.
TEST_CASE("a counter keeps at most 65536 points, evenly over its time") {
    TraceRecords r;
    const auto add = [&](long count) {
        for (long i = 0; i < count; ++i) r.add_memory({r.memory_seen, 0, 0});
    };
    add(65535);
    CHECK(r.profile.memory.size() == 65535);
    add(1);
    REQUIRE(r.profile.memory.size() == 32768);
    CHECK(r.memory_every == 2);
    for (const std::size_t i : {0U, 1U, 777U, 32767U})
        CHECK(r.profile.memory[i].time == static_cast<std::int64_t>(2 * i));
    add(3);
    REQUIRE(r.profile.memory.size() == 32770);
    CHECK(r.profile.memory[32768].time == 65536);
    CHECK(r.profile.memory[32769].time == 65538);
    add(2 * 32766 - 1);  // to 131069
    CHECK(r.profile.memory.size() == 65535);
    add(1);
    CHECK(r.profile.memory.size() == 32768);
    CHECK(r.profile.memory.back().time == 4 * 32767);
    CHECK(r.memory_every == 4);
}

// Records span 100 .. 1100: what starts from 600 on goes. What is left spans 100 .. 500: next goes
// what starts from 300 on.
TEST_CASE("records that outgrow their bound lose the later half of their time") {
    const auto filled = [] {
        TraceRecords r;
        r.first = 100;
        for (const std::int64_t start : {100, 200, 300, 500}) r.device.emplace_back().start = start;
        r.host.emplace_back().start = 900;
        r.calls.emplace_back().start = 1100;
        for (const std::int64_t start : {50, 700}) r.steps.emplace_back().start = start;
        r.profile.collectives.resize(3);
        return r;
    };
    TraceRecords r = filled();
    const std::size_t all = 4 * sizeof(DeviceRecord) + 3 * sizeof(HostSpan) + sizeof(DriverCall) +
                            3 * sizeof(CollectiveCall);
    CHECK(r.bytes() == all);
    r.keep_below(all);
    CHECK_FALSE(r.profile.shortened);
    r.keep_below(all - 1);
    CHECK(r.profile.shortened);
    CHECK(r.window_end == 600);
    CHECK((r.device.size() == 4 && r.host.empty() && r.calls.empty() && r.steps.size() == 1));
    r.keep_below(r.bytes() - 1);
    CHECK(r.window_end == 300);
    CHECK((r.device.size() == 2 && r.device.back().start == 200));
    TraceRecords by_host = filled();
    by_host.calls.clear();
    by_host.keep_below(all - sizeof(DriverCall) - 1);
    CHECK(by_host.window_end == 500);
    // All at one time: what is there stays, nothing more is taken.
    TraceRecords same;
    same.first = 100;
    for (int i = 0; i < 3; ++i) same.device.emplace_back().start = 100;
    same.keep_below(1);
    CHECK(same.device.size() == 3);
    CHECK(same.window_end == 100);
}
