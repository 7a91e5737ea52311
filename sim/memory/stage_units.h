// The layers of a stage and the ends of the model that it has, by chunk, with the tensors of each.
#pragma once

#include <map>

#include "model/transformer/schedule.h"
#include "sim/memory/gathered_weights.h"
#include "sim/memory/unit_tape.h"

namespace stepcast {

// A layer or an end of the model in its chunk.
struct UnitPlace {
    const UnitTape* tape = nullptr;
    int layer = -1;
    bool again = false;  // computed again before its backward
};

class StageUnits {
public:
    StageUnits(const LayerContext& context, const std::vector<Chunk>& chunks);
    StageUnits(const StageUnits&) = delete;  // its places point into it
    StageUnits& operator=(const StageUnits&) = delete;

    [[nodiscard]] const std::vector<std::vector<UnitPlace>>& by_chunk() const { return units_; }
    [[nodiscard]] const std::vector<UnitPlace>& operator[](std::size_t chunk) const {
        return units_[chunk];
    }
    [[nodiscard]] RankWeights trained() const;
    [[nodiscard]] TensorList matrices() const;
    // What each unit of the first chunk gathers: by modules, or all at once.
    [[nodiscard]] std::vector<UnitModules> gathered() const;

private:
    const UnitTape* tape(UnitKind kind, int number);

    const LayerContext& c_;
    std::map<UnitKind, UnitTape> tapes_;
    std::vector<std::vector<UnitPlace>> units_;
};

}  // namespace stepcast
