// Tables and pictures of single kernels and collectives, of rows made up by hand.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "model/base/errors.h"
#include "reports/compare_page.h"
#include "reports/comparison_json.h"
#include "reports/forecast_tables.h"
#include "reports/json.h"
#include "reports/kernel_plots.h"
#include "reports/kernel_tables.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using Catch::Contains;
using samples::number_after;

namespace {

// Times in us; no forecast's interval.
KernelComparison kernel(const char* kind, const char* device, double measured, double predicted,
                        Evidence evidence = Evidence::unseen) {
    KernelComparison k;
    k.kind = kind;
    k.device = device;
    k.cluster = "dgx";
    k.dtype = "bf16";
    k.name = "8x8";
    k.measured = Seconds(measured * 1e-6);
    k.predicted = k.p10 = k.p90 = Seconds(predicted * 1e-6);
    k.evidence = evidence;
    return k;
}

// Payload, and bytes over the slowest link for each of it.
KernelComparison collective(const char* kind, double bytes, int ranks, double factor,
                            double measured, double predicted) {
    KernelComparison k = kernel(kind, "NVIDIA A", measured, predicted);
    k.dtype = "";
    k.bytes = Bytes(bytes);
    k.ranks = ranks;
    k.bus_factor = factor;
    return k;
}

// Each plot's script by its name.
std::map<std::string, std::string> scripts_of(const KernelComparisons& kernels) {
    std::vector<std::string> names;
    const std::string folder = samples::folder_of_scripts(
        "kernels", [&](const std::string& to) { names = plot_kernels(kernels, "T", to); });
    std::map<std::string, std::string> scripts;
    for (const std::string& name : names)
        scripts[name] = samples::file_text(folder + "/" + name.substr(0, name.size() - 4) + ".svg");
    return scripts;
}

KernelComparisons sample_kernels() {
    KernelComparisons all;
    all.rows = {kernel("gemm", "NVIDIA A", 64, 48, Evidence::fitted),
                kernel("gemm", "NVIDIA A", 16, 20, Evidence::seen),
                kernel("mla", "Intel B", 128, 128),
                kernel("flash_attention", "Intel B", 500, 550),
                collective("all_reduce", 4096, 4, 1.5, 32, 64),
                collective("all_reduce", 1024, 4, 1.5, 16, 24),
                collective("dispatch", 2048, 8, 1, 40, 42)};
    for (std::size_t i : {0u, 1u, 2u}) {
        all.rows[i].work = Flops(8e6);
        all.rows[i].bytes = Bytes(2e3);
        all.rows[i].peak = FlopsPerSecond(1e12);
        all.rows[i].bandwidth = BytesPerSecond(1e9);
    }
    all.rows[1].bytes = Bytes(16e3);
    all.rows[2].p10 = Seconds(128e-6), all.rows[2].p90 = Seconds(160e-6);
    all.rows[3].p10 = Seconds(510e-6), all.rows[3].p90 = Seconds(600e-6);
    all.refused = {{"C", "no preset", 3}, {"", "no time", 1}};
    return all;
}

}  // namespace

// Ratios 48/64 = 0.75 and 20/16 = 1.25 of the products, 2 and 1.5 of the sums: within twofold,
// which is the picture's height. Errors of 25, 25, 0, 10, 100, 50 and 5 %: the median 25, the
// mean 30.71, the bias (-25 + 25 + 10 + 100 + 50 + 5) / 7 = 23.57.
TEST_CASE("errors of kernels stand along their time, those of the fit hollow") {
    const std::string script = scripts_of(sample_kernels()).at("kernel_error.png");
    // gemm, after all_reduce, dispatch, flash
    CHECK_THAT(script, Contains("$fitted3 << e\n64 0.75\ne\n$other3 << e\n16 1.25\ne\n"));
    CHECK_THAT(script, Contains("$fitted0 << e\ne\n$other0 << e\n32 2\n16 1.5\ne\n"));
    CHECK_THAT(script, Contains("T: error of kernels and collectives, 7 rows") &&
                           Contains("all_reduce: 2 rows, median error 75.0 %"));
    CHECK_THAT(script, Contains("median error 25.0 %, mean 30.7 %, bias +23.6 %, worst +100.0 %") &&
                           Contains("cluster dgx\""));
    CHECK_THAT(script,
               Contains("set yrange [0.5:2]") && Contains("pt 6 ps 0.5 lw 0.6 lc '#CC79A7'"));
    CHECK(number_after(script, "set xrange [") == Approx(16 / 1.3));
    CHECK_THAT(script, Contains(":650]\n"));  // 500 us x 1.3
    KernelComparisons wide = sample_kernels();
    wide.rows[0].predicted = Seconds(640e-6);
    wide.rows[1].predicted = Seconds(2e-6);
    wide.rows[0].cluster = "own";
    CHECK_THAT(scripts_of(wide).at("kernel_error.png"),
               Contains("64 4\n") && Contains("16 0.25\n") && Contains("set yrange [0.25:4]") &&
                   Contains("clusters dgx, own"));
}

