// The sweeps of a calibration on a GPU, and the points made from their measurements.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "calibrate/gpu_fit.h"
#include "calibrate/gpu_sweep.h"
#include "model/graph/task_graph.h"

using namespace stepcast;

namespace {

struct MadeUpSweep {
    TaskGraph graph{2};
    Measurement measurement;
    explicit MadeUpSweep(std::size_t repetitions) {
        measurement.device = "X1";
        measurement.date = "2026-02-03";
        measurement.traces.resize(repetitions);
    }
    // One start and length (microseconds) for each place; in the repetitions the lengths are
    // multiplied by 1, 2, ..
    void add(const char* name, const Op& op,
             const std::vector<std::pair<Place, std::pair<double, double>>>& spans) {
        std::vector<Place> places;
        for (const auto& [place, when] : spans) places.push_back(place);
        const TaskId task = graph.add(graph.task_of(name, Phase::forward, op, 1), places, {});
        double factor = 1;
        for (Trace& t : measurement.traces) {
            for (const auto& [place, when] : spans)
                t.spans.push_back({task, place, Seconds(1e-6 * when.first),
                                   Seconds(1e-6 * (when.first + factor * when.second))});
            ++factor;
        }
    }
};

}  // namespace

// Repetitions take 1, 2 and 3 parts: the median is the second, the quartiles are 1.5 and 2.5.
TEST_CASE("points of a GPU sweep are medians over repetitions and ranks, by what was asked for") {
    const Place first(0, Lane::compute), second(1, Lane::compute), left(0, Lane::collective),
        right(1, Lane::collective);
    MadeUpSweep sweep(3);
    const Gemm product{3, 5, 7, 1, Dtype::bf16, true};
    sweep.add("gemm", product, {{first, {0, 10}}});
    // the same on another rank: medians 20 and 60, their median 40
    sweep.add("gemm", product, {{second, {0, 30}}});
    sweep.add("gemm", Gemm{3, 5, 7, 1, Dtype::bf16, false}, {{first, {0, 50}}});
    // batched: an attention's
    sweep.add("gemm", Gemm{3, 5, 7, 2, Dtype::bf16, false}, {{first, {0, 15}}});
    sweep.add("gemm", GroupedGemm{{11, 11, 11}, 13, 17, Dtype::fp16}, {{first, {0, 2}}});
    sweep.add("sustained", product, {{first, {0, 4}}});
    sweep.add("sustained", Attention{.batch = 1, .heads = 2, .seq_q = 3, .seq_k = 3, .head_dim = 8},
              {{first, {0, 6}}});
    sweep.add("memory", MemoryPass{Bytes(10), Bytes(20)}, {{first, {0, 7}}});
    sweep.add("memory", MemoryPass{Bytes(10), Bytes(20), MemoryPass::Access::transpose},
              {{first, {0, 8}}});
    sweep.add("memory", MemoryPass{Bytes(10), Bytes(20), MemoryPass::Access::optimizer},
              {{first, {0, 9}}});
    sweep.add("memory", MemoryPass{Bytes(10), Bytes(20), MemoryPass::Access::rows},
              {{first, {0, 9}}});
    sweep.add("memory", MemoryPass{Bytes(10), Bytes(20), MemoryPass::Access::strided},
              {{first, {0, 9}}});
    // counts until the slowest rank has left it
    sweep.add("all_reduce", AllReduce{Bytes(100)}, {{left, {0, 5}}, {right, {0, 11}}});
    sweep.add("all_to_all", AllToAll{{Bytes(7), Bytes(7), Bytes(7), Bytes(7)}},
              {{left, {0, 12}}, {right, {0, 11}}});
    sweep.add("send_recv", SendRecv{Bytes(100), 1},
              {{Place(0, Lane::send_up), {0, 13}}, {Place(1, Lane::receive_up), {0, 13}}});
    for (const char* other : {"head", "align", "between"})
        sweep.add(other, MemoryPass{Bytes(1), Bytes(1)}, {{first, {0, 1000}}});
    // The empty kernels of rank 0 start at 100, 103, 108 and 115 us.
    for (const double start : {100.0, 103.0, 108.0, 115.0}) {
        sweep.add("empty", MemoryPass{Bytes(16), Bytes(16)}, {{first, {start, 1}}});
        sweep.add("empty", MemoryPass{Bytes(16), Bytes(16)}, {{second, {start + 1, 1}}});
    }
    const SweepResult results[] = {{sweep.graph, sweep.measurement}};
    const GpuPoints points = collect_gpu_points(results);
    CHECK(points.device == "X1");
    CHECK(points.date == "2026-02-03");
    CHECK(points.ranks == 2);
    CHECK(points.samples == 3 * (15 + 3 + 8));
    CHECK(points.issue.si() == Approx(5e-6));  // 3, 5 and 7
    CHECK(points.op_noise == Approx(std::log(2.5 / 1.5) / 1.349));
    CHECK(points.interference == Interference{});
    REQUIRE(points.blocks.gemms.size() == 3);
    const auto time_of = [&](const Gemm& gemm) {
        for (const GemmRow& row : points.blocks.gemms) {
            Gemm known = gemm;
            if (row.groups == 1) known.alignment = alignment_of(gemm);  // as tables have it
            if (row.gemm == known) return row.time.si() * 1e6;
        }
        return 0.0;
    };
    CHECK(time_of(product) == Approx(40));
    CHECK(time_of(Gemm{3, 5, 7, 1, Dtype::bf16, false}) == Approx(100));
    CHECK(time_of(Gemm{.m = 11, .n = 13, .k = 17, .dtype = Dtype::fp16}) == Approx(4));
    std::string text;
    for (const KernelRow& p : points.ops)
        text += p.kind + " " + std::to_string(std::lround(1e6 * p.time.si())) + "\n";
    CHECK(text ==
          "batched_gemm 30\nmemory_pass 14\ntranspose 16\noptimizer 18\nrows 18\nstrided "
          "18\nsend_recv 26\nattention 12\nsustained_gemm 8\n");
    REQUIRE(points.blocks.collectives.size() == 2);
    CHECK(points.blocks.collectives[0].op == "all_reduce");
    CHECK(points.blocks.collectives[0].bytes == Bytes(100));
    CHECK(points.blocks.collectives[0].time.si() == Approx(22e-6));
    CHECK(points.blocks.collectives[0].ranks == 2);
    CHECK(points.blocks.collectives[1].bytes == Bytes(14));  // what one rank holds
    CHECK(points.blocks.collectives[1].time.si() == Approx(24e-6));

    const std::vector<PlannedFile> tables = gpu_tables(points, "X1", "stem");
    REQUIRE(tables.size() == 4);
    CHECK(tables[0].path == "stem-gemm.csv");
    CHECK(tables[0].text.find("X1,11,13,17,3,fp16,step,4.000\n") != std::string::npos);
    CHECK(tables[0].text.find("X1,3,5,7,1,bf16 -> fp32,step,40.000\n") != std::string::npos);
    CHECK(tables[1].path == "stem-memory.csv");
    CHECK(
        tables[1].text.starts_with("gpu,kind,read_bytes,written_bytes,time_us\nX1,memory_pass,10,"
                                   "20,14.000\nX1,transpose,10,20,16.000\n"));
    CHECK(tables[2].path == "stem-batched.csv");
    CHECK(tables[2].text == "batch,m,n,k,dtype,time_us\n2,3,5,7,bf16,30.000\n");
    CHECK(tables[3].path == "stem-collectives.csv");
    CHECK(tables[3].text ==
          "gpu,op,ranks,nodes,bytes,time_us\nX1,all_reduce,2,1,100,22.000\nX1,all_to_all,2,1,14,24."
          "000\n");
}

