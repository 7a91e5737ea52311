// What a rank holds for the sake of its weights, a row for each kind of tensor: the list of tensors
// (lifetimes.h) makes them for each unit, the closed form (memory_parts.h) sums them over a stage.
// Bytes of a parameter in mixed precision with Adam (ZeRO, arXiv 1910.02054, section 3; D ranks
// share what a stage shards):
//   weight 2; gradient 2 or 4 (runtime.gradients.type); fp32 master and two moments 12
//   zero 1: 12 / D; zero 2: gradient / D too; zero 3: weight / D too, whole units only while they
//   are used
// Automatic casting: fp32 weights 4, their 16-bit casts, which the backward reads, 2, moments 8.
// FSDP (runtime.wide_weights): fp32 weights 4, moments 8; 16-bit copies only while they are used.
// PEFT's adapters: fp32 weights 4, gradients 4, moments 8, beside frozen weights 2.
// Without runtime.optimizer.master_weights the moments take 2 each and there is no master. fp32
// training: 4 + 4 + 8. fp8 and fp4: 16-bit weights, and two narrow copies of each layer's matrices,
// one for each operand order; these alone with runtime.narrow_weights. Experts are sharded over
// their own data-parallel group; with parallelism.shard, over the ranks of that group that hold one
// copy.
#pragma once

#include <algorithm>

#include "model/block/blocks.h"
#include "model/transformer/weights.h"
#include "sim/memory/memory_use.h"
#include "sim/results/allocator_forecast.h"

namespace stepcast {

// Of a unit or a stage, in elements. Frozen weights have no gradients.
struct HeldWeights {
    RankWeights all, frozen, layers, frozen_layers;  // trained without "frozen"
};
inline HeldWeights held_by(const UnitWeights& unit, bool is_layer) {
    return is_layer ? HeldWeights{unit.trained, unit.frozen, unit.trained, unit.frozen}
                    : HeldWeights{unit.trained, unit.frozen, {}, {}};
}

struct WeightTensors {
    // wide: trained ones that are there in more than a narrow type; reference: all of a copy
    enum class Of : std::uint8_t { trained, wide, frozen, packed, narrow, reference };
    enum class Made : std::uint8_t { before, in_passes, in_first_update, in_updates };
    TensorKind kind = TensorKind::weights;
    Of of = Of::trained;
    int from = 3;  // ZeRO stage that shares them out
    Bytes each;    // of a weight
    Made made = Made::before;
    bool by_matrix = false;  // else one for a unit
    int copies = 1, copies_in_layers = copies;
    const char* what = nullptr;  // else the unit's name
};

// Whether matrices of layers are there in a narrow type alone.
bool keeps_narrow_alone(const LayerContext& context);

// The weights that a row is of.
RankWeights elements_of(const LayerContext& context, WeightTensors::Of of, const HeldWeights& held);

// What an update makes beside the gradients, for each weight: a flat copy, then one in fp32.
// Empty if it makes nothing.
struct UpdateCopies {
    Bytes flat, wide;
    [[nodiscard]] Bytes sum() const { return flat + wide; }
};
UpdateCopies update_copies(const Experiment& experiment);

// Of a weight: Adam as PyTorch's foreach makes the root of every second moment before it updates
// any weight (torch 2.9.1, optim/adam.py: _multi_tensor_adam, exp_avg_sq_sqrt).
Bytes update_roots(const Experiment& experiment);

// Calls `call(row)` for each; those of an update live together.
template <bool with_updates = true, class Call>
void for_weight_tensors(const LayerContext& c, Call&& call) {
    using enum TensorKind;
    using enum WeightTensors::Of;
    using enum WeightTensors::Made;
    const Experiment& e = c.experiment;
    const Bytes stored = c.shape.element(), own = size_of(trained_dtype(e)), fp32(4);
    const bool cast = casts_weights(e), widens = widens_adapters(e);
    const Bytes updated = keeps_wide_weights(e) ? fp32 : Bytes(0), kept = std::max(updated, stored);
    if (!keeps_weights_on_host(e)) {
        call({.of = wide, .each = widens ? own : kept, .by_matrix = true});
        if (cast && !widens) call({.of = wide, .each = stored, .made = in_passes});
        const bool copy = e.workload.reference == Reference::copy,
                   adapts = e.workload.adapter_rank > 0;
        if (adapts) {
            // PEFT casts what is not packed (prepare_model_for_kbit_training)
            const double blocks = packed_bytes(e.workload);
            call({.of = frozen,
                  .each = blocks > 0 && widens ? std::max(kept, fp32) : kept,
                  .copies = copy ? 2 : 1});
            call({.of = packed, .each = Bytes(blocks), .copies = copy ? 2 : 1});
            if (cast) call({.of = frozen, .each = stored, .made = in_passes});
        }
        if (copy && !adapts) call({.of = reference, .each = kept, .by_matrix = true});
    }
    if (is_narrow(c.shape.matrix))
        call({.of = narrow, .each = size_of(c.shape.matrix), .copies = 2});
    if (!keeps_gradients_on_host(e))
        call({.kind = gradients, .from = 2, .each = size_of(trained_gradients(e))});
    if (e.run.offload_optimizer) return;
    const Bytes moments = moment_bytes(e, own),
                masters = e.runtime.optimizer.master_weights && !widens ? updated : Bytes(0);
    call({.kind = optimizer,
          .from = 1,
          .each = optimizer_bytes(e, own) - moments - masters,
          .by_matrix = true});
    const UpdateCopies copies = with_updates ? update_copies(e) : UpdateCopies{};
    for (const Bytes copy : {copies.flat, copies.wide})
        call({.kind = work, .from = 1, .each = copy, .made = in_updates, .what = "flat gradients"});
    call({.kind = optimizer,
          .from = 1,
          .each = 0.5 * moments,
          .made = in_first_update,
          .by_matrix = true,
          .copies = 2,
          .copies_in_layers = e.workload.optimizer == Optimizer::muon ? 1 : 2});
    call({.kind = work,
          .from = 1,
          .each = with_updates ? update_roots(e) : Bytes(0),
          .made = in_updates,
          .by_matrix = true,
          .what = "roots of moments"});
}

}  // namespace stepcast
