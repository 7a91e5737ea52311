// The fit of a host to sweeps of a few tasks, with times chosen so that every constant can be
// computed by hand.
#include <catch2/catch.hpp>

#include <cmath>

#include "calibrate/host_fit.h"
#include "calibrate/host_sweep.h"
#include "sim/costs/measured_tables.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// Tasks that run one after the other, each with its time.
struct Sweep {
    TaskGraph graph{2, true};
    std::vector<Seconds> times;
    void add(const char* name, const Op& op, Seconds time) {
        const Place first(0, Lane::compute),
            pair[] = {Place(0, Lane::collective), Place(1, Lane::collective)};
        const std::span<const Place> places =
            is_collective(op) ? std::span<const Place>(pair) : std::span<const Place>(&first, 1);
        graph.add(graph.task_of(name, Phase::forward, op, 0), places, {});
        times.push_back(time);
    }
    // On the second place a collective takes `last_of_pair` of the time.
    [[nodiscard]] Trace trace(double factor, double last_of_pair = 1) const {
        Trace t;
        Seconds at;
        for (TaskId task = 0; task < graph.size(); ++task) {
            const Seconds start = at;
            for (std::size_t place = 0; place < graph.places(task).size(); ++place) {
                const Seconds finish =
                    start + (place == 1 ? last_of_pair : 1.0) * factor * times[task];
                t.spans.push_back({task, graph.places(task)[place], start, finish});
                at = std::max(at, finish);
            }
        }
        return t;
    }
    [[nodiscard]] SweepResult result(const std::vector<double>& factors = {1}) const {
        Measurement m;
        m.device = "host, made up";
        m.date = "2026-02-03";
        for (const double factor : factors) {
            m.traces.push_back(trace(factor));
            m.steps.emplace_back();
        }
        return {graph, m};
    }
};

MemoryPass pass(double bytes, MemoryPass::Access access = MemoryPass::Access::stream) {
    return {Bytes(bytes * 2 / 3), Bytes(bytes / 3), access};
}

constexpr double mebi = 1048576;

// peak / rate = 1.25 + 40 / k, alternately 0.05 more or less, so the rate is 1 / y of the peak. A
// product of 16 x 16 x 16 sets the peak to 8192 FLOP in 8.192 ns. A product with few rows and one
// with a short k do not belong to the law.
void add_products(Sweep& sweep) {
    const auto product = [&](long m, long n, long k, double y) {
        sweep.add("gemm", Gemm{m, n, k, 1, Dtype::fp32},
                  Seconds(2.0 * static_cast<double>(m) * static_cast<double>(n) *
                          static_cast<double>(k) * y / 1e12));
    };
    product(16, 16, 16, 1);
    const double signs[] = {1, -1, -1, 1, 1, -1};
    for (int i = 0; i < 6; ++i)
        product(256, 256, 2048 >> i, 1.25 + 40.0 / (2048 >> i) + 0.05 * signs[i]);
    product(255, 256, 4096, 9);
    product(256, 255, 4096, 9);
    product(256, 256, 63, 9);
}

// 4 us + bytes at 100 GB/s, except for 3 MiB (a tenth less) and 7 MiB (a fifth less); smaller
// passes run at 200 GB/s.
Seconds pass_time(int mib) {
    const double line = 4e-6 + mib * mebi / 1e11;
    return Seconds(mib == 3 ? 0.9 * line : mib == 7 ? 0.8 * line : line);
}
void add_passes(Sweep& sweep) {
    sweep.add("memory", pass(5e5), 2.5_us);
    for (int mib = 1; mib <= 7; ++mib) sweep.add("memory", pass(mib * mebi), pass_time(mib));
    // Transposes take 4, 2 and 1.25 times as long as streams: half of their rate in the median.
    const double longer[] = {4, 2, 1.25};
    for (int i = 0; i < 3; ++i)
        sweep.add("memory", pass((i + 1) * mebi, MemoryPass::Access::transpose),
                  longer[i] * pass_time(i + 1));
}

