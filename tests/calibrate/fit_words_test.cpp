// The exact texts that describe a fit and its constants.

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "calibrate/fit.h"
#include "calibrate/fit_moe.h"
#include "calibrate/fit_parameter.h"
#include "calibrate/fit_tables.h"
#include "calibrate/from_measurements.h"
#include "calibrate/table_cases.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"
#include "sim/costs/gemm_law.h"
#include "tests/calibrate/made_up_machine.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;
using Catch::Matchers::Contains;

// Four parameters; two have data errors of log 3 (200 %) and infinity; a relative error of ten and
// more prints as "over 1000 %". A step of 2 s is 2.5 s by the fit (+25 %) and 3 s by a fit without
// it (+50 %); one of 4 s is 3 s, and nothing was left out.
TEST_CASE("a fit is told in a table: constants, conditions, errors, steps") {
    FitResult fit;
    fit.parameters = {
        {{"host.call", "5 us", "4 us", 0.123, true}, 0.1, false},
        {{"host.read", "7 us", "6 us", 9.99, true}, 0.2, true},
        {{"noise.a", "1", "1", 10, false}, std::log(3.0), false},
        {{"noise.b", "2", "2", 0.5, false}, std::numeric_limits<double>::infinity(), false}};
    fit.condition = 276.4;
    fit.condition_all = std::numeric_limits<double>::infinity();
    fit.noise = 0.0237;
    fit.fitted_errors = {{"step", "fitted", 7, 0.023, 0.031, -0.017, 0.113}};
    fit.cases = {{"slow", "step", Seconds(2), Seconds(2.5), Seconds(3)},
                 {"none", "gemm", Seconds(2), Seconds(5), Seconds(7)},
                 {"quick", "step", Seconds(4), Seconds(3), Seconds(0)}};
    const std::string head =
        "  parameter          value          prior        +-  \n"
        "  host.call           5 us           4 us    12.3 %  determined\n"
        "  host.read           7 us           6 us   999.0 %  determined, AT ITS BOUND: the "
        "formula may be wrong\n"
        "  noise.a                1              1 over 1000 %  not determined by these data "
        "(200.0 % alone), kept prior\n"
        "  noise.b                2              2    50.0 %  not determined by these data, kept "
        "prior\n"
        "  condition of the fit: 276 (with all parameters free: infinite); scatter about the fit "
        "2.4 %\n"
        "  errors of        method         samples   median     mean       bias      worst\n"
        "  step             fitted               7    2.3 %    3.1 %     -1.7 %    +11.3 %\n";
    const std::string steps =
        "  slow                                     measured          2 s, fitted  +25.0 %, by a "
        "fit without it  +50.0 %\n"
        "  quick                                    measured          4 s, fitted  -25.0 %\n";
    CHECK(describe(fit) == head + steps + "  no held-out errors: all cases are of one group\n");
    fit.held_out_errors = {{"step", "leave-one-out", 3, 0.037, 0.041, 0.021, -0.211}};
    CHECK(
        describe(fit) ==
        head +
            "  step             leave-one-out        3    3.7 %    4.1 %     +2.1 %    -21.1 %\n" +
            steps);
    // the longest key sets the column's width
    fit.parameters[0].parameter.key = "host.exchange_setup";
    CHECK_THAT(describe(fit), Contains("  parameter                    value") &&
                                  Contains("\n  host.read                     7 us"));
}

// Errors of two kinds. +10 %, -50 % and +30 %: median size 30 %, mean size 90 / 3, mean -10 / 3,
// worst -50 %. +20 %, -40 %: median size 30 %.
TEST_CASE("errors are summed up a kind, kinds in the order of their first case") {
    std::vector<FitCase> cases;
    std::vector<double> logs;
    for (const auto& [kind, error] :
         {std::pair{"b", 0.1}, {"a", 0.2}, {"b", -0.5}, {"b", 0.3}, {"a", -0.4}}) {
        cases.push_back({"", kind, "", Seconds(1), {}});
        logs.push_back(std::log1p(error));
    }
    const std::vector<HeldOutError> errors = errors_by_kind(cases, logs, "m");
    REQUIRE(errors.size() == 2);
    CHECK((errors[0].kind == "b" && errors[0].method == "m" && errors[0].samples == 3));
    CHECK(errors[0].mape == Approx(0.3));
    CHECK(errors[0].bias == Approx(-0.1 / 3));
    CHECK(errors[0].worst == Approx(-0.5));
    CHECK(errors[0].median == Approx(0.3));
    CHECK((errors[1].kind == "a" && errors[1].samples == 2));
    CHECK(errors[1].mape == Approx(0.3));
    CHECK(errors[1].bias == Approx(-0.1));
    CHECK(errors[1].worst == Approx(-0.4));
    CHECK(errors[1].median == Approx(0.3));
}

