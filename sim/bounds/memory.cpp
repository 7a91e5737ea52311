// The memory verdict of a split: the chunks that a stage holds at its fullest moments, and memory_of() with this call's
// ZeRO stage.
#include "sim/bounds/tables.h"

namespace stepcast {

void StepBounds::Tables::bind_memory() {
    const std::size_t kinds = pipeline_->kinds.size();
    chunks_.clear();
    for (const ChunkKind& kind : pipeline_->kinds)
        chunks_.push_back(chunk_memory(units_, now_, kind.chunk, kind.layers_before));
    full_.clear();
    for (const MemoryStage& stage : pipeline_->memory) {
        Moment fullest;
        for (const MemoryMoment& moment : stage.moments) {
            Moment now;
            for (std::size_t k = 0; k < kinds; ++k) now.activations += moment.held[k] * chunks_[k].kept;
            for (std::size_t k = 0; k < kinds; ++k) now.activations += moment.held[kinds + k] * chunks_[k].put_off;
            if (moment.backward >= 0) {
                const ChunkMemory& chunk = chunks_[at(moment.backward) % kinds];
                const Moment& running = at(moment.backward) < kinds ? chunk.whole : chunk.half;
                now.activations += running.activations;
                now.work = running.work;
            }
            consider(fullest, now);
        }
        full_.push_back({weights_of(*context_, units_, stage.units), fullest});
    }
}

void StepBounds::Tables::verdict(StepBound& bound) const {
    for (const FullStage& stage : full_) {
        const MemoryUse use = memory_of(*context_, stage.weights, stage.moment);
        if (use.peak <= bound.peak) continue;
        bound.peak = use.peak;
        bound.fits = use.fits;
    }
}

}  // namespace stepcast
