// What scripts/pytorch-truth.sh does with the tables of a PyTorch script, for tables made from
// known constants.

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "calibrate/fit.h"
#include "calibrate/fit_tables.h"
#include "calibrate/from_measurements.h"
#include "calibrate/script_tables.h"
#include "calibrate/table_cases.h"
#include "import/tables/case_files.h"
#include "measured/medians.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "reports/compare_page.h"
#include "sim/predict.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

constexpr Seconds floor_of_a_call(6e-6);  // a shorter kernel waits for the call that launches it

// A GPU of 100 SMs with constants that differ from every prior. `event` and `launch` are the
// device's, the floor of a call the host's.
Cluster made_up_cluster() {
    Cluster c;
    c.name = "made-up";
    c.source = "made up";
    c.gpu.name = "X1";
    c.gpu.sms = 100;
    c.gpu.memory = Bytes(80e9);
    c.gpu.memory_bandwidth = BytesPerSecond(3e12);
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(50e12);
    c.gpu.peaks[Dtype::tf32] = FlopsPerSecond(250e12);
    c.gpu.peaks[Dtype::fp16] = c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(500e12);
    c.intra.bandwidth = BytesPerSecond(1e9);
    c.inter.bandwidth = BytesPerSecond(1e9);
    return c;
}

Cluster truth() {
    Cluster c = made_up_cluster();
    Experiment carrier;
    carrier.cluster = c;
    for (const FitParameter& p : gemm_parameters({}))
        set_key(carrier, {"cluster." + p.key, p.prior});
    c = carrier.cluster;
    KernelCosts& k = c.kernel;
    k.launch = Seconds(1.4e-6);
    k.event = Seconds(1.5e-6);
    k.gemm_efficiency = 0.72;
    k.gemm_nn = 0.94;
    k.gemm_tn = 0.9;
    k.gemm_fp32 = 0.8;
    k.gemm_odd = 0.5;
    k.batched_gemm = 0.75;
    k.memory_efficiency = 0.92;
    k.row_efficiency = 0.7;
    k.cache = Bytes(30e6);
    k.cache_gain = 1.8;
    k.attention.efficiency = 0.55;
    k.attention.ramp = 400;
    k.attention.width = 25;
    c.host.call = Seconds(3.3e-6);
    c.host.read = Seconds(18e-6);
    return c;
}

// A scatter of 2 %, the same on every machine.
class MeasuringNoise {
public:
    double factor() {
        // A sum of uniform numbers, since std::normal_distribution differs between libraries.
        double sum = -6;
        for (int i = 0; i < 12; ++i) sum += static_cast<double>(random_()) / 4294967295.0;
        return std::exp(0.02 * sum);
    }

private:
    std::mt19937 random_{20240607};
};

double micros(Seconds time, MeasuringNoise& noise) {
    return std::max(time * noise.factor(), floor_of_a_call).si() * 1e6;
}

std::string gemm_table(const Cluster& c, MeasuringNoise& noise) {
    std::string text = "m,n,k,layout,dtype,time_us\r\n";
    const auto add = [&](long m, long n, long k, const char* layout, Dtype dtype) {
        const Gemm::Layout way = layout == std::string("NN")   ? Gemm::Layout::nn
                                 : layout == std::string("TN") ? Gemm::Layout::tn
                                                               : Gemm::Layout::nt;
        const GemmRow row{
            {.m = m, .n = n, .k = k, .dtype = dtype, .alignment = alignment_of(n), .layout = way},
            1,
            {},
            true};
        text += fmt::format("{},{},{},{},{},{:.3f}\r\n", m, n, k, layout, to_string(dtype),
                            micros(gemm_case(row).predict(c), noise));
    };
    for (const long h : {768L, 1600L, 4096L})
        for (const long t : {1L, 64L, 256L, 1024L, 4096L, 16384L})
            for (const auto& [n, k] :
                 {std::pair(h, h), std::pair(3 * h, h), std::pair(4 * h, h), std::pair(h, 4 * h)}) {
                add(t, n, k, "NT", Dtype::bf16);
                add(t, k, n, "NN", Dtype::bf16);
                add(n, k, t, "TN", Dtype::bf16);
            }
    for (const long t : {1024L, 4096L, 8192L})
        for (const long h : {768L, 2048L, 4096L}) add(t, 50257, h, "NT", Dtype::bf16);
    for (const long t : {88L, 101L, 116L, 124L})
        for (const long n : {512L, 2048L, 8192L, 128256L}) add(t, n, 2048, "NT", Dtype::fp32);
    for (long i = 30; i < 50; i += 4) add(384 * i, 4096, 1024, "NT", Dtype::fp16);
    return text;
}