// Kind number i takes i us + bytes at i GB/s. All-to-alls below 64 KiB take a second.
Seconds exchange_time(int kind, double bytes) {
    return Seconds(1e-6 * kind + bytes / (1e9 * kind));
}
void add_exchanges(Sweep& sweep) {
    for (const double bytes : {65536.0, 131072.0, 262144.0}) {
        const Bytes size(bytes), half(bytes / 2);
        const Op ops[] = {AllReduce{size},     AllGather{size},
                          ReduceScatter{size}, Broadcast{size, 0},
                          Reduce{size, 0},     AllToAll{{Bytes(9e6), size, half, Bytes(9e6)}},
                          SendRecv{size, 1}};
        for (int kind = 1; kind <= 7; ++kind)
            sweep.add("exchange", ops[kind - 1], exchange_time(kind, bytes));
    }
    sweep.add("exchange", AllToAll{{Bytes(0), Bytes(65535), Bytes(0), Bytes(0)}}, Seconds(1));
    sweep.add("barrier", Barrier{}, 11_us);
    sweep.add("barrier", Barrier{}, 13_us);
    sweep.add("barrier", Barrier{}, 17_us);
}

Cluster fitted(const Sweep& sweep) {
    const SweepResult results[] = {sweep.result()};
    return fit_host(results, "core", Bytes(7e9));
}

const FittedParameter& stated(const Cluster& c, const std::string& key) {
    for (const FittedParameter& p : c.fitted->parameters)
        if (p.key == key) return p;
    throw std::logic_error("not stated: " + key);
}

const HeldOutError& error_of(const Cluster& c, const std::string& kind) {
    for (const HeldOutError& e : c.fitted->errors)
        if (e.kind == kind) return e;
    throw std::logic_error("no error of " + kind);
}

}  // namespace

// The slopes between points with the same sign of 0.05 are 40; of the others as many are above as
// below. So the efficiency is 1 / 1.25 and k0 = 40 / 1.25. The residuals are 0.05 / y; the middle
// ones are those of k = 256 (1.45625) and 2048 (1.31953125). For the abscissas 1 .. 32 / 2048 the
// cosine with a constant is 63 / sqrt(6 x 1365).
TEST_CASE(
    "the law of products is the line through the medians of those that are large in m and n") {
    Sweep sweep;
    add_products(sweep);
    add_passes(sweep);
    const Cluster c = fitted(sweep);
    CHECK(c.gpu.peaks[Dtype::fp32].si() == Approx(1e12));
    CHECK(c.kernel.gemm_efficiency == Approx(0.8));
    CHECK(c.kernel.gemm_k0 == Approx(32));
    const double error = 1.4826 * 0.05 * (1 / 1.45625 + 1 / 1.31953125) / 2 / std::sqrt(6.0);
    CHECK(stated(c, "kernel.gemm_efficiency").relative_error == Approx(error));
    CHECK(stated(c, "kernel.gemm_k0").relative_error == Approx(error));
    CHECK(stated(c, "kernel.gemm_k0").value == "32");
    CHECK(stated(c, "kernel.gemm_k0").determined);
    const double cosine = 63 / std::sqrt(6.0 * 1365);
    CHECK(c.fitted->condition == Approx((1 + cosine) / (1 - cosine)));
    CHECK(c.kernel.gemm_table.size() == 10);
    CHECK(c.intra.all_reduce.empty());

    // Sorted by m, n, k, the third and the eighth of ten (256 x 256 x 63 and .. x 1024) are
    // predicted from the eight others.
    std::vector<GemmPoint> rest = c.kernel.gemm_table;
    const GemmPoint third = rest[2], eighth = rest[7];
    rest.erase(rest.begin() + 7);
    rest.erase(rest.begin() + 2);
    const auto off = [&](const GemmPoint& p) {
        return gemm_table_time(rest, p.m, p.n, p.k, Dtype::fp32) / p.time - 1;
    };
    const HeldOutError& e = error_of(c, "gemm");
    CHECK(e.method == "held-out fifth");
    CHECK(e.samples == 2);
    CHECK(e.mape == Approx((std::abs(off(third)) + std::abs(off(eighth))) / 2));
    CHECK(e.bias == Approx((off(third) + off(eighth)) / 2));
    CHECK(e.median == Approx(e.mape));  // of two
    CHECK(e.worst ==
          Approx(std::abs(off(third)) > std::abs(off(eighth)) ? off(third) : off(eighth)));
}

