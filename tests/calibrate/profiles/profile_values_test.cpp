// What is made of a profile, on profiles and records written down as values: every figure is told by hand.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "calibrate/profiles/import_profiles.h"
#include "calibrate/profiles/operators.h"
#include "calibrate/profiles/profile_times.h"
#include "calibrate/profiles/trace_records.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// Records by words; times in nanoseconds.
struct RecordedWork {
    TraceRecords r;
    RecordedWork() { r.shapes = true; }
    std::uint32_t inputs(const OperatorInputs& of) { return r.add_inputs(of); }
    void host(const char* name, std::uint32_t thread, std::int64_t start, std::int64_t length, std::uint32_t of = 0) {
        r.host.push_back({start, Length(length), thread, r.names.add(name), of});
    }
    DriverCall& call(std::uint64_t correlation, std::uint32_t thread, std::int64_t start, std::int64_t length = 20) {
        r.calls.push_back({start, correlation, Length(length), thread});
        return r.calls.back();
    }
    DeviceRecord& work(std::uint64_t correlation, std::int64_t start, std::int64_t length, SpanKind kind = SpanKind::compute, const char* name = "k") {
        DeviceRecord d;
        d.start = start;
        d.correlation = correlation;
        d.length = Length(length);
        d.name = r.names.add(name);
        d.kind = kind;
        r.device.push_back(d);
        return r.device.back();
    }
    Profile profile(const std::string& path = "x.json") const { return link_records(r, path); }
};

const OperatorInputs two_matrices{"[[8,16],[16,32]]", R"(["c10::Half","c10::Half"])", "[[16,1],[32,1]]", ""};
const OperatorInputs two_vectors{"[[64],[64]]", R"(["float","float"])", "", ""};
const OperatorInputs gradient{"[[2,128,4,64],[2,128,4,64],[2,256,1,64]]", R"(["c10::Half"])", "", R"(["","","","","","","","","","","","True"])"};

}  // namespace

// Thread 1: linear 101 .. 501 holds mm 151 .. 351 and add 401 .. 451. Thread 2: a checkpoint's node 601 .. 1601 holds a backward
// 701 .. 1001, in it attention 751 .. 851 around a copy, and an all-reduce 1101 .. 1301. An optimizer on thread 1 from 2001 on.
TEST_CASE("device work belongs to the product, the attention or the innermost operator around its launch, and to its phase") {
    RecordedWork x;
    x.host("aten::linear", 1, 101, 400);
    x.host("aten::mm", 1, 151, 200, x.inputs(two_matrices));
    x.host("aten::add", 1, 401, 50, x.inputs(two_vectors));
    x.host("autograd::engine::evaluate_function: CheckpointFunctionBackward", 2, 601, 1000);
    x.host("autograd::engine::evaluate_function: MmBackward0", 2, 701, 300);
    x.host("aten::_flash_attention_backward", 2, 751, 100, x.inputs(gradient));
    x.host("aten::copy_", 2, 761, 50);
    x.host("c10d::allreduce_", 2, 1101, 200, x.inputs(two_vectors));
    x.host("Optimizer.step#Adam.step", 1, 2001, 500);
    x.call(11, 1, 201).launches = true;
    x.call(12, 1, 351, 25).launches = true;  // at the product's very end: still its own
    x.call(13, 1, 411);
    x.call(14, 1, 461);
    x.call(15, 2, 771);
    x.call(16, 2, 1151);
    x.call(17, 2, 1401);
    x.call(18, 1, 2101);
    x.call(19, 1, 2601).graph = true;
    x.call(20, 3, 2701);
    x.call(0, 1, 2801, 100).waits = true;
    x.call(0, 1, 2751, 10).waits = true;
    for (const std::uint64_t c : {11, 12, 13, 14, 15, 17, 18, 19, 20}) x.work(c, 1000 + 100 * static_cast<std::int64_t>(c), 7);
    x.work(16, 9001, 11, SpanKind::communication, "ncclDevKernel(x)").sequence = 5;
    x.work(99, 9101, 13);                                                                       // by a call that is not here
    x.work(98, 9201, 13, SpanKind::communication, "void ncclKernel<float>(x)").collective = -1;  // of no size
    x.work(97, 9301, 13, SpanKind::communication, "void ncclKernel<float>(x)");
    x.work(96, 9401, 17, SpanKind::copy).bytes = 12;
    const Profile p = x.profile();
    CHECK(p.origin == 2100);
    struct Expected {
        ProfilePhase phase;
        std::int64_t start, launched;
        int instance, product, pass, collective;
    };
    using enum ProfilePhase;
    const Expected expected[] = {{forward, 0, 221 - 2100, 1, 0, -1, -1},    {forward, 100, 376 - 2100, 1, 0, -1, -1},
                                 {forward, 200, 431 - 2100, 2, -1, 0, -1},  {forward, 300, 481 - 2100, 0, -1, -1, -1},
                                 {backward, 400, 791 - 2100, 5, -1, 1, -1}, {recompute, 600, 1421 - 2100, 3, -1, -1, -1},
                                 {optimizer, 700, 2121 - 2100, 8, -1, -1, -1}, {forward, 800, 2621 - 2100, -1, -1, -1, -1},
                                 {forward, 900, 2721 - 2100, -1, -1, -1, -1}, {recompute, 6901, 1171 - 2100, 5, -1, -1, 0},
                                 {unlinked, 7001, not_launched, -1, -1, -1, -1}, {unlinked, 7101, not_launched, -1, -1, -1, 1},
                                 {unlinked, 7201, not_launched, -1, -1, -1, 1}, {unlinked, 7301, not_launched, -1, -1, -1, -1}};
    REQUIRE(p.spans.size() == std::size(expected));
    for (std::size_t i = 0; i < p.spans.size(); ++i) {
        const DeviceSpan& s = p.spans[i];
        CAPTURE(i);
        CHECK(s.phase == expected[i].phase);
        CHECK(s.start == expected[i].start);
        CHECK(s.launched == expected[i].launched);
        CHECK(s.instance == expected[i].instance);
        CHECK(s.product == expected[i].product);
        CHECK(s.pass == expected[i].pass);
        CHECK(s.collective == expected[i].collective);
    }
    CHECK(p.spans[0].finish == 7);
    CHECK(p.spans[13].bytes == 12);
    REQUIRE(p.products.size() == 1);
    CHECK(p.products[0].gemm == Gemm{8, 32, 16, 1, Dtype::fp16, false, false, Gemm::Layout::nn});
    REQUIRE(p.passes.size() == 2);
    CHECK(p.passes[0].bytes == Bytes(768));
    CHECK(p.passes[1].kind == "attention");
    REQUIRE(p.collectives.size() == 2);
    CHECK(p.collectives[0].op == "allreduce_");
    CHECK(p.collectives[0].in_elements == 64);
    CHECK(p.collectives[1].op == "ncclKernel");
    CHECK(p.launches == std::vector<Seconds>{Seconds(20 * 1e-9), Seconds(25 * 1e-9)});
    CHECK(p.waits == std::vector<HostWait>{{2751 - 2100, 2761 - 2100}, {2801 - 2100, 2901 - 2100}});
    ProfileCounts counts;
    counts.kernels = 13;
    counts.unlinked = 3;
    counts.graph_kernels = counts.graph_launches = 1;
    counts.collectives_without_size = 2;
    CHECK(p.counts == counts);
}

