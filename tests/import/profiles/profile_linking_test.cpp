// What is made of a trace's records: which work belongs to which operator and phase, what is kept
// and what is said. Records are written down as values.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/profiles/link_records.h"
#include "import/profiles/operators.h"
#include "import/profiles/profile_times.h"
#include "import/profiles/trace_records.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// Records by words; times in nanoseconds.
struct RecordedWork {
    TraceRecords r;
    RecordedWork() { r.profile.shapes = true; }
    std::uint32_t inputs(const OperatorInputs& of) { return r.add_inputs(of); }
    void host(const char* name, std::uint32_t thread, std::int64_t start, std::int64_t length,
              std::uint32_t of = 0) {
        r.host.push_back({start, Length(length), thread, r.names.add(name), of});
    }
    DriverCall& call(std::uint64_t correlation, std::uint32_t thread, std::int64_t start,
                     std::int64_t length = 20) {
        r.calls.push_back({start, correlation, Length(length), thread});
        return r.calls.back();
    }
    DeviceRecord& work(std::uint64_t correlation, std::int64_t start, std::int64_t length,
                       SpanKind kind = SpanKind::compute, const char* name = "k") {
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

const OperatorInputs two_matrices{"[[8,16],[16,32]]", R"(["c10::Half","c10::Half"])",
                                  "[[16,1],[32,1]]", ""};
const OperatorInputs two_vectors{"[[64],[64]]", R"(["float","float"])", "", ""};
const OperatorInputs gradient{"[[2,128,4,64],[2,128,4,64],[2,256,1,64]]", R"(["c10::Half"])", "",
                              R"(["","","","","","","","","","","","True"])"};

}  // namespace

// Thread 1: linear 101 .. 501 holds mm 151 .. 351 and add 401 .. 451. Thread 2: a checkpoint's node
// 601 .. 1601 holds a backward 701 .. 1001, in it attention 751 .. 851 around a copy, and an
// all-reduce 1101 .. 1301. An optimizer on thread 1 from 2001 on.
TEST_CASE(
    "device work belongs to the product, the attention or the innermost operator around its "
    "launch, and to its phase") {
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
    for (const std::uint64_t c : {11u, 12u, 13u, 14u, 15u, 17u, 18u, 19u, 20u})
        x.work(c, 1000 + 100 * static_cast<std::int64_t>(c), 7);
    x.work(16, 9001, 11, SpanKind::communication, "ncclDevKernel(x)").sequence = 5;
    // by a call that is not here
    x.work(99, 9101, 13);
    // of no size
    x.work(98, 9201, 13, SpanKind::communication, "void ncclKernel<float>(x)").collective = -1;
    x.work(97, 9301, 13, SpanKind::communication, "void ncclKernel<float>(x)");
    x.work(96, 9401, 17, SpanKind::copy).bytes = 12;
    const Profile p = x.profile();
    CHECK(p.origin == 2100);
    struct Expected {
        ProfilePhase phase;
        std::int64_t start, launched;
        int instance, sized, collective;
    };
    using enum ProfilePhase;
    const Expected expected[] = {
        {forward, 0, 221 - 2100, 1, 0, -1},         {forward, 100, 376 - 2100, 1, 0, -1},
        {forward, 200, 431 - 2100, 2, 1, -1},       {forward, 300, 481 - 2100, 0, -1, -1},
        {backward, 400, 791 - 2100, 5, 2, -1},      {recompute, 600, 1421 - 2100, 3, -1, -1},
        {optimizer, 700, 2121 - 2100, 8, -1, -1},   {forward, 800, 2621 - 2100, -1, -1, -1},
        {forward, 900, 2721 - 2100, -1, -1, -1},    {recompute, 6901, 1171 - 2100, 5, -1, 0},
        {unlinked, 7001, not_launched, -1, -1, -1}, {unlinked, 7101, not_launched, -1, -1, 1},
        {unlinked, 7201, not_launched, -1, -1, 1},  {unlinked, 7301, not_launched, -1, -1, -1}};
    REQUIRE(p.spans.size() == std::size(expected));
    for (std::size_t i = 0; i < p.spans.size(); ++i) {
        const DeviceSpan& s = p.spans[i];
        CAPTURE(i);
        CHECK(s.phase == expected[i].phase);
        CHECK(s.start == expected[i].start);
        CHECK(s.launched == expected[i].launched);
        CHECK(s.instance == expected[i].instance);
        CHECK(s.sized == expected[i].sized);
        CHECK(s.collective == expected[i].collective);
    }
    CHECK(p.spans[0].finish == 7);
    CHECK(p.spans[13].bytes == 12);
    REQUIRE(p.operators.size() == 3);
    CHECK(p.operators[0].work == Op(Gemm{8, 32, 16, 1, Dtype::fp16, false, {}, Gemm::Layout::nn}));
    CHECK(p.operators[1].work == Op(MemoryPass{Bytes(768), Bytes(0)}));
    CHECK(kind_name(p.operators[2].work) == "attention");
    REQUIRE(p.collectives.size() == 2);
    CHECK(p.collectives[0].op == "allreduce_");
    CHECK(p.collectives[0].in_elements == 64);
    CHECK(p.collectives[1].op == "ncclKernel");
    CHECK(p.launches == std::vector<Seconds>{Seconds(20 * 1e-9), Seconds(25 * 1e-9)});
    CHECK(p.waits == std::vector<HostWait>{{2751 - 2100, 2761 - 2100}, {2801 - 2100, 2901 - 2100}});
    ProfileCounts counts;
    counts.kernels = 13;
    counts.unlinked = 3;
    counts.graph_kernels = 1;
    counts.collectives_without_size = 2;
    CHECK(p.counts == counts);
}

// The first operator of all is the collective; a kernel that says its size keeps that.
TEST_CASE("a collective's size is its kernel's, else its operator's") {
    RecordedWork x;
    x.host("nccl:all_reduce", 1, 101, 400, x.inputs(two_vectors));
    x.host("nccl:broadcast", 1, 601, 100, x.inputs(two_matrices));
    x.call(11, 1, 201).launches = true;
    x.call(12, 1, 301).launches = true;
    x.call(13, 1, 621).launches = true;
    x.r.profile.collectives = {{"allreduce", "Half", "0", "", 2, -1, -1, 7, 7, true}};
    x.work(11, 1000, 7, SpanKind::communication, "ncclDevKernel");
    x.work(12, 2000, 7, SpanKind::communication, "ncclDevKernel").collective = 0;
    x.work(13, 3000, 7, SpanKind::communication, "ncclDevKernel");
    const Profile p = x.profile();
    REQUIRE(p.collectives.size() == 3);
    CHECK((p.spans[0].collective == 1 && p.spans[1].collective == 0 && p.spans[2].collective == 2));
    CHECK((p.collectives[1].op == "all_reduce" && p.collectives[1].in_elements == 64 &&
           !p.collectives[1].from_kernel));
    CHECK((p.collectives[0].in_elements == 7 && p.collectives[2].op == "broadcast"));
    CHECK(p.counts.collectives_without_size == 0);
    CHECK(p.path == "x.json");
}

// Old traces state whole microseconds: a call up to one after the end of its operator may be
// inside.
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
    // One that begins where the other ends stands beside it; of two that begin together the longer
    // holds the other, of two alike the first; other threads' operators hold nothing.
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
    for (const std::uint64_t c : {1u, 2u, 3u, 4u, 5u})
        x.work(c, 10000 + 100 * static_cast<std::int64_t>(c), 7);
    const Profile p = x.profile();
    CHECK(p.spans[0].phase == ProfilePhase::forward);
    CHECK(p.spans[0].instance == 1);
    CHECK(p.spans[1].phase == ProfilePhase::forward);
    CHECK(p.spans[2].sized == 0);
    CHECK(p.spans[3].sized == -1);
    CHECK(p.spans[4].sized == 0);
    CHECK(p.counts.products_without_shape == 0);
    RecordedWork first;  // the product is the file's first record
    first.host("aten::mm", 1, 1001, 100, first.inputs(two_matrices));
    first.host("aten::copy_", 1, 1011, 50);
    first.call(1, 1, 1021);
    first.work(1, 2000, 1);
    CHECK(first.profile().spans[0].sized == 0);
    CHECK(first.profile().spans[0].instance == 0);
    RecordedWork shapeless;
    shapeless.host("aten::mm", 1, 1001, 100);
    shapeless.call(1, 1, 1005);
    shapeless.call(2, 1, 1006);
    shapeless.work(1, 2000, 1);
    shapeless.work(2, 2010, 1);
    CHECK(shapeless.profile().counts.products_without_shape == 2);
    CHECK(shapeless.profile().operators.empty());
}