// The best rate is that of the smallest pass, 200 GB/s; the line from 1 MiB on has 100 GB/s. The
// third and the eighth pass are held out: 2 MiB, between 14.48576 us and 31.911552 us
// (measured 24.97152), and 7 MiB on the line (measured: four fifths of it).
TEST_CASE("the law of memory passes is the line through those from 1 MiB on") {
    Sweep sweep;
    add_products(sweep);
    add_passes(sweep);
    // starts 0.2, 0.3, 0.4 us apart
    for (int i = 0; i < 4; ++i) sweep.add("empty", MemoryPass{}, Seconds(1e-7 * (i + 2)));
    sweep.add("memory", pass(5e5), 2.5_us);
    sweep.add("empty", MemoryPass{}, 9_us);  // after another task: no interval
    sweep.add("empty", MemoryPass{}, 9_us);
    sweep.add("align", Barrier{}, 1_s);
    sweep.add("work", Gemm{4096, 4096, 4096, 1, Dtype::fp32}, 1_s);
    const Cluster c = fitted(sweep);
    CHECK(c.gpu.memory_bandwidth.si() == Approx(2e11));
    CHECK(c.kernel.memory_efficiency == Approx(0.5));
    CHECK(c.kernel.optimizer_efficiency == Approx(0.5));
    CHECK(c.kernel.transpose_efficiency == Approx(0.25));
    CHECK(c.kernel.memory_curve.size() == 8);
    CHECK(c.kernel.launch.si() == Approx(0.35e-6));  // 0.2, 0.3, 0.4 and 9 us
    CHECK(stated(c, "kernel.transpose_efficiency").relative_error == 0);
    const double low = (14.48576 + 31.911552) / 2 / 24.97152 - 1;
    const HeldOutError& e = error_of(c, "memory_pass");
    CHECK(e.samples == 2);
    CHECK(e.mape == Approx((0.25 - low) / 2));
    CHECK(e.bias == Approx((0.25 + low) / 2));
    CHECK(e.worst == Approx(0.25));
    // 10 products, 8 passes (one of them twice) and 3 transposes; neither empty tasks nor those
    // that only prepare the caches count.
    CHECK(c.fitted->samples == 22);
}

