#include "calibrate/named_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "calibrate/fit_parameter.h"
#include "calibrate/table_cases.h"
#include "measured/medians.h"
#include "model/base/characters.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/records/measurements.h"
#include "model/routing.h"
#include "sim/costs/expert_layer_law.h"

namespace stepcast {
namespace {

constexpr int draws = 5;  // draws of the router; the tables average as many

std::string name_of(const AttentionRow& row) {
    const Attention& a = row.shape.op;
    return fmt::format("{} {} of {} keys, {} heads over {}, width {}, window {} {}", row.kernel,
                       a.batch, a.seq_k, a.heads, row.shape.kv_heads, a.head_dim,
                       row.shape.op.window, to_string(a.dtype));
}

std::string name_of(const MoeLayerRow& row) {
    return fmt::format("moe_layer {} tokens {}x{} top {} of {} ep {} tp {} skew {} {}", row.tokens,
                       row.hidden, row.ffn, row.top_k, row.experts, row.ep, row.tp, row.skew,
                       row.implementation);
}

// Rows of each expert on the rank with most rows; consecutive experts form a rank.
std::vector<long> heaviest_rank(const std::vector<int>& loads, int ranks) {
    const std::size_t each = loads.size() / as_index(ranks);
    long most = -1;
    std::vector<long> rows;
    for (std::size_t first = 0; first < loads.size(); first += each) {
        const auto from = loads.begin() + static_cast<std::ptrdiff_t>(first);
        const auto to = from + static_cast<std::ptrdiff_t>(each);
        const long sum = std::accumulate(from, to, 0L);
        if (sum <= most) continue;
        most = sum;
        rows.assign(from, to);
    }
    return rows;
}

ExpertLayer layer_of(const MoeLayerRow& row) {
    ExpertLayer layer;
    layer.tokens = row.tokens;
    layer.hidden = row.hidden;
    layer.ffn = row.ffn / row.tp;
    layer.experts = row.experts;
    layer.top_k = row.top_k;
    layer.dtype = row.dtype;
    layer.weight_bytes = row.weight_bytes;
    RoutingSpec spec;
    spec.kind = row.skew > 0 ? RoutingSpec::Kind::power_law : RoutingSpec::Kind::uniform;
    spec.skew = row.skew;
    for (int draw = 0; draw < (row.skew > 0 ? draws : 1); ++draw)
        layer.loads.push_back(expert_load(heaviest_rank(
            make_routing(spec, {1, row.experts, as_int(row.tokens), row.top_k}, draw).counts,
            row.ep)));
    return layer;
}

// The words of a kernel's name without release numbers.
std::set<std::string> words_of_name(const std::string& name) {
    std::set<std::string> words;
    std::string word;
    for (const char c : name + ' ') {
        if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_') {
            word += c;
        } else {
            if (!word.empty() && !has(word, '.')) words.insert(word);
            word.clear();
        }
    }
    return words;
}

double common_share(const std::set<std::string>& a, const std::set<std::string>& b) {
    const auto common =
        real(std::ranges::count_if(a, [&](const std::string& word) { return b.contains(word); }));
    return common / (real(a.size() + b.size()) - common);
}

// Smallest shares of common words for a stand-in. They were chosen with the devices of the left-out
// test known: with 0.5 for expert layers the error of Arc B60's, predicted from the other devices,
// rose from 19 to 47 % (notes/kernel-laws.md).
constexpr double least_of_attention = 0.3, least_of_experts = 0.6;

// The kernel of that name. If there is none: the one whose name shares most words with it, as other
// releases of the same kernel do, or `otherwise` if it shares too few.
template <typename Kernel>
const Kernel& by_name(const std::vector<Kernel>& kernels, const std::string& name,
                      const Kernel& otherwise, double least_share) {
    if (const auto same = first_with(kernels, name, &Kernel::name)) return *same;
    const std::set<std::string> words = words_of_name(name);
    const Kernel* nearest = &otherwise;
    double most = least_share;
    for (const Kernel& kernel : kernels) {
        const double share = common_share(words, words_of_name(kernel.name));
        if (share > most) most = share, nearest = &kernel;
    }
    return *nearest;
}

const AttentionKernel& kernel_for(const AttentionRow& row, const Cluster& c) {
    return by_name(c.kernel.attention_kernels, row.kernel, c.kernel.attention, least_of_attention);
}
const ExpertKernel& kernel_for(const MoeLayerRow& row, const Cluster& c) {
    return by_name(c.kernel.expert_kernels, kernel_of(row), c.kernel.experts, least_of_experts);
}

// The constants of `kernel`, adjusted for a row of another kernel. Attention without a causal mask
// (encoders) writes no cache. A kernel that a compiler generates for a device is slower than its
// library's best, as measured steps show, and walks over all keys of a window.
AttentionKernel standing_in(AttentionKernel kernel, const AttentionRow& row,
                            const KernelCosts& costs) {
    if (!row.shape.op.causal) kernel.cache = 0, kernel.token = Seconds(0);
    if (row.compiler.empty() || words_of_name(kernel.name).contains(row.compiler)) return kernel;
    kernel.slides = false;
    if (costs.attention_triton > 0)
        for (double* share : {&kernel.efficiency, &kernel.fp8_efficiency})
            *share *= costs.attention_triton;
    return kernel;
}

template <typename Kernel>
std::string other_name(const Kernel& kernel, const std::string& name) {
    if (kernel.name == name) return "";
    return kernel.name.empty() ? "the cluster's kernel of no name" : kernel.name;
}

}  // namespace

