#include "exec/cuda/check_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "exec/cuda/attention.h"
#include "exec/footprint.h"
#include "model/base/errors.h"
#include "model/base/lists.h"

namespace stepcast {
namespace {

// A CUDA graph holds nothing that keeps the host waiting.
void check_replay(const TaskGraph& graph) {
    const auto blocks = [](const Op& op) {
        const auto* message = std::get_if<SendRecv>(&op);
        return message != nullptr && message->blocking;
    };
    if (std::any_of(graph.ops().begin(), graph.ops().end(), blocks))
        throw ConfigError(
            "run.cuda_graph: messages that hold the host (runtime.pipeline.blocking) cannot be in "
            "a CUDA graph; set one of them to false");
    if (graph.launch_blocking())
        throw ConfigError(
            "run.cuda_graph: cluster.launch_blocking makes the host wait for every kernel, which a "
            "CUDA graph cannot hold; set one of them to false");
}

}  // namespace

// A task of a single rank may wait for another rank only if both are in this process and steps are
// issued task by task, because an event is known to one process, and to one capture. A task on
// several ranks waits by its collective anyway.
void check_edges(const TaskGraph& graph, bool processes, bool replay) {
    if (!processes && !replay) return;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const std::vector<int> ranks = participants(graph.places(task));
        for (const TaskId predecessor : graph.predecessors(task)) {
            const std::vector<int> before = participants(graph.places(predecessor));
            const auto meets = [&](int rank) { return has(before, rank) || ranks.size() > 1; };
            if (!std::all_of(ranks.begin(), ranks.end(), meets))
                throw ConfigError(fmt::format(
                    "execute: task {} \"{}\" waits for task {} of another rank, which {} "
                    "cannot express; run the ranks as threads{}",
                    task, graph.name(task), predecessor, replay ? "a CUDA graph" : "GPU processes",
                    replay ? " with run.cuda_graph = false" : ""));
            if (replay && graph.on_host(task) && !graph.on_host(predecessor))
                throw ConfigError(fmt::format(
                    "run.cuda_graph: task {} \"{}\" is a wait of the host for the GPU, which a "
                    "CUDA graph cannot hold; expected false for this experiment",
                    task, graph.name(task)));
        }
    }
    if (replay) check_replay(graph);
}

void check_ops(const TaskGraph& graph, const CudaGpu& gpu, bool processes) {
    const auto refuse = [&](Dtype dtype, const Op& op) {
        constexpr int ampere = 80, ada = 89;
        const int needed = dtype == Dtype::fp8                            ? ada
                           : dtype == Dtype::bf16 || dtype == Dtype::tf32 ? ampere
                                                                          : 0;
        if (gpu.capability < needed)
            throw ConfigError(fmt::format(
                "execute: {} in {}, which {} has not (compute capability {}.{}, expected {}.{})",
                kind_name(op), to_string(dtype), gpu.name, gpu.capability / 10, gpu.capability % 10,
                needed / 10, needed % 10));
    };
    for (const Op& op : graph.ops())
        if (const auto dtype = dtype_of(op)) refuse(*dtype, op);
    if (processes && moves_rows(graph))
        throw ConfigError(
            "execute: fused_gemm works on other ranks' memory, which processes do not share here; "
            "run the "
            "ranks as threads, without the launcher");
}

std::vector<std::string> execution_doubts(const TaskGraph& graph) {
    std::vector<std::string> doubts;
    const auto doubt = [&]<class Kind>(bool (*differs)(const Kind&), const char* how) {
        const auto is_one = [&](const Op& op) {
            return std::holds_alternative<Kind>(op) && differs(std::get<Kind>(op));
        };
        if (std::ranges::any_of(graph.ops(), is_one)) doubts.emplace_back(how);
    };
    for (const Op& op : graph.ops()) {
        const auto* attention = std::get_if<Attention>(&op);
        if (attention == nullptr) continue;
        const std::string why = unfused_because(*attention);
        if (why.empty()) continue;
        std::string how =
            fmt::format("flash attention ran as GEMMs and a softmax through memory: {}", why);
        add_once(doubts, std::move(how));
    }
    doubt(
        +[](const Gemm& op) { return op.unmeasured == Unmeasured::delta_rule; },
        "the gated delta rule ran as its GEMMs one by one: no fused kernels here");
    doubt(
        +[](const Attention& op) { return op.window > 0 && !runs_fused(op); },
        "attention over a window ran over all keys");
    doubt(
        +[](const Attention& op) { return op.unmeasured == Unmeasured::sparse_attention; },
        "attention to selected keys ran over as many keys in a row: no sparse kernel here");
    doubt(
        +[](const Attention& op) { return op.dtype == Dtype::fp8; },
        "attention in fp8 ran as bf16");
    doubt(
        +[](const FusedGemm&) { return true; },
        "fused_gemm ran as copies and one GEMM: no fused kernel here");
    doubt(
        +[](const HostWork&) { return true; },
        "the host work of a framework took no time: there is no framework here");
    return doubts;
}

}  // namespace stepcast
