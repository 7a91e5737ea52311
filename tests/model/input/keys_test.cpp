#include <cmath>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// A step has at least one of each of these.
const std::set<std::string_view> at_least_one{"workload.layers",
                                              "workload.hidden",
                                              "workload.ffn",
                                              "workload.seq",
                                              "workload.reference_forwards",
                                              "workload.mamba.head_dim",
                                              "workload.mamba.state",
                                              "workload.mamba.groups",
                                              "workload.delta.key_dim",
                                              "workload.delta.value_dim",
                                              "workload.delta.conv",
                                              "workload.indexer.head_dim",
                                              "workload.indexer.top_k",
                                              "runtime.loss.pieces",
                                              "runtime.vocab_multiple",
                                              "workload.table_slices",
                                              "runtime.optimizer.calls",
                                              "workload.patch",
                                              "workload.pool_queries",
                                              "workload.moe.top_k",
                                              "workload.moe.interval",
                                              "workload.moe.groups",
                                              "workload.moe.top_groups",
                                              "parallelism.dp",
                                              "parallelism.tp",
                                              "parallelism.pp",
                                              "parallelism.vp",
                                              "parallelism.ep",
                                              "parallelism.cp",
                                              "parallelism.micro_batch",
                                              "parallelism.overlap_chunks",
                                              "runtime.pipeline.messages_per_tensor",
                                              "runtime.gradients.bucket",
                                              "runtime.gradients.pieces",
                                              "routing.draws",
                                              "run.steps",
                                              "cluster.nodes",
                                              "cluster.gpus_per_node",
                                              "cluster.gpu.sms",
                                              "cluster.gpu.memory",
                                              "cluster.gpu.memory_bandwidth",
                                              "cluster.network.nodes_per_leaf",
                                              "cluster.link.intra.dispatch.sms",
                                              "runtime.reserved"};
// These are shares or probabilities.
const std::set<std::string_view> parts{"cluster.power.busy_share",
                                       "cluster.kernel.grouped_spread",
                                       "cluster.overheads.margin",
                                       "workload.window_share",
                                       "workload.dropout",
                                       "workload.head_share",
                                       "workload.mamba.attention",
                                       "framework.dropout",
                                       "framework.head_share",
                                       "cluster.network.partial_ring",
                                       "cluster.link.intra.ring_efficiency",
                                       "cluster.link.inter.ring_efficiency",
                                       "cluster.link.intra.dispatch_efficiency",
                                       "cluster.link.inter.dispatch_efficiency",
                                       "cluster.kernel.gemm_corner",
                                       "cluster.kernel.gemm_unaligned",
                                       "cluster.kernel.gemm_odd",
                                       "cluster.kernel.gemm_camping",
                                       "cluster.kernel.fused_scatter_exposed",
                                       "cluster.noise.straggler_rate",
                                       "cluster.overheads.fragmentation"};

std::string with_unit(std::string_view kind, double value) {
    if (kind == "integer") return std::to_string(static_cast<std::int64_t>(value));
    const std::string unit = kind == "time"               ? " s"
                             : kind == "bytes"            ? " B"
                             : kind == "bytes per second" ? " B/s"
                             : kind == "flop per second"  ? " FLOP/s"
                                                          : "";
    return fmt::format("{}{}", value, unit);
}

bool takes(const Key& key, std::string_view kind, double value) {
    Experiment e;
    try {
        assign_text(key, e, with_unit(kind, value));
    } catch (const ConfigError&) {
        return false;
    }
    return true;
}

bool is_power(double value, double (*logarithm)(double)) {
    return std::abs(logarithm(value) - std::round(logarithm(value))) < 1e-9;
}

}  // namespace

// The lower limit of a number is 0, or 1 if there must be one, or, if something is divided by it, a
// power of ten far below all real values (half of the traffic for eager kernels). The upper limit
// is 1 for a share, else a round number far above all real values. Exceptions: ZeRO has three
// stages, dispatch reaches at most three times the stated bandwidth, an all-to-all twice what rings
// reach over sockets, a spread e^5.
TEST_CASE("limits of keys follow from what the keys mean, and are kept") {
    const std::set<std::string_view> numbers{"integer", "number",           "time",
                                             "bytes",   "bytes per second", "flop per second"};
    std::size_t counted = 0;
    for (const Key& key : all_keys()) {
        if (is_preset(key)) continue;
        const std::string_view kind = key.type->kind;
        if (!numbers.contains(kind)) continue;
        ++counted;
        INFO(key.path);
        if (at_least_one.contains(key.path))
            CHECK(key.least == 1);
        else if (key.least != 0)
            CHECK((key.path == "runtime.eager_traffic"
                       ? key.least == 0.5
                       : key.least < 1 && is_power(key.least, std::log10)));
        if (parts.contains(key.path))
            CHECK(key.most == 1);
        else if (key.path == "parallelism.zero" ||
                 (key.path.starts_with("cluster.link.intra.dispatch") &&
                  key.path.ends_with(".efficiency")))
            CHECK(key.most == 3);
        else if (key.path == "cluster.noise.straggler_spread")
            CHECK(key.most == 5);
        else if (key.path.ends_with(".seed"))
            CHECK(key.most == 9e18);
        else
            CHECK((key.most >= 2 &&
                   (is_power(key.most, std::log10) || is_power(key.most, std::log2))));
        CHECK(takes(key, kind, key.least));
        CHECK(takes(key, kind, key.most));
        CHECK_FALSE(takes(key, kind, key.least - (kind == "integer" ? 1 : 1e-12)));
        if (key.most < 2e9)
            CHECK_FALSE(takes(key, kind, key.most * 1.001 + (kind == "integer" ? 1 : 0)));
    }
    CHECK(counted > 250);
}