// Old traces state whole microseconds: a call up to one after the end of its operator may be inside.
TEST_CASE("whole microseconds are taken to be rounded, finer times are not") {
    const auto phase = [](std::int64_t fraction, std::int64_t after, bool late = false) {
        RecordedWork x;
        x.host("autograd::engine::evaluate_function: X", 1, 1000 + (late ? 0 : fraction), 4000);
        if (late) x.host("x", 9, 1000 + fraction, 1);
        x.call(7, 1, 5000 + fraction + after);
        x.work(7, 9000, 5);
        return x.profile().spans.at(0).phase;
    };
    CHECK(phase(0, 1000) == ProfilePhase::backward);
    CHECK(phase(0, 1001) == ProfilePhase::forward);
    CHECK(phase(3, 0) == ProfilePhase::backward);
    CHECK(phase(3, 1) == ProfilePhase::forward);
    CHECK(phase(0, 500) == ProfilePhase::backward);
    CHECK(phase(1, 500, true) == ProfilePhase::forward);  // the last is finer
    // One that begins where the other ends stands beside it; of two that begin together the longer holds the other, of two alike the
    // first; other threads' operators hold nothing.
    RecordedWork x;
    x.host("autograd::engine::evaluate_function: X", 1, 1001, 1000);
    x.host("aten::linear", 1, 2001, 1000);
    x.host("Optimizer.step#X", 2, 4001, 1000);
    x.host("aten::mm", 1, 6001, 100, x.inputs(two_matrices));
    x.host("aten::linear", 1, 6001, 200);
    x.host("aten::bmm", 1, 7001, 100);
    x.host("aten::mm", 1, 7001, 100, x.inputs(two_matrices));
    x.call(1, 1, 2001);
    x.call(2, 1, 4501);
    x.call(3, 1, 6001);
    x.call(4, 1, 6150);
    x.call(5, 1, 7050);
    for (const std::uint64_t c : {1, 2, 3, 4, 5}) x.work(c, 10000 + 100 * static_cast<std::int64_t>(c), 7);
    const Profile p = x.profile();
    CHECK(p.spans[0].phase == ProfilePhase::forward);
    CHECK(p.spans[0].instance == 1);
    CHECK(p.spans[1].phase == ProfilePhase::forward);
    CHECK(p.spans[2].product == 0);
    CHECK(p.spans[3].product == -1);
    CHECK(p.spans[4].product == 0);
    CHECK(p.counts.products_without_shape == 0);
    RecordedWork first;  // the product is the file's first record
    first.host("aten::mm", 1, 1001, 100, first.inputs(two_matrices));
    first.host("aten::copy_", 1, 1011, 50);
    first.call(1, 1, 1021);
    first.work(1, 2000, 1);
    CHECK(first.profile().spans[0].product == 0);
    CHECK(first.profile().spans[0].instance == 0);
    RecordedWork shapeless;
    shapeless.host("aten::mm", 1, 1001, 100);
    shapeless.call(1, 1, 1005);
    shapeless.call(2, 1, 1006);
    shapeless.work(1, 2000, 1);
    shapeless.work(2, 2010, 1);
    CHECK(shapeless.profile().counts.products_without_shape == 2);
    CHECK(shapeless.profile().products.empty());
}

// Device 3 works 5 + 5 ns in two kernels, device 2 eleven in one: with one more a kernel, 12 each; the lower number is taken.
TEST_CASE("of several devices the one that worked longest is kept") {
    RecordedWork x;
    x.work(0, 100, 5).device = 3;
    x.work(0, 200, 5).device = 3;
    x.work(0, 300, 11).device = 2;
    x.r.devices[2] = {"two", 20, Bytes(200)};
    x.r.devices[3] = {"three", 30, Bytes(300)};
    Profile p = x.profile();
    CHECK(p.device == x.r.devices[2]);
    CHECK(p.spans.size() == 1);
    CHECK(p.counts.other_devices == 1);
    CHECK(p.node_devices == 2);
    x.work(0, 400, 1).device = 3;
    p = x.profile();
    CHECK(p.device.name == "three");
    CHECK(p.spans.size() == 3);
    CHECK(p.counts.kernels == 3);
}

