// Digests of the task graphs of the shipped experiments and variants, by task name: number,
// arithmetic and bytes, host calls, dependencies.

#include <array>
#include <map>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/graph/op.h"
#include "model/input/check_experiment.h"
#include "model/step.h"
#include "tests/golden_text.h"

using namespace stepcast;

namespace {

std::string without_digits(std::string_view name) {
    std::string text;
    for (const char c : name)
        if (c < '0' || c > '9') text += c;
    return text;
}

double bytes_of(const Op& op) {
    if (const auto* pass = std::get_if<MemoryPass>(&op))
        return (pass->read + 2.0 * pass->written).si();
    if (const auto* work = std::get_if<HostWork>(&op))
        return work->calls * (1 + static_cast<double>(work->kind));
    return bytes_moved(op).si();
}

// Predecessors count as the sum of their distances, places as the sum of rank and lane, each plus
// one.
std::string digest(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    std::map<std::string, std::array<double, 6>> sums;
    for (TaskId task = 0; task < graph.size(); ++task) {
        auto& sum = sums[fmt::format("{} {} {}", to_string(graph.phase(task)),
                                     without_digits(graph.name(task)), kind_name(graph.op(task)))];
        sum[0] += 1;
        sum[1] += flops_of(graph.op(task)).si();
        sum[2] += bytes_of(graph.op(task));
        sum[3] += graph.host_calls(task);
        for (const TaskId before : graph.predecessors(task)) sum[4] += task - before;
        for (const Place& place : graph.places(task))
            sum[5] += (1.0 + place.rank()) * (2.0 + static_cast<double>(place.lane()));
    }
    std::string text = fmt::format("{} tasks\n", graph.size());
    for (const auto& [what, s] : sums)
        text += fmt::format("  {}: {} {:.9g} {:.9g} {} {} {}\n", what, s[0], s[1], s[2], s[3], s[4],
                            s[5]);
    return text;
}

// A preset with other values of keys.
struct Variant {
    const char* preset;
    std::vector<Override> settings;
};

}  // namespace

TEST_CASE("golden graphs: shipped experiments and their variants") {
    std::string text;
    for (const std::string& preset : preset_names(PresetKind::experiment))
        if (!preset.starts_with("gpt3") && !preset.starts_with("mixtral"))
            text += "==== " + preset + "\n" + digest(read_experiment(preset));
    const std::vector<Variant> variants{
        {"coca_zero1",
         {{"workload.vision.fused_norms", "false"},
          {"workload.vision.gated", "true"},
          {"workload.vision.sub_norms", "true"},
          {"parallelism.bucket", "1 MB"}}},
        {"coca_zero1",
         {{"workload.decoder.gated", "true"},
          {"workload.decoder.rotary", "true"},
          {"workload.decoder.sub_norms", "true"},
          {"parallelism.overlap", "false"}}},
        {"one_gpu_gpt2_124m_pytorch",
         {{"workload.layers", "2"}, {"workload.vocab", "5000"}, {"workload.optimizer_calls", "2"}}},
        {"one_gpu_moe_layer", {{"workload.moe.experts", "8"}, {"workload.moe.top_k", "1"}}},
        {"host_pipeline", {{"parallelism.schedule", "zb-h1"}}},
        {"host_zero1", {{"parallelism.zero", "3"}, {"parallelism.bucket", "300 kB"}}},
        {"moe_layer_mix_moe",
         {{"workload.moe.experts", "32"}, {"workload.moe.top_k", "3"}, {"routing.kind", "zipf"}}},
        {"moe_layer_faster_moe",
         {{"workload.moe.experts", "16"}, {"routing.kind", "power-law"}, {"routing.skew", "2"}}},
        {"moe_layer_fast_moe", {{"routing.kind", "random-gate"}, {"workload.moe.experts", "8"}}},
        {"moe_layer_alltoall", {{"parallelism.overlap_chunks", "4"}}},
        {"bert_mix_moe", {{"workload.layers", "3"}, {"parallelism.bucket", "1 MB"}}},
        {"llama_1b_pp8",
         {{"parallelism.messages_per_tensor", "1"}, {"parallelism.resend_first_stage", "false"}}}};
    for (const auto& [preset, settings] : variants) {
        Experiment e = read_experiment(preset);
        text += std::string("==== ") + preset;
        for (const Override& setting : settings) {
            set_key(e, setting);
            text += " " + setting.key + "=" + setting.value;
        }
        check_experiment(e);
        text += "\n" + digest(e);
    }
    check_golden("model/golden/graphs.txt", text);
}
