// Every kernel of an expert layer with its numbers, and where its rows go. T tokens, A = T x
// hidden, two bytes per element.
#include <catch2/catch.hpp>

#include <algorithm>

#include <fmt/format.h>

#include "model/block/blocks.h"
#include "model/block/expert_rows.h"
#include "tests/model/block/listed_block.h"
#include "tests/model/block/small_model.h"

using namespace stepcast;

namespace {

using Lines = std::vector<std::string>;

Experiment weights_added_later() {
    Experiment e = small_model();
    e.runtime.gradients.fused_accumulation = false;
    return e;
}

}  // namespace

// Two of eight experts for each of 48 tokens: 96 slots, 12 per expert, 12288 bytes; scores in fp32
// take 1536. The inner width is 32, twice with the gate. One shared expert.
TEST_CASE("an expert layer on one rank") {
    Experiment e = weights_added_later();
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    e.workload.moe.shared_experts = 1;
    const auto block = [&] { return expert_block(e.workload, rank_shape(e)); };
    const ListedBlock of = listed_block(e, block());
    const std::string rows = "[12,12,12,12,12,12,12,12]";
    CHECK(of.forward ==
          Lines{"ffn_norm r6144 w6144", "router 48x8x64", "router_choice r3072 w1536 x6",
                "permute r12288 w12288 x4", "experts_up " + rows + "x64x64 x2",
                "activation r12288 w6144", "experts_down " + rows + "x64x32 x2",
                "unpermute r12288 w6144 x3", "shared_up 48x64x64", "activation r6144 w3072",
                "shared_down 48x64x32", "add_shared r12288 w6144", "residual r12288 w6144"});
    CHECK(of.backward ==
          Lines{"shared_down 48x32x64", "shared_down 64x32x48", "activation_backward r9216 w6144",
                "shared_up 48x64x64", "shared_up 64x64x48", "unpermute_backward r24576 w12288 x3",
                "experts_down " + rows + "x32x64 x2",
                "experts_down_weight " + rows + "x32x64 weights x2",
                "activation_backward r18432 w12288", "experts_up " + rows + "x64x64 x2",
                "experts_up_weight " + rows + "x64x64 weights x2",
                "permute_backward r12288 w12288 x3", "router_choice_backward r3072 w1536 x4",
                "router 48x64x8", "router 8x64x48", "ffn_norm_backward r12288 w6144 x2",
                "residual_backward r12288 w6144"});
    e.cluster.host.expert_layer = Seconds(5e-3);  // known, so the shared expert is two modules more
    CHECK(listed_block(e, block()).forward[3] == "shared_modules 2 calls");
    CHECK(std::ranges::count(listed_block(e, block()).backward, "shared_modules 2 calls") == 1);
    e.cluster.host.expert_layer = Seconds(0);  // they run as CUDA graphs
    e.workload.moe.capacity_factor = 1.3;      // 15.6: 16 rows, padded
    CHECK(listed_block(e, block()).forward[4] == "experts_up [16,16,16,16,16,16,16,16]x64x64 x2");
    e.workload.moe.capacity_factor = 0;
    e.workload.moe.experts = 10;  // 9.6
    CHECK(listed_block(e, block()).forward[4] ==
          "experts_up [10,10,10,10,10,10,10,10,10,10]x64x64 x2");
}