// Device 3 works 5 + 5 ns in two kernels, device 2 eleven in one: with one more a kernel, 12 each;
// the lower number is taken.
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
    x.r.profile.ranks = 8;
    x.r.base = 7;
    x.r.profile.peak_reserved = Bytes(11);
    x.r.profile.peak_allocated = Bytes(13);
    x.r.profile.counts.events = 17;
    x.work(1, 300, 5);
    x.work(2, 100, 9).stream = 2;
    x.work(2, 100, 9).stream = 1;
    x.work(1, 100, 4);
    x.r.profile.memory = {{900, 1, 2}, {50, 3, 4}};
    for (const auto& [name, start] : {std::pair{"ProfilerStep#8", 700}, {"ProfilerStep#7", 400}})
        x.r.steps.push_back({start, Length(250), 0, x.r.names.add(name), 0});
    // Blocks take 9/16 s in all, 3/16 in the median; norms half a second; the model is one instance
    // only.
    x.r.modules["Block"] = {{"Block_0", "Block_1"}, {0.0625, 0.3125, 0.1875}};
    x.r.modules["Norm"] = {{"Norm_0", "Norm_1"}, {0.125, 0.125, 0.125, 0.125}};
    x.r.modules["Model"] = {{"Model_0"}, {100}};
    CollectiveCall told;
    told.op = "allreduce";
    told.group = "tp";
    told.ranks = 2;
    CollectiveCall sent = told;
    sent.op = "send";
    sent.members = "[3,5]";
    sent.target = 1;
    x.r.profile.collectives = {told, sent};
    x.r.groups["tp"] = "[2,3]";
    const Profile p = x.profile("rank-5.json");
    CHECK((p.rank == 3 && p.rank_told && p.ranks == 8));
    CHECK(p.path == "rank-5.json");
    CHECK(p.origin == 107);
    CHECK((p.peak_reserved == Bytes(11) && p.peak_allocated == Bytes(13)));
    CHECK(p.counts.events == 17);
    CHECK((p.spans[0].finish == 4 && p.spans[1].stream == 1 && p.spans[2].stream == 2 &&
           p.spans[3].start == 200));
    CHECK(p.memory == std::vector<ProfiledMemory>{{-50, 3, 4}, {800, 1, 2}});
    REQUIRE(p.steps.size() == 2);
    CHECK(p.steps[0].name == "ProfilerStep#7");
    CHECK(p.steps[0].start.si() == Approx(300e-9));
    CHECK(p.steps[1].duration.si() == Approx(250e-9));
    CHECK(p.layer == ProfiledLayer{"Block", 2, 3, Seconds(0.1875)});
    CHECK(p.collectives[0].members == "[2,3]");
    CHECK(p.collectives[1].members == "[3,5]");
    CHECK((p.collectives[1].op == "send_recv" && p.collectives[1].source == 0 &&
           p.collectives[1].target == 1));
    CHECK(p.names == std::vector<std::string>{"k", "ProfilerStep#8", "ProfilerStep#7"});
}

