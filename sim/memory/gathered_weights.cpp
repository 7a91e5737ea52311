#include "sim/memory/gathered_weights.h"

#include <numeric>

#include "model/base/numbers.h"

namespace stepcast {

std::vector<double> module_bytes(const UnitTape& tape) {
    std::vector<double> bytes;
    for (const BlockTape& block : tape.blocks)
        for (const OperatorTape& op : block.operators)
            if (op.weight_gradient > 0) bytes.push_back(real(op.weight_gradient));
    return bytes;
}

GatheredWeights::GatheredWeights(TensorRecorder& tensors, const std::vector<UnitModules>& units,
                                 bool tied, double reuse_bytes)
    : tensors_(tensors), reuse_bytes_(reuse_bytes) {
    for (const UnitModules& unit : units) {
        firsts_.push_back(modules_.size());
        for (const double bytes : unit.bytes)
            modules_.push_back({unit.what, bytes, 0, unit.parameters, unit.stays});
    }
    firsts_.push_back(modules_.size());
    set_distances(units);
    if (tied && modules_.size() > 1) share_table();
}

// From a forward to the backward: all that follows, twice, and once more what is computed again.
// From a forward of what is computed again to that: the same without its own unit's backward.
void GatheredWeights::set_distances(const std::vector<UnitModules>& units) {
    double after = 0;  // of later units
    for (std::size_t u = units.size(); u-- > 0;) {
        const std::vector<double>& bytes = units[u].bytes;
        const double own = std::accumulate(bytes.begin(), bytes.end(), 0.0);
        double later = 0;
        for (std::size_t i = firsts_[u + 1]; i-- > firsts_[u];) {
            modules_[i].distance = after + (units[u].again ? own - modules_[i].bytes : 2 * later);
            later += modules_[i].bytes;
        }
        after += (units[u].again ? 3 : 2) * own;
    }
}

// The logits' weights are the embedding's, which either stay or are gathered anew.
void GatheredWeights::share_table() {
    double& layers = modules_.front().distance = 0;
    for (std::size_t i = 1; i + 1 < modules_.size(); ++i) layers += modules_[i].bytes;
    if (layers < reuse_bytes_) modules_.back().bytes = 0;
}

void GatheredWeights::gather(std::size_t module) {
    const Module& of = modules_[module];
    if (of.stays && !staying_.empty()) return;
    if (of.bytes == 0 || gathered_.contains(module)) return;
    gathered_[module] = tensors_.make(TensorKind::gathered, of.what, of.bytes, gather_stream);
    live_ += of.bytes;
}

void GatheredWeights::release(std::size_t module) {
    const auto found = gathered_.find(module);
    if (found == gathered_.end()) return;
    tensors_.free(found->second);
    gathered_.erase(found);
    live_ -= modules_[module].bytes;
}

void GatheredWeights::copy_out(std::size_t unit, Direction direction) {
    const Module& of = modules_[unit];
    if (!of.stays || staying_.empty())
        for (const double bytes : of.parameters)
            parameters_.push_back(tensors_.make(TensorKind::gathered, of.what, bytes));
    const bool is_forward = direction == Direction::forward;
    if (!is_forward) release(unit);
    if (unit == 0) return;
    is_forward ? release(unit - 1) : gather(unit - 1);
}

void GatheredWeights::fetch_ahead(std::size_t unit, std::size_t own, Direction direction) {
    const bool is_backward = direction == Direction::backward;
    const std::size_t end = is_backward                       ? own
                            : direction == Direction::forward ? modules_.size()
                                                              : firsts_[unit + 1];
    for (std::size_t i = own + 1; i < end && live_ < reuse_bytes_; ++i) gather(i);
    for (std::size_t i = end; i-- > 0 && live_ < reuse_bytes_;) gather(i);
}

void GatheredWeights::before(std::size_t unit, std::size_t module, Direction direction) {
    const std::size_t own = firsts_[unit] + module;
    gather(own);
    if (!modules_[own].parameters.empty()) return copy_out(own, direction);
    // an end that the root has: its forward ends with what the last layer gathered (torch 2.11,
    // _fully_shard/_fsdp_state.py: _post_forward)
    if (own > 0 && !modules_[own - 1].parameters.empty() && direction == Direction::forward)
        return release(own - 1);
    if (direction == Direction::backward) {
        if (own > 0) gather(own - 1);
    } else if (own + 1 < (direction == Direction::rerun ? firsts_[unit + 1] : modules_.size())) {
        gather(own + 1);
    }
    fetch_ahead(unit, own, direction);
}

void GatheredWeights::after(std::size_t unit, std::size_t module, Direction direction) {
    const std::size_t own = firsts_[unit] + module;
    const bool is_forward = direction == Direction::forward;
    if (modules_[own].stays && is_forward)
        std::swap(parameters_, staying_);
    else if (modules_[own].stays)
        tensors_.free(staying_);
    tensors_.free(parameters_);
    if (!modules_[own].parameters.empty() && own + 1 < modules_.size()) return;
    if (modules_[own].stays && is_forward && modules_[own].parameters.empty()) return;
    const bool used_soon =
        direction == Direction::rerun || (is_forward && modules_[own].distance < reuse_bytes_);
    if (!used_soon) release(own);
}

}  // namespace stepcast
