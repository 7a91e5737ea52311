#include "calibrate/fit_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include "calibrate/fit_parameter.h"
#include "calibrate/table_readers.h"
#include "model/errors.h"
#include "model/machine/generation.h"
#include "model/records/measurements.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

const Seconds shortest_sustained(20e-6);
constexpr int most_threads = 512;  // of vLLM's kernel that writes a token's keys and values to its cache, one an element
constexpr double clearly = 0.9;  // of the noise of another form of a kernel

// Long runs of real numbers where there are any, and none of kernels so short that their power is the one before's.
std::vector<GemmRow> telling(const std::vector<GemmRow>& rows) {
    const bool real = std::any_of(rows.begin(), rows.end(), [](const GemmRow& row) {
        return row.sustained && !row.uninitialised && !is_narrow(row.gemm.dtype);
    });
    std::vector<GemmRow> kept;
    for (const GemmRow& row : rows)
        if (!row.sustained || (row.time > shortest_sustained && !(real && row.uninitialised))) kept.push_back(row);
    return kept;
}

// A cast that was timed beside a held-out product would tell of it.
std::vector<CastRow> not_beside_held_out(const BuildingBlocks& blocks, HeldOutShare share) {
    std::set<RowHash> held_out;
    for (const GemmRow& row : blocks.gemms)
        if (row.casts && is_held_out(gemm_case(row), share)) held_out.insert(row.row);
    return casts_without(blocks.casts, held_out);
}

// Of 16 bits and more, or narrow ones.
std::vector<FitCase> product_cases(const BuildingBlocks& blocks, bool narrow) {
    std::vector<FitCase> cases;
    for (const GemmRow& row : telling(above_floor(blocks.gemms)))
        if (is_narrow(row.gemm.dtype) == narrow) cases.push_back(gemm_case(row));
    return cases;
}

std::vector<FitCase> of_kind(const std::vector<FitCase>& cases, const std::string& kind) {
    std::vector<FitCase> some;
    for (const FitCase& c : cases)
        if (c.kind == kind) some.push_back(c);
    return some;
}

struct Split {
    std::vector<FitCase> fitted, held_out, beside = {};  // of sisters: fitted, too
    std::vector<std::string> own = {};
    Outliers outliers = Outliers::few;
};

Split split_of(const FitPart& part, HeldOutShare share) {
    Split split;
    for (const FitCase& c : part.cases) (is_held_out(c, share) ? split.held_out : split.fitted).push_back(c);
    for (const FitCase& c : part.beside)
        if (!is_held_out(c, share)) split.beside.push_back(c);
    split.own = part.own;
    split.outliers = part.outliers;
    return split;
}

Split split_of(const std::vector<FitCase>& cases, HeldOutShare share) { return split_of(FitPart{{}, cases}, share); }

FitResult fit_part(const Cluster& start, const std::vector<FitParameter>& parameters, const Split& split,
                   const Progress& progress, Undetermined undetermined = Undetermined::give_back,
                   const std::vector<Sister>& all = {}) {
    if (progress) progress(fmt::format("fit {} {} cases", split.fitted.size(), split.fitted.front().kind));
    if (split.beside.empty()) return fit(start, parameters, split.fitted, progress, undetermined, {}, split.outliers);
    std::vector<FitCase> cases = split.fitted;
    cases.insert(cases.end(), split.beside.begin(), split.beside.end());
    std::vector<Cluster> sisters;
    for (const Sister& sister : all) sisters.push_back(seen_as(start, sister));
    return fit(start, with_own(parameters, split.own, sisters.size()), cases, progress, undetermined, sisters, split.outliers);
}

// Errors of the final cluster on both parts.
void judge(FitResult& result, const Split& split, HeldOutShare share) {
    result.fitted_errors = errors_on(split.fitted, result.cluster, "fitted");
    result.held_out_errors =
        errors_on(split.held_out, result.cluster, share == HeldOutShare::fifth ? "held-out fifth" : "held-out tenth");
    Fitted& fitted = *result.cluster.fitted;
    fitted.samples = static_cast<int>(split.fitted.size() + split.held_out.size());
    fitted.errors = result.held_out_errors;
    fitted.errors.insert(fitted.errors.end(), result.fitted_errors.begin(), result.fitted_errors.end());
}