// 14 kinds of 1, 2, .. rows and 12 colours: the two smallest, of 1 and 2 of the 105 rows, are left
// out.
TEST_CASE("of more kinds than colours the largest are shown") {
    KernelComparisons all;
    for (int kind = 0; kind < 14; ++kind)
        for (int i = 0; i <= kind; ++i)
            all.rows.push_back(
                kernel(("k" + std::string(1, static_cast<char>('a' + kind))).c_str(), "A", 10, 11));
    const auto scripts = scripts_of(all);
    CHECK_THAT(scripts.at("kernel_error.png"),
               Contains("only 102 of 105 rows (more series than colours)") &&
                   Contains("\"kc: 3 rows") && !Contains("\"kb: "));
    CHECK(scripts.size() == 2);  // one device, no work, no collective
}

// 8 MFLOP at 1 TFLOP/s take 8 us, 2 kB at 1 GB/s 2 us and 16 kB 16: intensities 4 and 0.5. Of the
// peak 8/64, 8/16 and 8/128.
TEST_CASE("a roofline has the share of the peak along the intensity over the ridge") {
    const std::string script = scripts_of(sample_kernels()).at("roofline.png");
    CHECK_THAT(script, Contains("$roof0 << e\n4 0.0625\ne\n$roof1 << e\n4 0.125\n0.5 0.5\ne\n"));
    CHECK_THAT(script, Contains("Intel B, mla bf16: 1 rows") &&
                           Contains("NVIDIA A, gemm bf16: 2 rows") &&
                           Contains("T: roofline, 3 rows"));
    CHECK(number_after(script, "set xrange [") == Approx(0.5 / 1.3));
    // 4 x 1.3; the roof and 30 % more, as no point is above
    CHECK_THAT(script, Contains(":5.2]\n") && Contains(":1.3]\n"));
    CHECK(number_after(script, "set yrange [") == Approx(0.0625 / 1.3));
    KernelComparisons above = sample_kernels();
    above.rows[1].measured = Seconds(4e-6);
    CHECK_THAT(scripts_of(above).at("roofline.png"), Contains(":2.6]\n"));
    for (int without : {0, 1, 2}) {
        KernelComparisons none = sample_kernels();
        for (KernelComparison& k : none.rows) {
            if (without == 0) k.work = Flops(0);
            if (without == 1) k.bytes = Bytes(0);
            if (without == 2) k.peak = FlopsPerSecond(0);
        }
        CHECK_FALSE(scripts_of(none).contains("roofline.png"));
    }
}

// Bus bandwidth 1.5 x 1024 B in 16 us is 0.096 GB/s, predicted 0.064; 1.5 x 4096 in 32 us 0.192,
// predicted 0.096.
TEST_CASE("collectives of a device have their bus bandwidth along the payload") {
    const std::string script = scripts_of(sample_kernels()).at("bus_bandwidth_NVIDIA_A.png");
    CHECK_THAT(script, Contains("$bus0 << e\n1024 0.096 0.064\n4096 0.192 0.096\ne\n$bus1 << "
                                "e\n2048 0.0512 0.0487619\ne\n"));
    CHECK_THAT(script, Contains("all_reduce, 4 ranks: median error 75.0 %") &&
                           Contains("dispatch, 8 ranks: median error 5.0 %") &&
                           Contains("T: collectives of NVIDIA A, 3 rows"));
    CHECK(number_after(script, "xrange [") == Approx(1024 / 1.3));
    CHECK(number_after(script, "yrange [") == Approx(0.0487619 / 1.3));
    CHECK_THAT(script, Contains(":5324.8]") &&
                           Contains("set xtics (\"1 KiB\" 1024,\"2 KiB\" 2048,\"4 KiB\" 4096)") &&
                           Contains("set ytics (\"0.05\" 0.05,\"0.1\" 0.1,\"0.2\" 0.2)"));
    CHECK(number_after(script, "yrange [0.037509") > 0);
}