TEST_CASE("a rank that the trace does not say is the number behind the word in the file's name") {
    RecordedWork x;
    x.work(1, 100, 5);
    const auto rank = [&](const char* path) {
        const Profile p = x.profile(path);
        return p.rank_told ? p.rank : -1;
    };
    x.r.rank = 0;
    x.r.processes = 2;
    CHECK(rank("rank-3.json") == 0);  // what the trace says counts, though it be 0
    x.r.rank = -1;
    x.r.processes = 1;
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
    x.r.profile.shapes = false;
    CHECK(x.profile().notes ==
          std::vector<std::string>{
              "1 kernels were launched before the window or by a thread that was not profiled "
              "(phase unlinked)",
              "no shapes recorded: sizes of kernels are unknown (profile with record_shapes=True)",
              "no operator or range marks the backward: no rows of forward, backward and optimizer",
              "no ProfilerStep: no step times, the whole window is one piece"});
    x.r.profile.shapes = true;
    x.r.steps.push_back({0, Length(5), 0, 0, 0});
    x.call(1, 1, 50);
    x.host("backward", 1, 40, 50);
    CHECK(x.profile().notes ==
          std::vector<std::string>{
              "no range marks the optimizer: where one ran, its kernels count as the forward's"});
    x.host("Optimizer.step#SGD.step", 2, 240, 50);
    x.call(2, 2, 250);
    x.work(2, 300, 5);
    CHECK(x.profile().notes.empty());
    x.r.profile.broken = "at byte 7";
    x.r.profile.shortened = true;
    x.r.first = 1'000'000'000;
    x.r.window_end = 3'500'000'000;
    x.r.profile.counts.dropped = 2;
    x.r.whole_graphs = 3;
    x.r.nccl_payloads = 4;
    x.r.processes = 5;
    x.work(1, 100, 1).device = 1;
    const std::vector<std::string> notes = x.profile().notes;
    REQUIRE(notes.size() == 7);
    CHECK(notes[0] == "the trace is not whole: at byte 7; what was read up to there is kept");
    CHECK(notes[1] ==
          "the trace holds more than fits the bound of memory; only its first 2.500 s are kept");
    CHECK(notes[2] ==
          "2 events are no valid JSON, or have no time in microseconds, and are passed over");
    CHECK(notes[3].starts_with("3 launches of CUDA graphs"));
    CHECK(notes[4].starts_with("4 ranges of NCCL"));
    CHECK(notes[5].starts_with("one of 5 processes"));
    CHECK(notes[6].starts_with("1 further devices"));
    CHECK(x.profile().broken == "at byte 7");
    CHECK(x.profile().shortened);
    CHECK(x.profile().counts.dropped == 2);
    RecordedWork none;
    none.r.profile.counts.events = 3;
    CHECK(complaint([&] { (void)none.profile(); }) ==
          "x.json: 3 events, none of them work on a GPU; expected a trace with the GPU's activity");
    none.r.profile.broken = "torn";
    CHECK(complaint([&] { (void)none.profile(); }).ends_with(" (torn)"));
}