TEST_CASE("what a trace says of itself is carried over, in the order of time") {
    RecordedWork x;
    x.r.rank = 3;
    x.r.world = 8;
    x.r.base = 7;
    x.r.reserved = 11;
    x.r.allocated = 13;
    x.r.events = 17;
    x.work(1, 300, 5);
    x.work(2, 100, 9).stream = 2;
    x.work(2, 100, 9).stream = 1;
    x.work(1, 100, 4);
    x.r.memory = {{900, 1, 2}, {50, 3, 4}};
    for (const auto& [name, start] : {std::pair{"ProfilerStep#8", 700}, {"ProfilerStep#7", 400}})
        x.r.steps.push_back({start, Length(250), 0, x.r.names.add(name), 0});
    // Blocks take 9 s in all, 3 in the median; norms less; the model is one instance only.
    x.r.modules["Block"] = {{"Block_0", "Block_1"}, {1, 5, 3}};
    x.r.modules["Norm"] = {{"Norm_0", "Norm_1"}, {2, 2, 2, 2}};
    x.r.modules["Model"] = {{"Model_0"}, {100}};
    CollectiveCall told;
    told.op = "allreduce";
    told.group = "tp";
    told.ranks = 2;
    CollectiveCall sent = told;
    sent.op = "send";
    sent.members = "[3,5]";
    sent.target = 1;
    x.r.collectives = {told, sent};
    x.r.groups["tp"] = "[2,3]";
    const Profile p = x.profile("rank-5.json");
    CHECK((p.rank == 3 && p.rank_told && p.ranks == 8));
    CHECK(p.path == "rank-5.json");
    CHECK(p.origin == 107);
    CHECK((p.peak_reserved == Bytes(11) && p.peak_allocated == Bytes(13)));
    CHECK(p.counts.events == 17);
    CHECK((p.spans[0].finish == 4 && p.spans[1].stream == 1 && p.spans[2].stream == 2 && p.spans[3].start == 200));
    CHECK(p.memory == std::vector<ProfiledMemory>{{-50, 3, 4}, {800, 1, 2}});
    REQUIRE(p.steps.size() == 2);
    CHECK(p.steps[0].name == "ProfilerStep#7");
    CHECK(p.steps[0].start.si() == Approx(300e-9));
    CHECK(p.steps[1].duration.si() == Approx(250e-9));
    CHECK(p.layer == ProfiledLayer{"Block", 2, 3, Seconds(3)});
    CHECK(p.collectives[0].members == "[2,3]");
    CHECK(p.collectives[1].members == "[3,5]");
    CHECK((p.collectives[1].op == "send_recv" && p.collectives[1].source == 0 && p.collectives[1].target == 1));
    CHECK(p.names == std::vector<std::string>{"k", "ProfilerStep#8", "ProfilerStep#7"});
}

TEST_CASE("a rank that the trace does not say is the number behind the word in the file's name") {
    RecordedWork x;
    x.work(1, 100, 5);
    const auto rank = [&](const char* path) {
        const Profile p = x.profile(path);
        return p.rank_told ? p.rank : -1;
    };
    CHECK(rank("/a/rank9/rank-3.json.gz") == 3);
    CHECK(rank("rank12_trace.json") == 12);
    CHECK(rank("job7_worker4.json") == 4);
    CHECK(rank("worker_5.json") == 5);
    CHECK(rank("rank0.json") == 0);
    CHECK(rank("worker__5.json") == -1);
    CHECK(rank("rank___5.json") == 5);
    CHECK(rank("rank____5.json") == -1);
    CHECK(rank("ranked.json") == -1);
    CHECK(rank("3.json") == -1);
    CHECK(x.profile("3.json").rank == 0);
    x.r.processes = 2;
    CHECK(rank("rank1.json") == -1);
}

TEST_CASE("everything that a trace leaves open is said") {
    RecordedWork x;
    x.work(1, 100, 5);
    x.r.shapes = false;
    CHECK(x.profile().notes == std::vector<std::string>{"1 kernels were launched before the window or by a thread that was not profiled (phase unlinked)",
                                                        "no shapes recorded: products and passes cannot be sized (profile with record_shapes=True)",
                                                        "no ProfilerStep: no step times, the whole window is one piece"});
    x.r.shapes = true;
    x.r.steps.push_back({0, Length(5), 0, 0, 0});
    x.call(1, 1, 50);
    CHECK(x.profile().notes.empty());
    x.r.broken = "at byte 7";
    x.r.shortened = true;
    x.r.first = 1'000'000'000;
    x.r.window_end = 3'500'000'000;
    x.r.dropped = 2;
    x.r.whole_graphs = 3;
    x.r.nccl_payloads = 4;
    x.r.processes = 5;
    x.work(1, 100, 1).device = 1;
    const std::vector<std::string> notes = x.profile().notes;
    REQUIRE(notes.size() == 7);
    CHECK(notes[0] == "the trace is not whole: at byte 7; what was read up to there is kept");
    CHECK(notes[1] == "the trace holds more than fits the bound of memory; only its first 2.500 s are kept");
    CHECK(notes[2] == "2 events were no valid JSON and are passed over");
    CHECK(notes[3].starts_with("3 launches of CUDA graphs"));
    CHECK(notes[4].starts_with("4 ranges of NCCL"));
    CHECK(notes[5].starts_with("one of 5 processes"));
    CHECK(notes[6].starts_with("1 further devices"));
    CHECK(x.profile().broken == "at byte 7");
    CHECK(x.profile().shortened);
    CHECK(x.profile().counts.dropped == 2);
    RecordedWork none;
    none.r.events = 3;
    CHECK(complaint([&] { (void)none.profile(); }) == "x.json: 3 events, none of them work on a GPU; expected a trace with the GPU's activity");
    none.r.broken = "torn";
    CHECK(complaint([&] { (void)none.profile(); }).ends_with(" (torn)"));
}