// For 8 us within 2 .. 24 us the bounds are -log 4 and log 3. A prior on a bound is refused, as it
// leaves no room to move.
TEST_CASE("a parameter is scaled to logarithms about its prior, strictly inside its bounds") {
    const ScaledParameter p = scale({"host.call", "8 us", 0.7, "2 us", "24 us"});
    CHECK((p.key == "host.call" && p.unit == Seconds::exponents && p.sigma == 0.7));
    CHECK(p.prior == Approx(8e-6));
    CHECK(p.lower == Approx(-std::log(4.0)));
    CHECK(p.upper == Approx(std::log(3.0)));
    const std::string refusal =
        "fit: host.call: bounds \"2 us\" and \"24 us\" do not enclose the prior ";
    CHECK(complaint([] {
              scale({"host.call", "2 us", 0.7, "2 us", "24 us"});
          }) == refusal + "\"2 us\" in its unit");
    CHECK(complaint([] {
              scale({"host.call", "24 us", 0.7, "2 us", "24 us"});
          }) == refusal + "\"24 us\" in its unit");
    CHECK_THAT(complaint([] {
                   scale({"k", "2", 0.7, "0", "3"});
               }),
               Contains("bounds \"0\" and \"3\""));
    CHECK_THAT(complaint([] {
                   scale({"k", "0 s", 0.7, "1 s", "3 s"});
               }),
               Contains("prior \"0 s\" is not a positive number with a unit"));
    CHECK_THAT(complaint([] {
                   scale({"k", "2", -1, "1", "3"});
               }),
               Contains("prior sigma -1 is not above 0"));
    for (const auto& [text, unit, si, doubled] :
         {std::tuple{"0.3", Exponents{}, 0.3, "0.6"},
          {"1.5 ms", Seconds::exponents, 1.5e-3, "3 ms"},
          {"3 kB", Bytes::exponents, 3e3, "6 kB"},
          {"7 GB/s", BytesPerSecond::exponents, 7e9, "14 GB/s"},
          {"11 TFLOP/s", FlopsPerSecond::exponents, 11e12, "22 TFLOP/s"}}) {
        CAPTURE(text);
        CHECK(value_in_si("k", text) == Approx(si));
        ScaledParameter some;
        some.unit = unit;
        some.prior = si;
        CHECK(value_text(some, std::log(2.0)) == doubled);
    }
    CHECK(complaint([] { (void)value_in_si("k", "3 apples"); }) ==
          "fit: k: \"3 apples\" is no number with a unit");
    CHECK(value_text(scale({"k", "1.23456789", 1, "1", "2"}), 0) == "1.23457");
}

// A value beyond a bound becomes the bound, minus a rounding of 1e-12.
TEST_CASE("values go to the cluster within their bounds, each in its unit") {
    const std::vector<ScaledParameter> all{
        scale({"host.call", "8 us", 1, "2 us", "24 us"}),
        scale({"kernel.gemm_efficiency", "0.5", 1, "0.25", "0.75"}),
        scale({"link.intra.bandwidth", "7 GB/s", 1, "1 GB/s", "21 GB/s"})};
    const Cluster inside = with_values({}, all, {std::log(0.5), std::log(1.25), std::log(2.0)});
    CHECK(inside.host.call.si() == Approx(4e-6));
    CHECK(inside.kernel.gemm_efficiency == Approx(0.625));
    CHECK(inside.intra.bandwidth.si() == Approx(14e9));
    const Cluster beyond = with_values({}, all, {-9, 9, 9});
    CHECK((beyond.host.call.si() > 2e-6 && beyond.host.call.si() < 2e-6 * (1 + 1e-10)));
    CHECK((beyond.kernel.gemm_efficiency < 0.75 &&
           beyond.kernel.gemm_efficiency > 0.75 * (1 - 1e-10)));
    CHECK((beyond.intra.bandwidth.si() < 21e9 && beyond.intra.bandwidth.si() > 21e9 * (1 - 1e-10)));
    CHECK(with_text({}, "host.call", "13 us").host.call == 13_us);
}

