#include "calibrate/fit_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "calibrate/exchange_tables.h"
#include "calibrate/fit_parameter.h"
#include "calibrate/named_kernels.h"
#include "calibrate/script_tables.h"
#include "calibrate/table_cases.h"
#include "calibrate/table_record.h"
#include "calibrate/traced_tables.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/machine/generation.h"
#include "model/records/measurements.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

const Seconds shortest_sustained(20e-6);
// vLLM's kernel that writes a token's keys and values to its cache: at most one thread per element
constexpr int most_threads = 512;
// a form of a kernel is clearly better when its noise is below this share of another form's
constexpr double clearly = 0.9;

// Drops sustained rows on uninitialised weights if there are some on real numbers, and those too
// short to have a power of their own.
std::vector<GemmRow> well_measured(std::vector<GemmRow> rows) {
    const bool real = std::ranges::any_of(rows, [](const GemmRow& row) {
        return row.sustained && !row.uninitialised && !is_narrow(row.gemm.dtype);
    });
    std::erase_if(rows, [&](const GemmRow& row) {
        return row.sustained && (row.time <= shortest_sustained || (real && row.uninitialised));
    });
    return rows;
}

// Casts without those of held-out products: the cast's time is a part of such a product's time.
std::vector<CastRow> not_beside_held_out(const BuildingBlocks& blocks, HeldOutShare share) {
    std::set<RowHash> held_out;
    for (const GemmRow& row : blocks.gemms)
        if (row.casts && is_held_out(gemm_case(row), share)) held_out.insert(row.row);
    return casts_without(blocks.casts, held_out);
}

// The products with operands of 16 bits and more, or those with narrow operands.
std::vector<FitCase> product_cases(const BuildingBlocks& blocks, bool narrow) {
    std::vector<FitCase> cases;
    for (const GemmRow& row : well_measured(above_floor(blocks.gemms)))
        if (is_narrow(row.gemm.dtype) == narrow) cases.push_back(gemm_case(row));
    return cases;
}

std::vector<FitCase> of_kind(std::vector<FitCase> cases, const std::string& kind) {
    std::erase_if(cases, [&](const FitCase& c) { return c.kind != kind; });
    return cases;
}

// Appends the cases of a sister; sisters count from 0.
void add_beside(std::vector<FitCase>& beside, std::vector<FitCase> cases, std::size_t sister) {
    for (FitCase& c : cases) {
        c.machine = sister + 1;
        beside.push_back(std::move(c));
    }
}

std::vector<FitCase> of_sisters(
    const std::vector<Sister>& sisters,
    const std::function<std::vector<FitCase>(const Sister&)>& cases_of) {
    std::vector<FitCase> beside;
    for (const std::size_t i : indices_of(sisters)) add_beside(beside, cases_of(sisters[i]), i);
    return beside;
}

// The kernels of the tables, the ones with most rows first.
std::vector<std::pair<std::string, std::vector<FitCase>>> by_size(const NamedCases& named) {
    std::vector<std::pair<std::string, std::vector<FitCase>>> sorted(named.begin(), named.end());
    std::ranges::stable_sort(sorted, std::ranges::greater{},
                             [](const auto& kernel) { return kernel.second.size(); });
    return sorted;
}

[[noreturn]] void refuse_without_rows(const Cluster& start, const BuildingBlocks& blocks) {
    if (blocks.part_nodes_rows > 0)
        refuse("no row that can be fitted: of {} collectives, {}", blocks.part_nodes_rows,
               part_nodes_text(start));
    refuse(
        "no row of {} (aliases: {}) among {} rows of {}; expected measurements of the cluster's "
        "device",
        start.gpu.name, start.gpu.aliases, blocks.other_device_rows + blocks.other_op_rows,
        blocks.devices.empty() ? "other operations" : joined(blocks.devices, ", "));
}

// The kernel for steps. Rows of tables count whole blocks and tell nothing of the ramp, so the ramp
// stays the nameplate's.
AttentionKernel kernel_of_steps(const std::vector<AttentionKernel>& fitted,
                                const AttentionKernel& named) {
    const auto found = first_with(fitted, named.name, &AttentionKernel::name);
    if (!found) return named;
    AttentionKernel kernel = alone(*found);
    kernel.ramp = named.ramp;
    return kernel;
}

// Where a cluster keeps the kernel without a name, which fits move, and the tables' kernels by
// their names.
template <typename Row, typename Kernel>
struct Named {
    const char* kind;  // of sim/calibration.h
    Kernel KernelCosts::*nameless;
    std::vector<Kernel> KernelCosts::*by_name;
    FitCase (*case_of)(const Row&);
};
constexpr Named<AttentionRow, AttentionKernel> attentions{
    "attention", &KernelCosts::attention, &KernelCosts::attention_kernels, attention_by_name};