// Cases of a sister, counted from 0, next to those of others.
void add_beside(std::vector<FitCase>& beside, std::vector<FitCase> cases, std::size_t sister) {
    for (FitCase& c : cases) {
        c.machine = sister + 1;
        beside.push_back(std::move(c));
    }
}

std::vector<FitCase> of_sisters(const std::vector<Sister>& sisters, const std::function<std::vector<FitCase>(const Sister&)>& cases_of) {
    std::vector<FitCase> beside;
    for (std::size_t i = 0; i < sisters.size(); ++i) add_beside(beside, cases_of(sisters[i]), i);
    return beside;
}

// Kernels of the tables, those with most rows first.
std::vector<std::pair<std::string, std::vector<FitCase>>> by_size(const NamedCases& named) {
    std::vector<std::pair<std::string, std::vector<FitCase>>> sorted(named.begin(), named.end());
    std::ranges::stable_sort(sorted, std::ranges::greater{}, [](const auto& kernel) { return kernel.second.size(); });
    return sorted;
}

[[noreturn]] void refuse_nothing(const Cluster& start, const BuildingBlocks& blocks) {
    if (blocks.between_nodes_rows > 0)
        throw ConfigError(fmt::format("no row that can be fitted: {} collectives run between nodes or have more ranks than the {} "
                                      "GPUs of a node of {}, which tables tell nothing of; expected rows of one node",
                                      blocks.between_nodes_rows, start.gpus_per_node, start.name));
    throw ConfigError(
        fmt::format("no row of {} (aliases: {}) among {} rows of {}; expected measurements of the cluster's device",
                    start.gpu.name, start.gpu.aliases, blocks.other_device_rows + blocks.other_op_rows,
                    blocks.devices.empty() ? "other operations" : fmt::format("{}", fmt::join(blocks.devices, ", "))));
}

// Rows of tables count blocks, so that they neither use nor know the ramp: the nameplate's stays.
AttentionKernel kernel_of_steps(const std::vector<AttentionKernel>& fitted, const AttentionKernel& named) {
    const auto found = std::ranges::find(fitted, named.name, &AttentionKernel::name);
    if (found == fitted.end()) return named;
    AttentionKernel kernel = alone(*found);
    kernel.ramp = named.ramp;
    return kernel;
}

// One fit after the other, each from where the one before left the cluster.
class Parts {
public:
    Parts(const Cluster& start, const std::vector<Sister>& sisters, const Progress& progress)
        : start_(start),
          sisters_(sisters),
          all_{start, {}, {}},
          fitted_(start.fitted.value_or(Fitted{})),
          progress_(progress) {}

    // A kind that the start was fitted of begins from what that found, and stays it where rows are few.
    void add(FitPart part, HeldOutShare share, Undetermined undetermined = Undetermined::give_back) {
        const bool known = knows(start_, part.parameters);
        const bool links = std::ranges::all_of(part.parameters, [](const FitParameter& p) { return p.key.starts_with("link."); });
        if (known && stays(kinds_of(part.cases), part.cases, felt(start_, part.cases, part.parameters), links)) return;
        if (known) part.parameters = with_priors_of(start_, part.parameters);
        // Constants of a link are felt together: given back one by one none would be left.
        add_anyway(part, share, known && !links ? Undetermined::give_back : undetermined);
    }

    // However few rows: a step's own kernels, whose constants are relative to what the kind's tables say.
    void add_anyway(const FitPart& part, HeldOutShare share, Undetermined undetermined = Undetermined::give_back) {
        if (part.parameters.empty()) return judge_unfitted(part.cases);
        const Split split = split_of(part, share);
        if (split.fitted.empty()) return;
        FitResult result = fit_part(all_.cluster, part.parameters, split, progress_, undetermined, sisters_);
        if (start_.fitted) leave_undetermined(start_, result);
        judge(result, split, share);
        take(std::move(result));
    }

    void add_launches(const BuildingBlocks& blocks) {
        if (FitResult result = launch_fit(all_.cluster, blocks); !result.parameters.empty()) take(std::move(result));
    }