// Files of clusters and frameworks leave out their table's name.
TEST_CASE("an unknown key is told what stands beside it, and a preset is no field") {
    CHECK(unknown_key("network.zzzzzzzzz", "cluster.") ==
          "unknown key; expected one of nics, rails, nodes_per_leaf, oversubscription, "
          "partial_ring in network");
    CHECK(unknown_key("host.cal", "cluster.") == "unknown key, did you mean \"host.call\"?");
    CHECK(unknown_key("zzzzzzzzzzzz", "cluster.") == "unknown key");
    CHECK(unknown_key("zzzzzzzzzzzz") == "unknown key");
    CHECK(unknown_key("kernel.attention_fp8_width", "cluster.")
              .starts_with("no key since November 2026: "));
    CHECK(unknown_key("can.tensr", "framework.") == "unknown key, did you mean \"can.tensor\"?");
    Experiment e;
    const Key& preset = *find_key("cluster.preset");
    CHECK_THROWS_AS(assign_text(preset, e, "four"), std::logic_error);
    CHECK(text_of(preset, e).empty());
    CHECK_FALSE(is_missing(preset, e));
    CHECK(toml_text_of(*find_key("cluster.name"), [] {
              Experiment named;
              named.cluster.name = "a \"b\"";
              return named;
          }()) == "\"a \\\"b\\\"\"");
    CHECK(whole_key("").empty());
    CHECK(whole_key("workload.seq") == "workload.seq");
}

// A key is unset if it has its default and this is empty, 0, or no time.
TEST_CASE("a key is unset where it is nothing by default and untouched") {
    Experiment e;
    const auto unset = [&](const char* key) { return is_unset(*find_key(key), e); };
    CHECK(unset("workload.kv_heads"));
    CHECK(unset("cluster.host.call") == (get_key(e, "cluster.host.call") == "0 s"));
    CHECK(unset("cluster.link.intra.all_reduce"));
    CHECK_FALSE(unset("parallelism.dp"));
    e.workload.kv_heads = 4;
    CHECK_FALSE(unset("workload.kv_heads"));
    for (const KeyDoc& doc : key_docs()) {
        if (doc.key == "workload.hidden") CHECK(doc.default_value == "required");
        if (doc.key == "parallelism.dp") CHECK(doc.default_value == "1");
        if (doc.key == "workload.preset") CHECK(doc.kind == "preset");
    }
}

TEST_CASE("names in a list stand with and without quotes") {
    Experiment e;
    for (const char* text : {"[mlp, moe]", "[\"mlp\", \"moe\"]", "['mlp', 'moe']"}) {
        e.parallelism.recompute_modules.clear();
        set_key(e, {"parallelism.recompute_modules", text});
        CHECK(get_key(e, "parallelism.recompute_modules") == R"(["mlp", "moe"])");
    }
    CHECK_THROWS_WITH(set_key(e, {"parallelism.recompute_modules", "[mlp moe]"}),
                      Catch::Matchers::Contains("error while parsing"));
    CHECK_THROWS_WITH(set_key(e, {"parallelism.recompute_modules", "[mlp, attention]"}),
                      Catch::Matchers::Contains("attention"));
}

// A list on the command line needs brackets; without them the message shows it with brackets.
TEST_CASE("a list without brackets is told how it is written") {
    Experiment e;
    const auto said = [&](const char* key, const std::string& text) {
        return complaint([&] { set_key(e, {key, text}); });
    };
    CHECK(said("parallelism.stage_layers", "11,12,12") ==
          "--set parallelism.stage_layers=11,12,12: found 11,12,12; expected [11, 12, 12]");
    CHECK(said("framework.may_be", "ddp, fsdp")
              .ends_with("found ddp, fsdp; expected [\"ddp\", \"fsdp\"]"));
    CHECK(said("parallelism.stage_layers", "12")
              .ends_with("found 12; expected an array of integers"));
    CHECK(said("parallelism.stage_layers", "many")
              .ends_with("found \"many\"; expected an array of integers"));
    set_key(e, {"parallelism.stage_layers", " [11, 12]"});
    CHECK(e.parallelism.stage_layers == std::vector<int>{11, 12});
}
