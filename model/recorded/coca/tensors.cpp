#include "model/recorded/coca/tensors.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/experiment.h"
#include "model/recorded/coca/blocks.h"
#include "model/recorded/coca/parts.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

// The tensors of a layer or an end, in elements: those without and those with weight decay.
struct Tensors {
    std::vector<double> plain, decaying;
};
void add(std::vector<double>& to, std::initializer_list<double> tensors) {
    to.insert(to.end(), tensors);
}
// Adds scale and shift.
void add_norm(Tensors& t, long width) { t.plain.insert(t.plain.end(), 2, real(width)); }

// With rotary positions the projections are separate tensors, and that of keys has no bias (EVA-02,
// arXiv 2303.11331); otherwise they are one tensor. Keys of another width have separate matrices
// and one bias. A pooler's queries are parameters.
void add_block(Tensors& t, const TowerBlock& b) {
    const auto h = real(b.hidden), k = real(b.key_width), f = real(b.ffn);
    if (b.pools()) add(t.decaying, {real(b.seq) * h});
    if (!b.pools()) add_norm(t, b.hidden);
    if (b.rotary) {
        add(t.plain, {h, h});
        add(t.decaying, {h * h, h * h, h * h});
    } else {
        add(t.plain, {3 * h});
        b.key_width == b.hidden ? add(t.decaying, {3 * h * h})
                                : add(t.decaying, {h * h, h * k, h * k});
    }
    if (b.sub_norms) add_norm(t, b.hidden);
    add(t.plain, {h});
    add(t.decaying, {h * h});
    if (b.pools()) add_norm(t, b.hidden);  // norm of the queries
    if (b.cross) add_norm(t, b.key_width);
    if (b.pools()) return;
    add_norm(t, b.hidden);
    for (int i = 0; i < (b.gated ? 2 : 1); ++i) {
        add(t.plain, {f});
        add(t.decaying, {h * f});
    }
    if (b.sub_norms) add_norm(t, b.ffn);
    add(t.plain, {h});
    add(t.decaying, {h * f});
}

void add_groups(std::vector<ParameterGroup>& groups, const std::string& unit,
                const Tensors& tensors) {
    for (const auto* list : {&tensors.plain, &tensors.decaying}) {
        ParameterGroup group;
        for (const double elements : *list) group.push_back({elements, unit});
        if (!group.empty()) groups.push_back(std::move(group));
    }
}

// Adds the groups of each layer, which its `blocks` share.
void add_layers(std::vector<ParameterGroup>& groups, const std::string& tower,
                const std::vector<TowerBlock>& blocks) {
    Tensors tensors;
    for (const TowerBlock& b : blocks) add_block(tensors, b);
    for (int layer = 0; layer < blocks.front().layers; ++layer)
        add_groups(groups, fmt::format("{}.layer{}", tower, layer), tensors);
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const Experiment& e) {
    const Workload& w = e.workload;
    std::vector<ParameterGroup> groups;
    const double vision = w.vision.hidden, h = w.hidden;
    add_groups(groups, "vision.start",
               {{vision, w.vision.seq * vision, vision}, {real(patch_width(w)) * vision}});
    add_layers(groups, "vision", {vision_block(w)});
    Tensors end{{}, {h * h}};
    add_block(end, pooler(w));
    add_block(end, contrastive_pooler(w));
    add_norm(end, w.hidden);
    add_groups(groups, "vision.end", end);
    add_groups(groups, "text.start", {{position_rows(w) * h}, {w.vocab * h}});
    add_layers(groups, "text", {text_block(w)});
    add_groups(groups, "text.end", {{h, h}, {h * h}});
    add_layers(groups, "decoder", {decoder_block(w), cross_block(w)});
    const double decoder = w.decoder.hidden;
    add_groups(groups, "decoder.end", {{decoder, decoder}, {decoder * w.vocab}});
    groups.push_back({{1, "scale"}});
    const auto wanted = as_index(optimizer_groups(e));
    if (wanted > groups.size())
        refuse(
            "runtime.optimizer.groups: {}, but the layers make {} groups; expected at most those",
            wanted, groups.size());
    std::vector<ParameterGroup> joined(wanted);
    for (const std::size_t i : indices_of(groups)) {
        ParameterGroup& into = joined[i * wanted / groups.size()];
        append(into, groups[i]);
    }
    return joined;
}

double elements_of(const std::vector<ParameterGroup>& groups, std::string_view tower) {
    double sum = 0;
    for (const ParameterGroup& group : groups)
        for (const ParameterTensor& t : group)
            if (t.unit.starts_with(tower)) sum += t.elements;
    return sum;
}

double piece_elements(const ParameterGroup& group, int ranks) {
    double elements = 0;
    for (const ParameterTensor& t : group) elements += t.elements;
    return 2 * std::ceil(elements / (2.0 * ranks));
}

std::vector<std::vector<Slice>> slices_of(const ParameterGroup& group, int ranks) {
    const double piece = piece_elements(group, ranks);
    std::vector<std::vector<Slice>> slices;
    double begin = 0;
    for (const ParameterTensor& t : group) {
        auto& of_tensor = slices.emplace_back();
        const double end = begin + t.elements;
        for (int rank = 0; rank < ranks; ++rank) {
            const double share = std::min(end, (rank + 1) * piece) - std::max(begin, rank * piece);
            if (share > 0) of_tensor.push_back({rank, share});
        }
        begin = end;
    }
    return slices;
}

int tensors_on(const ParameterGroup& group, int ranks, int rank) {
    int count = 0;
    for (const auto& slices : slices_of(group, ranks))
        count += as_int(std::ranges::count(slices, rank, &Slice::rank));
    return count;
}

}  // namespace stepcast
