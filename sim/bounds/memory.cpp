// The memory verdict of a split: the chunks that a stage holds at its fullest moments, and memory_of() with this call's
// ZeRO stage.
#include "sim/bounds/tables.h"

namespace stepcast {

void StepBounds::Tables::bind_memory() {
    const std::size_t kinds = pipeline_->kinds.size();
    if (chunk_kept_.size() < 2 * kinds)
        for (auto* values : {&chunk_kept_, &chunk_backward_, &chunk_work_}) values->resize(2 * kinds);
    for (std::size_t k = 0; k < kinds; ++k) {
        const ChunkKind& kind = pipeline_->kinds[k];
        const ChunkMemory chunk = chunk_memory(shape_->shape.memory, now_, kind.chunk, kind.layers_before);
        chunk_kept_[k] = chunk.kept.si();
        chunk_kept_[kinds + k] = chunk.put_off.si();
        for (const auto& [i, moment] : {std::pair{k, chunk.whole}, {kinds + k, chunk.half}}) {
            chunk_backward_[i] = moment.activations.si();
            chunk_work_[i] = moment.work.si();
        }
    }
    for (std::size_t i = 0; i < pipeline_->memory.size(); ++i) {
        const MemoryStage& stage = pipeline_->memory[i];
        double fullest = -1;
        for (const MemoryMoment& moment : stage.moments) {
            double kept = 0, work = 0;
            for (std::size_t k = 0; k < 2 * kinds; ++k) kept += moment.held[k] * chunk_kept_[k];
            if (moment.backward >= 0) {
                const std::size_t k = static_cast<std::size_t>(moment.backward);
                kept += chunk_backward_[k];
                work = chunk_work_[k];
            }
            if (kept + work <= fullest) continue;
            fullest = kept + work;
            full_[i].moment = {Bytes(kept), Bytes(work)};
        }
        full_[i].weights = weights_of(stage.units);
    }
}

StageWeights StepBounds::Tables::weights_of(const StageUnits& units) const {
    StageWeights w;
    const std::array<int, unit_kinds> counts{units.layers[0], units.layers[1], units.embeddings, units.heads};
    for (std::size_t k = 0; k < unit_kinds; ++k) {
        if (counts[k] == 0) continue;
        const RankWeights all{counts[k] * weights_[k].dense, counts[k] * weights_[k].experts};
        w.all += all;
        if (k < 2) w.layers += all;
        note_unit(w, *context_, weights_[k], {});
    }
    const std::size_t there = (units.layers[0] > 0 ? 1 : 0) + (units.layers[1] > 0 ? 2 : 0);
    w.matrices = shape_->shape.matrices[there].sum;
    w.largest_matrix = shape_->shape.matrices[there].largest;
    return w;
}

void StepBounds::Tables::verdict(StepBound& bound) const {
    for (std::size_t i = 0; i < pipeline_->memory.size(); ++i) {
        const MemoryUse use = memory_of(*context_, full_[i].weights, full_[i].moment);
        if (i > 0 && use.peak <= bound.peak) continue;
        bound.peak = use.peak;
        bound.fits = use.fits;
    }
}

}  // namespace stepcast