// 42 tokens, two of eight experts, four on each of two ranks. A token has an expert on a given rank
// with 1 - 1/2 x 3/7 = 11/14. A rank sends half of its 84 slots of 128 bytes to the other: 5376
// bytes; 4224 if each token goes only once, and 2 x 4224 over both ranks. A rank gets 84 rows, 21
// per expert, 10752 bytes, of the 8448 that arrived.
TEST_CASE("an expert layer on two ranks: slots sent one by one, and tokens sent once") {
    Experiment e = weights_added_later();
    e.workload.seq = 14;
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    e.parallelism.dp = e.parallelism.ep = 2;
    e.runtime.experts.dispatch = TokenDispatch::once;
    const auto block = [&] { return expert_block(e.workload, rank_shape(e)); };
    const std::string rows = "[21,21,21,21]";
    const ListedBlock once = listed_block(e, block());
    CHECK(once.forward ==
          Lines{"ffn_norm r5376 w5376", "router 42x8x64", "router_choice r2688 w1344 x6",
                "expert_layer 1 calls", "exchange_counts 1 calls waits",
                "ep_all_to_all all_to_all 8448", "sort_by_expert r8448 w10752 x2",
                "experts_up " + rows + "x64x64 x2", "activation r10752 w5376",
                "experts_down " + rows + "x64x32 x2", "sort_by_expert r10752 w8448 x2",
                "ep_all_to_all all_to_all 8448", "residual r10752 w5376"});
    CHECK(once.backward ==
          Lines{"expert_layer 1 calls", "ep_all_to_all all_to_all 8448",
                "sort_by_expert r8448 w10752 x2", "experts_down " + rows + "x32x64 x2",
                "experts_down_weight " + rows + "x32x64 weights x2",
                "activation_backward r16128 w10752", "experts_up " + rows + "x64x64 x2",
                "experts_up_weight " + rows + "x64x64 weights x2", "sort_by_expert r10752 w8448 x2",
                "ep_all_to_all all_to_all 8448", "router_choice_backward r2688 w1344 x4",
                "router 42x64x8", "router 8x64x42", "ffn_norm_backward r10752 w5376 x2",
                "residual_backward r10752 w5376"});
    e.runtime.experts.dispatch = TokenDispatch::all_to_all;
    const auto ahead = [&] { return listed_block(e, block()).forward; };
    const Lines slots = ahead();
    CHECK(Lines(slots.begin() + 3, slots.begin() + 7) ==
          Lines{"exchange_setup 1 calls waits", "permute r10752 w10752 x4",
                "ep_all_to_all all_to_all 10752", "sort_by_expert r10752 w10752"});
    CHECK(Lines(slots.end() - 4, slots.end()) ==
          Lines{"sort_by_expert r10752 w10752", "ep_all_to_all all_to_all 10752",
                "unpermute r10752 w5376 x3", "residual r10752 w5376"});
    e.runtime.experts.products = ExpertProducts::fused;  // the all-to-all's kernels sort
    CHECK(std::ranges::count_if(
              ahead(), [](const std::string& line) { return line.starts_with("sort"); }) == 0);
    e.runtime.experts.products = ExpertProducts::grouped;
    e.runtime.experts.one_by_one = true;  // it issues each of the four
    CHECK(ahead()[3] == "experts 4 calls waits");
    // DeepSpeed gathers each one's weights by hooks: of its products, its activation and itself.
    e.runtime.module_hooks = true;
    e.parallelism.zero = 3;
    CHECK(ahead()[4] == fmt::format("hooks {} calls", 4 * (e.workload.gated ? 5 : 4)));
    e.parallelism.zero = 2;
    CHECK_FALSE(ahead()[4].starts_with("hooks"));
    e.parallelism.dp = e.parallelism.ep = 1;
    e.runtime.experts.dispatch = TokenDispatch::once;  // one rank sends nothing, and permutes
    CHECK(ahead()[3] == "permute r10752 w10752 x4");
}

// 84 rows of 64 values, two bytes each: 10752 bytes, 21504 in fp32, in which the probabilities of
// tokens that went once are, and so all of it. Bias times probability, the sum and the joined rows
// write fp32, the cast 16 bits: r 10752 + 3 x 21504, w 3 x 21504 + 10752; two kernels for each of
// four experts, and two. Back: r 2 x 10752 + 5 x 21504, w 2 x 10752 + 3 x 21504; 5 x 4 + 2. Slots
// sent one by one have 16-bit probabilities: no casts, r = w = 3 x 10752 ahead, r 5, w 3 back.
TEST_CASE("Megatron-Core adds the bias of an expert's output outside of its product") {
    Experiment e = weights_added_later();
    e.workload.seq = 14;
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    e.parallelism.dp = e.parallelism.ep = 2;
    e.runtime.experts.dispatch = TokenDispatch::once;
    e.runtime.experts.products = ExpertProducts::each;
    const auto passes = [&] {
        const ListedBlock of = listed_block(e, expert_block(e.workload, rank_shape(e)));
        Lines found;
        for (const Lines* lines : {&of.forward, &of.backward})
            for (const std::string& line : *lines)
                if (line.starts_with("expert_bias")) found.push_back(line);
        return found;
    };
    e.workload.linear_bias = true;
    CHECK(passes() ==
          Lines{"expert_bias r75264 w75264 x10", "expert_bias_backward r129024 w86016 x22"});
    e.runtime.experts.dispatch = TokenDispatch::all_to_all;
    CHECK(passes() ==
          Lines{"expert_bias r32256 w32256 x9", "expert_bias_backward r53760 w32256 x17"});
    e.runtime.experts.products = ExpertProducts::fused;
    CHECK(passes().empty());
    e.runtime.experts.products = ExpertProducts::each;
    e.workload.linear_bias = false;
    CHECK(passes().empty());
}