    // Tables that are short: a fifth is held out.
    void add_short(std::span<const FitPart> parts) {
        for (const FitPart& part : parts) add(part, HeldOutShare::fifth);
    }

    // One kernel of the tables after the other, each fitted in the place of the nameless one and put next to it by name.
    void add_attention_kernels(const std::vector<AttentionRow>& all, HeldOutShare share) {
        const auto rows = worth_fitting(all, start_.kernel.attention_kernels, "attention", std::mem_fn(&AttentionRow::kernel), attention_by_name,
                                        [&](const std::string& name) { return attention_parameters(name, all).size(); });
        const AttentionKernel of_steps = all_.cluster.kernel.attention;
        std::map<std::string, AttentionKernel> largest;  // of each form: what kernels of fewer rows are believed to be like
        for (const auto& [name, cases] : by_size(attention_cases(rows))) {
            const std::string form = name.substr(0, name.starts_with("unmasked") || name.starts_with("latent") ? 6 : 0);
            const Split split = split_of(cases, share);
            if (split.fitted.empty()) continue;
            AttentionKernel start = largest.contains(form) ? largest.at(form) : AttentionKernel{};
            start.name = name;
            start.odd = 1;
            start.slides = true;
            start.token_block = 0;
            start.fp8_traffic = 1;
            auto parameters = attention_parameters(name, rows);
            if (largest.contains(form)) {
                all_.cluster.kernel.attention = start;
                parameters = with_priors_of(all_.cluster, parameters);
            }
            const FitResult best = best_of_forms(start, parameters, split, rows, share);
            put_by_name(all_.cluster.kernel.attention_kernels, best.cluster.kernel.attention);
            largest.emplace(form, best.cluster.kernel.attention);
        }
        all_.cluster.kernel.attention = kernel_of_steps(all_.cluster.kernel.attention_kernels, of_steps);
        judge_named(rows, attention_by_name, share);
    }

    void add_expert_kernels(const std::vector<MoeLayerRow>& all, HeldOutShare share) {
        const auto rows = worth_fitting(all, start_.kernel.expert_kernels, "expert kernels", kernel_of, expert_by_name,
                                        [](const std::string&) { return fit_priors({"experts"}).size(); });
        std::map<std::string, ExpertKernel> largest;  // of each dtype
        NamedCases beside;
        for (std::size_t i = 0; i < sisters_.size(); ++i)
            for (auto& [name, cases] : expert_cases(sisters_[i].blocks.moe_layers)) add_beside(beside[name], cases, i);
        for (const auto& [name, cases] : by_size(expert_cases(rows))) {
            const std::string dtype = name.substr(0, name.find(' '));
            const Split split = split_of({{}, cases, beside[name], {"kernel.experts.efficiency"}}, share);
            if (split.fitted.empty()) continue;
            all_.cluster.kernel.experts = {};
            auto parameters = fit_priors({"experts"});
            if (largest.contains(dtype)) {
                all_.cluster.kernel.experts = largest.at(dtype);
                parameters = with_priors_of(all_.cluster, parameters);
            }
            ExpertKernel found = best_of_tables(parameters, split);
            found.name = name;
            put_by_name(all_.cluster.kernel.expert_kernels, found);
            largest.emplace(dtype, found);
        }
        all_.cluster.kernel.experts = {};
        judge_named(rows, expert_by_name, share);
    }

    TablesFit finish(std::vector<FittedRange> ranges) {
        Fitted last;
        std::erase_if(ranges, [&](const FittedRange& r) { return kept_.contains(r.what.substr(0, r.what.find('.'))); });
        last.ranges = std::move(ranges);
        last.date = fitted_.date;
        all_.cluster.fitted = merged(fitted_, last);
        return std::move(all_);
    }

private:
    // Whether few rows leave a kind as the start has it.
    bool stays(const std::string& what, const std::vector<FitCase>& cases, std::size_t constants, bool of_links = false) {
        const int wanted = shapes_wanted(constants, of_links);
        if (cases.empty() || shapes_of(cases) >= wanted) return false;
        all_.kept.push_back(kept(start_, what, cases, constants, wanted));
        for (const FitCase& c : cases) kept_.insert(c.kind);
        return true;
    }