// The name decides which rows are held out, so it contains everything that distinguishes shapes,
// and nothing else.
TEST_CASE("a product is a case by its shape, type and layout") {
    GemmRow row{{.m = 3, .n = 5, .k = 7, .dtype = Dtype::bf16}, 1, 9_us};
    row.row = 77;
    const Cluster c = made_up_machine();
    const FitCase plain = gemm_case(row);
    CHECK(plain.name == "gemm 3x5x7 bf16");
    CHECK((plain.kind == "gemm" && plain.group == "tables" && plain.measured == 9_us &&
           plain.spread == 1 && plain.row == 77));
    CHECK(plain.predict(c) == gemm_law_time(row.gemm, c, GemmSetting::alone));
    row.gemm.layout = Gemm::Layout::nn;
    CHECK(gemm_case(row).name == "gemm 3x5x7 bf16 nn");
    row.gemm.layout = Gemm::Layout::tn;
    row.gemm.accumulate = true;
    CHECK(gemm_case(row).name == "gemm 3x5x7 bf16 tn to fp32");
    row.gemm.layout = Gemm::Layout::nt;
    row.sustained = true;
    CHECK((gemm_case(row).name == "gemm 3x5x7 bf16 to fp32" &&
           gemm_case(row).kind == "sustained_gemm"));
    CHECK(gemm_case(row).predict(c) == gemm_law_time(row.gemm, c, GemmSetting::sustained));
    row.sustained = false;
    row.gemm.dtype = Dtype::fp8;
    CHECK((gemm_case(row).name == "gemm 3x5x7 fp8 to fp32" && gemm_case(row).kind == "gemm_fp8"));
    row.scaled_blocks = true;
    CHECK(gemm_case(row).name == "gemm 3x5x7 fp8 to fp32 blocks");
    row.gemm = {.m = 3, .n = 5, .k = 7, .dtype = Dtype::bf16};
    for (const int groups : {2, 4}) {
        row.groups = groups;
        const FitCase grouped = gemm_case(row);
        CHECK((grouped.name == "gemm 3x5x7 bf16 " + std::to_string(groups) + " groups" &&
               grouped.kind == "grouped_gemm" && grouped.row == 77));
        CHECK(grouped.predict(c) ==
              grouped_gemm_law_time(
                  {std::vector<long>(static_cast<std::size_t>(groups), 3), 5, 7, Dtype::bf16}, c));
    }
}

// FNV-1a of "a" is af63dc4c8601ec8c, of "b" af63df4c8601f1a5 (the published vectors). The rule
// folds: hash ^ (hash >> 32), modulo 10 or 5.
TEST_CASE("what is held out follows from the hash of a case's name") {
    const auto named = [](const char* name) { return FitCase{name, "", "", Seconds(1), {}}; };
    const std::uint64_t a = 0xaf63dc4c8601ec8cULL, b = 0xaf63df4c8601f1a5ULL;
    for (const auto& [name, hash] : {std::pair{"a", a}, {"b", b}})
        for (const auto& [share, parts] :
             {std::pair{HeldOutShare::tenth, 10U}, {HeldOutShare::fifth, 5U}})
            CHECK(is_held_out(named(name), share) == ((hash ^ (hash >> 32U)) % parts == 0));
    int tenth = 0, fifth = 0;
    for (int i = 0; i < 2000; ++i) {
        const std::string name = "case " + std::to_string(i);
        const bool of_tenth = is_held_out(named(name.c_str())),
                   of_fifth = is_held_out(named(name.c_str()), HeldOutShare::fifth);
        CHECK((of_fifth || !of_tenth));  // the held-out tenth is part of the held-out fifth
        tenth += of_tenth, fifth += of_fifth;
    }
    CHECK(tenth == Approx(200).margin(60));  // four standard deviations
    CHECK(fifth == Approx(400).margin(75));
}