constexpr Named<MoeLayerRow, ExpertKernel> expert_table{
    "expert kernels", &KernelCosts::experts, &KernelCosts::expert_kernels, expert_by_name};

// Resets what each kernel's own rows must tell, so that it does not come from the kernel with most
// rows.
void reset_form(AttentionKernel& kernel) {
    kernel.odd = kernel.fp8_traffic = 1;
    kernel.slides = true;
    kernel.token_block = 0;
}
void reset_form(ExpertKernel& kernel) { kernel.tabled = kernel.reloads = false; }

// Runs the plans one after the other; each starts from the cluster that the one before left.
class TableFits {
public:
    TableFits(const Cluster& start, const TablesHow& how, const Progress& progress)
        : start_(start),
          how_(how),
          all_{start, {}, {}},
          fitted_(start.fitted.value_or(Fitted{})),
          progress_(progress) {
        for (const Sister& sister : how.sisters) chips_.push_back(sister.chip);
    }

    // Fits a plan. A kind that the start was already fitted to begins at those values, and keeps
    // them when there are too few rows.
    void add(FitPlan plan) {
        const bool known = determined_any(start_, plan.parameters);
        const bool links = std::ranges::all_of(
            plan.parameters, [](const FitParameter& p) { return p.key.starts_with("link."); });
        if (known && keeps_earlier(kinds_of(plan.cases), plan.cases,
                                   count_affecting(start_, plan.cases, plan.parameters), links))
            return;
        if (known || has_transferred_kernels(start_))
            plan.parameters = with_priors_of(start_, plan.parameters);
        // A link's constants act together on every row: giving them back one by one would leave
        // none.
        if (known && !links) plan.undetermined = Undetermined::give_back;
        add_anyway(plan);
    }

    // Fits however few rows there are: for a step's own kernels, whose constants are relative to
    // what the kind's tables say.
    void add_anyway(const FitPlan& plan) {
        if (plan.parameters.empty()) return judge_unfitted(plan.cases);
        if (!has_fitted_cases(plan)) return;
        FitResult result = fitted(plan);
        if (start_.fitted) leave_undetermined(start_, result);
        judge(result, plan);
        take(std::move(result));
    }

    void add(const std::vector<FitPlan>& plans) {
        for (const FitPlan& plan : plans) add(plan);
    }

    void add_launches(const BuildingBlocks& blocks) {
        if (FitResult result = launch_fit(all_.cluster, blocks); !result.parameters.empty())
            take(std::move(result));
    }

    void add_attention_kernels(const std::vector<AttentionRow>& all) {
        const auto rows = worth_fitting(all, attentions, [&](const std::string& name) {
            return attention_parameters(name, all).size();
        });
        const AttentionKernel of_steps = all_.cluster.kernel.attention;
        const auto form_of = [](const std::string& name) {
            return name.starts_with("unmasked") || name.starts_with("latent") ? name.substr(0, 6)
                                                                              : "";
        };
        for (auto& [name, cases] : by_size(attention_cases(rows)))
            add_named(name,
                      {.parameters = attention_parameters(name, rows),
                       .cases = cases,
                       .share = how_.share,
                       .undetermined = Undetermined::keep},
                      attentions, form_of(name),
                      [&](const AttentionKernel& start, const FitPlan& plan) {
                          return best_of_forms(start, plan, rows);
                      });
        all_.cluster.kernel.attention =
            kernel_of_steps(all_.cluster.kernel.attention_kernels, of_steps);
        judge_named(rows, attentions);
    }

    // Each kernel takes its best form: the fastest tile, unless Triton's default tile (`tabled`) or
    // reloading fits clearly better.
    void add_expert_kernels(const std::vector<MoeLayerRow>& all) {
        const std::vector<FitParameter> parameters = fit_priors({"experts"});
        const auto rows =
            worth_fitting(all, expert_table, [&](const std::string&) { return parameters.size(); });
        NamedCases beside;
        for (const std::size_t i : indices_of(how_.sisters))
            for (auto& [name, cases] : expert_cases(how_.sisters[i].blocks.moe_layers))
                add_beside(beside[name], cases, i);
        for (auto& [name, cases] : by_size(expert_cases(rows)))
            add_named(name,
                      {.parameters = parameters,
                       .cases = cases,
                       .share = how_.share,
                       .undetermined = Undetermined::keep,
                       .beside = beside[name],
                       .own = {"kernel.experts.efficiency"}},
                      expert_table, name.substr(0, name.find(' ')),
                      [&](const ExpertKernel& start, const FitPlan& plan) {
                          // only Blackwell's may reload
                          std::vector<ExpertKernel> forms(is_blackwell(all_.cluster.gpu) ? 3 : 2,
                                                          start);
                          forms[1].tabled = true;
                          if (forms.size() > 2) forms[2].reloads = true;
                          return best_of(forms, plan, expert_table, clearly);
                      });
        all_.cluster.kernel.experts = {};
        judge_named(rows, expert_table);
    }

