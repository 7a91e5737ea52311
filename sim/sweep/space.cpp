#include "sim/sweep/space.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/input/keys.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"
#include "sim/bounds/bounds.h"

namespace stepcast {
namespace {

constexpr double most_points = 1e18;
constexpr std::uint64_t most_bases = 1'000'000;

std::vector<int> divisors(int n) {
    std::vector<int> found;
    for (int d = 1; d <= n; ++d)
        if (n % d == 0) found.push_back(d);
    return found;
}

std::vector<int> up_to(int first, int last) {
    std::vector<int> values(as_index(std::max(0, last - first + 1)));
    std::iota(values.begin(), values.end(), first);
    return values;
}

int integer_of(const std::string& key, const std::string& text, const Experiment& experiment) {
    if (const auto value = as_number<int>(text)) return *value;
    if (key == "parallelism.dp" && text == "rest") return SweepBase::rest;
    Experiment tried = experiment;
    set_key(tried, {key, text});
    return split_fields[split_index(key)].get(plan_of(tried));
}

// With two copies of the model, programs run forwards beside backwards of the other copy, which
// only parallelism.overlap_experts models.
bool left_out(const ScheduleTraits& schedule) { return schedule.copies > 1; }

std::vector<int> every_schedule() {
    std::vector<int> schedules;
    for (const ScheduleTraits& s : known_schedules)
        if (!left_out(s)) schedules.push_back(as_int(s.schedule));
    return schedules;
}

// light_first and balanced seldom come before these: only an axis of their own asks for them.
std::vector<int> usual_layouts(const Parallelism& p) {
    if (!p.stage_layers.empty()) return {};
    return {as_int(StageLayout::even), as_int(StageLayout::light_last),
            as_int(StageLayout::light_ends)};
}

// What the framework has, else Megatron's words: none, selective, full.
std::vector<int> every_recompute(const std::vector<Recompute>& can) {
    if (can.empty()) return up_to(0, 2);
    std::vector<int> values;
    for (const Recompute one : can) values.push_back(as_int(one));
    std::ranges::sort(values);
    return values;
}

// The values that `--vary parallelism=all` gives to a key: all that can be legal, except schedules
// left out. Empty: the key stays.
std::vector<int> every_value(SplitKey key, const Experiment& e) {
    const int ranks = rank_count(e.cluster), batch = e.parallelism.global_batch;
    switch (key) {
        case SplitKey::tp:
        case SplitKey::cp:
        case SplitKey::pp: return divisors(ranks);
        case SplitKey::dp: return {SweepBase::rest};
        case SplitKey::ep: return divisors(std::max(1, e.workload.moe.experts));
        case SplitKey::sequence_parallel: return {0, 1};
        case SplitKey::micro_batch: return batch > 0 ? divisors(batch) : std::vector<int>{};
        case SplitKey::schedule: return every_schedule();
        case SplitKey::vp: return up_to(1, e.workload.layers);
        case SplitKey::recompute: return every_recompute(e.framework.can.recompute);
        case SplitKey::zero: return up_to(0, 3);
        case SplitKey::layout: return usual_layouts(e.parallelism);
        default: return {};
    }
}

// What a switch acts on, and the values of that for which all values of the switch mean the same.
struct ActsOn {
    std::string_view key;
    SplitKey needed;
    bool (*idle)(int);
};
bool is_one(int degree) { return degree == 1; }
bool exchanges_later(int gradients) { return gradients != as_int(GradientOverlap::always); }
bool keeps_modules(int recompute) { return recompute != as_int(Recompute::selective); }
constexpr ActsOn acts_on[] = {
    {"runtime.experts.dispatch", SplitKey::ep, is_one},
    {"runtime.experts.tensor_parallel", SplitKey::tp, is_one},
    {"runtime.context_exchange", SplitKey::cp, is_one},
    {"runtime.exchanges.tensor", SplitKey::tp, is_one},
    {"parallelism.overlap_experts", SplitKey::ep, is_one},
    {"runtime.exchanges.sends", SplitKey::pp, is_one},
    {"runtime.exchanges.parameters", SplitKey::gradients, exchanges_later},
    {"parallelism.recompute_modules", SplitKey::recompute, keeps_modules}};

const ActsOn* row_of(std::string_view key) {
    const auto* const row = std::ranges::find(acts_on, key, &ActsOn::key);
    return row == std::end(acts_on) ? nullptr : row;
}

// What selective recompute would run again.
std::vector<RecomputedModule> modules_again(const Experiment& e) {
    const auto& named = e.parallelism.recompute_modules;
    return modules_of(e.workload, named.empty() ? std::vector{RecomputedModule::core_attn} : named);
}

std::string text_of_modules_again(const Experiment& e) {
    std::vector<std::string_view> names;
    for (const RecomputedModule module : modules_again(e)) names.push_back(to_string(module));
    return fmt::format("[{}]", joined(names, ", "));
}

// Whether the workload has what the switch acts on, and the two values differ for it.
bool is_alike(const Experiment& a, const Experiment& b, std::string_view key) {
    const bool of_experts =
        key.starts_with("runtime.experts.") || key == "parallelism.overlap_experts";
    if (of_experts && a.workload.moe.experts == 0) return true;
    if (key == "runtime.experts.tensor_parallel") return splits_experts(a) == splits_experts(b);
    if (key == "parallelism.recompute_modules")
        return modules_again(b).empty() || modules_again(a) == modules_again(b);
    return get_key(a, std::string(key)) == get_key(b, std::string(key));
}

std::uint64_t inner_points(const SweepBase& base) {
    double product = 1;
    std::uint64_t points = 1;
    for (const auto& values : base.values) {
        product *= real(values.size());
        if (product > most_points)
            throw ConfigError(
                fmt::format("sweep: {:.3g} points or more are asked for; expected at most {:g}",
                            product, most_points));
        points *= values.size();
    }
    return points;
}

}  // namespace

SweepSpace::SweepSpace(const Experiment& experiment, std::vector<Axis> axes,
                       std::vector<Override> stated)
    : experiment_(experiment),
      axes_(std::move(axes)),
      stated_(std::move(stated)),
      every_split_(varies_every_split(axes_)) {
    check_axes(axes_, experiment);
    for (const Axis& axis : axes_)  // the framework must not set a key that varies
        if (const Key* key = find_key(axis.key); key && may_be_ruled(canonical(*key)))
            experiment_.overlay.stated.emplace_back(canonical(*key));
    find_beyond_of_presets();
    if (every_split_) add_outer_axes();
    asked_axes_ = axes_.size();
    if (every_split_) add_switches();
    find_split_values();
    const double bases = count_bases();
    varied_ = varied_keys();
    count_points(bases);
}

void SweepSpace::find_split_values() {
    for (const Axis& axis : axes_) {
        std::vector<int>& values = split_values_.emplace_back();
        if (!is_inner(axis.key)) continue;
        for (const auto& text : axis.values)
            values.push_back(integer_of(axis.key, text, experiment_));
    }
}

void SweepSpace::find_beyond_of_presets() {
    find_beyond(experiment_);
    for (const Axis& axis : axes_)
        for (const auto& value : lays_preset(axis) ? axis.values : std::vector<std::string>{}) {
            Experiment laid = experiment_;
            set_varied(laid, axis.key, value, stated_);
            find_beyond(laid);
        }
}

double SweepSpace::count_bases() {
    double bases = 1;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
        if (axes_[i].key == "parallelism" || is_inner(axes_[i].key)) continue;
        outer_.push_back(i);
        bases *= real(axes_[i].values.size());
        if (i >= asked_axes_) switched_ *= axes_[i].values.size();
    }
    if (bases > real(most_bases))
        throw ConfigError(fmt::format(
            "sweep: {:.3g} settings of keys that each need a cost model of their own; expected "
            "at most {} (keys of [parallelism] are not limited)",
            bases, most_bases));
    return bases;
}