TEST_CASE(
    "a host's link has a curve for each kind of exchange, and its law from all-to-alls of 64 KiB "
    "and more") {
    Sweep sweep;
    add_products(sweep);
    add_passes(sweep);
    add_exchanges(sweep);
    const Cluster c = fitted(sweep);
    const Curve* curves[] = {&c.intra.all_reduce, &c.intra.all_gather, &c.intra.reduce_scatter,
                             &c.intra.broadcast,  &c.intra.reduce,     &c.intra.all_to_all,
                             &c.intra.send_recv};
    for (int kind = 1; kind <= 7; ++kind) {
        Curve curve = *curves[kind - 1];
        if (kind == 6) {
            REQUIRE(curve.size() == 4);
            CHECK(curve.front().bytes == Bytes(65535));
            CHECK(curve.front().time.si() == Approx(1));
            curve.erase(curve.begin());
        }
        CAPTURE(kind);
        REQUIRE(curve.size() == 3);
        for (int i = 0; i < 3; ++i) {
            CHECK(curve[static_cast<std::size_t>(i)].bytes == Bytes(65536 << i));
            CHECK(curve[static_cast<std::size_t>(i)].time.si() ==
                  Approx(exchange_time(kind, 65536 << i).si()));
        }
    }
    CHECK(c.intra.bandwidth.si() == Approx(6e9));
    CHECK(c.intra.latency.si() == Approx(13e-6));
    CHECK(stated(c, "link.intra.latency").relative_error == 0);
    CHECK(stated(c, "kernel.launch").relative_error == 0);
    CHECK(stated(c, "link.intra.bandwidth").relative_error == Approx(0).margin(1e-9));
    // The third of three points lies on the line through the first two.
    for (const char* kind :
         {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv"}) {
        CAPTURE(kind);
        CHECK(error_of(c, kind).samples == 1);
        CHECK(error_of(c, kind).worst == Approx(0).margin(1e-9));
    }
    CHECK(c.name == "host");
    CHECK(c.source == "measured on this machine");
    CHECK(c.gpus_per_node == 2);
    CHECK(c.gpu.memory == Bytes(7e9));
    CHECK(c.fitted->date == "2026-02-03");
    CHECK(c.fitted->sources == std::vector<std::string>{"host sweeps: host, made up"});
}

// Repetitions of 8, 10 and 12 parts have quartiles of 9 and 11; the steps' ends are in the same
// proportion. A repetition that was not accepted does not count. A collective lasts until its later
// rank has left it.
TEST_CASE("spread comes from the quartiles of accepted repetitions") {
    Sweep sweep;
    sweep.add("gemm", Gemm{3, 5, 7, 1, Dtype::fp32}, 2_us);
    sweep.add("gemm", GroupedGemm{{11}, 13, 17, Dtype::fp32, true}, 3_us);
    sweep.add("barrier", Barrier{}, 5_us);
    SweepResult r = sweep.result({8, 10, 12});
    r.measurement.traces.push_back(sweep.trace(1000));
    r.measurement.steps.emplace_back().accepted = false;
    // on rank 1
    for (Trace& t : r.measurement.traces)
        t.spans.back().finish += t.spans.back().finish - t.spans.back().start;
    const SweepResult results[] = {r};
    const HostPoints points = collect_points(results);
    REQUIRE(points.gemms.size() == 2);
    CHECK(points.gemms[0].time.si() == Approx(2e-5));
    CHECK((points.gemms[0].m == 3 && points.gemms[0].n == 5 && points.gemms[0].k == 7));
    CHECK(points.gemms[1].time.si() == Approx(3e-5));
    CHECK((points.gemms[1].m == 17 && points.gemms[1].n == 13 && points.gemms[1].k == 11));
    CHECK(points.barrier.si() == Approx(1e-4));
    CHECK(points.samples == 9);
    CHECK(points.op_noise == Approx(std::log(11.0 / 9) / 1.349));
    CHECK(points.step_noise == Approx(std::log(11.0 / 9) / 1.349));
    CHECK(points.empty_task == Seconds(0));
    // The cluster takes both noises over all sweeps.
    Sweep passes;
    add_passes(passes);
    add_products(passes);
    const SweepResult both[] = {r, passes.result({8, 10, 12})};
    // beside it, how far steps lie from kernels that were measured alone
    CHECK(fit_host(both, "core", Bytes(7e9)).noise.step ==
          Approx(std::hypot(collect_points(both).step_noise, 0.05)));
    CHECK(fit_host(both, "core", Bytes(7e9)).noise.op == collect_points(both).op_noise);
    CHECK(collect_points(both).step_noise > 0);

    // If none is accepted, the lower quartile of 8, 10, 12 and 1000 counts: 9.5.
    r.measurement.steps.assign(4, MeasuredStep{{}, false, 1});
    const SweepResult busy[] = {r};
    CHECK(collect_points(busy).gemms[0].time.si() == Approx(9.5 * 2e-6));
    CHECK(collect_points(busy).samples == 12);
    // The quartiles of 1 and 1e9 are in the ratio 0.25 to 0.75. A task that took no time tells
    // nothing.
    r = sweep.result({1, 1e9});
    const SweepResult wild[] = {r};
    CHECK(collect_points(wild).op_noise == Approx(std::log(0.75 / 0.25) / 1.349));
    r = sweep.result({1, 1, 1e9, 1e9});
    const SweepResult wilder[] = {r};
    CHECK(collect_points(wilder).op_noise == 2);  // at most what cluster.noise takes
    CHECK(collect_points(wilder).step_noise == 2);
    // A task whose lower quartile is 0 tells nothing: 0, 0, 3 and 3 parts beside 8, 10, 12 and 14.
    Sweep timed;
    timed.add("gemm", Gemm{3, 5, 7, 1, Dtype::fp32}, 2_us);
    timed.add("barrier", Barrier{}, 1_us);
    SweepResult partly = timed.result({8, 10, 12, 14});
    for (std::size_t i = 0; i < 2; ++i)
        for (Span& s : partly.measurement.traces[i].spans)
            if (s.task == 1) s.finish = s.start;
    const SweepResult parts[] = {partly};
    CHECK(collect_points(parts).op_noise == Approx(std::log(12.5 / 9.5) / 1.349));
}

TEST_CASE("a host fit says what is too little to fit") {
    Sweep products, passes, few, none;
    add_products(products);
    add_passes(passes);
    CHECK(complaint([&] { fitted(products); }) ==
          "calibrate: nothing measured; expected host sweeps");
    CHECK(complaint([&] { fitted(passes); }) ==
          "calibrate: nothing measured; expected host sweeps");
    for (const long k : {64L, 128L, 256L, 512L})
        few.add("gemm", Gemm{256, 256, k, 1, Dtype::fp32}, 1_us);
    for (const double bytes : {1e6, 2e6, 3e6}) few.add("memory", pass(bytes), 1_us);
    CHECK(complaint([&] { fitted(few); }) ==
          "calibrate: 4 large GEMM shapes measured, expected at least 5");
    few.add("gemm", Gemm{256, 256, 1024, 1, Dtype::fp32}, 1_us);
    CHECK(complaint([&] { fitted(few); }).starts_with("calibrate: 2 sizes measured from "));
    few.add("memory", pass(4e6), 1_us);
    CHECK(complaint([&] { fitted(few); }).empty());
    none.add("align", AllReduce{Bytes(1e3)}, 1_us);
    CHECK(complaint([&] { fitted(none); }) == "calibrate: nothing measured; expected host sweeps");
}

TEST_CASE("disturbed sweeps are counted, and more than a fifth of them is many") {
    const auto warning = [](int busy) {
        std::vector<SweepResult> results(5, SweepResult{TaskGraph(1), {}});
        for (int i = 0; i < busy; ++i)
            results[static_cast<std::size_t>(i)].measurement.quiet = false;
        return busy_warning(results);
    };
    CHECK(warning(0).empty());
    CHECK(warning(1) ==
          "busy: 1 of 5 sweeps were disturbed by other work; their quicker repetitions were used");
    CHECK(warning(2) ==
          "busy: 2 of 5 sweeps were disturbed by other work; predictions from this file may be far "
          "off, calibrate "
          "again when the machine is quiet");
}

// 3 us + bytes at 2 GB/s, plotted beside the measured points. A line that would begin below 0
// begins at 0; two points make no line.
TEST_CASE("curves for plots are measured points and the law at the same places") {
    using Points = std::vector<std::pair<double, double>>;
    const auto close = [](const Points& one, const Points& other) {
        REQUIRE(one.size() == other.size());
        for (std::size_t i = 0; i < one.size(); ++i) {
            CHECK(one[i].first == Approx(other[i].first));
            CHECK(one[i].second == Approx(other[i].second));
        }
    };
    const auto line = [](double latency, std::initializer_list<double> sizes) {
        Curve curve;
        for (const double bytes : sizes)
            curve.push_back({Bytes(bytes), Seconds(latency + bytes / 2e9)});
        return curve;
    };
    Cluster c;
    c.kernel.memory_curve = line(3e-6, {0, 1e4, 2e4, 8e4});
    c.intra.all_reduce = line(-1e-6, {1e4, 2e4, 8e4});
    c.intra.all_gather = line(3e-6, {1e4, 2e4});
    c.intra.reduce_scatter = c.intra.broadcast = c.intra.reduce = c.intra.all_to_all =
        c.intra.send_recv = line(3e-6, {1e4});
    const std::vector<FittedCurve> curves = fitted_curves(c);
    std::vector<std::string> names;
    for (const FittedCurve& curve : curves) names.push_back(curve.name);
    CHECK(names == std::vector<std::string>{"memory-bound kernel", "all-reduce", "all-gather",
                                            "reduce-scatter", "broadcast", "reduce", "all-to-all",
                                            "send/recv"});
    close(curves.at(0).measured, {{1e4, 8e-6}, {2e4, 13e-6}, {8e4, 43e-6}});
    close(curves.at(0).fitted, {{1e4, 8e-6}, {2e4, 13e-6}, {8e4, 43e-6}});
    close(curves.at(1).measured, {{1e4, 4e-6}, {2e4, 9e-6}, {8e4, 39e-6}});
    close(curves.at(1).fitted, {{1e4, 5e-6}, {2e4, 10e-6}, {8e4, 40e-6}});
    CHECK(curves.at(2).measured.size() == 2);
    CHECK(curves.at(2).fitted.empty());
    c.intra = {};
    CHECK(fitted_curves(c).size() == 1);

    // 64 x 64 x 16 in 2 us is 2 x 65536 FLOP; the law gives 1e12 x 0.5 x 16 / (16 + 48).
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(1e12);
    c.kernel.gemm_efficiency = 0.5;
    c.kernel.gemm_k0 = 48;
    c.kernel.gemm_table = {{64, 64, 16, Dtype::fp32, 2_us},
                           {64, 256, 16, Dtype::fp32, 3_us},
                           {256, 64, 16, Dtype::fp32, 3_us},
                           {1024, 1024, 32, Dtype::fp32, 4_us},
                           {512, 512, 32, Dtype::fp32, 4_us}};
    const std::vector<FittedCurve> rates = fitted_rates(c);
    REQUIRE(rates.size() == 2);
    CHECK(rates[0].name == "m = n = 64");
    close(rates[0].measured, {{16, 65.536e9}});
    close(rates[0].fitted, {{16, 125e9}});
    CHECK(rates[1].name == "m = n = 1024");
    close(rates[1].measured, {{32, 16777.216e9}});
    close(rates[1].fitted, {{32, 200e9}});
}