// Which arguments are multiplied, where it says whether a mask is causal, and where heads stand.
TEST_CASE("operators of PyTorch by their inputs") {
    const auto product = [](const char* op, const char* dims, const char* strides = "") {
        return sized_operator(op, {dims, R"(["c10::Half","float","double"])", strides, ""});
    };
    for (const char* op : {"aten::mm", "aten::bmm", "aten::_scaled_mm"}) {
        const auto found = product(op, "[[3,5,7],[3,7,11],[1]]", "[[35,1,5],[77,11,1],[1]]");
        REQUIRE(found);
        CHECK(found->work ==
              Op(Gemm{5, 11, 7, 3, Dtype::fp16, false, Gemm::Alignment::odd, Gemm::Layout::tn}));
        CHECK(found->layout_known);
    }
    for (const char* op : {"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"}) {
        const auto found = product(op, "[[1],[5,7],[7,11]]", "[[1],[7,1],[1,7]]");
        REQUIRE(found);
        CHECK(found->work ==
              Op(Gemm{5, 11, 7, 1, Dtype::fp32, false, Gemm::Alignment::odd, Gemm::Layout::nt}));
        CHECK(is_product(op));
    }
    CHECK_FALSE(product("aten::mm", "[[5,7],[7,11]]", "")->layout_known);
    // both strides 1: no transpose
    CHECK(product("aten::mm", "[[5,1],[1,11]]", "[[1,1],[11,1]]")->work ==
          Op(Gemm{5, 11, 1, 1, Dtype::fp16, false, Gemm::Alignment::odd, Gemm::Layout::nn}));
    CHECK_FALSE(product("aten::mm", "[[5,7],[7]]"));
    CHECK_FALSE(product("aten::mm", "[[5],[7]]"));
    CHECK_FALSE(product("aten::mm", "[[5,0],[0,7]]"));
    CHECK_FALSE(product("aten::mm", "[[0,3,5,7],[2,3,7,11]]"));
    CHECK_FALSE(product("aten::mm", "[[5,1.5],[7,11]]"));
    CHECK_FALSE(product("aten::mm", "torn"));
    CHECK_FALSE(product("aten::conv", "[[5,7],[7,11]]"));
    CHECK_FALSE(
        sized_operator("aten::mm", {"[[5,7],[7,11]]", R"(["double","double"])", "", ""})->known);

    // Forward: queries first; the scaled_dot_product family has heads before tokens. Twenty
    // arguments, True at one place.
    const auto attends = [](const char* op, int place, bool causal) {
        std::string concrete = "[";
        for (int i = 0; i < 20; ++i)
            concrete += fmt::format("{}\"{}\"", i > 0 ? "," : "",
                                    i == place       ? (causal ? "True" : "False")
                                    : i == place - 1 ? "maybe"
                                                     : "");
        return sized_operator(
            op, {"[[1,2,3,4],[5,6,7,8],[9,10,11,12]]", R"(["c10::Half"])", "", concrete + "]"});
    };
    struct Rule {
        const char* op;
        int place;
        bool heads_first, backward;
    };
    for (const Rule& rule :
         {Rule{"aten::_flash_attention_forward", 8, false, false},
          {"aten::_flash_attention_backward", 11, false, true},
          {"aten::_scaled_dot_product_flash_attention", 4, true, false},
          {"aten::_scaled_dot_product_flash_attention_backward", 11, true, true},
          {"aten::_scaled_dot_product_efficient_attention", 6, true, false},
          {"aten::_scaled_dot_product_efficient_attention_backward", 11, true, true},
          {"aten::_scaled_dot_product_cudnn_attention", 6, true, false},
          {"aten::_scaled_dot_product_cudnn_attention_backward", 14, true, true}}) {
        CAPTURE(rule.op);
        CHECK(is_attention(rule.op));
        for (const bool causal : {true, false}) {
            const auto found = attends(rule.op, rule.place, causal);
            REQUIRE(found);
            const long q[] = {5, 6, 7, 8}, k[] = {9, 10, 11, 12}, q0[] = {1, 2, 3, 4};
            const long* of_q = rule.backward ? q : q0;
            const long* of_k = rule.backward ? k : q;
            const int heads = rule.heads_first ? 1 : 2, tokens = 3 - heads;
            Attention a{.batch = of_q[0],
                        .heads = of_q[heads],
                        .seq_q = of_q[tokens],
                        .seq_k = of_k[tokens],
                        .head_dim = of_q[3],
                        .causal = causal,
                        .backward = rule.backward,
                        .dtype = Dtype::fp16,
                        .flash = true};
            CHECK(found->work == Op(a));
            CHECK(found->kv_heads == of_k[heads]);
            CHECK(found->op == rule.op);
            CHECK(found->dtype == "c10::Half");
        }
        CHECK_FALSE(attends(rule.op, rule.place + 1, true));
    }
    CHECK(is_attention("aten::_efficient_attention_forward"));
    CHECK(is_attention("aten::_efficient_attention_backward"));
    CHECK_FALSE(sized_operator(
        "aten::_flash_attention_forward",
        {"[[1,2,3],[5,6,7,8]]", R"(["c10::Half"])", "", R"(["","","","","","","","","True"])"}));
    CHECK_FALSE(sized_operator(
        "aten::_flash_attention_forward",
        {"[[1,2,3,4],[5,6,7]]", R"(["c10::Half"])", "", R"(["","","","","","","","","True"])"}));
    CHECK_FALSE(sized_operator(
        "aten::_flash_attention_forward",
        {"[[1,2,3,4],[5,6,7,8]]", R"(["double"])", "", R"(["","","","","","","","","True"])"}));

    // A copy reads one and writes the other; others read all and write the largest.
    CHECK(sized_operator("aten::copy_",
                         {"[[3,5],[3,5],[]]", R"(["c10::Half","float","bool"])", "", ""})
              ->work == Op(MemoryPass{Bytes(30 + 60), Bytes(0)}));
    CHECK(sized_operator("aten::mul", {"[[3,5],[5]]", R"(["c10::Half","float"])", "", ""})->work ==
          Op(MemoryPass{Bytes(30 + 20 + 30), Bytes(0)}));
    CHECK(sized_operator("aten::mul", {"[[3,5],[5]]", R"(["c10::Half","float"])", "", ""})->kind ==
          "add");
    CHECK_FALSE(sized_operator("aten::mul", {"[[],[]]", R"(["Scalar","Scalar"])", "", ""}));
    CHECK_FALSE(sized_operator("aten::unknown", {"[[3,5]]", R"(["float"])", "", ""}));

    const std::pair<const char*, double> sizes[] = {{"float", 4},
                                                    {"double", 8},
                                                    {"c10::BFloat16", 2},
                                                    {"Half", 2},
                                                    {"c10::Float8_e4m3fn", 1},
                                                    {"Float8_e5m2", 1},
                                                    {"int", 4},
                                                    {"long int", 8},
                                                    {"short", 2},
                                                    {"bool", 1},
                                                    {"Byte", 1},
                                                    {"Char", 1},
                                                    {"Scalar", 0}};
    for (const auto& [type, bytes] : sizes) CHECK(element_bytes(type) == bytes);
    const auto exchange =
        collective_of("c10d::record_param_comms::allreduce_",
                      {"[[],[3,5],[7]]", R"(["GenericList","float","float"])", "", ""});
    CHECK(*exchange == CollectiveCall{"allreduce_", "float", "", "", 0, -1, -1, 15, 15, false});
    CHECK(collective_of("broadcast", {"", "", "", ""})->op == "broadcast");
}