std::string batched_table(const Cluster& c, MeasuringNoise& noise) {
    std::string text = "batch,m,n,k,dtype,time_us\r\n";
    const auto add = [&](const KernelRow& row, long b, long m, long n, long k, const char* dtype) {
        text += fmt::format("{},{},{},{},{},{:.3f}\r\n", b, m, n, k, dtype,
                            micros(kernel_case(row).predict(c), noise));
    };
    for (const long b : {12L, 96L, 768L})
        for (const long s : {197L, 512L, 1024L, 2048L})
            for (const long d : {64L, 128L}) {
                for (const auto& [n, k] : {std::pair(s, d), std::pair(d, s)})
                    add({"batched_gemm",
                         "bmm",
                         Gemm{.m = s, .n = n, .k = k, .batch = b, .dtype = Dtype::bf16},
                         {}},
                        b, s, n, k, "bf16");
                add({"attention",
                     "attention",
                     Attention{b, 1, s, s, d, true, false, Dtype::bf16, true},
                     {}},
                    b, s, s, d, "bf16-flash-causal");
            }
    return text;
}

// Sizes are powers of two, in elements of two bytes; add touches three tensors, the others two.
std::string memory_table(const Cluster& c, MeasuringNoise& noise) {
    std::string text = "kind,bytes,time_us\r\n";
    for (double elements = 2048; elements < 2.2e9; elements *= 2)
        for (const auto& [kind, tensors] :
             {std::pair("copy", 2), std::pair("add", 3), std::pair("gelu", 2),
              std::pair("softmax", 2), std::pair("layernorm", 2)}) {
            const bool rows = kind == std::string("softmax") || kind == std::string("layernorm");
            const Bytes bytes(elements * tensors * 2);
            const MemoryPass pass{bytes, Bytes(0),
                                  rows ? MemoryPass::Access::rows : MemoryPass::Access::stream};
            text += fmt::format("{},{:.0f},{:.3f}\r\n", kind, bytes.si(),
                                micros(kernel_case({"", kind, pass, {}}).predict(c), noise));
        }
    return text;
}

std::string launch_table(const Cluster& c) {
    const auto us = [](Seconds time) { return time.si() * 1e6; };
    std::string text = "kind,calls,time_us_per_call\r\n";
    // a single call shows only the clock's resolution
    for (const int calls : {1, 10, 100, 1000, 5000})
        text += fmt::format("eager host issue,{},{}\r\neager wall,{},{}\r\n", calls,
                            us(c.host.call) * (calls == 1 ? 3 : 1), calls, us(c.host.call));
    return text + fmt::format("graph replay wall,1000,{}\r\nhost read,200,{}\r\n",
                              us(c.kernel.launch), us(c.host.read));
}

std::string steps_table(const Cluster& c, MeasuringNoise& noise) {
    std::string text =
        "case_id,layers,hidden,heads,ffn,vocab,seq,batch,dtype,attention,optimizer,forward_s,"
        "backward_s,optimizer_s,"
        "step_s,step_p10_s,step_p90_s,peak_bytes,samples\r\n";
    for (const int batch : {1, 8})
        for (const char* dtype : {"bf16", "fp32", "tf32"})
            for (const char* attention : {"flash", "plain"}) {
                Experiment e;
                Workload& w = e.workload;
                w.kind = Workload::Kind::transformer;
                w.layers = 4;
                w.hidden = 768;
                w.heads = 12;
                w.ffn = 3072;
                w.vocab = 50304;
                w.seq = 1024;
                w.tied = false;
                w.dtype = parse_name<Dtype>(dtype);
                e.runtime.attention = parse_name<AttentionKind>(attention);
                w.optimizer = Optimizer::adam;
                e.runtime.kernels = KernelStyle::script;
                e.parallelism.micro_batch = batch;
                e.cluster = c;
                const Forecast f = predict(e);
                const double step = f.phases.step.si() * noise.factor();
                text += fmt::format(
                    "gpt2,4,768,12,3072,50304,1024,{},{},{},adamw-fused,{:.6g},{:.6g},{:.6g},{:.6g}"
                    ",{},"
                    "{},{:.0f},20\r\n",
                    batch, dtype, attention, f.phases.forward.si(), f.phases.backward.si(),
                    f.phases.optimizer.si(), step, step, step, f.memory.peak.si());
            }
    return text + "gpt2,4,768,12,3072,50304,1024,4096,bf16,plain,adamw-fused,oom,,,,,,,0\r\n";
}