// On rank 0 exchanges run at 10..40 and 40..70 us, and products of 16 us from 0, 12, 30 and 60 on.
// The second and third product lie inside the exchanges' time; the first begins before it, the last
// ends after it. Both exchanges lie inside the products' time, 0 .. 76. Alone a product takes 10
// and an exchange 20 us.
TEST_CASE("what runs beside the other kind counts where it lies wholly beside it") {
    const Place left(0, Lane::collective), right(1, Lane::collective);
    MadeUpSweep sweep(1);
    const Gemm product{3, 5, 7, 1, Dtype::bf16};
    for (const double start : {10.0, 40.0})
        sweep.add("beside", AllReduce{Bytes(100)}, {{left, {start, 30}}, {right, {0, 500}}});
    for (const double start : {0.0, 12.0, 30.0, 60.0})
        sweep.add("beside", product, {{Place(0, Lane::compute), {start, 16}}});
    sweep.add("beside", product, {{Place(1, Lane::compute), {0, 400}}});
    sweep.add("apart", product, {{Place(0, Lane::compute), {600, 10}}});
    sweep.add("apart", AllReduce{Bytes(100)}, {{left, {600, 20}}, {right, {600, 20}}});
    const SweepResult results[] = {{sweep.graph, sweep.measurement}};
    const GpuPoints points = collect_gpu_points(results);
    CHECK(points.interference.compute_slowdown == Approx(0.6));
    CHECK(points.interference.communication_slowdown == Approx(0.5));
    CHECK(points.blocks.gemms.empty());
    CHECK(points.op_noise == 0);
}