// The priors of fits (notes/kernel-laws.md): libraries' shares of a peak within a factor of two or
// less, latencies of the order of NCCL's own. A constant that only some rows show is fitted only if
// there is such a row.
TEST_CASE("products and links and expert layers start from the same beliefs on every device") {
    const std::string products =
        "kernel.launch 2.4 us 0.3 0.5 us..10 us\nkernel.gemm_efficiency 0.8 0.5 "
        "0.2..1\nkernel.gemm_k0 150 0.5 10..2000\n"
        "kernel.gemm_tile_128 0.9 0.3 0.2..1.5\nkernel.gemm_tile_64 0.75 0.3 "
        "0.1..1.5\nkernel.gemm_tile_32 0.5 0.3 0.05..1.5\n"
        "kernel.gemm_tile_wide 1 0.1 0.5..1.5\nkernel.gemm_tile_192 0.95 0.2 "
        "0.2..1.5\nkernel.gemm_tile_narrow 0.8 0.3 0.1..1.5\n"
        "kernel.gemm_tile_reuse 20 1 0.1..300\npower.flop_pj 1.2 0.4 0.2..6\nkernel.gemm_wave_loss "
        "0.5 1 0.02..1\n"
        "kernel.gemm_traffic_efficiency 0.8 0.3 0.2..1.2\nkernel.gemm_corner 0.3 0.5 "
        "0.05..0.9\nkernel.gemm_split 1 us 0.7 0.05 us..10 us\n"
        "kernel.gemm_split_traffic 1 0.7 0.05..8\nkernel.gemm_boost 0.05 1.5 "
        "0.001..1\nkernel.gemm_boost_time 200 us 0.5 20 us..5 ms\n";
    CHECK(text_of(gemm_parameters({})) == products);
    BuildingBlocks blocks;
    blocks.gemms.resize(6);
    blocks.gemms[0].gemm.accumulate = true;
    blocks.gemms[1].gemm.layout = Gemm::Layout::nn;
    blocks.gemms[2].gemm.layout = Gemm::Layout::tn;
    blocks.gemms[3].gemm.alignment = Gemm::Alignment::odd;
    blocks.gemms[4].gemm.dtype = Dtype::fp32;
    blocks.gemms[4].between_events = true;
    blocks.gemms[5].groups = 2;
    CHECK(text_of(gemm_parameters(blocks)) ==
          products +
              "kernel.gemm_accumulate 0.97 0.1 0.5..1.2\nkernel.gemm_nn 1 0.1 "
              "0.5..1.5\nkernel.gemm_tn 1 0.1 0.5..1.5\n"
              "kernel.gemm_odd 0.5 0.5 0.05..0.999\nkernel.gemm_fp32 0.9 0.3 "
              "0.2..1.5\nkernel.grouped_gemm 0.9 0.3 0.05..1.2\n");
    blocks.gemms[3].gemm.alignment = Gemm::Alignment::even;
    CHECK(text_of(gemm_parameters(blocks))
              .find("kernel.gemm_tn 1 0.1 0.5..1.5\nkernel.gemm_unaligned 0.6 0.5 "
                    "0.05..0.999\nkernel.gemm_fp32") != std::string::npos);
    blocks.gemms = {blocks.gemms[4], {}};
    blocks.gemms[0].between_events = false;
    blocks.gemms[1].between_events = true;
    blocks.gemms[1].gemm.dtype = Dtype::bf16;
    CHECK(text_of(gemm_parameters(blocks)) == products);
    const std::string links =
        "link.intra.low_latency.launch 6 us 0.5 0.5 us..50 us\nlink.intra.low_latency.latency 0.9 "
        "us 0.5 0.1 us..10 us\n"
        "link.intra.low_latency.efficiency 0.25 0.5 0.01..0.6\nlink.intra.slot_latency 1.5 us 0.7 "
        "0.01 us..20 us\n"
        "link.intra.low_latency_128.launch 6 us 0.5 0.5 us..50 "
        "us\nlink.intra.low_latency_128.latency 1.3 us 0.5 0.1 us..20 us\n"
        "link.intra.low_latency_128.efficiency 0.5 0.5 0.05..1\nlink.intra.launch 12 us 0.7 1 "
        "us..100 us\n"
        "link.intra.latency 2 us 1 0.1 us..20 us\nlink.intra.ring_efficiency 0.85 0.2 "
        "0.2..0.99\nlink.intra.reduce_copy 0.5 0.7 0.01..5\n"
        "link.intra.gather_copy 0.5 0.7 0.01..5\nlink.intra.pipelining 0.3 1 "
        "0.005..3\nlink.intra.exchange.launch 8 us 0.5 0.5 us..50 us\n"
        "link.intra.exchange.latency 0.2 us 0.7 0.01 us..5 us\nlink.intra.exchange.efficiency 0.1 "
        "1.5 0.002..0.6\n"
        "link.intra.exchange_launch 12 us 0.7 1 us..100 us\nlink.intra.all_to_all_efficiency 0.7 "
        "0.3 0.1..0.99\n"
        "link.intra.exchange_copy 0.5 0.7 0.01..5\n";
    Cluster c = made_up_machine();
    CHECK(text_of(collective_parameters(c)) == links);
    c.intra.socket_bandwidth = BytesPerSecond(1);
    c.intra.nvls_efficiency = 0.1;
    CHECK(text_of(collective_parameters(c)) ==
          links +
              "link.intra.socket_bandwidth 50 GB/s 0.5 5 GB/s..200 GB/s\nlink.intra.nvls_launch 30 "
              "us 0.5 5 us..200 us\n"
              "link.intra.nvls_efficiency 0.6 0.5 0.1..1.2\n");
    // Host calls within a factor of two (0.7), the framework's own costs within 30 %, links
    // measured apart within 3 %.
    CHECK(text_of(fit_priors({"moe_layers"})) ==
          "host.module_forward 0.5 ms 0.7 10 us..10 ms\nhost.module_backward 0.5 ms 0.7 10 us..10 "
          "ms\n"
          "host.exchange_setup 50 us 0.3 1 us..10 ms\nhost.schedule 3 ms 0.7 50 us..50 "
          "ms\nhost.assignment 2 ms 0.7 50 us..50 ms\n"
          "host.framework 50 us 0.3 1 us..5 ms\nkernel.fused_ramp 0.39 ms 0.1 10 us..5 "
          "ms\nkernel.fused_efficiency 0.52 0.3 0.05..1\n"
          "kernel.fused_tail 1 ms 0.7 10 us..10 ms\nkernel.fused_scatter_exposed 0.5 0.7 "
          "0.01..1\nkernel.wgrad_efficiency 0.3 0.5 0.02..1\n"
          "kernel.transpose_efficiency 0.3 0.5 0.02..1\nlink.intra.bandwidth 11 GB/s 0.03 1 "
          "GB/s..50 GB/s\n"
          "link.intra.ring_efficiency 0.655 0.03 0.05..1\n");
}