double value(const Cluster& c, const std::string& key) {
    for (const FittedParameter& p : c.fitted->parameters)
        if (p.key == key) return p.determined ? 1 : 0;
    return -1;
}

const HeldOutError& held_out_error(const Cluster& c, const std::string& kind) {
    for (const HeldOutError& e : c.fitted->errors)
        if (e.kind == kind && e.method.starts_with("held-out")) return e;
    throw std::logic_error("no held-out error of " + kind);
}

}  // namespace

// The tables scatter by 2 % and have tens to hundreds of rows per constant, so constants are found
// within a few percent. Forecasts of steps that the fit has not seen are off by less than the
// scatter of a row.
TEST_CASE("tables of a script bring back the constants that made them, and its steps") {
    const TestFolder folder;
    const Cluster known = truth();
    MeasuringNoise noise;
    CalibrationRequest request;
    for (const auto& [name, text] :
         {std::pair("environment.csv", std::string("key,value\r\ngpu,NVIDIA X1\r\nsms,100\r\n")),
          std::pair("gemm.csv", gemm_table(known, noise)),
          std::pair("batched.csv", batched_table(known, noise)),
          std::pair("memory.csv", memory_table(known, noise)),
          std::pair("launch.csv", launch_table(known))})
        request.measurements.push_back(folder.write(name, text));
    request.cluster = folder.write("start.toml", write_cluster(made_up_cluster()));
    request.out = folder.path() + "/fitted.toml";
    const std::string said = calibrate_from_measurements(request);
    CHECK_THAT(said, Contains("other kernels"));

    const Cluster fitted = read_cluster(request.out);
    const KernelCosts &found = fitted.kernel, &made = known.kernel;
    CHECK(fitted.host.call.si() == Approx(known.host.call.si()));
    CHECK(fitted.host.read.si() == Approx(known.host.read.si()));
    CHECK(found.launch.si() == Approx(made.launch.si()));
    CHECK(found.memory_efficiency == Approx(made.memory_efficiency).epsilon(0.01));
    CHECK(found.row_efficiency == Approx(made.row_efficiency).epsilon(0.01));
    CHECK(found.cache.si() == Approx(made.cache.si()).epsilon(0.25));
    // most kernels that fit the cache wait for their call
    CHECK(found.cache_gain == Approx(made.cache_gain).epsilon(0.12));
    CHECK(found.event.si() == Approx(made.event.si()).epsilon(0.35));
    CHECK(found.gemm_efficiency == Approx(made.gemm_efficiency).epsilon(0.03));
    CHECK(found.gemm_nn == Approx(made.gemm_nn).epsilon(0.02));
    CHECK(found.gemm_tn == Approx(made.gemm_tn).epsilon(0.02));
    CHECK(found.gemm_fp32 == Approx(made.gemm_fp32).epsilon(0.06));
    CHECK(found.gemm_odd == Approx(made.gemm_odd).epsilon(0.05));
    CHECK(found.batched_gemm == Approx(made.batched_gemm).epsilon(0.05));
    CHECK(found.attention.efficiency == Approx(made.attention.efficiency).epsilon(0.05));
    CHECK(found.attention.ramp == Approx(made.attention.ramp).epsilon(0.15));
    CHECK(value(fitted, "kernel.attention_width") == 1);
    for (const char* kind : {"memory_pass", "rows", "gemm", "batched_gemm", "attention"}) {
        INFO(kind);
        CHECK(held_out_error(fitted, kind).samples > 0);
        CHECK(held_out_error(fitted, kind).mape < 0.04);
    }

    std::vector<Comparison> steps =
        read_comparisons(folder.write("steps.csv", steps_table(known, noise)), request.out);
    REQUIRE(steps.size() == 13);
    CHECK_THAT(steps.back().refused_because,
               Contains("steps.csv:14: forward_s: ran out of memory"));
    std::vector<double> errors;
    for (std::size_t i = 0; i < 12; ++i) {
        const Case& c = steps[i].what;
        INFO(c.case_id);
        REQUIRE(steps[i].refused_because.empty());
        CHECK(c.evidence == Evidence::unseen);
        const Forecast f = predict(c.experiment);
        errors.push_back(std::abs(f.phases.step / c.measured_step - 1));
        CHECK(f.memory.peak.si() == Approx(c.measured_peak->si()));
        CHECK(errors.back() < 0.08);
    }
    CHECK(median(errors) < 0.03);
}