// Group [4,7,9]: rank 7 sends to place 2 (rank 9), or to rank 9 by its number in the job; to itself
// it sends nothing.
TEST_CASE("both ends of a pair are places in the group") {
    const auto pair = [](const char* op, int peer, int rank, const char* members = "[4,7,9]",
                         int ranks = 3, int world = 16) {
        CollectiveCall c{op, "float", "pp", members, ranks, peer, peer, 10, 20, true};
        tell_pair(c, rank, world);
        return fmt::format("{} {}>{} {}", c.op, c.source, c.target, c.in_elements);
    };
    CHECK(pair("send", 2, 7) == "send_recv 1>2 20");
    CHECK(pair("recv", 2, 7) == "send_recv 2>1 20");
    CHECK(pair("send 1->2", 0, 7) == "send_recv 1>0 20");
    CHECK(pair("send", 9, 7) == "send_recv 1>2 20");
    CHECK(pair("send", 1, 7) == "send -1>-1 10");  // its own place, and no rank 1 in the group
    CHECK(pair("send", 5, 7) == "send -1>-1 10");
    CHECK(pair("send", -1, 7) == "send -1>-1 10");
    CHECK(pair("send", 2, 8) == "send -1>-1 10");               // not of the group
    CHECK(pair("send", 2, 1, "", 3, 3) == "send_recv 1>2 20");  // the group of all
    CHECK(pair("send", 2, 1, "", 3, 4) == "send -1>-1 10");
    CHECK(pair("send", 2, 7, "[4,7]", 3) == "send -1>-1 10");  // cut: not all members are told
    CHECK(members_of({"", "", "", "[4,7,9]", 0}) == std::vector<int>{4, 7, 9});
    CHECK(members_of({"", "", "", "[4,-7]", 2}).empty());
    CHECK(members_of({"", "", "", "4", 1}).empty());
}
