// Whole texts of `calibrate` for small tables of every kind.

#include <cmath>

#include "calibrate/fit_noise.h"
#include "calibrate/from_measurements.h"
#include "model/machine/cluster_file.h"
#include "tests/calibrate/made_up_machine.h"
#include "tests/golden_text.h"
#include "tests/model/files.h"
#include "tests/random_graphs.h"

using namespace stepcast;

namespace {

// A few percent off, the same on every machine; one time in twenty is a fifth too long.
double off(graphs::RandomSource& random) {
    return (0.97 + 0.06 * random.fraction()) * (random.one_in(20) ? 1.2 : 1);
}

std::string gemms(graphs::RandomSource& random) {
    std::string text = "gpu,m,n,k,groups,dtype,time_us\n";
    for (const char* dtype : {"bf16", "fp8"})
        for (const double m : {16, 100, 512, 4096})
            for (const double n : {768, 4096, 14336})
                for (const double k : {512, 2048, 8192}) {
                    const double rate = (dtype[0] == 'f' ? 1e15 : 5e14) * 0.7 * k / (k + 150),
                                 least = 2 * (m * k + n * k + m * n) / 2.2e12;
                    text += fmt::format(
                        "X1,{},{},{},1,{},{:.5g}\n", m, n, k, dtype,
                        1e6 * off(random) * (3e-6 + std::max(2 * m * n * k / rate, least)));
                }
    return text + "Y9,16,16,16,1,bf16,3\n";
}
std::string collectives(graphs::RandomSource& random) {
    std::string text = "gpu,op,ranks,nodes,bytes,time_us\n";
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
        for (const int ranks : {2, 4, 8})
            for (double bytes = 2048; bytes < 6e8; bytes *= 4)
                text +=
                    fmt::format("X1,{},{},1,{},{:.5g}\n", op, ranks, bytes,
                                1e6 * off(random) *
                                    (6e-6 + ranks * 1e-6 +
                                     (op[4] == 'r' ? 2 : 1) * bytes * (ranks - 1) / ranks / 300e9));
    return text;
}
std::string attentions(graphs::RandomSource& random) {
    std::string text =
        "gpu,op,batch,heads,kv_heads,seq_q,seq_k,head_dim,causal,window,form,kernel,dtype,time_"
        "us\n";
    for (const double seq : {512, 1024, 2048, 4096, 8192})
        for (const double batch : {1, 2, 4})
            for (const double width : {64, 128})
                text += fmt::format("X1,attention,{0},16,4,{1},{1},{2},1,0,,flash,bf16,{3:.5g}\n",
                                    batch, seq, width,
                                    1e6 * off(random) *
                                        (6e-6 + 4 * batch * 16 * seq * seq * width / 2 /
                                                    (5e14 * 0.55 * width / (width + 20))));
    return text;
}
std::string casts(graphs::RandomSource& random) {
    std::string text = "gpu,rows,width,granularity,implementation,time_us\n";
    for (const double rows : {64, 512, 4096, 16384})
        for (const double width : {1024, 4096, 8192})
            for (const char* granularity : {"per tensor", "per row"})
                text += fmt::format("X1,{},{},{},vLLM,{:.5g}\n", rows, width, granularity,
                                    1e6 * off(random) * (2.5e-6 + 3 * rows * width / 2e12));
    return text;
}
std::string experts(graphs::RandomSource& random) {
    std::string text =
        "num_tokens,hidden,inter,topk,experts,tp_in_expert,ep,distribution,gpu,dtype,value,unit\n";
    for (const double tokens : {16, 128, 1024, 8192})
        for (const double inter : {768, 1536, 4096})
            for (const int topk : {2, 8})
                text += fmt::format(
                    "{},4096,{},{},64,1,2,balanced,X1,bf16,{:.5g},ms\n", tokens, inter, topk,
                    1e3 * off(random) *
                        (2e-5 + std::max(6 * tokens * topk / 2 * 4096 * inter / 2.8e14,
                                         32 * 3 * 2 * 4096 * inter / 2.2e12)));
    return text;
}
std::string passes(graphs::RandomSource& random) {
    std::string text = "kind,bytes,timer,time_us\n";
    for (const char* kind : {"copy", "add", "gelu", "softmax", "layernorm"})
        for (double bytes = 1e6; bytes < 2e9; bytes *= 4)
            text += fmt::format(
                "{},{},kernel,{:.5g}\n", kind, bytes,
                1e6 * off(random) * (2.2e-6 + bytes / (kind[0] == 's' ? 1.8e12 : 2.4e12)));
    return text;
}
const char* const launches =
    "kind,calls,time_us_per_call\neager host issue,10,6.1\neager host issue,100,5.5\neager host "
    "issue,1000,5.2\ngraph replay wall,100,1.9\ngraph replay wall,1000,1.8\nhost read,1,14\n";
std::string traced(graphs::RandomSource& random) {
    std::string text = "m,n,k,groups,dtype,layout,time_us,calls,rank\n";
    for (const double m : {1024, 4096})
        for (const double n : {4096, 14336})
            for (const char* layout : {"NT", "NN", "TN"})
                text += fmt::format("{},{},4096,1,bf16,{},{:.5g},{},0\n", m, n, layout,
                                    1e6 * off(random) * 2 * m * n * 4096 / 2.9e14, 12);
    return text;
}

std::string calibrated(const TestFolder& folder, const std::vector<std::string>& tables,
                       const std::string& cluster) {
    CalibrationRequest request{.measurements = {},
                               .cluster = cluster,
                               .out = folder.path() + "/out.toml",
                               .date = "2026-01-02"};
    for (std::size_t i = 0; i < tables.size(); ++i)
        request.measurements.push_back(folder.write(fmt::format("t{}.csv", i), tables[i]));
    const std::string said = calibrate_from_measurements(request);
    return replaced("==== said\n" + said + "==== cluster\n" + text_of_file(request.out),
                    folder.path(), "FOLDER");
}

}  // namespace

TEST_CASE("golden fits: tables of kernels and collectives") {
    const TestFolder folder;
    graphs::RandomSource random(5);
    const std::string start = folder.write("start.toml", write_cluster(made_up_machine()));
    std::string text = calibrated(folder, {gemms(random), collectives(random)}, start);
    text += calibrated(folder, {attentions(random), casts(random), experts(random)}, start);
    text += calibrated(folder, {passes(random), launches, traced(random)}, start);
    check_golden("calibrate/golden/fits.txt", text);
}

// 400 steps with a common noise, a burst of ten steps in every fifty, and one late step in forty.
TEST_CASE("golden fits: the noise of a run") {
    std::string text;
    for (const std::uint64_t seed : {1u, 2u}) {
        graphs::RandomSource random(seed);
        StepSeries series;
        series.run_id = "run";
        series.ranks = 8;
        for (int i = 0; i < 400; ++i) {
            const double common = 1 + 0.02 * (random.fraction() + random.fraction() - 1),
                         burst = i % 50 < 10 && seed == 1 ? 1.15 : 1,
                         late = random.one_in(40) ? 0.08 : 0;
            series.forward.push_back(0.1 * common * burst);
            series.backward.push_back(0.2 * common * burst + late);
            series.optimizer.push_back(0.01 * (1 + 0.05 * random.fraction()));
            series.step.push_back(series.forward.back() + series.backward.back() +
                                  series.optimizer.back() + 0.001);
        }
        const NoiseFit fit = fit_noise(made_up_machine(), series);
        text += describe(fit) + write_cluster(fit.cluster);
    }
    check_golden("calibrate/golden/noise.txt", text);
}