    // Rows of the kernels that the start's fit does not have, and of those of which there are enough.
    template <typename Row, typename Kernel, typename Name, typename Case, typename Constants>
    std::vector<Row> worth_fitting(std::vector<Row> rows, const std::vector<Kernel>& fitted, std::string_view kind, Name name_of,
                                   Case case_of, Constants constants_of) {
        NamedCases cases;
        if (is_measured(start_, kind))
            for (const Row& row : rows)
                if (std::ranges::find(fitted, name_of(row), &Kernel::name) != fitted.end()) cases[name_of(row)].push_back(case_of(row));
        for (const auto& [name, few] : cases)
            if (stays(name, few, constants_of(name))) std::erase_if(rows, [&](const Row& row) { return name_of(row) == name; });
        return rows;
    }

    // With the tile of queries that fits best; then whether a token's block is smaller for fewer keys, and what is done with windows.
    FitResult best_of_forms(AttentionKernel start, const std::vector<FitParameter>& parameters, const Split& split,
                            const std::vector<AttentionRow>& rows, HeldOutShare share) {
        FitResult best = best_of_tiles(start, parameters, split);
        const auto prefer = [&](FitResult other) {
            if (other.noise < best.noise) best = std::move(other);
        };
        if (!start.name.starts_with("unmasked")) {
            start.token_block = most_threads;
            prefer(best_of_tiles(start, parameters, split, {best.cluster.kernel.attention.tile}));
            start.token_block = best.cluster.kernel.attention.token_block;
        }
        if (masks_windows(best.cluster, start.name, rows, share)) {
            start.slides = false;
            prefer(best_of_tiles(start, parameters, split));
        }
        return best;
    }

    FitResult best_of_tiles(AttentionKernel start, const std::vector<FitParameter>& parameters, const Split& split,
                            const std::vector<int>& tiles = {16, 32, 64, 128, 192, 256}) {
        std::optional<FitResult> best;
        for (const int tile : tiles) {
            start.tile = tile;
            all_.cluster.kernel.attention = start;
            FitResult found = fit_part(all_.cluster, parameters, split, progress_, Undetermined::keep);
            if (!best || found.noise < best->noise) best = std::move(found);
        }
        return *std::move(best);
    }

    // With the fastest tile, or with Triton's default one or those of few rows where that fits clearly better.
    ExpertKernel best_of_tables(const std::vector<FitParameter>& parameters, const Split& split) {
        constexpr std::pair<bool, bool> forms[] = {{false, false}, {true, false}, {false, true}};  // of `tabled` and `reloads`
        std::optional<FitResult> best;
        for (const auto& [tabled, reloads] : forms) {
            if (reloads && !is_blackwell(all_.cluster.gpu)) continue;  // no other generation has such kernels
            all_.cluster.kernel.experts.tabled = tabled;
            all_.cluster.kernel.experts.reloads = reloads;
            FitResult found = fit_part(all_.cluster, parameters, split, progress_, Undetermined::keep, sisters_);
            if (!best || found.noise < clearly * best->noise) best = std::move(found);
        }
        return best->cluster.kernel.experts;
    }

    // Errors of cases that no constant was fitted to.
    void judge_unfitted(const std::vector<FitCase>& cases) {
        Fitted judged;
        judged.date = fitted_.date;
        judged.samples = static_cast<int>(cases.size());
        judged.errors = errors_on(cases, all_.cluster, "not fitted");
        fitted_ = merged(fitted_, judged);
    }

    // Errors of cases whose kernels' constants stand in rows of their own.
    template <typename Row>
    void judge_named(const std::vector<Row>& rows, FitCase (*case_of)(const Row&), HeldOutShare share) {
        if (rows.empty()) return;
        std::vector<FitCase> cases;
        std::ranges::transform(rows, std::back_inserter(cases), case_of);
        FitResult result;
        result.cluster = all_.cluster;
        result.cluster.fitted = Fitted{};
        const Split split = split_of(cases, share);
        for (const FitCase& c : split.fitted) result.cluster.fitted->rows.push_back(c.row);
        result.cluster.fitted->rows = joined(std::move(result.cluster.fitted->rows), {});
        judge(result, split, share);
        take(std::move(result));
    }