// Two ranks hold the same 48 tokens of 128 bytes, 6144 in all. Each has half of every expert, so
// that its 96 slots give half of each sum: the sums of 48 tokens are added up, and behind them the
// gradients of the 48 inputs. Whole experts on two ranks: each sends its 24 tokens, 48 slots, and
// gets the results, and the gradients, of the other 24. With the sequence split every rank keeps
// its own tokens.
TEST_CASE("experts on tensor-parallel ranks without sequence parallelism make whole tokens again") {
    Experiment e = weights_added_later();
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    e.parallelism.tp = 2;
    const auto of = [&] { return listed_block(e, expert_block(e.workload, rank_shape(e))); };
    const auto behind = [](const Lines& lines, std::string_view name) {
        const auto found = std::ranges::find_if(
            lines, [&](const std::string& line) { return line.starts_with(name); });
        return found == lines.end() || found + 1 == lines.end() ? std::string() : *(found + 1);
    };
    const auto collectives = [](const Lines& lines) {
        return std::ranges::count_if(lines,
                                     [](const std::string& l) { return l.starts_with("tp_"); });
    };
    CHECK(behind(of().forward, "unpermute r12288 w6144") == "tp_all_reduce all_reduce 6144");
    CHECK(behind(of().backward, "permute_backward r12288") == "tp_all_reduce all_reduce 6144");
    CHECK(collectives(of().forward) == 1);
    CHECK(collectives(of().backward) == 1);
    e.runtime.experts.tensor_parallel = ExpertSplit::none;
    CHECK(behind(of().forward, "unpermute r6144 w3072") == "tp_all_gather all_gather 6144");
    CHECK(behind(of().backward, "permute_backward r6144") == "tp_all_gather all_gather 6144");
    e.parallelism.sequence_parallel = true;
    CHECK(collectives(of().forward) + collectives(of().backward) == 0);
    // 48 tokens of both ranks, 96 slots, gathered and scattered
    e.runtime.experts.tensor_parallel = ExpertSplit::all;
    CHECK(collectives(of().forward) == 2);
    CHECK(collectives(of().backward) == 2);
    e.parallelism.sequence_parallel = false;
    e.parallelism.tp = 1;
    CHECK(collectives(of().forward) + collectives(of().backward) == 0);
}

// 48 tokens of 128 bytes choose two of eight experts on two ranks: 96 slots, 12288 bytes, 24 per
// expert from both ranks. With half that capacity 48 slots are sent and 12 computed per expert;
// with twice it 192, padded, and 48. The sum has 48 tokens, 6144 bytes. A drawn routing with all
// slots on the first expert changes nothing: it is padded and dropped as well.
TEST_CASE("slots above the capacity are dropped before they are sent, those below padded") {
    Experiment e = weights_added_later();
    e.workload.moe = {.experts = 8, .top_k = 2, .ffn = 32};
    e.parallelism.dp = e.parallelism.ep = 2;
    Routing first{2, 8, std::vector<int>(16), {}, {}};
    first.counts[0] = first.counts[8] = 96;
    for (const auto& [factor, bytes, rows] : {std::tuple(0.5, "6144", "12,12,12,12"),
                                              {1.0, "12288", "24,24,24,24"},
                                              {2.0, "24576", "48,48,48,48"}})
        for (const Routing& routing : {Routing{}, first}) {
            CAPTURE(factor);
            e.workload.moe.capacity_factor = factor;
            TaskGraph graph(1, false);
            const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), routing};
            Planner ahead(graph);
            plan_block({&ahead, nullptr}, c, expert_block(e.workload, c.shape), KernelStyle::fused);
            const Lines lines = lines_of(graph, ahead.take());
            CHECK(Lines(lines.begin() + 4, lines.begin() + 8) ==
                  Lines{fmt::format("permute r{0} w{0} x4", bytes),
                        fmt::format("ep_all_to_all all_to_all {}", bytes),
                        fmt::format("sort_by_expert r{0} w{0}", bytes),
                        fmt::format("experts_up [{}]x64x64 x2", rows)});
            CHECK(lines[lines.size() - 2] == fmt::format("unpermute r{} w6144 x3", bytes));
        }
}

