// Rows of measured steps for tests of fits, as a CSV table and as the cases read from it.
#pragma once

#include <fmt/format.h>

#include "import/tables/case_files.h"
#include "import/tables/cases.h"
#include "model/step.h"
#include "reports/compare_page.h"
#include "sim/engine/simulate.h"
#include "tests/model/files.h"

namespace stepcast {

struct StepRow {
    std::string id;
    int hidden = 2048, tp = 1, pp = 1, dp = 8, micro_batch = 1, batches = 1;
    double seconds = 1;
    std::string device = "A100-80GB", model = "gpt-x", source = "own";
    std::string framework = "nemo-2";  // empty: chosen by the source
};

inline std::string steps_table(const std::vector<StepRow>& rows) {
    std::string text =
        "source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,"
        "interconnect,tp,pp,vp,dp,ep,cp,sp,zero,mbs,gbs,"
        "recompute,precision,metric,value,unit,step_s,ref,notes,framework\n";
    for (const StepRow& r : rows)
        text += fmt::format(
            "{},{},{},4,{},16,16,{},32000,1024,,,{},{},,{},{},1,{},,1,,0,{},{},none,BF16,,,,{:.9g},"
            ",,{}\n",
            r.source, r.id, r.model, r.hidden, 4 * r.hidden, r.tp * r.pp * r.dp, r.device, r.tp,
            r.pp, r.dp, r.micro_batch, r.dp * r.micro_batch * r.batches, r.seconds, r.framework);
    return text;
}

inline std::vector<Case> cases_of(const TestFolder& folder, const std::vector<StepRow>& rows) {
    std::vector<Case> cases;
    for (Comparison& c :
         read_comparisons(folder.write("rows.csv", steps_table(rows)), "dgx-a100", "")) {
        REQUIRE(c.refused_because == "");
        cases.push_back(std::move(c.what));
    }
    return cases;
}

inline double simulated_step(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline.end.si();
}

}  // namespace stepcast