    void take(FitResult result) {
        fitted_ = merged(fitted_, *result.cluster.fitted);
        all_.cluster = result.cluster;
        all_.results.push_back(std::move(result));
    }

    const Cluster& start_;
    const std::vector<Sister>& sisters_;
    TablesFit all_;
    Fitted fitted_;
    std::set<std::string> kept_;  // kinds of cases
    const Progress& progress_;
};

}  // namespace

TablesFit fit_tables(const Cluster& start, const BuildingBlocks& blocks, const Progress& progress,
                     const TablesHow& how) {
    const std::vector<FitCase> gemms = product_cases(blocks, false), narrow = product_cases(blocks, true);
    std::vector<FitCase> collectives;
    for (const CollectiveRow& row : blocks.collectives)
        if (inside_one_node(row, start)) collectives.push_back(collective_case(row, start));
    // Launches name no device: they are of the one whose kernels stand next to them.
    const bool others_launches = blocks.launches.empty() || blocks.other_device_rows > 0;
    if (gemms.empty() && narrow.empty() && collectives.empty() && blocks.exchanges.empty() && blocks.moe_layers.empty() &&
        blocks.attentions.empty() && blocks.casts.empty() && blocks.kernels.empty() && others_launches && blocks.traced.empty())
        refuse_nothing(start, blocks);
    // The fastest tile and protocol count. One that no row takes is not determined, but back at its prior it could be the fastest.
    const auto undetermined = how.keep_launch ? Undetermined::give_back : Undetermined::keep;
    // Of published tables; a script's own are few shapes.
    const bool published = !how.keep_launch && blocks.launches.empty() && blocks.kernels.empty();
    const Outliers outliers = published ? Outliers::many : Outliers::few;
    Parts parts(start, how.sisters, progress);
    const auto casts_of = [&](const BuildingBlocks& b) { return cast_cases(not_beside_held_out(b, how.share)); };
    parts.add_short(how.before);
    parts.add_launches(blocks);
    const std::vector<FitPart> kernels = kernel_fits(blocks);
    parts.add_short(std::span(kernels).first(1));  // what events add and what a launch costs, which GEMMs cannot tell apart
    parts.add({gemm_parameters_for(start, blocks, how), gemms,
               of_sisters(how.sisters, [](const Sister& s) { return product_cases(s.blocks, false); }), {"kernel.gemm_efficiency", "power.flop_pj"}, outliers},
              how.share, undetermined);
    parts.add_short(std::span(kernels).subspan(1));
    parts.add({fit_priors({"casts"}), casts_of(blocks), of_sisters(how.sisters, [&](const Sister& s) { return casts_of(s.blocks); }),
               {"kernel.cast.launch"}}, how.share, undetermined);
    for (const std::string format : {"fp8", "fp8_blocks", "fp4"}) {
        const Dtype dtype = format == "fp4" ? Dtype::fp4 : Dtype::fp8;
        const auto beside = of_sisters(how.sisters, [&](const Sister& s) {
            // Block-scaled fp8 of sisters made left-out blocks of sizes worse (docs/calibration.md).
            const bool alike = format != "fp8_blocks" && alike_in(dtype, start.gpu, s.gpu);
            return alike ? of_kind(product_cases(s.blocks, true), "gemm_" + format) : std::vector<FitCase>{};
        });
        parts.add({fit_priors({format}), of_kind(narrow, "gemm_" + format), beside, {"kernel." + format + ".efficiency"}, outliers},
                  how.share, undetermined);
    }
    parts.add_attention_kernels(blocks.attentions, how.share);
    parts.add_expert_kernels(blocks.moe_layers, how.share);
    parts.add({collective_parameters_for(start, blocks), collectives}, how.share, undetermined);
    for (const FitPart& part : exchange_fits(blocks)) parts.add(part, how.share, undetermined);
    for (const FitPart& part : traced_fits(start, blocks)) parts.add_anyway(part, part.cases.size() < 10 ? HeldOutShare::none : HeldOutShare::fifth);
    parts.add_short(how.after);
    return parts.finish(ranges_of(blocks));
}

}  // namespace stepcast
