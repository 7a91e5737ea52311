#include "calibrate/exchange_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/fit_parameter.h"
#include "calibrate/table_cases.h"
#include "model/base/text_search.h"
#include "sim/costs/dispatch_law.h"

namespace stepcast {
namespace {

// Kinds of kernels, named as in the cluster's keys, with the tables' operations that one law
// describes. Combine in low precision has no entry, as it packs its rows first.
struct Kernels {
    const char* name;
    Dispatch Link::*constants;
    std::string_view dispatch, combine;
};
constexpr Kernels all_kernels[] = {
    {"dispatch", &Link::dispatch, "deepep_dispatch", "deepep_combine"},
    {"dispatch_low_latency", &Link::dispatch_low_latency, "deepep_ll_dispatch",
     "deepep_ll_combine"},
    {"dispatch_one_sided", &Link::dispatch_one_sided, "nvlink_dispatch_one_sided",
     "nvlink_combine_one_sided"},
    {"dispatch_two_sided", &Link::dispatch_two_sided, "nvlink_dispatch", "nvlink_combine"}};

std::string kernels_of(const std::string& op) {
    for (const Kernels& k : all_kernels)
        if (op == k.dispatch || op == k.combine) return k.name;
    return "";
}

const Dispatch& constants(const Cluster& c, const std::string& name) {
    return c.intra.*std::ranges::find(all_kernels, name, &Kernels::name)->constants;
}

// Bytes of a token with the scales that are sent with it: for fp8 one float per 128 elements, for
// fp4 one byte per 16.
Bytes row_of(int hidden, const std::string& dtype) {
    const double scales = dtype == "fp8" ? 4.0 / 128 : dtype == "fp4" ? 1.0 / 16 : 0;
    return hidden * (size_of(parse_name<Dtype>(dtype)) + Bytes(scales));
}

// The low-latency mode sends a token to each of its experts separately.
double copies_of_token(const ExchangeRow& row) {
    if (row.kernels == "dispatch_low_latency") return row.top_k;
    return row.even ? std::min(row.ranks, row.top_k)
                    : ranks_of_token(row.top_k, row.experts, row.ranks);
}

// `sms`: how many SMs serve one expert each in a turn. A combine copies data that is ready, so only
// the link limits it.
Seconds low_latency_time(const ExchangeRow& row, DispatchLoad load, bool back, const Cluster& c) {
    load.turns = (row.experts + c.gpu.sms - 1) / c.gpu.sms;
    const int sms = (row.experts + load.turns - 1) / load.turns;
    return dispatch_law_time(load, c.intra.dispatch_low_latency, c.intra.bandwidth, back ? 0 : sms);
}

}  // namespace

void add_exchange(const TableRow& row, BuildingBlocks& blocks) {
    ExchangeRow found;
    found.row = row.hash();
    found.op = row.text("op");
    found.kernels = kernels_of(found.op);
    found.even = found.op.starts_with("nvlink");  // all trays are in one NVLink domain
    found.nodes = found.even ? 1 : row.integer("nodes", 1);
    if (found.kernels.empty() || found.nodes > 1) return void(++blocks.other_op_rows);
    found.ranks = row.integer("ranks");
    found.tokens = row.integer("tokens_per_rank");
    found.top_k = row.integer("topk");
    found.experts = row.integer("experts");
    found.sms = row.text("sms").empty() ? 0 : row.integer("sms");
    found.bytes =
        row.read("dtype", [&] { return row_of(row.integer("hidden"), row.text("dtype")); });
    found.time = row.time(Flops(0));
    if (found.ranks < 2 || found.experts < found.top_k || found.experts % found.ranks != 0)
        row.fail("experts", fmt::format("{} of {} experts over {} ranks; expected at least two "
                                        "ranks, as many experts on each",
                                        found.top_k, found.experts, found.ranks));
    blocks.exchanges.push_back(found);
}

bool has_kernels(const Cluster& cluster, const ExchangeRow& row) {
    return constants(cluster, row.kernels).efficiency > 0;
}

FitCase exchange_case(const ExchangeRow& row) {
    const double away = (row.ranks - 1.0) / row.ranks;
    const DispatchLoad load{row.tokens * copies_of_token(row) * away, row.tokens, row.bytes};
    const bool back = has(row.op, "combine");
    const std::string kind =
        row.kernels.substr(std::min(row.kernels.size(), std::string("dispatch").size()));
    return table_case(
        fmt::format("{} of {} tokens of {} top {} of {} over {} ranks, {} SMs", row.op, row.tokens,
                    to_string(row.bytes), row.top_k, row.experts, row.ranks, row.sms),
        (back ? "combine" : "dispatch") + kind, row, [row, load, back](const Cluster& c) {
            const bool by_expert = row.kernels == "dispatch_low_latency";
            return by_expert ? low_latency_time(row, load, back, c)
                             : dispatch_law_time(load, constants(c, row.kernels), c.intra.bandwidth,
                                                 row.sms);
        });
}

std::vector<FitPlan> exchange_fits(const BuildingBlocks& blocks) {
    std::vector<FitPlan> plans;
    for (const Kernels& kernels : all_kernels) {
        FitPlan plan{.parameters = fit_priors({kernels.name}), .cases = {}};
        for (const ExchangeRow& row : blocks.exchanges)
            if (row.kernels == kernels.name) plan.cases.push_back(exchange_case(row));
        if (!plan.cases.empty()) plans.push_back(std::move(plan));
    }
    return plans;
}

}  // namespace stepcast
