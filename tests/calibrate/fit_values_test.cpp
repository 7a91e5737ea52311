// What rows tell a fit, on small hand-made rows.

#include <cmath>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "calibrate/fit.h"
#include "calibrate/fit_tables.h"
#include "calibrate/script_tables.h"
#include "calibrate/table_record.h"
#include "calibrate/traced_tables.h"
#include "import/logs/block_attribution.h"
#include "import/profiles/table_words.h"
#include "model/records/measurement_file.h"
#include "sim/costs/costs.h"
#include "sim/costs/op_costs.h"
#include "sim/network/ring_path.h"
#include "tests/calibrate/made_up_machine.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

std::string whole(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

// Times in whole nanoseconds are written as decimals, other values as the shortest text that reads
// back as the same number.
TEST_CASE(
    "a measurements file holds each value as the shortest text, and appears when it is finished") {
    const TestFolder folder;
    const std::string path = folder.path() + "/m.csv";
    MeasurementFile file(path);
    Sample run;
    run.run_id = "a,b";
    run.system = "s";
    run.model = "m";
    run.experts = 8;
    run.ranks = 16;
    file.begin_run(run);
    const std::pair<double, const char*> values[] = {{0, "0"},
                                                     {7, "7"},
                                                     {1.5, "1.5"},
                                                     {0.000123456, "0.000123456"},
                                                     {2.000000001, "2.000000001"},
                                                     {12.05, "12.05"},
                                                     {0.9, "0.9"},
                                                     {10.01, "10.01"},
                                                     {1e-10, "1e-10"},
                                                     {0.1 + 0.2, "0.30000000000000004"},
                                                     {999999.5, "999999.5"},
                                                     {1e6, "1e+06"},
                                                     {1234567.25, "1234567.25"},
                                                     {-1.5, "-1.5"}};
    std::string expected;
    for (const auto& [value, text] : values) {
        file.add("forward, all", 3, 17, value, "1");
        expected += fmt::format("\"a,b\",s,m,8,16,\"forward, all\",3,17,{},1\n", text);
    }
    CHECK(file.rows() == std::size(values));
    CHECK_FALSE(std::filesystem::exists(path));
    file.finish();
    CHECK(whole(path) == write_measurements({}) + expected);
    const std::vector<Sample> back = read_measurements(path);
    REQUIRE(back.size() == std::size(values));
    for (std::size_t i = 0; i < back.size(); ++i) CHECK(back[i].value == values[i].first);
}

TEST_CASE(
    "rows of several runs, and more of them than are held at once, are written once and in order") {
    const TestFolder folder;
    std::vector<Sample> rows;
    for (int i = 0; i < 40000; ++i) {
        Sample s;
        s.run_id = i % 3 == 0 ? "one" : "two";
        s.phase = "step";
        s.rank = i % 5;
        s.step = i;
        s.value = 1e-3 * i;
        rows.push_back(s);
    }
    const std::string path = folder.path() + "/m.csv";
    MeasurementFile file(path);
    for (const Sample& row : rows) {
        file.begin_run(row);
        file.add(row.phase, row.rank, row.step, row.value, row.unit);
    }
    file.finish();
    CHECK(std::filesystem::file_size(path) > std::size_t{1} << 20);
    CHECK(whole(path) == write_measurements(rows));
    CHECK(read_measurements(path) == rows);
    CHECK(file.rows() == 40000);
}

// A rank with 0 blocks is known, too. A step tells nothing if it shows a rank twice, too few ranks,
// or a count that none of its lines has.
TEST_CASE(
    "a step tells its blocks only when every rank is seen once with a count that the step has") {
    using Totals = std::vector<BlockTotals>;
    CHECK(assign_blocks({{{{0, 0}, {10, 3}}, {{0, 10}, {1, 0}}, {}}}, 2).at(0) ==
          Totals{{10, 3}, {0, 0}});
    CHECK(assign_blocks({{{{8, 2}, {10, 3}}, {{0, 10}, {0, 8}}, {}}}, 2).at(0).empty());
    CHECK(assign_blocks({{{{0, 2}, {10, 3}}, {{0, 0}, {0, 10}}, {}}}, 2).at(0).empty());
    CHECK(assign_blocks({{{{8, 2}, {10, 3}}, {{0, 10}, {1, 7}}, {}}}, 2).at(0).empty());
    CHECK(assign_blocks({{{{8, 2}, {10, 3}}, {{0, 10}, {1, 10}}, {}}}, 2).at(0).empty());
    CHECK(assign_blocks({{{{8, 2}}, {{0, 8}, {1, 8}}, {}}}, 2).at(0).empty());
    CHECK(assign_blocks({{{{8, 2}, {10, 3}, {9, 1}}, {{0, 10}, {1, 8}}, {}}}, 2).at(0).empty());
    CHECK(rank_of_ratio({{100, 50}}, 0.5000005) == 0);
    CHECK(rank_of_ratio({{100, 50}}, 0.4999995) == 0);
    CHECK_FALSE(rank_of_ratio({{100, 50}}, 0.5000007));
}

// Eager launches count with 10 to 1000 calls, replays of graphs from 100 on. Of 3, 5 and 9 us the
// median counts, with the error log(9 / 3) / 2. Launches of a profile come after those of a script.
TEST_CASE("launches tell what a call and a kernel cost at least") {
    BuildingBlocks blocks;
    const auto launch = [&](const char* kind, int calls, double us, RowHash row = 1) {
        blocks.launches.push_back({kind, calls, Seconds(1e-6 * us), row});
    };
    launch("eager host issue", 10, 3, 7);
    launch("eager host issue", 1000, 9, 5);
    launch("eager host issue", 100, 5, 7);
    launch("eager host issue", 9, 100);
    launch("eager host issue", 1001, 100);
    launch("graph replay wall", 99, 100);
    launch("graph replay wall", 100, 2);
    launch("host read", 1, 13);
    const FitResult fit = launch_fit(made_up_machine(4), blocks);
    REQUIRE(fit.parameters.size() == 3);
    CHECK(fit.parameters[0].parameter == FittedParameter{"host.call", "5 us",
                                                         to_string(HostCosts{}.call),
                                                         std::log(3.0) / 2, true});
    CHECK(fit.parameters[0].data_error == std::log(3.0) / 2);
    CHECK(fit.parameters[1].parameter ==
          FittedParameter{"kernel.launch", "2 us", to_string(KernelCosts{}.launch), 0, true});
    CHECK(fit.parameters[2].parameter ==
          FittedParameter{"host.read", "13 us", to_string(HostCosts{}.read), 0, true});
    CHECK(fit.cluster.host.call.si() == Approx(5e-6));
    CHECK(fit.cluster.kernel.launch.si() == Approx(2e-6));
    CHECK(fit.cluster.host.read.si() == Approx(13e-6));
    CHECK(fit.cluster.fitted->samples == 8);
    CHECK(fit.cluster.fitted->rows == std::vector<RowHash>{1, 5, 7});
    CHECK(fit.cluster.fitted->parameters.size() == 3);
    launch("launch call", 1, 17);
    CHECK(launch_fit(made_up_machine(4), blocks).cluster.host.call.si() == Approx(17e-6));
    CHECK(launch_fit(made_up_machine(4), {}).parameters.empty());
}

// The fastest row of a call is its floor: rows that take no more than 1.25 of it waited for the
// host.
TEST_CASE("rows within a quarter of their call's floor tell nothing") {
    const auto kernel = [](const char* call, double us) {
        return KernelRow{"memory_pass", call, MemoryPass{Bytes(1), Bytes(1)}, Seconds(us), 0};
    };
    const std::vector<KernelRow> kernels =
        above_floor({kernel("copy", 16), kernel("copy", 8), kernel("copy", 10),
                     kernel("copy", 10.5), kernel("add", 20), kernel("add", 26)});
    REQUIRE(kernels.size() == 3);
    CHECK(
        (kernels[0].time.si() == 16 && kernels[1].time.si() == 10.5 && kernels[2].time.si() == 26));
    const auto gemm = [](bool between, double us) {
        GemmRow row;
        row.time = Seconds(us);
        row.between_events = between;
        return row;
    };
    const std::vector<GemmRow> gemms = above_floor(std::vector<GemmRow>{
        gemm(true, 16), gemm(true, 8), gemm(true, 10), gemm(true, 10.5), gemm(false, 4)});
    REQUIRE(gemms.size() == 3);
    CHECK((gemms[0].time.si() == 16 && gemms[1].time.si() == 10.5 && gemms[2].time.si() == 4));
}

// The cost of events is added only to rows that were timed between events.
TEST_CASE("a kernel of a script takes what its law says, and between events what they add") {
    Cluster c = made_up_machine(4);
    c.kernel.event = 3_us;
    const Op pass = MemoryPass{Bytes(1e6), Bytes(2e6)};
    KernelRow row{"memory_pass", "add", pass, 1_us, 9, true};
    const Seconds law = op_time(pass, Phase::forward, {}, c);
    CHECK(kernel_case(row).predict(c).si() == Approx((law + 3_us).si()));
    CHECK(kernel_case(row).name == "add of 3 MB");
    CHECK(kernel_case(row).row == 9);
    row.between_events = false;
    CHECK(kernel_case(row).predict(c) == law);
    row = {"attention",
           "attention",
           Attention{.batch = 3,
                     .heads = 5,
                     .seq_q = 7,
                     .seq_k = 11,
                     .head_dim = 64,
                     .dtype = Dtype::bf16,
                     .flash = true},
           1_us,
           9,
           false};
    CHECK(kernel_case(row).name == "attention 15 of 11 keys, width 64 bf16");
    row.op = Gemm{.m = 3, .n = 5, .k = 7, .batch = 2, .dtype = Dtype::bf16};
    CHECK(kernel_case(row).name == "attention 2 of 3x5x7 bf16");
    BuildingBlocks blocks;
    CHECK(kernel_fits(blocks).front().parameters.front() ==
          FitParameter{"kernel.launch", "2.4 us", 0.5, "0.3 us", "20 us"});
    blocks.launches.push_back({"graph replay wall", 100, 2_us, 0});
    CHECK(kernel_fits(blocks).front().parameters.front() ==
          FitParameter{"kernel.event", "2 us", 0.7, "0.05 us", "6 us"});
    std::string text;
    for (const FitPlan& fit : kernel_fits(blocks)) text += text_of(fit.parameters);
    CHECK(text ==
          "kernel.event 2 us 0.7 0.05 us..6 us\nkernel.memory_efficiency 0.88 0.2 "
          "0.2..1.1\nkernel.row_efficiency 0.8 0.3 0.1..1.1\n"
          "kernel.cache 40 MB 0.5 4 MB..400 MB\nkernel.cache_gain 1.5 0.4 "
          "1.01..8\nkernel.strided_efficiency 0.5 0.5 0.02..1.1\nkernel.transpose_efficiency 0.25 "
          "0.7 0.02..1.1\nkernel.batched_gemm 0.9 0.3 0.1..1.5\n"
          "kernel.attention_efficiency 0.7 0.4 0.1..1\nkernel.attention_ramp 600 0.7 "
          "10..10000\nkernel.attention_width 40 0.7 0.5..500\n");
}

namespace {

BuildingBlocks traced_blocks(const TestFolder& folder, const std::string& table) {
    BuildingBlocks blocks;
    read_building_blocks(folder.write("t.csv", table), made_up_machine(4).gpu, blocks);
    return blocks;
}

}  // namespace

TEST_CASE("rows of a profile's tables are work inside steps") {
    const TestFolder folder;
    const BuildingBlocks gemms =
        traced_blocks(folder,
                      "m,n,k,groups,dtype,layout,time_us,calls,rank\n3,5,7,1,bf16,NN,11,13,0\n3,5,"
                      "7,1,bf16,TN,11,,0\n3,5,7,1,fp8,NT,11,13,0\n3,5,7,1,fp16,NT,11,13,0\n");
    REQUIRE(gemms.traced.size() == 3);
    CHECK(gemms.other_op_rows == 1);
    const KernelRow& first = gemms.traced[0];
    CHECK(first ==
          KernelRow{"gemm", "",
                    Gemm{.m = 3, .n = 5, .k = 7, .dtype = Dtype::bf16, .layout = Gemm::Layout::nn},
                    first.time, first.row, true, 13});
    CHECK(first.time.si() == Approx(11e-6));
    CHECK(std::get<Gemm>(gemms.traced[1].op).layout == Gemm::Layout::tn);
    CHECK(gemms.traced[1].calls == 1);
    CHECK(gemms.traced[2].kind == "narrow");
    CHECK(std::get<Gemm>(gemms.traced[2].op).layout == Gemm::Layout::nt);
    const BuildingBlocks batches =
        traced_blocks(folder, "batch,m,n,k,dtype,time_us,calls,rank\n2,3,5,7,bf16,11,13,0\n");
    CHECK(std::get<Gemm>(batches.traced.at(0).op) ==
          Gemm{.m = 3, .n = 5, .k = 7, .batch = 2, .dtype = Dtype::bf16});
    const BuildingBlocks passes =
        traced_blocks(folder,
                      "kind,bytes,dtype,time_us,calls,rank\ncopy,300,float,11,13,0\nsoftmax,300,"
                      "float,11,13,0\nlayernorm,300,float,11,13,0\n");
    using Access = MemoryPass::Access;
    REQUIRE(passes.traced.size() == 3);
    CHECK(passes.traced[0].op == Op(MemoryPass{Bytes(300), Bytes(0), Access::stream}));
    CHECK(passes.traced[0].kind == "pass");
    for (const std::size_t i : {1U, 2U}) {
        CHECK(passes.traced[i].op == Op(MemoryPass{Bytes(300), Bytes(0), Access::rows}));
        CHECK(passes.traced[i].kind == "rows");
    }
    const BuildingBlocks attention = traced_blocks(
        folder,
        "op,batch,heads,kv_heads,head_dim,seq_q,seq_k,causal,window,dtype,kernel,pass,time_us,"
        "calls,rank\n"
        "attention,2,4,1,64,128,256,1,0,bf16,x,backward,11,13,0\nattention,2,4,1,64,128,256,1,0,"
        "bf16,x,forward,11,13,0\nattention,2,4,1,64,128,256,1,0,fp16,x,forward,11,13,0\n");
    REQUIRE(attention.traced.size() == 2);
    CHECK(attention.other_op_rows == 1);
    CHECK(std::get<Attention>(attention.traced[0].op).backward);
    CHECK_FALSE(std::get<Attention>(attention.traced[1].op).backward);
    CHECK(attention.traced[0].kind == "attention");
    const BuildingBlocks links = traced_blocks(
        folder,
        "op,ranks,nodes,bytes,time_us,calls,ranks_seen,bound\nall_reduce,4,1,300,11,13,4,"
        "measured\nall_gather,4,2,300,11,13,4,measured\nreduce_scatter,4,,300,11,13,4,measured\n"
        "all_to_all,4,1,300,11,13,4,measured\nbroadcast,4,1,300,11,13,4,measured\nreduce,4,1,300,"
        "11,13,4,measured\nall_reduce,4,1,300,11,13,1,upper\n");
    CHECK(links.upper_bound_rows == 1);
    CHECK(links.other_op_rows == 1);
    REQUIRE(links.traced.size() == 5);
    CHECK(links.traced[0].op == Op(AllReduce{Bytes(300)}));
    CHECK((links.traced[0].kind == "intra" && links.traced[0].ranks == 4));
    CHECK(links.traced[1].op == Op(AllGather{Bytes(300)}));
    CHECK(links.traced[1].kind == "inter");
    CHECK(links.traced[2].op == Op(ReduceScatter{Bytes(300)}));
    CHECK(links.traced[3].op == Op(AllToAll{std::vector<Bytes>(16, Bytes(75))}));
    CHECK(links.traced[4].op == Op(Broadcast{Bytes(300), 0}));
}

// The heaviest product takes 100 us in total and has the spread 1. One of 25 us has sqrt(4); one of
// 1 us has at most 5.
TEST_CASE("traced work is one class a constant, heavy rows telling most") {
    BuildingBlocks blocks;
    const auto add = [&](const char* kind, const Op& op, double us, double calls, int ranks = 0) {
        blocks.traced.push_back({kind, "", op, Seconds(1e-6 * us), 77, true, calls, ranks});
    };
    const Gemm gemm{.m = 512, .n = 256, .k = 128, .dtype = Dtype::bf16};
    add("gemm", gemm, 50, 2);
    add("gemm", gemm, 5, 5);
    add("gemm", gemm, 1, 1);
    add("rows", MemoryPass{Bytes(3e6), Bytes(0), MemoryPass::Access::rows}, 7, 1);
    add("intra", AllReduce{Bytes(1e6)}, 11, 1, 4);
    add("intra", AllReduce{Bytes(1e6)}, 11, 1, 5);  // more ranks than the machine has
    add("inter", AllReduce{Bytes(1e6)}, 11, 1, 8);
    const Cluster c = made_up_machine(4);
    const std::vector<FitPlan> fits = traced_fits(c, blocks);
    REQUIRE(fits.size() == 3);
    CHECK(fits[0].parameters.at(0).key == "kernel.training_gemm");
    REQUIRE(fits[0].cases.size() == 3);
    CHECK(fits[0].cases[0].spread == Approx(1));
    CHECK(fits[0].cases[1].spread == Approx(2));
    CHECK(fits[0].cases[2].spread == Approx(5));
    CHECK(fits[0].cases[0].kind == "gemm in steps");
    CHECK(fits[0].cases[0].name == "gemm in steps 77");
    CHECK(fits[0].cases[0].row == 77);
    CHECK(fits[0].cases[0].predict(c) == op_time(gemm, Phase::forward, {}, c));
    CHECK(fits[1].cases.at(0).kind == "row pass in steps");
    CHECK(fits[2].parameters.at(0) == FitParameter{"link.intra.training", "1", 0.5, "0.1", "2"});
    REQUIRE(fits[2].cases.size() == 1);
    CHECK(fits[2].cases[0].predict(c) ==
          time_in_step(AllReduce{Bytes(1e6)}, ring_path(Group{4}, c), c));
}

// An addition reads two tensors for each one that it writes; attention has the heads of all
// sequences as its batch.
TEST_CASE("rows of a script's tables are kernels by themselves") {
    const TestFolder folder;
    const BuildingBlocks passes =
        traced_blocks(folder,
                      "kind,bytes,timer,time_us\ncopy,600,kernel,7\nadd,600,events,7\ngelu,600,,"
                      "7\nsoftmax,600,kernel,7\nlayernorm,600,kernel,7\n");
    using Access = MemoryPass::Access;
    REQUIRE(passes.kernels.size() == 5);
    CHECK(passes.kernels[0] == KernelRow{"memory_pass", "copy", MemoryPass{Bytes(300), Bytes(300)},
                                         passes.kernels[0].time, passes.kernels[0].row, false});
    const auto& sum = std::get<MemoryPass>(passes.kernels[1].op);
    CHECK(sum.read.si() == Approx(400));
    CHECK(sum.written.si() == Approx(200));
    CHECK(passes.kernels[1].between_events);
    CHECK(passes.kernels[2].call == "gelu");
    for (const std::size_t i : {3U, 4U}) {
        CHECK(std::get<MemoryPass>(passes.kernels[i].op) ==
              MemoryPass{Bytes(300), Bytes(300), Access::rows});
        CHECK(passes.kernels[i].kind == "rows");
    }
    const BuildingBlocks batches = traced_blocks(
        folder,
        "batch,m,n,k,dtype,timer,time_us\n2,3,5,7,bf16,kernel,11\n2,3,5,7,bf16-flash-causal,,11\n");
    CHECK(batches.kernels.at(0).op ==
          Op(Gemm{.m = 3, .n = 5, .k = 7, .batch = 2, .dtype = Dtype::bf16}));
    CHECK((batches.kernels[0].kind == "batched_gemm" && batches.kernels[0].call == "bmm" &&
           !batches.kernels[0].between_events));
    CHECK(batches.kernels.at(1).op == Op(Attention{2, 1, 3, 5, 7, true, false, Dtype::bf16, true}));
    CHECK((batches.kernels[1].kind == "attention" && batches.kernels[1].call == "attention" &&
           batches.kernels[1].between_events));
}

// Medians of launches (3, 5, 9 us) and of layers; single passes of 2 x 3 us against compiled ones
// of 1 x 5 us.
TEST_CASE("a traced framework takes its calls, its layers and whether it is compiled") {
    const auto rows = [](double compiled) {
        std::vector<LaunchRow> all;
        for (const double us : {9.0, 3.0, 5.0})
            all.push_back({std::string(launch_kind), 1, Seconds(1e-6 * us)});
        all.push_back({std::string(layer_kind), 1, 55_us});
        all.push_back({"host time of a layer (Block)", 1, 999_us});
        all.push_back({std::string(single_passes), 2, 3_us});
        all.push_back({std::string(compiled_passes), 1, Seconds(1e-6 * compiled)});
        return all;
    };
    Framework f;
    const std::vector<std::string> said = take_framework(f, rows(5));
    REQUIRE(said.size() == 3);
    CHECK(parse_seconds(*ruled_value(f, "cluster.host.call")).si() == Approx(5e-6));
    CHECK(parse_seconds(*ruled_value(f, "cluster.host.layer")).si() == Approx(55e-6));
    CHECK(*ruled_value(f, "runtime.kernels") == "eager");
    CHECK(said[2] == "eager = true: passes of single operators take 6 us, of compiled graphs 5 us");
    (void)take_framework(f, rows(6));
    CHECK(*ruled_value(f, "runtime.kernels") == "fused");
    CHECK(take_framework(f, {}).empty());
}

// A later fit replaces entries of the same name and adds the others; errors of held-out rows come
// before those of fitted ones.
TEST_CASE("ranges are those of the rows, and constants merge by name") {
    BuildingBlocks blocks;
    for (const long m : {30L, 20L, 50L})
        blocks.gemms.push_back({Gemm{.m = m, .n = 2 * m, .k = 3 * m}, 1, 1_us});
    for (const long q : {7L, 5L, 11L})
        blocks.attentions.push_back({"", "", {Attention{.seq_q = q}, 1}, 1_us});
    blocks.collectives.push_back({"reduce", 4, 1, Bytes(300), 1_us});
    blocks.collectives.push_back({"reduce", 2, 1, Bytes(500), 1_us});
    CHECK(ranges_of(blocks) == std::vector<FittedRange>{{"gemm.m", 20, 50},
                                                        {"gemm.n", 40, 100},
                                                        {"gemm.k", 60, 150},
                                                        {"attention.queries", 5, 11},
                                                        {"reduce.bytes", 300, 500},
                                                        {"reduce.ranks", 2, 4}});
    Fitted earlier, later;
    earlier.constants = {{"a", 1, "x"}, {"b", 2, "x"}};
    later.constants = {{"b", 3, "y"}, {"c", 4, "y"}};
    earlier.ranges = {{"gemm.m", 1, 2}, {"gemm.n", 3, 4}};
    later.ranges = {{"gemm.m", 5, 6}};
    earlier.errors = {{"gemm", "fitted", 1}, {"gemm", "held-out tenth", 2}};
    later.errors = {{"gemm", "held-out tenth", 3}, {"cast", "held-out tenth", 4}};
    earlier.rows = {3, 7};
    later.rows = {5, 7};
    const Fitted all = merged(earlier, later);
    CHECK(all.constants ==
          std::vector<FittedConstants>{{"a", 1, "x"}, {"b", 3, "y"}, {"c", 4, "y"}});
    CHECK(all.ranges == std::vector<FittedRange>{{"gemm.m", 5, 6}, {"gemm.n", 3, 4}});
    CHECK(all.errors == std::vector<HeldOutError>{{"gemm", "held-out tenth", 3},
                                                  {"cast", "held-out tenth", 4},
                                                  {"gemm", "fitted", 1}});
    CHECK(all.rows == std::vector<RowHash>{3, 5, 7});
}
