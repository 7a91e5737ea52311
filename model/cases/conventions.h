// What a published row leaves unsaid and its field takes for granted: one closed rule a model family and one a training
// framework, in tables that can be read. Every rule has words, so that whoever applies it can list it as an assumption.
// Nothing here belongs to a single row, model size or file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/parallelism.h"
#include "model/workload.h"

namespace stepcast {

// The architecture that a model's name stands for: everything of a Workload but its sizes. Where `architecture.ffn` is
// set, the ffn that tables state is the width of one expert and this one that of the dense layers.
struct ModelFamily {
    Workload architecture;
    double blocks_a_layer = 1;  // of the layers that tables state, those that one layer of the workload stands for
    std::string words = {};     // "llama: gated feed-forward, rmsnorm, rotary positions, untied, no biases"
};
// By the beginning of the name, in either case ("llama3.1-405b"). Throws ConfigError for a family that is not known, or
// whose layers have no model.
ModelFamily family_of(std::string_view model);

// How a framework trains: which attention kernel, what overlaps, in which type gradients travel.
struct Framework {
    AttentionKind attention = AttentionKind::flash;  // of families without a kind of their own
    double dropout = 0;
    bool tied_gpt = true;  // GPT models share embedding and logits
    Optimizer optimizer = Optimizer::adam;
    std::optional<Recompute> recompute = std::nullopt;  // where it is not stated; empty: the least that fits
    std::optional<Dtype> gradients = std::nullopt;      // empty: the 16-bit type of training
    bool overlap = true;                                // gradient exchange beside backward
    bool overlap_params = true;
    bool overlap_tp = false;
    bool overlap_p2p = true;
    bool interleaves = false;             // stages hold several pieces where that is not stated
    bool overlap_weight_gradient = true;  // tensor-parallel exchanges of the backward beside weight gradients
    bool fused_accumulation = true;       // weight gradients are added by their GEMM
    bool fused_loss = true;               // one pass over the logits
    bool eager = false;                   // element-wise passes run operation by operation
    bool recompute_stops_early = false;   // at the last tensor that the backward needs
    double predicted = 1;                 // of the positions, those whose logits are made
    int mean_sequence = 0;                // tokens of a padded sequence in the mean; 0 = all are full
    int optimizer_groups_a_layer = 0;     // parameters of a layer that are updated one by one; 0 = fused ..
    int optimizer_calls = 1;              // .. with so many calls each
    bool reads_loss = false;              // the host waits for the loss before the optimizer
    bool recipe_graphs = false;           // on Blackwell, expert layers but their experts run as CUDA graphs
    bool unfused = false;                 // each element-wise operation is a kernel by itself
    std::optional<bool> split_experts = std::nullopt;  // over the tensor-parallel ranks; empty: wide ones
    bool dropless_once = false;                        // dropless routing sends a token once to a rank and a node
    double bucket_weights = 0;                         // weights of a gradient bucket; 0 = one bucket for all
    std::string words = {};                            // "Megatron-LM before 2023: plain attention, .."
};
// By the row's source, and by what its case and notes name where a source covers several frameworks. Unknown ones get
// the rule of today's frameworks, and words that say so.
Framework framework_of(std::string_view source, std::string_view case_and_notes);

}  // namespace stepcast
