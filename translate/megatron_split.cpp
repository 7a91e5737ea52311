#include "translate/megatron_source.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {
void take_split(MegatronSource& s) {
    for (const char* key : {"parallelism.tp", "parallelism.pp", "parallelism.cp"})
        if (!s.t.find(key)) s.t.take_default(key, "1");
    const long tp = s.t.count("parallelism.tp", 1);
    if (const auto* v = s.d.find("sequence_parallel")) {
        if (tp > 1)
            s.t.set("parallelism.sequence_parallel", flag_in(*v) ? "true" : "false", v->at);
        else if (flag_in(*v))
            s.t.ignored.push_back("sequence_parallel (" + v->at + "): no effect with tp 1");
    }
    if (const auto* v = s.d.find_any({"tp_comm_overlap", "ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap"}))
        s.t.set("parallelism.overlap_tp", flag_in(*v) && tp > 1 ? "true" : "false", v->at);
    if (const auto* v = s.d.find("cp_comm_type"))
        s.t.set("parallelism.context_exchange", v->value == "allgather" ? "all-gather" : "ring", v->at);
    if (const auto* v = s.d.find("use_tp_pp_dp_mapping"); v && flag_in(*v))
        s.t.set("parallelism.rank_order", "tp-cp-pp-dp", v->at);
}

namespace {

// "Et*3|t*4|..|t*3L": pieces between bars, first to last.
void take_layout(MegatronSource& s, const NamedValue& value) {
    std::vector<long> pieces{0};
    const std::string& text = value.value;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '|') pieces.push_back(0);
        if (text[i] == '(') wrong(value, "a layout without brackets: write its pieces out");
        if (text[i] != 't') continue;
        long times = 1;
        if (i + 1 < text.size() && text[i + 1] == '*') times = std::atol(text.c_str() + i + 2);
        pieces.back() += times;
    }
    const long pp = s.t.count("parallelism.pp", 1);
    if (static_cast<long>(pieces.size()) % pp != 0)
        wrong(value, fmt::format("a multiple of pp = {} pieces, found {}", pp, pieces.size()));
    s.t.set("parallelism.vp", static_cast<long>(pieces.size()) / pp, value.at);
    s.t.set("parallelism.stage_layers", fmt::format("[{}]", fmt::join(pieces, ", ")), value.at);
}

}  // namespace

void take_pipeline(MegatronSource& s) {
    const long layers = s.t.count("workload.layers", 0), pp = s.t.count("parallelism.pp", 1);
    if (const auto* v = s.d.find("pipeline_model_parallel_layout")) return take_layout(s, *v);
    if (const auto* v = s.d.find_any({"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"})) {
        s.t.set("parallelism.vp", pp > 1 ? integer_in(*v) : 1, v->at);
    } else if (const auto* each = s.d.find("num_layers_per_virtual_pipeline_stage"); each && layers > 0) {
        const long n = integer_in(*each);
        if (n <= 0 || layers % (pp * n) != 0)
            s.t.problems.push_back(fmt::format("num_layers_per_virtual_pipeline_stage ({}): {} layers do not divide over "
                                              "{} stages in pieces of {}", each->at, layers, pp, n));
        else
            s.t.set("parallelism.vp", layers / pp / n, each->at);
    }
    const auto first = s.d.integer("decoder_first_pipeline_num_layers"), last = s.d.integer("decoder_last_pipeline_num_layers");
    if ((first || last) && pp > 1 && layers > 0) {
        std::vector<long> stages(static_cast<std::size_t>(pp));
        const long between = pp - (first ? 1 : 0) - (last ? 1 : 0);
        for (auto& stage : stages) stage = between > 0 ? (layers - first.value_or(0) - last.value_or(0)) / between : 0;
        if (first) stages.front() = *first;
        if (last) stages.back() = *last;
        if (std::accumulate(stages.begin(), stages.end(), 0L) != layers)
            s.t.problems.push_back(fmt::format("{} layers do not divide over {} stages beside the first and the last",
                                              layers, pp));
        else
            s.t.set("parallelism.stage_layers", fmt::format("[{}]", fmt::join(stages, ", ")),
                   s.d.find_any({"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"})->at);
    }
    for (const auto& [name, negated] : {std::pair{"no_overlap_p2p_communication", true}, {"overlap_p2p_comm", false}})
        if (const auto* v = s.d.find(name))
            s.t.set("parallelism.overlap_p2p", flag_in(*v) != negated && s.t.count("parallelism.vp", 1) > 1 ? "true" : "false",
                   v->at);
}

}  // namespace stepcast