    // Products of 16-byte rows that were measured as steps run them correct the law near them.
    void keep_near(const std::vector<GemmRow>& rows) {
        KernelCosts& kernel = all_.cluster.kernel;
        for (const GemmRow& row : rows) {
            const Gemm& g = row.gemm;
            if (!row.in_steps || row.groups > 1 || g.alignment != Gemm::Alignment::full) continue;
            (g.accumulate ? kernel.gemm_near_accumulated : kernel.gemm_near)
                .push_back({g.m, g.n, g.k, g.dtype, row.time});
        }
    }

    TablesFit finish(std::vector<FittedRange> ranges) {
        Fitted last;
        std::erase_if(ranges, [&](const FittedRange& r) {
            return kept_.contains(r.what.substr(0, r.what.find('.')));
        });
        last.ranges = std::move(ranges);
        last.date = fitted_.date;
        all_.cluster.fitted = merged(fitted_, last);
        return std::move(all_);
    }

private:
    static bool has_fitted_cases(const FitPlan& plan) {
        return !chosen(plan.cases, plan.share, false).empty();
    }

    FitResult fitted(FitPlan plan) {
        if (progress_)
            progress_(fmt::format("fit {} {} cases", plan.cases.size(), plan.cases.front().kind));
        if (!chosen(plan.beside, plan.share, false).empty()) plan.sisters = chips_;
        return fit(all_.cluster, plan, progress_);
    }

    // Whether there are too few rows to replace the start's constants of a kind; if so, records
    // that they stay.
    bool keeps_earlier(const std::string& what, const std::vector<FitCase>& cases,
                       std::size_t constants, bool of_links = false) {
        const int wanted = shapes_wanted(constants, of_links);
        if (cases.empty() || shapes_of(cases) >= wanted) return false;
        all_.kept.push_back(kept(start_, what, cases, constants, wanted));
        for (const FitCase& c : cases) kept_.insert(c.kind);
        return true;
    }

    // The rows of kernels that the start's fit does not have, and of kernels with enough rows.
    template <typename Row, typename Kernel, typename Constants>
    std::vector<Row> worth_fitting(std::vector<Row> rows, const Named<Row, Kernel>& of,
                                   Constants constants_of) {
        const std::vector<Kernel>& fitted = start_.kernel.*of.by_name;
        NamedCases cases;
        if (is_measured(start_, of.kind))
            for (const Row& row : rows)
                if (contains(fitted, kernel_of(row), &Kernel::name))
                    cases[kernel_of(row)].push_back(of.case_of(row));
        for (const auto& [name, few] : cases)
            if (keeps_earlier(name, few, constants_of(name)))
                std::erase_if(rows, [&](const Row& row) { return kernel_of(row) == name; });
        return rows;
    }

    // Fits a kernel of the tables as the nameless one and stores it by name. Its prior is its
    // form's kernel with most rows, fitted first.
    template <typename Row, typename Kernel, typename Best>
    void add_named(const std::string& name, FitPlan plan, const Named<Row, Kernel>& of,
                   const std::string& form, Best best_from) {
        if (!has_fitted_cases(plan)) return;
        const auto largest = value_in(largest_, of.kind + form);
        Kernel start =
            largest ? *std::ranges::find(all_.cluster.kernel.*of.by_name, *largest, &Kernel::name)
                    : Kernel{};
        start.name = name;
        reset_form(start);
        all_.cluster.kernel.*of.nameless = start;
        if (largest) plan.parameters = with_priors_of(all_.cluster, plan.parameters);
        put(all_.cluster.kernel.*of.by_name, best_from(start, plan).cluster.kernel.*of.nameless,
            &Kernel::name);
        largest_.emplace(of.kind + form, name);
    }