// Source 0 sends 1, 2 | 3, 4 slots of 128 bytes to the experts of two ranks, source 1 sends 5, 6 |
// 7, 8: 7 slots go from 0 to 1, 11 from 1 to 0. Rank 0 computes 1 + 5 and 2 + 6 rows, rank 1 3 + 7
// and 4 + 8; with a split sequence those of two tensor-parallel ranks.
TEST_CASE("slots of a drawn routing go where their experts are, and back") {
    Experiment e = weights_added_later();
    e.workload.moe = {.experts = 4, .top_k = 2, .ffn = 32};
    e.parallelism.dp = e.parallelism.ep = 2;
    const Routing drawn{2, 4, {1, 2, 3, 4, 5, 6, 7, 8}, {}, {}};
    const auto graph_of = [&] {
        TaskGraph graph(1, false);
        const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), drawn};
        Planner ahead(graph);
        plan_block({&ahead, nullptr}, c, expert_block(e.workload, c.shape), KernelStyle::fused);
        return graph;
    };
    const auto rows_of = [](const TaskGraph& graph) {
        std::vector<std::vector<long>> rows;
        for (const Op& op : graph.ops())
            if (const auto* product = std::get_if<GroupedGemm>(&op); product && product->n == 64)
                rows.push_back(product->rows);
        return rows;
    };
    const TaskGraph graph = graph_of();
    std::vector<std::vector<double>> sent;
    for (const Op& op : graph.ops())
        if (const auto* exchange = std::get_if<AllToAll>(&op)) {
            auto& slots = sent.emplace_back();
            for (const Bytes bytes : exchange->bytes) slots.push_back(bytes.si() / 128);
        }
    CHECK(sent == std::vector<std::vector<double>>{{3, 7, 11, 15}, {3, 11, 7, 15}});
    CHECK(rows_of(graph) == std::vector<std::vector<long>>{{6, 8}, {10, 12}, {6, 8}, {10, 12}});
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    e.runtime.experts.tensor_parallel = ExpertSplit::all;
    CHECK(rows_of(graph_of()).front() == std::vector<long>{12, 16});
    e.runtime.experts.tensor_parallel = ExpertSplit::none;
    CHECK(rows_of(graph_of()).front() == std::vector<long>{6, 8});
    e.runtime.experts.tensor_parallel = ExpertSplit::all;
    e.parallelism.sequence_parallel = false;
    CHECK(rows_of(graph_of()).front() == std::vector<long>{6, 8});
}

// 16 experts in four groups on four places; a token's experts are in two of the groups. The place's
// group is chosen with 2/4; of the 8 experts in the two groups 4 are there: 1 - 1/2 x 3/7 = 11/14.
// So the factor is 4 / 2 x 11/28. A place with two groups is reached as without a limit: 1 - 1/2 x
// 7/15 = 23/30.
TEST_CASE("tokens go once to each place of the groups that they are limited to") {
    const Moe moe{.experts = 16, .top_k = 2, .groups = 4, .top_groups = 2};
    CHECK(once_over_slots(moe, 4) == Approx(11.0 / 14));
    CHECK(once_over_slots(moe, 2) == Approx(23.0 / 30));
    CHECK(once_over_slots({.experts = 16, .top_k = 2}, 4) == Approx(2 * (1 - 0.75 * 11 / 15)));
    CHECK(once_over_slots({.experts = 16, .top_k = 1}, 4) == Approx(1));
}