// Of the 810 combinations of 10 rows and 9 x 9 widths every third is taken in bf16 (270), every
// 23rd in fp16 and tf32 (35), every 31st in fp32 (26), and with fp8 every 17th in it (47). Added
// are 4 x 3 x 2 products with vocabularies, 4 x 3 x 2 weight gradients, 3 x 4 more in fp32, 4 x 3 x
// 2 of groups, and 4 x 2 batched ones. A graph ends where the next product would exceed 20 TFLOP
// (fp32 counts twelvefold, a launch as 10 GFLOP).
TEST_CASE("the sweeps of a GPU ask for so many shapes of each kind, from small to large") {
    const auto count_gemms = [](bool fp8) {
        std::map<std::string, int> by_dtype;
        int grouped = 0, added = 0;
        for (const TaskGraph& g : gpu_sweeps(1, fp8, {}))
            for (TaskId t = 0; t < g.size(); ++t) {
                if (g.name(t) != "gemm") continue;
                const auto* gemm = std::get_if<Gemm>(&g.op(t));
                gemm != nullptr ? ++by_dtype[std::string(to_string(gemm->dtype))] : ++grouped;
                added += gemm != nullptr && gemm->accumulate;
            }
        by_dtype["grouped"] = grouped;
        by_dtype["added"] = added;
        return by_dtype;
    };
    std::map<std::string, int> expected{
        {"bf16", 203 + 36 + 60 + 8}, {"fp16", 35},    {"tf32", 35},
        {"fp32", 26 + 12},           {"grouped", 24}, {"added", 60 + 12}};
    CHECK(count_gemms(false) == expected);
    expected["fp8"] = 47;
    CHECK(count_gemms(true) == expected);
}

// Every fourth of 10 x 9 x 9 combinations: of 9 outer widths at each, two or three.
TEST_CASE("products of a sweep meet every inner width at every number of rows") {
    std::set<std::pair<long, long>> met;
    int products = 0;
    for (const TaskGraph& g : gpu_sweeps(1, false, {}))
        for (TaskId t = 0; t < g.size() && products < 203; ++t)
            if (g.name(t) == "gemm") {
                const Gemm& product = std::get<Gemm>(g.op(t));
                met.emplace(product.m, product.k);
                ++products;
            }
    CHECK(met.size() == 10 * 9);
}

// The first sweep begins with passes of 1 GB and a product of 16 x 512 x 512; 4.8 TB/s / 64 means
// two halvings.
TEST_CASE("a GPU 64 times slower than an H200 is swept with shapes of a quarter of the length") {
    const auto first = [](double bandwidth, std::string_view name) {
        const std::vector<TaskGraph> graphs = gpu_sweeps(1, false, BytesPerSecond(bandwidth));
        TaskId task = 0;
        while (graphs.front().name(task) != name) ++task;
        return graphs.front().op(task);
    };
    for (const double whole : {0.0, 4.8e12, 8e12, 1e12}) {
        CHECK(first(whole, "gemm") == Op(Gemm{16, 512, 512, 1, Dtype::bf16}));
        CHECK(first(whole, "head") == Op(MemoryPass{Bytes(1e9), Bytes(1e9)}));
    }
    CHECK(first(7.5e10, "gemm") == Op(Gemm{16, 128, 128, 1, Dtype::bf16}));
    CHECK(first(7.5e10, "head") == Op(MemoryPass{Bytes(1e9 / 64), Bytes(1e9 / 64)}));
}

TEST_CASE("graphs of products end before they take longer than 20 TFLOP in half precision") {
    double before = 0;
    int products = 0;
    for (const TaskGraph& g : gpu_sweeps(1, false, {})) {
        double all = 0, first = 0;
        for (TaskId t = 0; t < g.size(); ++t) {
            if (g.name(t) != "gemm") continue;
            const auto* gemm = std::get_if<Gemm>(&g.op(t));
            const double work =
                flops_of(g.op(t)).si() * (gemm != nullptr && gemm->dtype == Dtype::fp32 ? 12 : 1);
            if (first == 0) first = work;
            all += work + 1e10;
            ++products;
        }
        if (first == 0) continue;
        CHECK((all <= 2e13 + 1e10 || all == first + 1e10));
        if (before > 0) CHECK(before + first > 2e13);
        before = all;
    }
    CHECK(products == 203 + 36 + 60 + 2 * 35 + 26 + 12 + 24 + 8);
}