    // Fits each form as the nameless kernel; returns the best. A later one must have a noise below
    // `nearer` times that of the best so far.
    template <typename Row, typename Kernel>
    FitResult best_of(const std::vector<Kernel>& forms, const FitPlan& plan,
                      const Named<Row, Kernel>& of, double nearer) {
        std::optional<FitResult> best;
        for (const Kernel& form : forms) {
            all_.cluster.kernel.*of.nameless = form;
            FitResult found = fitted(plan);
            if (!best || found.noise < nearer * best->noise) best = std::move(found);
        }
        return *std::move(best);
    }

    // Finds the query tile that fits best; then whether a token's block is smaller for fewer keys,
    // and whether the kernel masks windows.
    FitResult best_of_forms(AttentionKernel start, const FitPlan& plan,
                            const std::vector<AttentionRow>& rows) {
        const auto with_tiles = [&](const std::vector<int>& tiles) {
            std::vector<AttentionKernel> forms(tiles.size(), start);
            for (const std::size_t i : indices_of(tiles)) forms[i].tile = tiles[i];
            return best_of(forms, plan, attentions, 1);
        };
        const std::vector<int> tiles{16, 32, 64, 128, 192, 256};
        FitResult best = with_tiles(tiles);
        const auto prefer = [&](FitResult other) {
            if (other.noise < best.noise) best = std::move(other);
        };
        if (!start.name.starts_with("unmasked")) {
            start.token_block = most_threads;
            prefer(with_tiles({best.cluster.kernel.attention.tile}));
            start.token_block = best.cluster.kernel.attention.token_block;
        }
        if (masks_windows(best.cluster, start.name, rows, how_.share)) {
            start.slides = false;
            prefer(with_tiles(tiles));
        }
        return best;
    }

    // Records the errors of cases that no constant is fitted to.
    void judge_unfitted(const std::vector<FitCase>& cases) {
        Fitted judged;
        judged.date = fitted_.date;
        judged.samples = as_int(cases.size());
        judged.errors = errors_on(cases, all_.cluster, "not fitted");
        fitted_ = merged(fitted_, judged);
    }

    // Records the errors of cases whose kernels' constants are stored by kernel name.
    template <typename Row, typename Kernel>
    void judge_named(const std::vector<Row>& rows, const Named<Row, Kernel>& of) {
        if (rows.empty()) return;
        std::vector<FitCase> cases;
        std::ranges::transform(rows, std::back_inserter(cases), of.case_of);
        FitResult result;
        result.cluster = all_.cluster;
        result.cluster.fitted = Fitted{};
        for (const FitCase& c : chosen(cases, how_.share, false))
            result.cluster.fitted->rows.push_back(c.row);
        result.cluster.fitted->rows = joined(std::move(result.cluster.fitted->rows), {});
        judge(result, {.cases = cases, .share = how_.share});
        take(std::move(result));
    }

    void take(FitResult result) {
        fitted_ = merged(fitted_, *result.cluster.fitted);
        all_.cluster = result.cluster;
        all_.results.push_back(std::move(result));
    }

    const Cluster& start_;
    const TablesHow& how_;
    TablesFit all_;
    Fitted fitted_;
    std::map<std::string, std::string> largest_;  // by kind and form: the kernel with most rows
    std::set<std::string> kept_;                  // kinds of cases
    const Progress& progress_;
    std::vector<SisterChip> chips_;
};

// The plans of products in 16 bits and more, of casts and of products of narrow operands. Laws take
// the fastest of several tiles or protocols. The constants of one that no row uses are
// undetermined, but given back to their priors they could make it the fastest, so they are kept.
struct TablePlans {
    const Cluster& start;
    const BuildingBlocks& blocks;
    const TablesHow& how;

    [[nodiscard]] Undetermined undetermined() const {
        return how.keep_launch ? Undetermined::give_back : Undetermined::keep;
    }

    // Published tables have many shapes, of which some are outliers; a script's own tables have
    // few.
    [[nodiscard]] Outliers outliers() const {
        const bool published =
            !how.keep_launch && blocks.launches.empty() && blocks.kernels.empty();
        return published ? Outliers::many : Outliers::few;
    }

    [[nodiscard]] FitPlan products() const {
        std::vector<FitParameter> parameters = gemm_parameters_for(start, blocks, how.keep_launch);
        if (how.priors_from_start) parameters = with_priors_of(start, parameters);
        return {.parameters = std::move(parameters),
                .cases = product_cases(blocks, false),
                .share = how.share,
                .undetermined = undetermined(),
                .outliers = outliers(),
                .beside = of_sisters(
                    how.sisters, [](const Sister& s) { return product_cases(s.blocks, false); }),
                .own = {"kernel.gemm_efficiency", "power.flop_pj"}};
    }