// What a reader tells apart, by the alphabet: GEMM, MLA, attention, collectives, exchanges of
// experts.
TEST_CASE("times are measured against predicted, by class") {
    const auto scripts = scripts_of(sample_kernels());
    const std::string& script = scripts.at("kernel_times.png");
    CHECK_THAT(
        script,
        Contains("$times0 << e\n48 64\n20 16\ne\n$times1 << e\n128 128\ne\n$times2 << e\n550 "
                 "500\ne\n$times3 << e\n64 32\n24 16\ne\n$times4 << e\n42 40\ne\n"));
    CHECK_THAT(script, Contains("\"attention: 1 rows, median error 10.0 %\"") &&
                           Contains("\"GEMM bf16: 2 rows, median error 25.0 %\"") &&
                           Contains("T: 7 rows"));
    CHECK(number_after(script, "set xrange [") == Approx(16 / 1.3));
    CHECK(number_after(script, "set yrange [") == Approx(16 / 1.3));
    CHECK(number_after(script, "set yrange [12.307692307692307:") == Approx(550 * 1.3));
    KernelComparisons others = sample_kernels();
    others.rows = {kernel("combine_low_latency", "A", 1, 1), kernel("moe_layer", "A", 1, 1),
                   kernel("cast_fp8", "A", 1, 1)};
    CHECK_THAT(scripts_of(others).at("kernel_times.png"),
               Contains("casts: 1") && Contains("expert layers: 1") &&
                   Contains("dispatch and combine of experts: 1"));
    // Five classes on two devices, 0.7 wide in all: the first stands 0.28 left, the last 0.28
    // right; 100 % at the edge of 40.
    const std::string& devices = scripts.at("devices.png");
    CHECK_THAT(
        devices,
        Contains("$class0 << e\n-0.28 25\ne\n$class1 << e\n0.86 0\ne\n$class2 << e\n1 10\ne\n"
                 "$class3 << e\n0.14 40\ne\n$class4 << e\n0.28 5\ne\n"));
    CHECK_THAT(devices, Contains("T: 2 devices, 6 rows") &&
                            Contains("set xtics (\"A\" 0,\"B\" 1)") &&
                            Contains("set xrange [-0.6:1.6]") && Contains("set yrange [0:41]"));
    CHECK_THAT(devices, Contains("pt 9 ps 1.6 lc '#009E73' title \"attention\"") &&
                            Contains("title \"GEMM bf16\""));
}

// The bounds of the classes by size: 20, 200, 2000 us; 64 KiB and 16 MiB of a payload.
TEST_CASE("errors of kernels are summed up by kind and by size") {
    KernelComparisons all;
    for (const double us : {19.0, 21.0, 199.0, 201.0, 1999.0, 2001.0})
        all.rows.push_back(kernel("gemm", "A", us, us));
    for (const double bytes : {65535.0, 65536.0, 16777215.0, 16777216.0})
        all.rows.push_back(collective("all_reduce", bytes, 2, 1, 10, 10));
    const std::string text = kernel_table(all);
    const auto rows = [&](const std::string& size) {
        return static_cast<int>(number_after(
            text, "\n" + size + std::string(30 - std::min<std::size_t>(30, size.size()), ' ')));
    };
    CHECK(rows("below 20 us") == 1);
    CHECK(rows("20 to 200 us") == 2);
    CHECK(rows("0.2 to 2 ms") == 2);
    CHECK(rows("above 2 ms") == 1);
    CHECK(rows("collectives below 64 KiB") == 1);
    CHECK(rows("64 KiB to 16 MiB") == 2);
    CHECK(rows("above 16 MiB") == 1);
    CHECK(rows("all") == 10);
    CHECK_THAT(text, Contains("\ngemm bf16 on A ") && Contains("\nall_reduce on NVIDIA A "));
    // Two rows have an interval, and one of them is inside: 500 is below 510.
    const std::string table = kernel_table(sample_kernels());
    CHECK_THAT(table, Contains("\nall" + std::string(28, ' ') +
                               "       7    25.0 %    30.7 %   +23.6 %   +100.0 %    50.0 %\n"));
    CHECK_THAT(
        table,
        Contains("\n3 rows of C refused: no preset\n1 row of no device refused: no time\n") &&
            Contains("predicted by cluster: Intel B on dgx, NVIDIA A on dgx"));
    CHECK_THAT(table,
               Contains(": 5, median error 10.0 %, mean 33.0 %, bias +33.0 %,\n  worst +100.0 %"));
}

