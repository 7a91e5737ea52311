#include "sim/bounds/part_keys.h"

#include <string_view>
#include <type_traits>
#include <utility>

#include "model/base/numbers.h"
#include "model/block/linear.h"

namespace stepcast {
namespace {

template <class Field>
const Field& field_of(const ParallelPlan& plan, Field Parallelism::*member) {
    return plan.parallelism.*member;
}
template <class Field>
const Field& field_of(const ParallelPlan& plan, Field Exchanges::*member) {
    return plan.exchanges.*member;
}

// What a key counts as in a part: its value, but for those below.
template <Affects part, auto member>
struct CountedAs {
    static const auto& of(const SplitOfBase& split) { return field_of(split.plan, member); }
};
// Nothing by itself: another key's meaning holds what it changes.
struct CountedWithAnother {
    static int of(const SplitOfBase& /*split*/) { return 0; }
};

// Micro-batches are what batch sizes and replicas are to a pipeline.
template <>
struct CountedAs<Affects::pipeline, &Parallelism::global_batch> {
    static int of(const SplitOfBase& split) { return micro_batches(split.plan.parallelism); }
};
template <>
struct CountedAs<Affects::pipeline, &Parallelism::dp> : CountedWithAnother {};
template <>
struct CountedAs<Affects::pipeline, &Parallelism::micro_batch> : CountedWithAnother {};

// With another rank order than the usual, the groups of a shape depend on all sizes.
bool has_usual_order(const SplitOfBase& split) {
    return split.plan.parallelism.rank_order == "tp-cp-dp-pp";
}
template <>
struct CountedAs<Affects::shape, &Parallelism::rank_order> {
    static std::string_view of(const SplitOfBase& split) {
        return has_usual_order(split) ? "" : std::string_view(split.plan.parallelism.rank_order);
    }
};
template <>
struct CountedAs<Affects::shape, &Parallelism::dp> {
    static int of(const SplitOfBase& split) {
        return has_usual_order(split) ? 0 : split.plan.parallelism.dp;
    }
};
template <>
struct CountedAs<Affects::shape, &Parallelism::pp> {
    static int of(const SplitOfBase& split) {
        return has_usual_order(split) ? 0 : split.plan.parallelism.pp;
    }
};

// Full recompute is counted apart from the shape, so it shares a shape with no recompute.
template <>
struct CountedAs<Affects::shape, &Parallelism::recompute> {
    static Recompute of(const SplitOfBase& split) {
        const Recompute mode = split.plan.parallelism.recompute;
        return mode == Recompute::full ? Recompute::none : mode;
    }
};
// A bit for each module that selective recompute runs again.
template <>
struct CountedAs<Affects::shape, &Parallelism::recompute_modules> {
    static int of(const SplitOfBase& split) {
        const Parallelism& p = split.plan.parallelism;
        int bits = 0;
        if (p.recompute != Recompute::selective) return bits;
        for (const RecomputedModule module : p.recompute_modules) bits |= 1 << as_int(module);
        return bits;
    }
};
template <>
struct CountedAs<Affects::shape, &Exchanges::tensor> {
    static bool of(const SplitOfBase& split) {
        return overlaps_tensor(split.plan.exchanges, split.plan.parallelism);
    }
};

// Into how many shards a pass adds each weight gradient; 0 if none does.
template <>
struct CountedAs<Affects::shape, &Parallelism::shard> {
    static int of(const SplitOfBase& split) {
        const Parallelism& p = split.plan.parallelism;
        const bool adds = !split.gradients.fused_accumulation && micro_batches(p) != 1;
        return adds ? accumulated_shards(p) : 0;
    }
};
template <>
struct CountedAs<Affects::shape, &Parallelism::zero> : CountedWithAnother {};
template <>
struct CountedAs<Affects::shape, &Parallelism::global_batch> : CountedWithAnother {};

// Calls `use` with each key of a split that declares the part, in the order of the key table.
template <Affects part>
constexpr void each_key_of(const auto& use) {
    const auto in_table = [&]<class Table>(std::type_identity<Table>) {
        each_key_line<Table>([&]<int line>(KeyLine<line>) {
            constexpr auto key = Table::key_at(KeyLine<line>(), static_cast<Table*>(nullptr), "");
            if constexpr (key.affects.has(part)) use(key);
        });
    };
    in_table(std::type_identity<Parallelism>());
    in_table(std::type_identity<Exchanges>());
}

}  // namespace

template <Affects part>
bool changes(const SplitOfBase& before, const SplitOfBase& now) {
    bool same = true;
    each_key_of<part>([&]<auto member>(const Keyed<member>&) {
        using Counted = CountedAs<part, member>;
        same = same && Counted::of(before) == Counted::of(now);
    });
    return !same;
}
template bool changes<Affects::ranks>(const SplitOfBase&, const SplitOfBase&);
template bool changes<Affects::shape>(const SplitOfBase&, const SplitOfBase&);
template bool changes<Affects::pipeline>(const SplitOfBase&, const SplitOfBase&);
template bool changes<Affects::sends>(const SplitOfBase&, const SplitOfBase&);
template bool changes<Affects::data>(const SplitOfBase&, const SplitOfBase&);
template bool changes<Affects::overlap>(const SplitOfBase&, const SplitOfBase&);

ShapeKey shape_key(const SplitOfBase& split) {
    constexpr std::size_t count = [] {
        std::size_t keys = 0;
        each_key_of<Affects::shape>([&](const auto&) { ++keys; });
        return keys;
    }();
    ShapeKey key;
    static_assert(count <= std::tuple_size_v<decltype(key.numbers)>);
    std::size_t at = 0;
    each_key_of<Affects::shape>([&]<auto member>(const Keyed<member>&) {
        const auto counted = CountedAs<Affects::shape, member>::of(split);
        if constexpr (std::is_convertible_v<decltype(counted), std::string_view>)
            key.text = counted;
        else
            key.numbers[at++] = static_cast<int>(counted);
    });
    return key;
}

}  // namespace stepcast