void SweepSpace::count_points(double bases) {
    item_begin_.push_back(0);
    double product = 0;
    for (std::uint64_t b = 0; b < static_cast<std::uint64_t>(bases); ++b) {
        if (b == 0 || every_split_) {
            const SweepBase first = base(b);
            const std::uint64_t points = inner_points(first);
            product = real(points_) + real(points) * (every_split_ ? 1 : bases);
            if (product > most_points)
                throw ConfigError(
                    fmt::format("sweep: {:.3g} points are asked for; expected at most {:g}",
                                product, most_points));
            points_ += points * (every_split_ ? 1 : static_cast<std::uint64_t>(bases));
            item_begin_.push_back(item_begin_.back() + first.items());
        } else {
            item_begin_.push_back(item_begin_.back() + item_begin_[1]);
        }
    }
}

bool SweepSpace::is_inner(std::string_view key) const {
    const std::size_t index = split_index(key);
    return index < split_key_count && !contains(beyond_, split_fields[index].key);
}

void SweepSpace::find_beyond(const Experiment& e) {
    for (const std::string_view key : condition_keys(e.framework))
        if (is_inner(key)) beyond_.emplace_back(key);
}

void SweepSpace::add_outer_axes() {
    for (const std::string_view key : beyond_) {
        if (contains(axes_, key, &Axis::key)) continue;
        Axis axis{std::string(key), {}};
        for (const int value : every_value(static_cast<SplitKey>(split_index(key)), experiment_))
            axis.values.push_back(std::to_string(value));
        axes_.push_back(std::move(axis));
    }
}

