#include "sim/memory/stage_units.h"

#include <utility>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/transformer/rank_shape.h"
#include "sim/memory/flat_tensors.h"

namespace stepcast {

const UnitTape* StageUnits::tape(UnitKind kind, int number) {
    const auto found = tapes_.find(kind);
    if (found != tapes_.end()) return &found->second;
    UnitTape made = kind == UnitKind::embedding ? embedding_tape(c_)
                    : kind == UnitKind::head    ? head_tape(c_)
                                                : layer_tape(c_, number);
    return &tapes_.emplace(kind, std::move(made)).first->second;
}

StageUnits::StageUnits(const LayerContext& context, const std::vector<Chunk>& chunks)
    : c_(context) {
    const Experiment& e = c_.experiment;
    for (const Chunk& chunk : chunks) {
        std::vector<UnitPlace>& units = units_.emplace_back();
        if (chunk.embedding) units.push_back({tape(UnitKind::embedding, 0), -1, false});
        for (int l = chunk.first; l < chunk.last; ++l)
            units.push_back({tape(kind_of_layer(e.workload, l), l), l,
                             recomputes_layers(e.parallelism) && l < chunk.again});
        if (chunk.head) units.push_back({tape(UnitKind::head, 0), -1, false});
    }
}

RankWeights StageUnits::trained() const {
    RankWeights all;
    for (const auto& units : units_)
        for (const UnitPlace& unit : units) all += unit.tape->weights.trained;
    return all;
}

TensorList StageUnits::matrices() const {
    TensorList all;
    for (const auto& units : units_)
        for (const UnitPlace& unit : units) append(all, unit.tape->matrices);
    return all;
}

namespace {

// In one tensor, which DTensors copy out to their parameters. Packed weights come as they are
// stored (torchao 0.9, dtypes/nf4tensor.py: fsdp_pre_all_gather; bitsandbytes'
// bnb_4bit_quant_storage).
UnitModules whole_unit(const LayerContext& c, const UnitPlace& unit) {
    UnitModules of{unit.tape->what, unit.again, {}};
    const RankWeights& trained = unit.tape->weights.trained;
    const double element = c.shape.element().si(), common = in_common(c, trained),
                 packed = unit.layer >= 0 ? packed_bytes(c.experiment.workload) : 0,
                 frozen = in_common(c, unit.tape->weights.frozen) * (packed > 0 ? packed : element);
    of.bytes = {element * common + frozen};
    if (c.experiment.runtime.weight_shards == WeightShards::flat) return of;
    if (common > 0)
        for (const std::int64_t matrix : unit.tape->matrices)
            of.parameters.push_back(real(matrix) * element * common / trained.all());
    if (frozen > 0) of.parameters.push_back(frozen);
    return of;
}

// The first unit has the weights of both ends.
void join_ends(std::vector<UnitModules>& units) {
    UnitModules &first = units.front(), &last = units.back();
    first.bytes.front() += last.bytes.front();
    append(first.parameters, std::exchange(last.parameters, {}));
    first.stays = true;
    last.bytes.front() = 0;
}

}  // namespace

std::vector<UnitModules> StageUnits::gathered() const {
    const bool by_module = brings_modules(c_);
    std::vector<UnitModules> units;
    for (const UnitPlace& unit : units_.front())
        units.push_back(by_module
                            ? UnitModules{unit.tape->what, unit.again, module_bytes(*unit.tape)}
                            : whole_unit(c_, unit));
    if (by_module || c_.experiment.parallelism.pp > 1) return units;
    if (c_.experiment.runtime.root_unit)
        join_ends(units);
    else
        units.back().stays = true;
    return units;
}

}  // namespace stepcast