// Three of five copies within a quarter of 6 us wait for the host, so rows up to 12 us may do so
// too. Of twelve additions one alone lies within a quarter of the fastest: no floor shows, and only
// that quarter is left out.
TEST_CASE("kernels that waited for their own call tell nothing") {
    const auto row = [](const char* call, double micros) {
        return KernelRow{"memory_pass", call, MemoryPass{}, Seconds(micros * 1e-6)};
    };
    std::vector<KernelRow> rows{row("copy", 6), row("copy", 6.3), row("copy", 7.4),
                                row("copy", 11.9), row("copy", 12.1)};
    for (int i = 0; i < 12; ++i) rows.push_back(row("add", 6 + 2 * i));
    const std::vector<KernelRow> kept = above_floor(rows);
    REQUIRE(kept.size() == 12);
    CHECK(kept[0].time.si() == Approx(12.1e-6));
    CHECK(kept[1].time.si() == Approx(8e-6));
}

// A copy that touches 4 kB reads and writes half each. 24 heads attend to 16 keys of width 64,
// forward and backward.
TEST_CASE("copies into another order and backwards of attention are kinds of their own") {
    const TestFolder folder;
    BuildingBlocks blocks;
    read_building_blocks(
        folder.write("memory.csv", "kind,bytes,time_us\npermute,4096,5\ntranspose,4096,6\n"),
        made_up_cluster().gpu, blocks);
    read_building_blocks(folder.write("batched.csv",
                                      "batch,m,n,k,dtype,time_us\n24,16,16,64,bf16-flash-causal,"
                                      "7\n24,16,16,64,bf16-flash-causal-backward,8\n"),
                         made_up_cluster().gpu, blocks);
    REQUIRE(blocks.kernels.size() == 4);
    CHECK(blocks.kernels[0].kind == "strided");
    CHECK(blocks.kernels[0].op ==
          Op(MemoryPass{Bytes(2048), Bytes(2048), MemoryPass::Access::strided}));
    CHECK(blocks.kernels[1].kind == "transpose");
    CHECK(blocks.kernels[1].op ==
          Op(MemoryPass{Bytes(2048), Bytes(2048), MemoryPass::Access::transpose}));
    CHECK(blocks.kernels[2].kind == "attention");
    CHECK(blocks.kernels[2].op == Op(Attention{24, 1, 16, 16, 64, true, false, Dtype::bf16, true}));
    CHECK(blocks.kernels[3].kind == "attention_backward");
    CHECK(blocks.kernels[3].op == Op(Attention{24, 1, 16, 16, 64, true, true, Dtype::bf16, true}));
    const auto has = [&](std::string_view key) {
        for (const FitPlan& part : kernel_fits(blocks))
            if (std::ranges::find(part.parameters, key, &FitParameter::key) !=
                part.parameters.end())
                return true;
        return false;
    };
    CHECK(has("kernel.attention_backward"));
    blocks.kernels.pop_back();
    CHECK_FALSE(has("kernel.attention_backward"));
}

TEST_CASE("tables of a script are refused with the line of what is wrong") {
    const TestFolder folder;
    const auto read = [&](const std::string& name, const std::string& text) {
        return complaint(
            [&] {
                BuildingBlocks blocks;
                read_building_blocks(folder.write(name, text), made_up_cluster().gpu, blocks);
            },
            folder.path());
    };
    CHECK(read("environment.csv", "key,value\ngpu,NVIDIA H200\n") ==
          "environment.csv:2: gpu: measured on \"NVIDIA H200\", but the cluster to start from has "
          "X1; expected its "
          "device");
    CHECK(read("memory.csv", "kind,bytes,time_us\ncopy,8192,5\nsort,8192,5\n") ==
          "memory.csv:3: kind: found \"sort\"; expected copy, add, gelu, softmax, layernorm, "
          "permute or transpose");
    CHECK(read("gemm.csv", "m,n,k,layout,dtype,time_us\n8,8,8,TT,bf16,5\n") ==
          "gemm.csv:2: layout: found \"TT\"; expected NT, NN or TN");
    CHECK(read("launch.csv", "kind,calls,time_us_per_call\nhost read,200,0\n") ==
          "launch.csv:2: time_us_per_call: \"0\" is not above 0; expected a measured value");
}