void SweepSpace::add_switches() {
    const bool split_alone = std::ranges::all_of(axes_, [](const Axis& axis) {
        return axis.key == "parallelism" || split_index(axis.key) < split_key_count;
    });
    if (!split_alone) return;
    for (const std::string& line : experiment_.framework.can.switches) {
        const Axis asked = at_place("framework.can.switches", [&] { return parse_switch(line); });
        if (is_stated(experiment_, asked.key) || is_fixed(asked.key, stated_) ||
            contains(axes_, asked.key, &Axis::key))
            continue;
        Axis axis{asked.key, {text_of(*find_key(asked.key), experiment_)}};
        std::vector<Experiment> before{experiment_};
        for (const std::string& value : asked.values) {
            Experiment other = experiment_;
            set_key(other, {axis.key, value});
            if (std::ranges::any_of(
                    before, [&](const Experiment& e) { return is_alike(e, other, axis.key); }))
                continue;
            axis.values.push_back(
                axis.key == "parallelism.recompute_modules" ? text_of_modules_again(other) : value);
            before.push_back(std::move(other));
        }
        if (axis.values.size() == 1) continue;
        experiment_.overlay.stated.push_back(axis.key);
        axes_.push_back(std::move(axis));
    }
}

std::vector<std::string> SweepSpace::switches() const {
    std::vector<std::string> keys;
    for (std::size_t i = asked_axes_; i < axes_.size(); ++i) keys.push_back(axes_[i].key);
    return keys;
}

std::uint64_t SweepSpace::base_of_item(std::uint64_t item) const {
    return static_cast<std::uint64_t>(std::ranges::upper_bound(item_begin_, item) -
                                      item_begin_.begin()) -
           1;
}

std::uint64_t SweepSpace::screened_item(std::uint64_t position) const {
    const std::uint64_t base = base_of_item(position), first = item_begin_[base],
                        items = item_begin_[base + 1] - first;
    std::uint64_t stride = 1;
    for (const std::uint64_t prime : {1048573ULL, 1048571ULL, 1048559ULL, 1048549ULL})
        if (std::gcd(prime, items) == 1) stride = prime;
    return first + (position - first) * (stride % items) % items;
}

std::size_t SweepSpace::outer_value(std::size_t axis, std::uint64_t base) const {
    for (std::size_t i = outer_.size(); outer_[--i] != axis;)
        base /= axes_[outer_[i]].values.size();
    return base % axes_[axis].values.size();
}

// Where a switch has no effect, its first value stands for all.
void SweepSpace::pass_over_idle(std::uint64_t number, SweepBase& base) const {
    for (std::size_t i = asked_axes_; i < axes_.size(); ++i) {
        const ActsOn* const row = row_of(axes_[i].key);
        if (row == nullptr) continue;
        if (is_inner(axes_[i].key))
            base.needs[split_index(axes_[i].key)] = {split_field(row->needed).get, row->idle};
        else if (outer_value(i, number) > 0)
            std::erase_if(base.values[as_index(row->needed)], row->idle);
    }
}