// 8 MiB of texts: each counts twice and 100 bytes. 3996 + 4 of 4000 letters are 8100 each: after 1036 of them 8,391,600 > 8,388,608.
TEST_CASE("texts are numbered in the order they come, cut at 4096 letters, and no more than 8 MiB of them") {
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

TEST_CASE("inputs of operators are numbered from 1, and those of more than 4096 letters are not kept") {
    TraceRecords r;
    CHECK(r.add_inputs({"[1]", "a", "b", "c"}) == 1);
    CHECK(r.add_inputs({"[1]", "a", "b", "d"}) == 2);
    CHECK(r.add_inputs({"[1]", "a", "b", "c"}) == 1);
    CHECK(r.operator_inputs.at(2).concrete == "d");
    CHECK(r.operator_inputs.size() == 3);
    CHECK(r.add_inputs({std::string(4093, 'x'), "", "", ""}) == 3);  // with three bars 4096
    CHECK(r.add_inputs({std::string(4094, 'x'), "", "", ""}) == 0);
    for (int i = 0; !r.inputs.full(); ++i) r.add_inputs({std::to_string(i) + std::string(4000, 'x'), "", "", ""});
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
    for (const char* name : {"cudaLaunchKernelExC_v11060", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel",
                             "hipModuleLaunchKernel", "hipLaunchCooperativeKernel"}) {
        CAPTURE(name);
        CHECK((launches_kernel(name) && !launches_graph(name) && !waits_for_device(name)));
    }
    for (const char* name : {"cudaGraphLaunch_v10000", "cuGraphLaunch", "hipGraphLaunch"}) {
        CAPTURE(name);
        CHECK((launches_graph(name) && !launches_kernel(name) && !waits_for_device(name)));
    }
    for (const char* name : {"cudaDeviceSynchronize", "cudaStreamSynchronize_v3020", "cudaEventSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize", "hipEventSynchronize",
                             "cuStreamSynchronize", "cuCtxSynchronize", "cudaMemcpy", "hipMemcpy", "cudaMemcpy_v3020"}) {
        CAPTURE(name);
        CHECK((waits_for_device(name) && !launches_kernel(name) && !launches_graph(name)));
    }
    CHECK_FALSE(waits_for_device("cudaMemcpyAsync"));
}

// At 65536 points every second goes, and from then on every second is taken: numbers 65536, 65538 .. 131070 fill it again.
TEST_CASE("a counter keeps at most 65536 points, evenly over its time") {
    TraceRecords r;
    const auto add = [&](long count) {
        for (long i = 0; i < count; ++i) r.add_memory({r.memory_seen, 0, 0});
    };
    add(65535);
    CHECK(r.memory.size() == 65535);
    add(1);
    REQUIRE(r.memory.size() == 32768);
    CHECK(r.memory_every == 2);
    for (const std::size_t i : {0U, 1U, 777U, 32767U}) CHECK(r.memory[i].time == static_cast<std::int64_t>(2 * i));
    add(3);
    REQUIRE(r.memory.size() == 32770);
    CHECK(r.memory[32768].time == 65536);
    CHECK(r.memory[32769].time == 65538);
    add(2 * 32766 - 1);  // to 131069
    CHECK(r.memory.size() == 65535);
    add(1);
    CHECK(r.memory.size() == 32768);
    CHECK(r.memory.back().time == 4 * 32767);
    CHECK(r.memory_every == 4);
}

// Records span 100 .. 1100: what starts from 600 on goes. What is left spans 100 .. 500: next goes what starts from 300 on.
TEST_CASE("records that outgrow their bound lose the later half of their time") {
    const auto filled = [] {
        TraceRecords r;
        r.first = 100;
        for (const std::int64_t start : {100, 200, 300, 500}) r.device.emplace_back().start = start;
        r.host.emplace_back().start = 900;
        r.calls.emplace_back().start = 1100;
        for (const std::int64_t start : {50, 700}) r.steps.emplace_back().start = start;
        r.collectives.resize(3);
        return r;
    };
    TraceRecords r = filled();
    const std::size_t all = 4 * sizeof(DeviceRecord) + 3 * sizeof(HostSpan) + sizeof(DriverCall) + 3 * sizeof(CollectiveCall);
    CHECK(r.bytes() == all);
    r.keep_below(all);
    CHECK_FALSE(r.shortened);
    r.keep_below(all - 1);
    CHECK(r.shortened);
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

namespace {

// A profile of one rank of four; two kernels of one call make an instance.
Profile written_down() {
    Profile p;
    p.rank = 3;
    p.ranks = 4;
    p.device.name = "H100, SXM";
    p.names = {"void at::native::add", "triton_poi", "other"};
    const auto span = [&](std::int64_t start, std::int64_t length, std::int32_t instance, std::int32_t DeviceSpan::*of, std::int32_t id, std::uint32_t name = 2) {
        DeviceSpan s;
        s.start = start;
        s.finish = start + length;
        s.instance = instance;
        if (of) s.*of = id;
        s.name = name;
        s.phase = ProfilePhase::forward;
        s.launched = start - 1;
        p.spans.push_back(s);
    };
    p.products = {{"aten::mm", "c10::Half", {8, 16, 32, 1, Dtype::fp16, false, false, Gemm::Layout::tn}, true, true},
                  {"aten::bmm", "c10::Half", {8, 16, 32, 5, Dtype::fp16}, true, false},
                  {"aten::mm", "double", {8, 16, 32, 1, Dtype::fp32}, false, false},
                  {"aten::mm", "c10::Half", {8, 16, 64, 1, Dtype::fp16, false, false, Gemm::Layout::nn}, true, true},
                  {"aten::mm", "c10::Half", {8, 16, 128, 1, Dtype::fp16, false, false, Gemm::Layout::nt}, true, true},
                  {"aten::mm", "c10::Half", {8, 16, 256, 1, Dtype::fp16}, true, false}};
    // Three calls of the first: 1 + 2, 4 and 8 us; one each of the others.
    span(0, 1000, 10, &DeviceSpan::product, 0);
    span(1000, 2000, 10, &DeviceSpan::product, 0);
    span(3000, 4000, 11, &DeviceSpan::product, 0);
    span(7000, 8000, 12, &DeviceSpan::product, 0);
    span(15000, 13000, 13, &DeviceSpan::product, 1);
    span(28000, 100, 14, &DeviceSpan::product, 2);
    span(28100, 100, 14, &DeviceSpan::product, 2);
    span(28200, 3000, 15, &DeviceSpan::product, 3);
    span(31200, 2500, 16, &DeviceSpan::product, 4);
    span(33700, 2000, 17, &DeviceSpan::product, 5);
    PassCall copy{"aten::copy_", "float", "copy", std::nullopt, 0, Bytes(3000)}, attention{"aten::_flash", "c10::Half", "attention", Attention{2, 4, 128, 256, 64, true, true, Dtype::fp16, true}, 1, Bytes(0)};
    p.passes = {copy, attention};
    span(36000, 500, 18, &DeviceSpan::pass, 0, 0);
    span(36500, 700, 19, &DeviceSpan::pass, 0, 1);
    span(37200, 900, 20, &DeviceSpan::pass, 1);
    span(38100, 300, 21, nullptr, 0, 1);
    // Two launches of 4 and 6 us: 5 in the median. A layer takes 90 us for two calls of which each has 14/2 launches.
    p.launches = {Seconds(4e-6), Seconds(6e-6)};
    p.layer = {"Block", 2, 2, Seconds(90e-6)};
    return p;
}

std::string table_of(const std::vector<PlannedFile>& files, const std::string& end) {
    for (const PlannedFile& file : files)
        if (file.path == "run." + end + ".csv") return file.text;
    return "";
}

}  // namespace

TEST_CASE("the tables of a profile, line by line") {
    std::vector<std::string> notes;
    const std::vector<PlannedFile> files = profile_tables({written_down()}, "run.csv", 0, notes);
    CHECK(table_of(files, "gemms") == "gpu,m,n,k,groups,dtype,layout,timer,time_us,calls,total_us,call,rank\n"
                                      "\"H100, SXM\",8,16,32,1,fp16,TN,kernel,4,3,15,aten::mm,3\n"
                                      "\"H100, SXM\",8,16,64,1,fp16,NN,kernel,3,1,3,aten::mm,3\n"
                                      "\"H100, SXM\",8,16,128,1,fp16,NT,kernel,2.5,1,2.5,aten::mm,3\n"
                                      "\"H100, SXM\",8,16,256,1,fp16,,kernel,2,1,2,aten::mm,3\n");
    CHECK(table_of(files, "batches") == "gpu,batch,m,n,k,dtype,timer,time_us,calls,total_us,call,rank\n\"H100, SXM\",5,8,16,32,fp16,kernel,13,1,13,aten::bmm,3\n");
    CHECK(table_of(files, "attention") ==
          "op,batch,heads,kv_heads,head_dim,seq_q,seq_k,causal,window,gpu,dtype,kernel,pass,implementation,time_us,calls,rank\n"
          "attention,2,4,1,64,128,256,1,0,\"H100, SXM\",fp16,aten::_flash,backward,profile,0.9,1,3\n");
    CHECK(table_of(files, "passes") == "gpu,kind,bytes,dtype,timer,time_us,calls,total_us,call,rank\n\"H100, SXM\",copy,3000,float,kernel,0.6,2,1.2,aten::copy_,3\n");
    // 14 spans of the forward over 2 calls: 7 launches of 5 us; 90 - 35 = 55. Single passes: 0.5 us; compiled: 0.7 and 0.3.
    CHECK(table_of(files, "launches") == "kind,calls,time_us_per_call,rank\nlaunch call,2,5,3\nhost time of a layer (Block),2,90,3\n"
                                         "host time of a layer beside its launches,2,55,3\n\"passes, operator by operator\",1,0.5,3\n\"passes, compiled\",2,0.5,3\n");
    CHECK(notes == std::vector<std::string>{"2 kernels of products whose type is not recorded: not in the table", "run.gemms.csv: 4 rows", "run.batches.csv: 1 rows",
                                            "run.attention.csv: 1 rows", "run.passes.csv: 1 rows", "run.launches.csv: 5 rows"});
    CHECK(files.size() == 5);
    Profile bare = written_down();
    bare.layer.host = Seconds(35e-6);  // nothing beside the launches
    bare.launches.clear();
    for (DeviceSpan& s : bare.spans) s.launched = not_launched;
    CHECK(table_of(profile_tables({bare}, "run", 0, notes), "launches").starts_with("kind,calls,time_us_per_call,rank\nhost time of a layer (Block),2,35,3\nhost time of a layer beside its launches,2,35,3\n"));
    bare.layer = {};
    CHECK(table_of(profile_tables({bare}, "run", 0, notes), "launches").starts_with("kind,calls,time_us_per_call,rank\n\"passes"));
}

namespace {

// One kernel of one collective on the only rank at hand, of `world`.
std::pair<std::string, std::vector<std::string>> one_exchange(const CollectiveCall& call, int world, int node_devices, int said) {
    Profile p;
    p.ranks = world;
    p.node_devices = node_devices;
    p.device.name = "G";
    p.collectives = {call};
    DeviceSpan s;
    s.kind = SpanKind::communication;
    s.collective = 0;
    s.finish = 7000;
    p.spans = {s};
    std::vector<std::string> notes;
    const std::string table = table_of(profile_tables({p}, "run.csv", said, notes), "collectives");
    const auto row = table.find('\n');
    return {row == std::string::npos ? "" : table.substr(row + 1), notes};
}
std::string nodes_said(const CollectiveCall& call, int world, int node_devices, int said) {
    const std::string row = one_exchange(call, world, node_devices, said).first;
    if (row.empty()) return "";
    const auto first = row.find(','), second = row.find(',', first + 1), third = row.find(',', second + 1);
    return row.substr(first + 1, third - first - 1);
}

}  // namespace

// Ranks fill node after node. "RANKS,NODES" of the row; empty: not in the table.
TEST_CASE("a collective's nodes follow from its members and the node's devices, or from what was said") {
    CollectiveCall all{"allreduce", "Half", "dp", "", 8, -1, -1, 500, 500, true};
    CHECK(one_exchange(all, 8, 4, 0).first == "all_reduce,8,2,1000,7,G,1,1,0,upper,dp\n");
    CHECK(nodes_said(all, 8, 8, 0) == "8,1");
    CHECK(nodes_said(all, 8, 9, 0) == "8,1");
    CHECK(nodes_said(all, 8, 1, 0).empty());  // one device may be all that the process was shown
    CHECK(nodes_said(all, 8, 3, 0).empty());  // no whole number of nodes
    CHECK(nodes_said(all, 8, 1, 1) == "8,1");
    CHECK(nodes_said(all, 8, 1, 2) == "8,2");
    CHECK(nodes_said(all, 8, 1, 3).empty());  // eight ranks are not on three
    CollectiveCall some = all;
    some.ranks = 2;
    CHECK(nodes_said(some, 8, 4, 0).empty());  // whose members are not told
    CHECK(nodes_said(some, 8, 4, 2) == "2,2");
    some.members = "[1,2]";
    CHECK(nodes_said(some, 8, 2, 0) == "2,2");
    CHECK(nodes_said(some, 8, 4, 0) == "2,1");
    CHECK(nodes_said(some, 8, 1, 4) == "2,2");
    some.members = "[1,2,3]";
    some.ranks = 3;
    CHECK(nodes_said(some, 8, 2, 0).empty());  // not as many on both
    CollectiveCall pair{"send_recv", "Half", "pp", "", 8, 3, 4, 500, 500, true};
    CHECK(nodes_said(pair, 8, 4, 0) == "2,2");
    pair.source = 5;
    CHECK(nodes_said(pair, 8, 4, 0) == "2,1");
    CHECK(nodes_said(pair, 16, 4, 0).empty());  // members of a part of the job, not told
    pair.members = "[0,2,4,6,8,10,12,14]";  // 10 and 8
    CHECK(nodes_said(pair, 16, 4, 0) == "2,1");
    CHECK(nodes_said(pair, 16, 1, 8) == "2,2");
    pair.source = -1;
    CHECK(nodes_said(pair, 16, 4, 0).empty());
    CollectiveCall operators = all;  // names no group: that of all ranks
    operators.from_kernel = false;
    operators.ranks = 0;
    CHECK(nodes_said(operators, 8, 4, 0) == "8,2");
    CollectiveCall lonely = all;
    lonely.ranks = 1;
    CHECK(one_exchange(lonely, 8, 4, 0).second == std::vector<std::string>{"1 calls of collectives without operation, group or size: not in the table"});
    lonely = all;
    lonely.op = "barrier";
    CHECK(one_exchange(lonely, 8, 4, 0).first.empty());
    lonely = all;
    lonely.in_elements = 0;
    CHECK(one_exchange(lonely, 8, 4, 0).first.empty());
    CHECK(one_exchange(all, 8, 3, 0).second == std::vector<std::string>{"1 calls of collectives of groups whose nodes are not told: not in the table (say --nodes N)"});
    CHECK(one_exchange(all, 8, 4, 0).second == std::vector<std::string>{
              "one rank only: durations of collectives hold waiting for peers, their least is an upper bound of the transfer", "run.collectives.csv: 1 rows"});
}

// An all-gather's bytes are its result: of an operator's inputs those of all ranks; a receive counts what comes out.
TEST_CASE("a collective's bytes are counted as nccl-tests does") {
    CollectiveCall c{"_allgather_base", "Half", "", "", 4, -1, -1, 10, 40, true};
    CHECK(collective_bytes(c) == Bytes(80));
    c.from_kernel = false;
    c.in_elements = 7;
    CHECK(collective_bytes(c) == Bytes(56));
    c.op = "_reduce_scatter_base";
    CHECK(collective_bytes(c) == Bytes(14));
    c.op = "recv";
    CHECK(collective_bytes(c) == Bytes(80));
    c.op = "allreduce_";
    CHECK(collective_kind(c) == "all_reduce");
    c.op = "send 0->1";
    CHECK(collective_kind(c) == "send_recv");
    for (const char* none : {"_", "barrier", "allreduce__"}) {
        c.op = none;
        CHECK(collective_kind(c).empty());
    }
}

// Computing 0..10, 5..20 and 20..30 (touching), 50..60; communicating 25..55 and 58..59; a copy 100..130; a set 120..140. Computing
// 40, communicating 31, together 5 + 5 + 1 = 11, busy 0..60 and 100..140.
TEST_CASE("times of a device are unions over its streams") {
    Profile p;
    const auto add = [&](std::int64_t start, std::int64_t finish, SpanKind kind, ProfilePhase phase = ProfilePhase::forward) {
        DeviceSpan s;
        s.start = start;
        s.finish = finish;
        s.kind = kind;
        s.phase = phase;
        p.spans.push_back(s);
    };
    using enum SpanKind;
    add(0, 10, compute);
    add(5, 20, compute);
    add(7, 9, compute, ProfilePhase::backward);
    add(20, 30, compute, ProfilePhase::backward);
    add(25, 55, communication);
    add(50, 60, compute);
    add(58, 59, communication);
    add(100, 130, copy);
    add(120, 140, set);
    const DeviceTimes t = device_times(p);
    const auto ns = [](Seconds time) { return std::lround(time.si() * 1e9); };
    CHECK(ns(t.span) == 140);
    CHECK(ns(t.busy) == 100);
    CHECK(ns(t.idle) == 40);
    CHECK(ns(t.compute) == 40);
    CHECK(ns(t.communication) == 31);
    CHECK(ns(t.copies) == 40);
    CHECK(ns(t.overlapped) == 11);
    CHECK(ns(t.exposed) == 20);
    CHECK(ns(t.phases.at(ProfilePhase::forward)) == 35);
    CHECK(ns(t.phases.at(ProfilePhase::backward)) == 12);
    CHECK(t.phase_kernels.at(ProfilePhase::forward) == 3);
    CHECK(t.phase_kernels.at(ProfilePhase::backward) == 2);
    CHECK(t.phases.size() == 2);
}

// Steps begin at 1000 and 3000 ns; the last lasts 1500. Kernels 500..1500 (backward, half of it before), 2900..3100 (recompute, over
// the border), 4000..4400 (optimizer), an exchange 4300..5000 of which 4400..4500 lies in the step, and one after it.
TEST_CASE("a profile's samples are those of each step, cut at its borders") {
    Profile p;
    p.rank = 2;
    p.peak_reserved = Bytes(11);
    p.peak_allocated = Bytes(13);
    p.steps = {{"a", Seconds(1000e-9), Seconds(700e-9)}, {"b", Seconds(3000e-9), Seconds(1500e-9)}};
    const auto add = [&](std::int64_t start, std::int64_t finish, ProfilePhase phase, SpanKind kind = SpanKind::compute) {
        DeviceSpan s;
        s.start = start;
        s.finish = finish;
        s.kind = kind;
        s.phase = phase;
        p.spans.push_back(s);
    };
    add(0, 900, ProfilePhase::forward);
    add(500, 1500, ProfilePhase::backward);
    add(2900, 3100, ProfilePhase::recompute);
    add(4000, 4400, ProfilePhase::optimizer);
    add(4300, 5000, ProfilePhase::unlinked, SpanKind::communication);
    add(6000, 7000, ProfilePhase::forward);
    Sample like;
    like.run_id = "r";
    like.step = 99;
    const auto text = [&] {
        std::string all;
        for (const Sample& s : profile_samples(p, like)) {
            CHECK((s.run_id == "r" && s.rank == 2 && s.unit == (s.phase.starts_with("peak") ? "B" : "s")));
            all += fmt::format("{} {} {}\n", s.step, s.phase, std::lround(s.value * (s.unit == "B" ? 1 : 1e9)));
        }
        return all;
    };
    CHECK(text() == "0 step 2000\n0 forward 0\n0 backward 600\n0 optimizer 0\n0 gradient_sync 0\n0 busy 600\n0 idle 1400\n"
                    "1 step 1500\n1 forward 0\n1 backward 100\n1 optimizer 400\n1 gradient_sync 100\n1 busy 600\n1 idle 900\n"
                    "-1 peak_reserved 11\n-1 peak_allocated 13\n");
    p.steps.clear();
    p.peak_reserved = p.peak_allocated = Bytes(0);
    CHECK(text() == "0 window 7000\n0 forward 1900\n0 backward 1200\n0 optimizer 400\n0 gradient_sync 600\n0 busy 3700\n0 idle 3300\n");
}

// Which arguments are multiplied, where it says whether a mask is causal, and where heads stand.
TEST_CASE("operators of PyTorch by their inputs") {
    const auto product = [](const char* op, const char* dims, const char* strides = "") { return product_of(op, {dims, R"(["c10::Half","float","double"])", strides, ""}); };
    for (const char* op : {"aten::mm", "aten::bmm", "aten::_scaled_mm"}) {
        const auto found = product(op, "[[3,5,7],[3,7,11],[1]]", "[[35,1,5],[77,11,1],[1]]");
        REQUIRE(found);
        CHECK(found->gemm == Gemm{5, 11, 7, 3, Dtype::fp16, false, false, Gemm::Layout::tn});
        CHECK(found->layout_known);
    }
    for (const char* op : {"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"}) {
        const auto found = product(op, "[[1],[5,7],[7,11]]", "[[1],[7,1],[1,7]]");
        REQUIRE(found);
        CHECK(found->gemm == Gemm{5, 11, 7, 1, Dtype::fp32, false, false, Gemm::Layout::nt});
        CHECK(is_product(op));
    }
    CHECK_FALSE(product("aten::mm", "[[5,7],[7,11]]", "")->layout_known);
    CHECK(product("aten::mm", "[[5,1],[1,11]]", "[[1,1],[11,1]]")->gemm.layout == Gemm::Layout::nn);  // both strides 1: no transpose
    CHECK_FALSE(product("aten::mm", "[[5,7],[7]]"));
    CHECK_FALSE(product("aten::mm", "[[5],[7]]"));
    CHECK_FALSE(product("aten::mm", "[[5,0],[0,7]]"));
    CHECK_FALSE(product("aten::mm", "[[0,3,5,7],[2,3,7,11]]"));
    CHECK_FALSE(product("aten::mm", "[[5,1.5],[7,11]]"));
    CHECK_FALSE(product("aten::mm", "torn"));
    CHECK_FALSE(product("aten::conv", "[[5,7],[7,11]]"));
    CHECK_FALSE(product_of("aten::mm", {"[[5,7],[7,11]]", R"(["double","double"])", "", ""})->known);

    // Forward: queries first; the scaled_dot_product family has heads before tokens. Twenty arguments, True at one place.
    const auto attends = [](const char* op, int place, bool causal) {
        std::string concrete = "[";
        for (int i = 0; i < 20; ++i) concrete += fmt::format("{}\"{}\"", i > 0 ? "," : "", i == place ? (causal ? "True" : "False") : i == place - 1 ? "maybe" : "");
        return pass_of(op, {"[[1,2,3,4],[5,6,7,8],[9,10,11,12]]", R"(["c10::Half"])", "", concrete + "]"});
    };
    struct Rule {
        const char* op;
        int place;
        bool heads_first, backward;
    };
    for (const Rule& rule : {Rule{"aten::_flash_attention_forward", 8, false, false}, {"aten::_flash_attention_backward", 11, false, true},
                             {"aten::_scaled_dot_product_flash_attention", 4, true, false}, {"aten::_scaled_dot_product_flash_attention_backward", 11, true, true},
                             {"aten::_scaled_dot_product_efficient_attention", 6, true, false}, {"aten::_scaled_dot_product_efficient_attention_backward", 11, true, true},
                             {"aten::_scaled_dot_product_cudnn_attention", 6, true, false}, {"aten::_scaled_dot_product_cudnn_attention_backward", 14, true, true}}) {
        CAPTURE(rule.op);
        CHECK(is_attention(rule.op));
        for (const bool causal : {true, false}) {
            const auto found = attends(rule.op, rule.place, causal);
            REQUIRE(found);
            const long q[] = {5, 6, 7, 8}, k[] = {9, 10, 11, 12}, q0[] = {1, 2, 3, 4};
            const long* of_q = rule.backward ? q : q0;
            const long* of_k = rule.backward ? k : q;
            const int heads = rule.heads_first ? 1 : 2, tokens = 3 - heads;
            Attention a{.batch = of_q[0], .heads = of_q[heads], .seq_q = of_q[tokens], .seq_k = of_k[tokens], .head_dim = of_q[3], .causal = causal, .backward = rule.backward, .dtype = Dtype::fp16, .flash = true};
            CHECK(*found->attention == a);
            CHECK(found->kv_heads == of_k[heads]);
            CHECK(found->op == rule.op);
            CHECK(found->dtype == "c10::Half");
        }
        CHECK_FALSE(attends(rule.op, rule.place + 1, true));
    }
    CHECK(is_attention("aten::_efficient_attention_forward"));
    CHECK(is_attention("aten::_efficient_attention_backward"));
    CHECK_FALSE(pass_of("aten::_flash_attention_forward", {"[[1,2,3],[5,6,7,8]]", R"(["c10::Half"])", "", R"(["","","","","","","","","True"])"}));
    CHECK_FALSE(pass_of("aten::_flash_attention_forward", {"[[1,2,3,4],[5,6,7]]", R"(["c10::Half"])", "", R"(["","","","","","","","","True"])"}));
    CHECK_FALSE(pass_of("aten::_flash_attention_forward", {"[[1,2,3,4],[5,6,7,8]]", R"(["double"])", "", R"(["","","","","","","","","True"])"}));

    // A copy reads one and writes the other; others read all and write the largest.
    CHECK(pass_of("aten::copy_", {"[[3,5],[3,5],[]]", R"(["c10::Half","float","bool"])", "", ""})->bytes == Bytes(30 + 60));
    CHECK(pass_of("aten::mul", {"[[3,5],[5]]", R"(["c10::Half","float"])", "", ""})->bytes == Bytes(30 + 20 + 30));
    CHECK(pass_of("aten::mul", {"[[3,5],[5]]", R"(["c10::Half","float"])", "", ""})->kind == "add");
    CHECK_FALSE(pass_of("aten::mul", {"[[],[]]", R"(["Scalar","Scalar"])", "", ""}));
    CHECK_FALSE(pass_of("aten::unknown", {"[[3,5]]", R"(["float"])", "", ""}));

    const std::pair<const char*, double> sizes[] = {{"float", 4}, {"double", 8}, {"c10::BFloat16", 2}, {"Half", 2}, {"c10::Float8_e4m3fn", 1}, {"Float8_e5m2", 1}, {"int", 4}, {"long int", 8}, {"short", 2}, {"bool", 1}, {"Byte", 1}, {"Char", 1}, {"Scalar", 0}};
    for (const auto& [type, bytes] : sizes) CHECK(element_bytes(type) == bytes);
    const auto exchange = collective_of("c10d::record_param_comms::allreduce_", {"[[],[3,5],[7]]", R"(["GenericList","float","float"])", "", ""});
    CHECK(*exchange == CollectiveCall{"allreduce_", "float", "", "", 0, -1, -1, 15, 15, false});
    CHECK(collective_of("broadcast", {"", "", "", ""})->op == "broadcast");
}

// Group [4,7,9]: rank 7 sends to place 2 (rank 9), or to rank 9 by its number in the job; to itself it sends nothing.
TEST_CASE("both ends of a pair are places in the group") {
    const auto pair = [](const char* op, int peer, int rank, const char* members = "[4,7,9]", int ranks = 3, int world = 16) {
        CollectiveCall c{op, "float", "pp", members, ranks, peer, peer, 10, 20, true};
        tell_pair(c, rank, world);
        return fmt::format("{} {}>{} {}", c.op, c.source, c.target, c.in_elements);
    };
    CHECK(pair("send", 2, 7) == "send_recv 1>2 20");
    CHECK(pair("recv", 2, 7) == "send_recv 2>1 20");
    CHECK(pair("send 1->2", 0, 7) == "send_recv 1>0 20");
    CHECK(pair("send", 9, 7) == "send_recv 1>2 20");
    CHECK(pair("send", 1, 7) == "send -1>-1 10");   // its own place, and no rank 1 in the group
    CHECK(pair("send", 5, 7) == "send -1>-1 10");
    CHECK(pair("send", -1, 7) == "send -1>-1 10");
    CHECK(pair("send", 2, 8) == "send -1>-1 10");   // not of the group
    CHECK(pair("send", 2, 1, "", 3, 3) == "send_recv 1>2 20");  // the group of all
    CHECK(pair("send", 2, 1, "", 3, 4) == "send -1>-1 10");
    CHECK(pair("send", 2, 7, "[4,7]", 3) == "send -1>-1 10");  // cut: not all members are told
    CHECK(members_of({"", "", "", "[4,7,9]", 0}) == std::vector<int>{4, 7, 9});
    CHECK(members_of({"", "", "", "[4,-7]", 2}).empty());
    CHECK(members_of({"", "", "", "4", 1}).empty());
}

// Two calls on three ranks: 30, 10, 20 us and 5, 6, 7 us: transfers 10 and 5 (7.5 in the median), waiting 20 + 0 + 10 and 0 + 1 + 2 of
// six. A third call that only one rank shows (its file goes on, the others broke off) tells no transfer.
TEST_CASE("calls alike on several ranks: transfer, waiting and bounds") {
    std::vector<Profile> ranks(3);
    const double us[3][3] = {{30, 5, 100}, {10, 6, 0}, {20, 7, 0}};
    for (std::size_t r = 0; r < 3; ++r) {
        ranks[r].path = fmt::format("r{}", r);
        ranks[r].collectives = {{"allreduce", "Half", "dp", "", 4, -1, -1, 500, 500, true}};
        ranks[r].shortened = r == 1;
        ranks[r].broken = r == 2 ? "torn" : "";
        for (int call = 0; call < (r == 0 ? 3 : 2); ++call) {
            DeviceSpan s;
            s.kind = SpanKind::communication;
            s.collective = 0;
            s.start = 1'000'000 * call;
            s.finish = s.start + std::lround(1000 * us[r][call]);
            ranks[r].spans.push_back(s);
        }
    }
    const std::vector<CollectiveTimes> all = collective_times(ranks);
    REQUIRE(all.size() == 1);
    CHECK(all[0].calls == 3);
    CHECK(all[0].ranks_seen == 3);
    CHECK(all[0].total.si() == Approx(178e-6));
    CHECK(all[0].least.si() == Approx(5e-6));
    CHECK(all[0].most.si() == Approx(100e-6));
    CHECK(all[0].transfer.si() == Approx(7.5e-6));
    CHECK(all[0].waiting.si() == Approx(33e-6 / 7));
    CHECK(meetings_of(ranks).untold == 1);
    CHECK(meetings_of(ranks).all.size() == 3);
    // Whole files with other numbers of calls cannot be told to be the same.
    ranks[1].shortened = false;
    CHECK(meetings_of(ranks).untold == 7);
    ranks[1].shortened = true;
    // Another operation or type in a group that is named is another job's; in one without a name it is not told.
    ranks[1].collectives[0].dtype = "float";
    CHECK(complaint([&] { meetings_of(ranks); }) == "r1: call 0 of process group \"dp\" is not that of r0; expected traces of one job, the same steps");
    for (Profile& p : ranks) p.collectives[0].group.clear();
    CHECK(meetings_of(ranks).untold == 7);
    ranks[1].collectives[0].dtype = "Half";
    ranks[1].collectives[0].op = "all_reduce";  // the same by another name
    CHECK(meetings_of(ranks).untold == 1);
    // Numbered from 0 on, each number once a rank: rank 0 has 0, 1, 2, the others 1, 2.
    for (Profile& p : ranks) p.collectives[0].group = "dp";
    for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t call = 0; call < ranks[r].spans.size(); ++call) ranks[r].spans[call].instance = static_cast<int>(call) + (r == 0 ? 0 : 1);
    const Meetings numbered = meetings_of(ranks);
    CHECK(numbered.untold == 0);
    REQUIRE(numbered.all.size() == 3);
    CHECK(numbered.all[numbered.of.at(&ranks[0].spans[0])].ranks.size() == 1);
    CHECK(numbered.all[numbered.of.at(&ranks[0].spans[1])].ranks.size() == 3);
    CHECK(numbered.all[numbered.of.at(&ranks[1].spans[1])].least.si() == Approx(6e-6));
    ranks[0].spans[1].instance = 0;  // twice the same number: no numbers
    CHECK(meetings_of(ranks).untold == 1);
    for (DeviceSpan& s : ranks[0].spans) --s.instance;
    CHECK(meetings_of(ranks).untold == 1);
    for (Profile& p : ranks) p.collectives[0].group.clear();
    std::vector<std::string> notes;
    (void)profile_tables(ranks, "run.csv", 1, notes);
    CHECK(notes.front().starts_with("1 kernels of collectives cannot be told to be the same call on several ranks"));
    CHECK(collective_times({}).empty());
}