// Counted on rank 0 of four. Layers: 60 of width 768, 20 of 1600, 6 of 4096, each with four
// products forward and two gradients of each, 12 widths x width of weights and 8192 tokens, and
// four passes over 8192 x width of two bytes, read and written. Attention: 16 heads of 64. Passes
// of 2^14 .. 2^31 bytes: half read and half written in three kinds, two thirds and one third in
// streams. Collectives of 2^9, 2^11 .. 2^29 bytes, three times each, over two and over four ranks.
TEST_CASE("the sweeps of four GPUs, summed up") {
    struct Sum {
        int tasks = 0;
        double flops = 0, read = 0, written = 0, payload = 0, pairs = 0;
    };
    std::map<std::string, Sum> all;
    int graphs = 0;
    for (const TaskGraph& g : gpu_sweeps(4, false, {})) {
        ++graphs;
        for (TaskId t = 0; t < g.size(); ++t) {
            if (g.places(t).front().rank() != 0) continue;
            Sum& sum = all[std::string(g.name(t))];
            ++sum.tasks;
            if (const auto* gemm = std::get_if<Gemm>(&g.op(t))) sum.flops += flops_of(*gemm).si();
            if (const auto* pass = std::get_if<MemoryPass>(&g.op(t)))
                sum.read += pass->read.si(), sum.written += pass->written.si();
            if (const auto* a = std::get_if<Attention>(&g.op(t)))
                sum.pairs +=
                    static_cast<double>(a->batch * a->heads * a->seq_q * a->seq_k * a->head_dim) *
                    (a->backward ? 3 : 1) * (a->causal ? 1 : 9);
            if (const auto* exchange = std::get_if<AllToAll>(&g.op(t)))
                for (const Bytes bytes : exchange->bytes) sum.payload += bytes.si();
            else
                sum.payload += bytes_moved(g.op(t)).si();
        }
    }
    const double widths = 60.0 * 768 + 20.0 * 1600 + 6.0 * 4096,
                 squares = 60.0 * 768 * 768 + 20.0 * 1600 * 1600 + 6.0 * 4096 * 4096;
    CHECK(all["sustained"].tasks == 86 * 12 + 6);
    CHECK(all["sustained"].flops == Approx(2.0 * 8192 * 3 * 12 * squares));
    CHECK(all["sustained"].pairs ==
          Approx(16 * 64 * (1 + 3) * (8.0 * 1024 * 1024 + 32.0 * 512 * 512 + 2.0 * 4096 * 4096)));
    CHECK(all["flash"].tasks == 2 * 10);
    CHECK(all["between"].tasks == 86 * 4 + 6);
    CHECK(all["between"].read == Approx(4 * 2.0 * 8192 * widths + 6 * 1e8));
    CHECK(all["between"].written == Approx(4 * 2.0 * 8192 * widths + 6 * 1e8));
    const double sizes = 16384.0 * ((1 << 18) - 1);
    CHECK(all["memory"].tasks == 18 * 4);
    CHECK(all["memory"].read == Approx(3 * sizes / 2 + sizes * 2 / 3));
    CHECK(all["memory"].written == Approx(3 * sizes / 2 + sizes / 3));
    CHECK(all["empty"].tasks == 1000);
    CHECK(all["empty"].read == 16000);
    CHECK(all["empty"].written == 16000);
    const double payloads = 512.0 * ((1 << 22) - 1) / 3;  // 4^11 - 1 over 4 - 1
    for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}) {
        CAPTURE(kind);
        CHECK(all[kind].tasks == 2 * 3 * 11);
        CHECK(all[kind].payload == Approx(2 * 3 * payloads));
    }
    CHECK(all["all_to_all"].payload == Approx(3 * payloads * (2 + 4)));  // what each rank holds
    CHECK(all["send_recv"].tasks == 11);
    CHECK(all["send_recv"].payload == Approx(payloads));
    CHECK(all["beside"].tasks == 44);
    CHECK(all["beside"].payload == Approx(4 * 536870912.0));
    CHECK(all["beside"].flops == Approx(40 * 2.0 * 8192 * 4096 * 4096));
    CHECK(all["apart"].tasks == 41);
    CHECK(all["apart"].payload == 536870912.0);
    // Each graph begins with eight passes of 1 GB in both directions, except graphs of empty
    // kernels, of collectives and one of these alone.
    CHECK(all["head"].tasks == 8 * (graphs - 1 - 22 - 1));
    CHECK(all["head"].read == 1e9 * all["head"].tasks);
    CHECK(all["head"].written == 1e9 * all["head"].tasks);
    CHECK(all["align"].tasks == graphs + 2 * 11 * 6 * 3);
}

// The exchange waits for the last front pass of every rank: these are the four tasks before it.
TEST_CASE("what runs beside products begins with them") {
    const std::vector<TaskGraph> graphs = gpu_sweeps(4, false, {});
    const TaskGraph& g = graphs[graphs.size() - 3];
    TaskId first = 0;
    while (g.name(first) != "beside") ++first;
    REQUIRE(g.predecessors(first).size() == 4);
    std::vector<TaskId> after(g.predecessors(first).begin(), g.predecessors(first).end());
    std::sort(after.begin(), after.end());
    CHECK(after == std::vector<TaskId>{first - 4, first - 3, first - 2, first - 1});
    CHECK(g.places(first).size() == 4);
    CHECK(g.predecessors(first + 1).empty());
}