    [[nodiscard]] FitPlan casts() const {
        const auto casts_of = [&](const BuildingBlocks& b) {
            return cast_cases(not_beside_held_out(b, how.share));
        };
        return {
            .parameters = fit_priors({"casts"}),
            .cases = casts_of(blocks),
            .share = how.share,
            .undetermined = undetermined(),
            .beside = of_sisters(how.sisters, [&](const Sister& s) { return casts_of(s.blocks); }),
            .own = {"kernel.cast.launch"}};
    }

    [[nodiscard]] FitPlan narrow_products(const std::string& format) const {
        const Dtype dtype = format == "fp4" ? Dtype::fp4 : Dtype::fp8;
        const auto of_sister = [&](const Sister& s) {
            // Adding the sisters' block-scaled fp8 made the errors on left-out blocks of sizes
            // worse (notes/kernel-laws.md).
            const bool alike = format != "fp8_blocks" && alike_in(dtype, start.gpu, s.chip.gpu);
            return alike ? of_kind(product_cases(s.blocks, true), "gemm_" + format)
                         : std::vector<FitCase>{};
        };
        return {.parameters = fit_priors({format}),
                .cases = of_kind(product_cases(blocks, true), "gemm_" + format),
                .share = how.share,
                .undetermined = undetermined(),
                .outliers = outliers(),
                .beside = of_sisters(how.sisters, of_sister),
                .own = {"kernel." + format + ".efficiency"}};
    }

    [[nodiscard]] FitPlan collectives() const {
        FitPlan plan{.parameters = collective_parameters_for(start, blocks),
                     .share = how.share,
                     .undetermined = undetermined()};
        for (const CollectiveRow& row : blocks.collectives)
            if (inside_one_node(row, start)) plan.cases.push_back(collective_case(row, start));
        return plan;
    }

    // Fitted after those inside nodes, whose constants they need.
    [[nodiscard]] FitPlan collectives_between_nodes() const {
        FitPlan plan{.parameters = parameters_between_nodes(start, blocks.collectives),
                     .share = how.share,
                     .undetermined = undetermined()};
        for (const CollectiveRow& row : blocks.collectives)
            if (fills_nodes(row, start)) plan.cases.push_back(collective_case(row, start));
        return plan;
    }

    [[nodiscard]] std::vector<FitPlan> exchanges() const {
        std::vector<FitPlan> plans = exchange_fits(blocks);
        for (FitPlan& plan : plans) {
            plan.share = how.share;
            plan.undetermined = undetermined();
        }
        return plans;
    }
};

// Rows of launches name no device: they belong to the device of the kernels in the same tables.
void require_rows(const Cluster& start, const BuildingBlocks& b) {
    const bool others_launches = b.launches.empty() || b.other_device_rows > 0;
    const bool collectives = std::ranges::any_of(b.collectives, [&](const CollectiveRow& row) {
        return inside_one_node(row, start) || fills_nodes(row, start);
    });
    if (product_cases(b, false).empty() && product_cases(b, true).empty() && !collectives &&
        b.exchanges.empty() && b.moe_layers.empty() && b.attentions.empty() && b.casts.empty() &&
        b.kernels.empty() && others_launches && b.traced.empty())
        refuse_without_rows(start, b);
}

}  // namespace

TablesFit fit_tables(const Cluster& start, const BuildingBlocks& blocks, const Progress& progress,
                     const TablesHow& how) {
    require_rows(start, blocks);
    const TablePlans plans{start, blocks, how};
    TableFits fits(start, how, progress);
    fits.add(how.before);
    fits.add_launches(blocks);
    std::vector<FitPlan> kernels = kernel_fits(blocks);
    // what events add and what a launch costs: GEMMs cannot tell the two apart
    fits.add(kernels.front());
    kernels.erase(kernels.begin());
    fits.add(plans.products());
    fits.add(kernels);
    fits.add(plans.casts());
    for (const char* format : {"fp8", "fp8_blocks", "fp4"}) fits.add(plans.narrow_products(format));
    fits.keep_near(blocks.gemms);
    fits.add_attention_kernels(blocks.attentions);
    fits.add_expert_kernels(blocks.moe_layers);
    fits.add(plans.collectives());
    fits.add(plans.collectives_between_nodes());
    fits.add(plans.exchanges());
    for (const FitPlan& plan : traced_fits(start, blocks)) fits.add_anyway(plan);
    fits.add(how.after);
    return fits.finish(ranges_of(blocks));
}

}  // namespace stepcast