NamedCases attention_cases(const std::vector<AttentionRow>& rows) {
    NamedCases cases;
    for (const AttentionRow& row : rows)
        cases[row.kernel].push_back(
            table_case(name_of(row), row.kind, row, [row](const Cluster& c) {
                return attention_law_time(row.shape, c.kernel.attention, c, GemmSetting::alone);
            }));
    return cases;
}

FitCase attention_by_name(const AttentionRow& row) {
    return table_case(name_of(row), row.kind, row, [row](const Cluster& c) {
        const AttentionKernel& kernel = kernel_for(row, c);
        const bool own = kernel.name == row.kernel;
        return attention_law_time(row.shape, own ? kernel : standing_in(kernel, row, c.kernel), c,
                                  GemmSetting::alone);
    });
}

bool masks_windows(const Cluster& fitted, const std::string& name,
                   const std::vector<AttentionRow>& rows, HeldOutShare share) {
    std::vector<double> ratios;
    for (const AttentionRow& row : rows)
        if (row.kernel == name && row.shape.op.window > 0 &&
            row.shape.op.window < row.shape.op.seq_q && !is_held_out(attention_by_name(row), share))
            ratios.push_back(row.time / attention_law_time(row.shape, fitted.kernel.attention,
                                                           fitted, GemmSetting::alone));
    return !ratios.empty() && median(ratios) > 1.3;
}

std::vector<FitParameter> attention_parameters(const std::string& name,
                                               const std::vector<AttentionRow>& all) {
    std::vector<Attention> ops;
    for (const AttentionRow& row : all)
        if (row.kernel == name) ops.push_back(row.shape.op);
    const auto any = [&](auto holds) { return std::ranges::any_of(ops, holds); };
    // unmasked ones are timed without it
    return fit_priors(
        {"attention", name.starts_with("unmasked") ? "" : "attention_cache",
         any(odd_width) && !std::ranges::all_of(ops, odd_width) ? "attention_odd" : "",
         any([](const Attention& op) { return op.dtype == Dtype::fp8; }) ? "attention_fp8" : ""});
}

std::string kernel_of(const MoeLayerRow& row) {
    return row.implementation + (row.tuned ? ", tuned" : "");
}

NamedCases expert_cases(const std::vector<MoeLayerRow>& rows) {
    NamedCases cases;
    for (const MoeLayerRow& row : rows)
        cases[kernel_of(row)].push_back(
            table_case(name_of(row), "moe_layer", row, [layer = layer_of(row)](const Cluster& c) {
                return expert_layer_time(layer, c.kernel.experts, c);
            }));
    return cases;
}

FitCase expert_by_name(const MoeLayerRow& row) {
    return table_case(name_of(row), "moe_layer", row,
                      [row, layer = layer_of(row)](const Cluster& c) {
                          return expert_layer_time(layer, kernel_for(row, c), c);
                      });
}

std::string stand_in(const AttentionRow& row, const Cluster& cluster) {
    return other_name(kernel_for(row, cluster), row.kernel);
}
std::string stand_in(const MoeLayerRow& row, const Cluster& cluster) {
    return other_name(kernel_for(row, cluster), kernel_of(row));
}

}  // namespace stepcast
