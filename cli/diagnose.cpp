// stepcast diagnose: from what a user measured to ranked causes.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include <fmt/format.h>

#include "calibrate/kernel_comparisons.h"
#include "cli/experiment_inputs.h"
#include "cli/output_files.h"
#include "cli/run_inputs.h"
#include "cli/verbs.h"
#include "import/machine/gpu_samples.h"
#include "import/profiles/import_profiles.h"
#include "import/profiles/profile_times.h"
#include "measured/medians.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/whole_files.h"
#include "model/input/check_experiment.h"
#include "model/machine/cluster_file.h"
#include "model/records/measurements.h"
#include "reports/diagnosis.h"
#include "reports/step_page.h"
#include "sim/predict.h"
#include "sim/why/diagnose.h"

namespace stepcast {
namespace {

constexpr const char* what_was_seen = "What was measured";

struct AskedRun {
    Experiment experiment;
    Observed observed;
};

// What a log or a row states beside its step.
void take_case(const Case& c, Observed& seen) {
    seen.name = c.case_id;
    seen.step = c.measured_mean.value_or(c.measured_step);
    seen.steps = c.recorded_steps;
    seen.forward = c.measured_forward;
    seen.backward = c.measured_backward;
    if (!c.measured_reserved) seen.peak = c.measured_peak;
    for (const MeasuredPhase& phase : c.measured_phases) {
        if (phase.rank != -1) continue;
        if (phase.name == "gradient_sync") seen.gradient_sync = phase.time;
        if (phase.name == "optimizer") seen.optimizer = phase.time;
    }
}

// What was measured must be of the configuration that is asked about.
void require_batch(const Case& c, const std::string& where, const Experiment& e) {
    const int stated = sequences_of_step(e.parallelism);
    if (c.measured_sequences == 0 || c.measured_sequences == stated) return;
    throw ConfigError(fmt::format(
        "{}: a step took {} sequences, the configuration says {}: they are not of one run; "
        "expected --set global_batch={}, or that run's configuration",
        where, c.measured_sequences, stated, c.measured_sequences));
}

void take_log(const Case& c, const std::string& log, AskedRun& run) {
    require_batch(c, log, run.experiment);
    take_case(c, run.observed);
}

bool holds_runs(const std::string& input) {
    const std::string path = named_row(input).path;
    return path.ends_with(".csv") || is_log(path) || std::filesystem::is_directory(path);
}

// "38%MFU", "410TFLOP/s" a GPU, "3700tokens/s/gpu", else a time.
Seconds step_of(const std::string& text, const Experiment& e, bool& is_rate) {
    std::string word = lower_case(text);
    std::erase(word, ' ');
    const auto ends = [&](std::string_view end) { return word.ends_with(end); };
    const double ranks = rank_count(e.cluster), tokens = tokens_per_step(e);
    const auto number = [&] {
        const double value = std::strtod(word.c_str(), nullptr);
        if (!(value > 0)) throw ConfigError("expected a number above 0");
        return value;
    };
    if (ends("mfu")) {
        is_rate = true;
        const double share = number() / (word.find('%') == std::string::npos ? 1 : 100);
        return model_flops(e, tokens) / (peak(e.cluster.gpu, e.workload.dtype) * (share * ranks));
    }
    if (ends("flop/s") || ends("flops")) {
        is_rate = true;
        return model_flops(e, tokens) / (FlopsPerSecond(number() * 1e12) * ranks);
    }
    if (ends("tokens/s/gpu")) return Seconds(tokens / (number() * ranks));
    if (ends("tokens/s")) return Seconds(tokens / number());
    return parse_seconds(text);
}

void take_measured(const Options& options, AskedRun& run) {
    if (options.measured.empty()) return;
    std::vector<Seconds> steps;
    for (const std::string& text : options.measured)
        at_place("--measured " + text, [&] {
            steps.push_back(step_of(text, run.experiment, run.observed.stated_rate));
            if (steps.back() <= Seconds(0)) throw ConfigError("expected more than 0");
        });
    Seconds sum;
    for (const Seconds s : steps) sum += s;
    const Seconds mean = sum / real(steps.size()), logged = run.observed.step;
    constexpr double alike = 0.1;
    if (!options.log.empty() && std::abs(mean / logged - 1) > alike)
        throw ConfigError(
            fmt::format("--measured {}: the steps of {} take {}; expected one of them",
                        options.measured.front(), options.log, to_string(logged)));
    run.observed.step = mean;
    run.observed.steps = steps.size() > 1 ? steps : std::vector<Seconds>{};
}

class ScratchFolder {
public:
    ScratchFolder()
        : path_(std::filesystem::temp_directory_path() /
                fmt::format("stepcast-links-{:08x}", std::random_device{}())) {
        std::filesystem::create_directories(path_);
    }
    ~ScratchFolder() {
        std::error_code none;
        std::filesystem::remove_all(path_, none);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

// What the output does not say: it ran on all ranks, whose nodes are whole.
NcclTestsContext context_of(const std::string& path, const Cluster& cluster) {
    NcclTestsContext context{.op = "all_reduce", .ranks = rank_count(cluster), .nodes = 0};
    int ranks = 0;
    for (const NcclTestsRow& row : read_nccl_tests(path, context).rows)
        ranks = std::max(ranks, row.out_of_place.ranks);
    context.nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
    return context;
}

// Large messages alone: what small ones take is latency.
void take_links(const std::string& path, AskedRun& run) {
    constexpr double large = 64e6;
    const ScratchFolder folder;
    const std::string cluster = folder.path() + "/machine.toml", out = folder.path() + "/links.csv";
    write_whole({{cluster, write_cluster(run.experiment.cluster)}});
    import_profiles({.paths = {path},
                     .out = out,
                     .system = "",
                     .model = "",
                     .context = context_of(path, run.experiment.cluster),
                     .format = "nccl-tests"});
    std::vector<double> between, inside;
    for (const auto& file : std::filesystem::directory_iterator(folder.path()))
        if (file.path().extension() == ".csv")
            for (const KernelComparison& row :
                 read_kernel_comparisons(file.path().string(), cluster).rows)
                if (row.ranks > 1 && row.bytes > Bytes(large))
                    (row.ranks > run.experiment.cluster.gpus_per_node ? between : inside)
                        .push_back(std::log(row.measured / row.predicted));
    const auto add = [&](const std::vector<double>& ratios, bool nodes) {
        if (!ratios.empty()) run.observed.links.push_back({nodes, std::exp(median(ratios))});
    };
    add(between, true);
    add(inside, false);
    if (run.observed.links.empty())
        throw ConfigError(path + ": has no message of 64 MB or more; expected nccl-tests -e 1G");
}

// Of several ranks also how they differ.
void take_profile(const std::string& path, Observed& seen) {
    const std::vector<RankUse> ranks = read_rank_use(path);
    seen.kinds = ranks.front().kinds;
    seen.idle = ranks.front().idle;
    if (seen.kinds->total() <= 0)
        throw ConfigError("--profile " + path + ": no kernel computes within its steps");
    if (ranks.size() < 2 || !seen.rank_times.empty()) return;
    for (const RankUse& rank : ranks)
        seen.rank_times.push_back((seen.step * rank.kinds.total()).si());
}

// GPUs of a busy run seldom reach their highest clock: between 0.8 of it (power-limited Hopper) and
// all of it (Ampere), which is judged, not measured.
void take_clocks(const std::string& path, Observed& seen) {
    constexpr double usual = 0.9;
    for (const double share : read_gpu_samples(path).clocks)
        seen.clocks.push_back({.share = share, .usual = usual});
}

AskedRun asked_run(const Options& options) {
    AskedRun run;
    const std::string& name = options.experiment;
    if (holds_runs(name)) {
        const Case c = one_case(options, name);
        run.experiment = c.experiment;
        for (const std::string& text : options.set) set_key(run.experiment, parse_override(text));
        check_experiment(run.experiment);
        require_batch(c, name, run.experiment);
        take_case(c, run.observed);
    } else {
        require_foreign(options, {name});
        run.experiment = asked_experiment(options, name, overrides_of(options), true);
    }
    if (!options.log.empty()) {
        Options of_log = options;
        if (of_log.model.empty()) of_log.model = name;
        take_log(one_case(of_log, options.log), options.log, run);
    }
    take_measured(options, run);
    if (run.observed.name.empty()) run.observed.name = std::filesystem::path(name).stem().string();
    if (run.observed.step <= Seconds(0))
        throw ConfigError("diagnose: of which step? expected --measured 4.31s or --log FILE");
    for (const std::string& text : options.rank_times)
        at_place("--rank-times " + text, [&] {
            run.observed.rank_times.push_back(parse_seconds(text).si());
            if (run.observed.rank_times.back() <= 0) throw ConfigError("expected more than 0");
        });
    if (!options.profile.empty()) take_profile(options.profile, run.observed);
    if (!options.nccl_tests.empty()) take_links(options.nccl_tests, run);
    if (!options.gpu_samples.empty()) take_clocks(options.gpu_samples, run.observed);
    return run;
}

// Without those that the user has tested and ruled out.
std::vector<Cause> causes_left(const std::vector<std::string>& ruled_out) {
    std::vector<Cause> causes = read_causes();
    for (const std::string& name : ruled_out) {
        std::vector<std::string> names;
        for (const Cause& c : causes) names.push_back(c.name);
        if (std::erase_if(causes, [&](const Cause& c) { return c.name == name; }) == 0)
            throw ConfigError("--ruled-out " + name + ": is no cause of the list" +
                              did_you_mean(name, names));
    }
    return causes;
}

void check_files(const Options& options) {
    Paths outputs;
    const Paths inputs =
        named({named_row(options.experiment).path},
              {options.cluster, options.framework, options.model, named_row(options.log).path,
               options.profile, options.nccl_tests, options.gpu_samples});
    add_in(outputs, options.out, {"summary.md", "report.html"}, inputs);
    check_outputs(outputs, inputs);
}

int run_diagnose(const Options& options) {
    check_files(options);
    const AskedRun run = asked_run(options);
    const Diagnosis found = diagnose(
        try_causes(run.experiment, causes_left(options.ruled_out), options.threads), run.observed);
    if (!options.out.empty())
        write_diagnosis(options.out, found,
                        origin_of(run.experiment, {version_text(), options.command}));
    print(options.json ? to_json(found) : diagnosis_table(found));
    return 0;
}

}  // namespace

Verb diagnose_verb() {
    const Arguments measured{
        {.name = "--measured",
         .value = &Options::measured,
         .type = "STEP",
         .help = "the step: 4.31s, 38%MFU, 410TFLOP/s, 3700tokens/s/gpu; or at least five single "
                 "steps, T,T,..",
         .group = what_was_seen,
         .comma = true},
        {.name = "--log",
         .value = &Options::log,
         .type = "FILE",
         .help = "the training log of an experiment: its steps",
         .group = what_was_seen},
        {.name = "--rank-times",
         .value = &Options::rank_times,
         .type = "TIME,TIME,..",
         .help = "what each rank computes in a step, as its profile says",
         .group = what_was_seen,
         .comma = true},
        {.name = "--profile",
         .value = &Options::profile,
         .type = "FILE|DIR",
         .help = "a rank's profile of this run (PyTorch's trace, Nsight's SQLite), or a folder of "
                 "several ranks'",
         .group = what_was_seen},
        {.name = "--nccl-tests",
         .value = &Options::nccl_tests,
         .type = "FILE",
         .help = "output of nccl-tests on these machines",
         .group = what_was_seen},
        {.name = "--nvidia-smi",
         .value = &Options::gpu_samples,
         .type = "FILE",
         .help = "samples of nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,"
                 "clocks_event_reasons.active --format=csv -l 1 during the run",
         .group = what_was_seen},
        {.name = "--ruled-out",
         .value = &Options::ruled_out,
         .type = "CAUSE",
         .help = "a cause that was tested and is not it; may be given several times",
         .group = what_was_seen}};
    return {"diagnose", "why a run is slower than it should be: ranked causes",
            "stepcast diagnose llama3-8b --cluster H100 --gpus 16 --framework torchtitan "
            "--measured 38%MFU",
            joined({{{.name = "RUN",
                      .value = &Options::experiment,
                      .help = "what ran: an experiment, a launch script, a log that states its "
                              "configuration, or a row (TABLE.csv:CASE)",
                      .required = true}},
                    measured,
                    override_arguments(),
                    foreign_arguments(),
                    {json_argument(), out_argument("the page")}}),
            run_diagnose};
}

}  // namespace stepcast
