#include "model/multimodal/parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {
namespace {

using Tensors = std::vector<ParameterTensor>;

// Of one block, by whether they decay.
struct BlockTensors {
    Tensors plain, decaying;
};

void add_norm(Tensors& tensors, const std::string& name, long width) {
    tensors.push_back({name + ".weight", static_cast<double>(width), {}});
    tensors.push_back({name + ".bias", static_cast<double>(width), {}});
}

// With rotary positions the projections are separate and the keys' has no bias (EVA-02, arXiv 2303.11331); else they
// are one tensor. Keys of another width have separate matrices and one bias.
void add_attention(BlockTensors& t, const TowerBlock& b, const std::string& at) {
    const auto h = static_cast<double>(b.hidden), k = static_cast<double>(b.key_width);
    if (b.rotary) {
        t.plain.push_back({at + "q_bias", h, {}});
        t.plain.push_back({at + "v_bias", h, {}});
        for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight"})
            t.decaying.push_back({at + name, h * h, {}});
    } else {
        t.plain.push_back({at + "in_proj_bias", 3 * h, {}});
        if (b.key_width == b.hidden)
            t.decaying.push_back({at + "in_proj_weight", 3 * h * h, {}});
        else
            for (const auto& [name, width] :
                 {std::pair("q_proj_weight", h), std::pair("k_proj_weight", k), std::pair("v_proj_weight", k)})
                t.decaying.push_back({at + name, h * width, {}});
    }
    if (b.sub_norms) add_norm(t.plain, at + "inner_norm", b.hidden);
    t.plain.push_back({at + "out_proj.bias", h, {}});
    t.decaying.push_back({at + "out_proj.weight", h * h, {}});
}

void add_feed_forward(BlockTensors& t, const TowerBlock& b, const std::string& at) {
    const auto h = static_cast<double>(b.hidden), f = static_cast<double>(b.ffn);
    const int up = b.gated ? 2 : 1;
    for (int i = 0; i < up; ++i) t.plain.push_back({fmt::format("{}up{}.bias", at, i), f, {}});
    if (b.sub_norms) add_norm(t.plain, at + "inner_norm", b.ffn);
    t.plain.push_back({at + "down.bias", h, {}});
    for (int i = 0; i < up; ++i) t.decaying.push_back({fmt::format("{}up{}.weight", at, i), h * f, {}});
    t.decaying.push_back({at + "down.weight", h * f, {}});
}

void add_block(BlockTensors& t, const TowerBlock& b, const std::string& prefix) {
    if (!b.pools()) add_norm(t.plain, prefix + "norm1", b.hidden);
    if (b.pools()) t.decaying.push_back({prefix + "query", static_cast<double>(b.seq * b.hidden), {}});
    add_attention(t, b, prefix + "attention.");
    if (b.pools()) add_norm(t.plain, prefix + "query_norm", b.hidden);
    if (b.cross) add_norm(t.plain, prefix + "key_norm", b.key_width);
    if (b.pools()) return;
    add_norm(t.plain, prefix + "norm2", b.hidden);
    add_feed_forward(t, b, prefix + "ffn.");
}

void add_groups(std::vector<ParameterGroup>& groups, const std::string& name, BlockTensors tensors) {
    for (Tensors* list : {&tensors.plain, &tensors.decaying})
        for (ParameterTensor& t : *list) t.unit = name;
    if (!tensors.plain.empty()) groups.push_back({name + ".no_decay", std::move(tensors.plain)});
    if (!tensors.decaying.empty()) groups.push_back({name + ".decay", std::move(tensors.decaying)});
}

// `blocks` share a layer's groups.
void add_layers(std::vector<ParameterGroup>& groups, const std::string& tower, const std::vector<TowerBlock>& blocks) {
    for (int layer = 0; layer < blocks.front().layers; ++layer) {
        BlockTensors tensors;
        for (const TowerBlock& b : blocks) add_block(tensors, b, fmt::format("{}.{}.{}.", tower, layer, b.name));
        add_groups(groups, fmt::format("{}.layer{}", tower, layer), std::move(tensors));
    }
}

void add_vision(std::vector<ParameterGroup>& groups, const Workload& w) {
    const double h = w.vision.hidden, out = w.hidden;
    add_groups(
        groups, "vision.start",
        {{{"vision.class_token", h, {}}, {"vision.positions", w.vision.seq * h, {}}, {"vision.patches.bias", h, {}}},
         {{"vision.patches.weight", static_cast<double>(patch_width(w)) * h, {}}}});
    add_layers(groups, "vision", {vision_block(w)});
    BlockTensors end;
    end.decaying.push_back({"vision.projection", out * out, {}});
    add_block(end, pooler(w), "vision.pooler.");
    add_block(end, contrastive_pooler(w), "vision.contrastive_pooler.");
    add_norm(end.plain, "vision.final_norm", w.hidden);
    add_groups(groups, "vision.end", std::move(end));
}

void add_text(std::vector<ParameterGroup>& groups, const Workload& w) {
    const double h = w.hidden;
    const int positions = w.max_positions > 0 ? w.max_positions : w.seq;
    add_groups(groups, "text.start", {{{"text.positions", positions * h, {}}}, {{"text.embedding", w.vocab * h, {}}}});
    add_layers(groups, "text", {text_block(w)});
    BlockTensors end;
    add_norm(end.plain, "text.final_norm", w.hidden);
    end.decaying.push_back({"text.projection", h * h, {}});
    add_groups(groups, "text.end", std::move(end));
}

void add_decoder(std::vector<ParameterGroup>& groups, const Workload& w) {
    add_layers(groups, "decoder", {decoder_block(w), cross_block(w)});
    BlockTensors end;
    add_norm(end.plain, "decoder.final_norm", w.decoder.hidden);
    end.decaying.push_back({"decoder.logits", static_cast<double>(w.decoder.hidden) * w.vocab, {}});
    add_groups(groups, "decoder.end", std::move(end));
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const Workload& w) {
    std::vector<ParameterGroup> groups;
    add_vision(groups, w);
    add_text(groups, w);
    add_decoder(groups, w);
    groups.push_back({"scale", {{"logit_scale", 1, "scale"}}});
    const auto wanted = static_cast<std::size_t>(w.optimizer_groups);
    if (wanted > groups.size())
        throw ConfigError(
            fmt::format("workload.optimizer_groups: {}, but the layers make {} groups; expected at most those", wanted,
                        groups.size()));
    std::vector<ParameterGroup> joined(wanted);
    for (std::size_t i = 0; i < groups.size(); ++i) {
        ParameterGroup& into = joined[i * wanted / groups.size()];
        if (into.tensors.empty()) into.name = groups[i].name;
        into.tensors.insert(into.tensors.end(), groups[i].tensors.begin(), groups[i].tensors.end());
    }
    return joined;
}

double elements_of(const ParameterGroup& group) {
    double sum = 0;
    for (const ParameterTensor& t : group.tensors) sum += t.elements;
    return sum;
}

double elements_of(const std::vector<ParameterGroup>& groups, std::string_view tower) {
    double sum = 0;
    for (const ParameterGroup& g : groups)
        for (const ParameterTensor& t : g.tensors)
            if (tower.empty() || t.name.starts_with(std::string(tower) + ".")) sum += t.elements;
    return sum;
}

double piece_elements(const ParameterGroup& group, int ranks) {
    return 2 * std::ceil(elements_of(group) / (2.0 * ranks));
}

std::vector<std::vector<Slice>> slices_of(const ParameterGroup& group, int ranks) {
    const double piece = piece_elements(group, ranks);
    std::vector<std::vector<Slice>> slices;
    double begin = 0;
    for (const ParameterTensor& t : group.tensors) {
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
        count += static_cast<int>(std::ranges::count(slices, rank, &Slice::rank));
    return count;
}

}  // namespace stepcast