SweepBase SweepSpace::base(std::uint64_t number) const {
    SweepBase base{.experiment = experiment_, .values = {}, .rules = {}, .rules_suffice = false};
    Experiment& e = base.experiment;
    Settings outer;
    for (const std::size_t i : outer_)
        outer.emplace_back(axes_[i].key, axes_[i].values[outer_value(i, number)]);
    set_varied(e, outer, stated_);
    for (std::size_t k = 0; k < split_key_count; ++k) {
        const SplitField& field = split_fields[k];
        if (every_split_ && is_inner(field.key))
            base.values[k] = every_value(static_cast<SplitKey>(k), e);
        const auto axis =
            std::ranges::find_if(axes_, [&](const Axis& one) { return split_index(one.key) == k; });
        if (axis != axes_.end() && is_inner(field.key)) {
            base.values[k] = split_values_[as_index(axis - axes_.begin())];
        }
        if (base.values[k].empty()) base.values[k] = {field.get(plan_of(e))};
    }
    pass_over_idle(number, base);
    if (e.workload.kind == Workload::Kind::transformer) {
        base.rules.emplace(e, every_split_);
        base.rules_suffice = StepBounds::cover(e);
    }
    return base;
}

Experiment SweepSpace::experiment_of(PointId id) const {
    SweepBase found = base(id.base);
    set_plan(found.experiment, found.split_of(id.inner));
    return std::move(found.experiment);
}

std::vector<VariedKey> SweepSpace::varied_keys() const {
    std::vector<VariedKey> keys;
    const auto take = [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i)
            if (axes_[i].key != "parallelism")
                keys.push_back({axes_[i].key, split_index(axes_[i].key), i});
    };
    take(0, asked_axes_);
    if (!every_split_) return keys;
    for (const SplitKey key : walked_splits) {
        const std::string name(split_field(key).key);
        const bool one = key == SplitKey::ep && experiment_.workload.moe.experts == 0;
        if (!one && !contains(keys, name, &VariedKey::name))
            keys.push_back({name, split_index(name)});
    }
    take(asked_axes_, axes_.size());
    return keys;
}

std::vector<std::string> SweepSpace::schedules_left_out() const {
    std::vector<std::string> names;
    if (!every_split_ || contains(axes_, split_field(SplitKey::schedule).key, &Axis::key))
        return names;
    for (const ScheduleTraits& s : known_schedules)
        if (left_out(s)) names.emplace_back(s.name);
    return names;
}

std::uint64_t SweepSpace::kind_of(std::uint64_t base, const ParallelPlan& split) const {
    const std::span<const Axis> asked(axes_.data(), asked_axes_);
    std::uint64_t kind = base / switched_;
    for (std::size_t k = 0; k < split_key_count; ++k) {
        const SplitKey key = static_cast<SplitKey>(k);
        const bool of_ranks = key == SplitKey::tp || key == SplitKey::pp || key == SplitKey::dp ||
                              key == SplitKey::cp || key == SplitKey::ep ||
                              key == SplitKey::schedule;
        if (of_ranks || contains(asked, split_fields[k].key, &Axis::key))
            kind = (kind ^ static_cast<std::uint64_t>(split_fields[k].get(split))) *
                   0x9e3779b97f4a7c15ULL;
        kind ^= kind >> 29;
    }
    return kind;
}

std::vector<std::string> SweepSpace::outer_keys() const {
    std::vector<std::string> keys;
    for (const std::size_t i : outer_)
        if (i < asked_axes_) keys.push_back(axes_[i].key);
    return keys;
}

Settings SweepSpace::settings_of(PointId id) const {
    const Experiment e = experiment_of(id);
    Settings settings;
    for (const VariedKey& key : varied_)
        settings.emplace_back(key.name, value_at(key, position(key, id.base, plan_of(e))));
    return settings;
}

int SweepSpace::position(const VariedKey& key, std::uint64_t base,
                         const ParallelPlan& split) const {
    return key.split < split_key_count ? split_fields[key.split].get(split)
                                       : as_int(outer_value(key.axis, base));
}

std::string SweepSpace::value_at(const VariedKey& key, int position) const {
    if (key.split == split_key_count) return axes_[key.axis].values[as_index(position)];
    Experiment e = experiment_;
    ParallelPlan plan = plan_of(e);
    split_fields[key.split].set(plan, position);
    set_plan(e, plan);
    return get_key(e, key.name);
}

}  // namespace stepcast
