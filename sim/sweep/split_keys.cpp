#include "sim/sweep/split_keys.h"

#include <algorithm>

namespace stepcast {
namespace {

template <auto Member>
int get(const Parallelism& p) {
    return static_cast<int>(p.*Member);
}
template <auto Member>
void set(Parallelism& p, int value) {
    p.*Member = static_cast<std::remove_cvref_t<decltype(p.*Member)>>(value);
}
template <auto Member>
constexpr SplitField field(std::string_view key) {
    return {key, get<Member>, set<Member>};
}

using P = Parallelism;
constexpr std::array<SplitField, split_key_count> fields{
    field<&P::global_batch>("parallelism.global_batch"),
    field<&P::tp>("parallelism.tp"),
    field<&P::cp>("parallelism.cp"),
    field<&P::sequence_parallel>("parallelism.sequence_parallel"),
    field<&P::micro_batch>("parallelism.micro_batch"),
    field<&P::ep>("parallelism.ep"),
    field<&P::recompute>("parallelism.recompute"),
    field<&P::recompute_layers>("parallelism.recompute_layers"),
    field<&P::overlap_tp>("parallelism.overlap_tp"),
    field<&P::overlap_weight_gradient>("parallelism.overlap_weight_gradient"),
    field<&P::pp>("parallelism.pp"),
    field<&P::dp>("parallelism.dp"),
    field<&P::schedule>("parallelism.schedule"),
    field<&P::vp>("parallelism.vp"),
    field<&P::overlap_p2p>("parallelism.overlap_p2p"),
    field<&P::scatter_p2p>("parallelism.scatter_p2p"),
    field<&P::zero>("parallelism.zero"),
    field<&P::overlap>("parallelism.overlap"),
    field<&P::overlap_params>("parallelism.overlap_params")};

}  // namespace

const std::array<SplitField, split_key_count>& split_fields() { return fields; }
const SplitField& split_field(SplitKey key) { return fields[static_cast<std::size_t>(key)]; }

std::size_t split_index(std::string_view key) {
    return static_cast<std::size_t>(std::ranges::find(fields, key, &SplitField::key) - fields.begin());
}

}  // namespace stepcast