TEST_CASE("kernels that were priced as another are named, with their rows") {
    KernelComparisons all;
    for (const char* name : {"flash 1", "flash 2", "flash 2", "flash 3"}) {
        all.rows.push_back(kernel("attention", "A", 10, 11));
        all.rows.back().kernel = name;
        if (std::string_view(name) != "flash 3") all.rows.back().stand_in = "flash 3";
    }
    CHECK_THAT(
        kernel_table(all),
        Contains("\nkernels without constants under their name, estimated as another: flash 1 "
                 "as flash 3 on dgx (1 row); flash 2\n  as flash 3 on dgx (2 rows)\n"));
    all.rows.erase(all.rows.begin(), all.rows.begin() + 3);
    CHECK_THAT(kernel_table(all), !Contains("estimated as"));
}

// 20, 200 and 2000 us are of the longer class: 1e6 times each of these is exactly that.
TEST_CASE("a kernel at the bound of two classes is of the longer") {
    KernelComparisons all;
    for (const double us : {20.0, 200.0, 2000.0}) {
        double seconds = us / 1e6;
        while (1e6 * seconds < us) seconds = std::nextafter(seconds, 1.0);
        REQUIRE(1e6 * seconds == us);
        all.rows.push_back(kernel("gemm", "A", 1, 1));
        all.rows.back().measured = Seconds(seconds);
    }
    const std::string text = kernel_table(all);
    CHECK_THAT(text, !Contains("below 20 us") && Contains("\n20 to 200 us ") &&
                         Contains("\n0.2 to 2 ms ") && Contains("\nabove 2 ms "));
}

TEST_CASE("a comparison's folder has the tables and pictures of its kernels") {
    const std::string folder = samples::folder_of_scripts("kernels", [&](const std::string& to) {
        write_comparison(to, {"k.csv"}, {}, sample_kernels(), {"stepcast 1"});
    });
    const std::string csv = samples::file_text(folder + "/kernels.csv");
    CHECK_THAT(
        csv,
        Contains(
            "\ngemm,NVIDIA "
            "A,bf16,dgx,8x8,0,2000,8000000,6.4e-05,4.8e-05,4.8e-05,4.8e-05,-0.25,fitted on\n"));
    CHECK_THAT(
        csv,
        Contains(
            "\nall_reduce,NVIDIA A,,dgx,8x8,4,4096,0,3.2e-05,6.4e-05,6.4e-05,6.4e-05,1,unseen\n"));
    const std::string summary = samples::file_text(folder + "/kernels.md");
    CHECK_THAT(
        summary,
        Contains("(devices.png)") &&
            Contains(
                "| all_reduce | NVIDIA A |  | 2 | 75.0 % | 75.0 % | +75.0 % | +100.0 % | - |"));
    CHECK_THAT(samples::file_text(folder + "/report.html"),
               Contains("<strong>30.7 %</strong> <span>mean error of 7 kernels and collectives, "
                        "median 25.0 %</span>"));
    CHECK_THROWS_AS(samples::file_text(folder + "/summary.md"), std::runtime_error);  // of steps
    const auto j = nlohmann::json::parse(to_json(CompareSummary{}, {}, sample_kernels()));
    CHECK(j["kernels"].size() == 5);
    CHECK(j["kernels"][0]["rows"] == 2);
    CHECK(j["kernels_by_evidence"]["fitted"]["bias"] == Approx(-0.25));
    CHECK(j["kernels_by_evidence"]["seen"]["rows"] == 1);
    CHECK(j["kernel_rows"][4]["bytes"] == 4096);
    CHECK(j["kernel_rows"][4]["error"] == Approx(1));
    CHECK(j["kernel_rows"][0]["evidence"] == "fitted");
    CHECK(j["kernels_refused"][0] ==
          nlohmann::json{{"device", "C"}, {"rows", 3}, {"reason", "no preset"}});
    CHECK(nlohmann::json::parse(
              to_json(CompareSummary{}, {}, {}))["kernels_by_evidence"]["fitted"]["mape"]
              .is_null());
}
