#include "import/tables/recorded.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "import/tables/case_files.h"
#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "import/tables/cluster.h"
#include "import/tables/row_parts.h"
#include "measured/medians.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/records/provenance.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/results/comparison.h"

namespace stepcast {
namespace {

using Inputs = std::map<std::string, double>;  // key -> value
using Series = std::map<int, double>;          // step -> value
using PhaseId = std::pair<std::string, int>;   // phase, rank

bool is_moe_system(const std::string& name) { return contains(name_list<MoeSystem>, name); }

struct RecordedRun {
    const Sample* first = nullptr;
    std::vector<PhaseId> order;  // phases in order of appearance
    std::map<PhaseId, Series> samples;
    std::map<PhaseId, double> summary;
    std::map<int, RowHash> step_rows;   // step -> hash of what was measured; -1 = the summary
    Inputs inputs;                      // of the whole run
    std::map<int, Inputs> step_inputs;  // of single steps
    int last_step = -1;
    double global_batch = 0;  // as the log states it last; 0 = not stated
    // bytes of the rank that uses most, allocated (or what the log calls memory) and reserved; 0 =
    // not stated
    double memory = 0, reserved = 0;
    // of each GPU, and of all: medians over steady steps; 0 = not stated
    double tokens_per_s = 0, samples_per_s = 0;
};

bool is_input(const Sample& s) {
    return s.rank == -1 && s.unit == "1" && s.phase.find('.') != std::string::npos &&
           find_key(s.phase);
}

// What is no time.
void take_quantity(RecordedRun& run, const Sample& s) {
    if (s.unit == "B" && s.phase == "memory") run.memory = std::max(run.memory, s.value);
    if (s.unit == "B" && s.phase == "memory_reserved")
        run.reserved = std::max(run.reserved, s.value);
    if (s.rank != -1) return;
    if (s.phase == "global_batch") run.global_batch = s.value;
    if (s.phase == "tokens_per_s" && s.step < 0) run.tokens_per_s = s.value;
    if (s.phase == "samples_per_s" && s.step < 0) run.samples_per_s = s.value;
}

void take(RecordedRun& run, const Sample& s) {
    run.last_step = std::max(run.last_step, s.step);
    if (is_input(s)) {
        (s.step < 0 ? run.inputs : run.step_inputs[s.step])[s.phase] = s.value;
        return;
    }
    take_quantity(run, s);
    if (s.unit != "s") return;
    if (s.phase == "step" && s.rank == -1) run.step_rows[s.step] = row_hash(s);
    const PhaseId id{s.phase, s.rank};
    if (!run.samples.contains(id) && !run.summary.contains(id)) run.order.push_back(id);
    if (s.step < 0)
        run.summary[id] = s.value;
    else
        run.samples[id][s.step] = s.value;
}

// Runs in the order of their first rows: runs of single MoE layers if `layers`, else runs of whole
// models.
std::vector<RecordedRun> runs_of(const std::vector<Sample>& samples, bool layers) {
    std::vector<RecordedRun> runs;
    std::map<std::string, std::size_t> index;
    for (const Sample& s : samples) {
        if (s.model.starts_with("moe_layer") != layers) continue;
        const auto [at, fresh] = index.emplace(s.run_id, runs.size());
        if (fresh) runs.emplace_back().first = &s;
        take(runs[at->second], s);
    }
    return runs;
}

// Steps with equal inputs. A run without inputs per step has one group of all its steps.
struct StepGroup {
    Inputs inputs;
    std::vector<int> steps;  // empty: all steps from `from` on
    int from = 0;
    [[nodiscard]] bool holds(int step) const {
        return step >= from && (steps.empty() || contains(steps, step));
    }
};

std::vector<StepGroup> groups_of(const RecordedRun& run, int from) {
    if (run.step_inputs.empty()) return {{{}, {}, from}};
    std::map<Inputs, std::vector<int>> groups;
    for (const auto& [step, inputs] : run.step_inputs)
        if (step >= from) groups[inputs].push_back(step);
    std::vector<StepGroup> found;
    for (const auto& [inputs, steps] : groups) found.push_back({inputs, steps, from});
    return found;
}

std::vector<double> values_of(const RecordedRun& run, const PhaseId& id, const StepGroup& group) {
    std::vector<double> values;
    if (const auto found = run.samples.find(id); found != run.samples.end())
        for (const auto& [step, value] : found->second)
            if (group.holds(step)) values.push_back(value);
    return values;
}

// The importer's summary covers all steady steps. If inputs or the experiment choose steps
// (`chosen`), takes the median over those.
std::optional<Seconds> measured(const RecordedRun& run, const PhaseId& id, const StepGroup& group,
                                bool chosen) {
    const auto summary = run.summary.find(id);
    const std::vector<double> values = values_of(run, id, group);
    if (!values.empty() && (chosen || summary == run.summary.end())) return Seconds(median(values));
    if (summary == run.summary.end() || !group.steps.empty()) return std::nullopt;
    return Seconds(summary->second);
}

void take_phases(Case& into, const RecordedRun& run, const StepGroup& group, bool chosen) {
    for (const PhaseId& id : run.order) {
        const auto time = measured(run, id, group, chosen);
        if (!time) continue;
        if (id == PhaseId{"step.mean", -1}) into.measured_mean = time;
        if (id == PhaseId{"forward", -1}) into.measured_forward = time;
        if (id == PhaseId{"backward", -1}) into.measured_backward = time;
        const bool own_field = id.second == -1 && (id.first == "step" || id.first == "forward" ||
                                                   id.first == "backward");
        if (!own_field && !id.first.starts_with("step."))
            into.measured_phases.push_back({id.first, id.second, *time});
    }
}

void take_series(Case& into, const RecordedRun& run, const StepGroup& group) {
    const std::vector<double> values = values_of(run, {"step", -1}, group);
    for (const double value : values) into.recorded_steps.emplace_back(value);
    if (!values.empty() && !into.measured_mean)
        into.measured_mean =
            Seconds(std::accumulate(values.begin(), values.end(), 0.0) / real(values.size()));
}

// Overrides from the run's own columns: the MoE system if the model has experts, and the dp that
// gives the run's number of ranks.
void add_split(const Sample& run, const Experiment& base, std::vector<Override>& overrides) {
    if (base.workload.moe.experts > 0 && is_moe_system(run.system))
        overrides.push_back({"parallelism.moe_system", run.system});
    const Parallelism& p = base.parallelism;
    if (run.ranks == 0 || run.ranks == ranks_of_all(p)) return;
    const std::optional<int> replicas = replicas_on(p, run.ranks);
    if (!replicas)
        throw ConfigError(
            fmt::format("ran on {} ranks; expected a multiple of the {} of tensor {} x pipeline {} "
                        "x context {}",
                        run.ranks, ranks_of_replica(p), p.tp, p.pp, p.cp));
    overrides.push_back({"parallelism.dp", std::to_string(*replicas)});
    if (p.global_batch > 0)  // keeps the number of sequences per rank
        overrides.push_back(
            {"parallelism.global_batch", std::to_string(p.global_batch / p.dp * *replicas)});
    if (base.workload.moe.experts > 0 && p.ep == p.dp)
        overrides.push_back({"parallelism.ep", std::to_string(*replicas)});
}

bool names_machine(const Experiment& e) { return e.cluster.gpu.memory > Bytes(0); }

// An experiment of a log's arguments names no machine; `cluster` does.
Experiment base_of(const ExperimentSource& source, const std::string& cluster) {
    Experiment base = read_unchecked_experiment(source);
    if (!cluster.empty() || names_machine(base)) return base;
    throw ConfigError(source.name +
                      ": names no machine; expected --cluster NAME (stepcast list presets)");
}

// The step of a log that states rates alone: in tokens of each GPU, by the tokens that the
// experiment gives a GPU, or in sequences of all, by its batch.
std::optional<Seconds> step_of_rate(const RecordedRun& run, const Experiment& e,
                                    std::vector<std::string>& assumptions) {
    if (run.tokens_per_s <= 0 && run.samples_per_s <= 0) return std::nullopt;
    if (const int batch = sequences_of_step(e.parallelism); run.tokens_per_s <= 0) {
        assumptions.push_back(fmt::format(
            "the log has sequences/s alone: its step is that of the experiment's batch of {}",
            batch));
        return Seconds(real(batch) / run.samples_per_s);
    }
    const double tokens = real(sequences_of_step(e.parallelism)) * real(e.workload.seq) /
                          real(ranks_of_all(e.parallelism));
    assumptions.push_back(fmt::format(
        "the log has tokens/s alone: its step is that of the experiment's {:.0f} tokens a GPU",
        tokens));
    return Seconds(tokens / run.tokens_per_s);
}

void take_batch(Case& into, const RecordedRun& run) {
    const int batch = sequences_of_step(into.experiment.parallelism);
    into.measured_sequences = static_cast<int>(run.global_batch);
    if (run.global_batch > 0 && run.global_batch != batch)
        into.assumptions.push_back(fmt::format(
            "the log says a global batch of {}, the experiment {}: other work was measured than is "
            "predicted; set parallelism.global_batch",
            run.global_batch, batch));
}

void take_memory(Case& into, const RecordedRun& run) {
    if (const double peak = run.memory > 0 ? run.memory : run.reserved; peak > 0) {
        into.measured_peak = Bytes(peak);
        into.measured_reserved = run.memory == 0;
        if (into.measured_reserved && !is_replayed(into.experiment))
            into.assumptions.emplace_back(
                "the log's memory is what the allocator reserved, the forecast's what is "
                "allocated");
    }
}

Case case_of_group(const RecordedRun& run, const StepGroup& group, const ExperimentSource& source,
                   const std::string& cluster, bool chosen) {
    Case found;
    found.source = "measurements";
    found.case_id = run.first->run_id;
    found.series = source.name;
    found.x = run.first->experts;
    std::vector<Override> overrides;
    const Experiment base = base_of(source, cluster);
    // which then says how large the machine was
    const int own = names_machine(base) ? 0 : as_int(ranks_of_all(base.parallelism));
    add_machine(cluster, base.cluster, run.first->ranks > 0 ? run.first->ranks : own, overrides,
                found.assumptions);
    add_split(*run.first, base, overrides);
    for (const auto& [key, value] : run.inputs)
        overrides.push_back({key, fmt::format("{}", value)});
    for (const auto& [key, value] : group.inputs) {
        overrides.push_back({key, fmt::format("{}", value)});
        found.case_id += fmt::format(" {} {}", key.substr(key.find_last_of('.') + 1), value);
        found.x = value;
    }
    found.experiment = read_experiment(source, overrides);
    auto step = measured(run, {"step", -1}, group, chosen);
    if (!step) step = step_of_rate(run, found.experiment, found.assumptions);
    if (!step) throw ConfigError("has no rows of phase step and rank -1");
    found.measured_step = *step;
    take_batch(found, run);
    take_memory(found, run);
    take_phases(found, run, group, chosen);
    take_series(found, run, group);
    for (const auto& [one, row] : run.step_rows)
        if (one == -1 ? group.steps.empty() : group.holds(one)) found.rows.push_back(row);
    return found;
}

std::vector<Override> shape_of(const std::string& model) {
    if (model == "moe_layer" || model.starts_with("moe_layer_")) return {};  // as the preset says
    const std::optional<LayerShape> shape = parse_model_name(model);
    if (!shape)
        throw ConfigError(
            "model \"" + model +
            "\" states no shape; expected moe_layer or moe_layer-HIDDENxFFN-DTYPE-TOKENS-topK");
    return {{"workload.hidden", std::to_string(shape->hidden)},
            {"workload.ffn", std::to_string(shape->ffn)},
            {"workload.dtype", shape->dtype},
            {"workload.seq", std::to_string(shape->tokens)},
            {"parallelism.micro_batch", "1"},
            {"workload.moe.top_k", std::to_string(shape->top_k)}};
}

// The routing file of a run, or "". A run recorded its routing if it has rows of single ranks.
std::string recorded_routing(const RecordedRun& run, const std::vector<Sample>& samples,
                             const std::string& folder) {
    const Sample& first = *run.first;
    const auto of_rank = [&](const Sample& s) { return s.run_id == first.run_id && s.rank >= 0; };
    if (folder.empty() || std::ranges::none_of(samples, of_rank)) return "";
    for (const auto& name : {first.run_id, fmt::format("{}_{}", first.system, first.experts)})
        if (const auto path = std::filesystem::path(folder) / (name + ".csv");
            std::filesystem::is_regular_file(path))
            return path.string();
    return "";
}

Case case_of_layer(const RecordedRun& run, const std::string& routing_file,
                   const std::string& cluster) {
    const Sample& first = *run.first;
    const auto time = [&](const char* phase) { return measured(run, {phase, -1}, {}, false); };
    const auto step = time("step");
    if (!step) throw ConfigError("has no rows of phase step and rank -1");
    Case result;
    result.source = "measurements";
    result.case_id = first.run_id;
    result.series = first.system;
    result.x = first.experts;
    result.measured_step = *step;
    for (const auto& [at, row] : run.step_rows) result.rows.push_back(row);
    result.measured_forward = time("forward");
    result.measured_backward = time("backward");
    auto overrides = shape_of(first.model);
    overrides.push_back({"workload.moe.experts", std::to_string(first.experts)});
    const std::string preset = "moe_layer_" + first.system;
    add_machine(cluster, read_experiment(preset).cluster, first.ranks, overrides,
                result.assumptions);
    const std::string ranks = std::to_string(std::max(1, first.ranks));
    for (const char* key : {"parallelism.dp", "parallelism.ep"})
        if (first.ranks > 0) overrides.push_back({key, ranks});
    if (!routing_file.empty())
        overrides.push_back({"routing.file", routing_file});
    else
        add_random_gate("routing not recorded", overrides, result.assumptions);
    result.experiment = read_experiment(preset, overrides);
    return result;
}

Comparison refused(const RecordedRun& run, const std::string& series, const std::string& why) {
    Comparison comparison;
    comparison.what.source = "measurements";
    comparison.what.case_id = run.first->run_id;
    comparison.what.series = series;
    if (const auto step = measured(run, {"step", -1}, {}, false))
        comparison.what.measured_step = *step;
    comparison.refused_because = "run " + run.first->run_id + ": " + why;
    return comparison;
}

}  // namespace

std::string model_name(const LayerShape& shape) {
    return fmt::format("moe_layer-{}x{}-{}-{}-top{}", shape.hidden, shape.ffn, shape.dtype,
                       shape.tokens, shape.top_k);
}

std::optional<LayerShape> parse_model_name(const std::string& name) {
    LayerShape shape;
    char dtype[16] = "";
    const int found = std::sscanf(name.c_str(), "moe_layer-%9dx%9d-%15[^-]-%9d-top%9d",
                                  &shape.hidden, &shape.ffn, dtype, &shape.tokens, &shape.top_k);
    shape.dtype = dtype;
    const bool whole = found == 5 &&
                       std::min({shape.hidden, shape.ffn, shape.tokens, shape.top_k}) > 0 &&
                       model_name(shape) == name;
    return whole ? std::optional(shape) : std::nullopt;
}

std::vector<Comparison> comparisons_of_recorded(const std::vector<Sample>& samples,
                                                const std::string& cluster,
                                                const std::optional<ExperimentSource>& own) {
    std::vector<Comparison> found;
    const std::vector<RecordedRun> runs = runs_of(samples, false);
    if (runs.empty()) return found;
    const std::vector<RecordedExperiment> known = recorded_experiments();
    for (const RecordedRun& run : runs) {
        try {
            const ExperimentSource source =
                own ? *own : experiment_of_recorded(run.first->system, run.first->model, known);
            const int told = base_of(source, cluster).recorded.steps_from;
            const int from = told > 0 ? told : first_steady_step(run.last_step + 1);
            const bool chosen = told > 0 || !run.step_inputs.empty();
            for (const StepGroup& group : groups_of(run, from))
                found.push_back({case_of_group(run, group, source, cluster, chosen), {}, {}, {}});
        } catch (const ConfigError& error) {
            found.push_back(refused(run, run.first->model, error.what()));
        }
    }
    return found;
}

std::vector<Comparison> comparisons_of_layers(const std::vector<Sample>& samples,
                                              const std::string& routing_folder,
                                              const std::string& cluster) {
    std::vector<Comparison> found;
    for (const RecordedRun& run : runs_of(samples, true)) {
        try {
            found.push_back(
                {case_of_layer(run, recorded_routing(run, samples, routing_folder), cluster),
                 {},
                 {},
                 {}});
        } catch (const ConfigError& error) {
            found.push_back(refused(run, run.first->system, error.what()));
        }
    }
    return found;
}

}  // namespace stepcast
