#include "sim/memory/module_weights.h"

#include "model/base/numbers.h"

namespace stepcast {

std::vector<double> module_elements(const UnitTape& tape, Bytes element) {
    std::vector<double> elements;
    for (const BlockTape& block : tape.blocks)
        for (const OperatorTape& op : block.operators)
            if (op.weight_gradient > 0) elements.push_back(real(op.weight_gradient) / element.si());
    return elements;
}

ModuleWeights::ModuleWeights(TensorRecorder& tensors, std::span<const UnitPass> units, bool tied,
                             Bytes element, double reuse_distance)
    : tensors_(tensors), reuse_distance_(reuse_distance) {
    for (const UnitPass& unit : units) {
        firsts_.push_back(modules_.size());
        for (const double elements : module_elements(*unit.tape, element))
            modules_.push_back({unit.tape->what, elements * element.si()});
    }
    firsts_.push_back(modules_.size());
    set_distances(units, element);
    if (tied && modules_.size() > 1) {
        double layers = 0;
        for (std::size_t i = 1; i + 1 < modules_.size(); ++i)
            layers += modules_[i].bytes / element.si();
        share_table(layers);
    }
}

// From a forward to the backward: all that follows, twice, and once more what is computed again.
// From a forward of what is computed again to that: the same without its own unit's backward.
void ModuleWeights::set_distances(std::span<const UnitPass> units, Bytes element) {
    double after = 0;  // of later units
    for (std::size_t u = units.size(); u-- > 0;) {
        double own = 0, later = 0;
        for (std::size_t i = firsts_[u]; i < firsts_[u + 1]; ++i)
            own += modules_[i].bytes / element.si();
        for (std::size_t i = firsts_[u + 1]; i-- > firsts_[u];) {
            const double elements = modules_[i].bytes / element.si();
            modules_[i].distance = after + (units[u].again ? own - elements : 2 * later);
            later += elements;
        }
        after += (units[u].again ? 3 : 2) * own;
    }
}

// The logits' weights are the embedding's, which either stay or are gathered anew.
void ModuleWeights::share_table(double layers) {
    modules_.front().distance = layers;
    if (layers < reuse_distance_) modules_.back().bytes = 0;
}

void ModuleWeights::gather(std::size_t module) {
    const Module& of = modules_[module];
    if (of.bytes > 0 && !gathered_.contains(module))
        gathered_[module] = tensors_.make(TensorKind::gathered, of.what, of.bytes, gather_stream);
}

void ModuleWeights::release(std::size_t module) {
    const auto found = gathered_.find(module);
    if (found == gathered_.end()) return;
    tensors_.free(found->second);
    gathered_.erase(found);
}

void ModuleWeights::before(std::size_t unit, std::size_t module, Direction direction) {
    const std::size_t own = firsts_[unit] + module;
    gather(own);
    if (direction == Direction::backward) {
        if (own > 0) gather(own - 1);
    } else if (own + 1 < (direction == Direction::rerun ? firsts_[unit + 1] : modules_.size())) {
        gather(own + 1);
    }
}

void ModuleWeights::after(std::size_t unit, std::size_t module, Direction direction) {
    const std::size_t own = firsts_[unit] + module;
    const bool used_soon =
        direction == Direction::rerun ||
        (direction == Direction::forward && modules_[own].distance < reuse_distance_);
    if (!used_soon) release(own);
}

}  // namespace stepcast