// Each prior has a unit, lies between its bounds, and belongs to a key of a cluster. No fit asks
// for a table that does not exist.
TEST_CASE("the priors of fits are of constants that a cluster has, and lie between their bounds") {
    int constants = 0;
    for (const auto& [table, where] :
         read_toml(home_folder() + "/model/presets/fit_priors.toml").tables) {
        if (table.empty()) continue;
        for (const FitParameter& p : fit_priors({table})) {
            if (p.key.starts_with("parallelism.")) continue;
            INFO(table << " " << p.key);
            const Cluster c = with_text(made_up_machine(), p.key, p.prior);
            CHECK(value_in_si(p.key, text_at(c, p.key)) == Approx(value_in_si(p.key, p.prior)));
            CHECK(scale(p).lower < 0);
            ++constants;
        }
    }
    CHECK(constants > 100);
    CHECK_THROWS_WITH(fit_priors({"product"}), Contains("expected a table [product]"));
    const std::vector<FitParameter> both = fit_priors({"links", "links_exchange"});
    const auto exchange =
        std::ranges::find(both, "link.intra.exchange.efficiency", &FitParameter::key);
    CHECK(*exchange == FitParameter{"link.intra.exchange.efficiency", "0.2", 1, "0.002", "0.6"});
    // it replaces the earlier row of the same key
    CHECK(std::prev(exchange)->key == "link.intra.exchange.latency");
}
