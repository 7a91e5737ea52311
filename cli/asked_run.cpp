#include "cli/asked_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "calibrate/measured_links.h"
#include "cli/experiment_inputs.h"
#include "cli/run_inputs.h"
#include "import/machine/gpu_samples.h"
#include "import/profiles/import_profiles.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/input/check_experiment.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

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
    refuse(
        "{}: a step took {} sequences, the configuration says {}: they are not of one run; "
        "expected --set global_batch={}, or that run's configuration",
        where, c.measured_sequences, stated, c.measured_sequences);
}

void take_log(const Case& c, const std::string& log, AskedRun& run) {
    require_batch(c, log, run.experiment);
    take_case(c, run.observed);
}

bool holds_runs(const std::string& input) {
    const std::string path = named_row(input).path;
    return path.ends_with(".csv") || is_log(path) || std::filesystem::is_directory(path);
}

// The factor of "k", "t" or "" before one of `units`; 0: none of them.
double scaled(std::string_view unit, std::initializer_list<std::string_view> units) {
    static constexpr std::array<std::pair<std::string_view, double>, 5> factors{
        {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"t", 1e12}, {"p", 1e15}}};
    for (const auto& [prefix, factor] : factors)
        if (unit.starts_with(prefix) &&
            std::ranges::find(units, unit.substr(prefix.size())) != units.end())
            return factor;
    return 0;
}

// The step at a rate, which may be counted wrongly; nothing if the unit is of none.
std::optional<Seconds> step_at_rate(double value, std::string_view unit, const Experiment& e,
                                    Observed& seen) {
    constexpr double tera = 1e12;
    const double ranks = rank_count(e.cluster), tokens = tokens_per_step(e),
                 flops = scaled(unit, {"flop/s", "flops", "flop/s/gpu", "flops/gpu"}),
                 each = scaled(unit, {"tokens/s/gpu", "tok/s/gpu"}),
                 all = scaled(unit, {"tokens/s", "tok/s"});
    const bool share = unit == "%mfu" || unit == "mfu";
    if (!share && flops < tera && each + all == 0) return std::nullopt;
    if (!(value > 0)) throw ConfigError("expected a number above 0");
    if (unit == "mfu" && value > 1) throw ConfigError("expected a share, or percent: 38%MFU");
    seen.stated_rate |= share || flops >= tera;
    seen.stated_tokens |= each + all > 0;
    seen.stated_total |= all > 0;
    if (share)
        return model_flops(e, tokens) / (peak(e.cluster.gpu, e.workload.dtype) *
                                         (value / (unit == "mfu" ? 1 : 100) * ranks));
    if (flops >= tera) return model_flops(e, tokens) / (FlopsPerSecond(value * flops) * ranks);
    return Seconds(tokens / (value * (each > 0 ? each * ranks : all)));
}

// Nothing if the unit is no rate of steps or sequences, nor a time of each.
std::optional<Seconds> step_by_count(double value, std::string_view unit, const Experiment& e) {
    const double sequences = sequences_of_step(e.parallelism),
                 all = scaled(unit, {"samples/s", "sequences/s", "seq/s"}),
                 each = scaled(unit, {"samples/s/gpu", "sequences/s/gpu", "seq/s/gpu"});
    if (!(value > 0)) return std::nullopt;
    if (unit == "it/s" || unit == "steps/s") return Seconds(1 / value);
    if (unit == "s/it" || unit == "s/step") return Seconds(value);
    if (unit == "ms/it" || unit == "ms/step") return Seconds(value / 1e3);
    if (all + each == 0) return std::nullopt;
    return Seconds(sequences / (value * (all > 0 ? all : each * rank_count(e.cluster))));
}

// "38%MFU", "410TFLOP/s" a GPU, "3700tokens/s/gpu", "12samples/s", "3.7s/it", else a time. A second
// may be a "sec".
Seconds step_of(const std::string& text, const Experiment& e, Observed& seen) {
    std::string word = lower_case(text);
    std::erase(word, ' ');
    for (auto at = word.find("sec"); at != std::string::npos; at = word.find("sec"))
        word.erase(at + 1, 2);
    char* behind = nullptr;
    const double value = std::strtod(word.c_str(), &behind);
    const std::string_view unit = behind;
    if (const auto step = step_at_rate(value, unit, e, seen)) return *step;
    if (const auto step = step_by_count(value, unit, e)) return *step;
    try {
        return parse_seconds(text);
    } catch (const ConfigError&) {
        throw ConfigError(
            "expected a time, 4.31s or 4.31s/it, or a rate: 38%MFU, 410TFLOP/s of a GPU, "
            "3700tokens/s/gpu, 12samples/s");
    }
}

void take_measured(const Options& options, AskedRun& run) {
    if (options.measured.empty()) return;
    std::vector<Seconds> steps;
    for (const std::string& text : options.measured)
        at_place("--measured " + text, [&] {
            steps.push_back(step_of(text, run.experiment, run.observed));
            if (steps.back() <= Seconds(0)) throw ConfigError("expected more than 0");
        });
    Seconds sum;
    for (const Seconds s : steps) sum += s;
    const Seconds mean = sum / real(steps.size()), logged = run.observed.step;
    constexpr double alike = 0.1;
    if (!options.log.empty() && std::abs(mean / logged - 1) > alike)
        refuse("--measured {}: the steps of {} take {}; expected one of them",
               options.measured.front(), options.log, to_string(logged));
    run.observed.step = mean;
    run.observed.steps = steps.size() > 1 ? steps : std::vector<Seconds>{};
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
constexpr double usual_clock = 0.9;
void take_clocks(const std::string& path, Observed& seen) {
    for (const double share : read_gpu_samples(path).clocks)
        seen.clocks.push_back({.share = share, .usual = usual_clock});
}

double share_of(const std::string& text) {
    char* end = nullptr;
    double share = std::strtod(text.c_str(), &end);
    if (std::string_view(end) == "%") share /= 100;
    if (!(share > 0) || share > 1 || (*end != '\0' && std::string_view(end) != "%"))
        throw ConfigError("expected a share above 0 and up to 100%");
    return share;
}

// What a person reads off and writes down, without a file.
void take_seen(const std::string& text, AskedRun& run) {
    const auto equals = std::min(text.find('='), text.size());
    const struct {
        std::string key, value;
    } said{text.substr(0, equals), text.substr(std::min(equals + 1, text.size()))};
    Observed& seen = run.observed;
    const std::pair<std::string, std::optional<Seconds>*> times[] = {
        {"forward", &seen.forward},
        {"backward", &seen.backward},
        {"optimizer", &seen.optimizer},
        {"gradient_sync", &seen.gradient_sync},
        {"passes", &seen.passes}};
    for (const auto& [name, time] : times)
        if (said.key == name) {
            *time = parse_seconds(said.value);
            if (**time <= Seconds(0) || **time > seen.step)
                throw ConfigError("expected a time above 0 and within the step");
            return;
        }
    if (said.key == "busy")
        seen.busy = share_of(said.value);
    else if (said.key == "clock")
        seen.clocks.push_back({.share = share_of(said.value), .usual = usual_clock});
    else if (said.key == "memory")
        seen.peak = parse_bytes(said.value);
    else if (said.key == "bus_bandwidth")
        append(seen.links, measured_links(parse_bandwidth(said.value), run.experiment.cluster));
    else
        throw ConfigError(
            said.key +
            ": expected forward, backward, passes, gradient_sync or optimizer (times), busy or "
            "clock (shares), memory (bytes) or bus_bandwidth (GB/s)");
}

// The experiment as asked, with further keys: of a row these alone.
Experiment changed(const Options& options, const Experiment& asked, const std::string& keys) {
    Options other = options;
    std::size_t from = 0;
    while (from < keys.size()) {
        const std::size_t comma = std::min(keys.find(',', from), keys.size());
        const std::string key = keys.substr(from, comma - from);
        if (key.starts_with("gpus="))
            other.gpus =
                positive("gpus", key.substr(5), [](const std::string& n) { return std::stoi(n); });
        else
            other.set.push_back(key);
        from = comma + 1;
    }
    if (!holds_runs(options.experiment))
        return asked_experiment(other, options.experiment, overrides_of(other), true);
    Experiment e = asked;
    for (const std::string& text : other.set) set_key(e, parse_override(text));
    check_experiment(e);
    return e;
}

// "STEP", "KEY=VALUE,..:STEP" or a row.
OtherRun other_run(const Options& options, const AskedRun& run, const std::string& text,
                   bool sound) {
    if (holds_runs(text)) {
        const Case c = one_case(options, text);
        return {c.case_id, c.experiment, c.measured_mean.value_or(c.measured_step), sound};
    }
    const std::size_t colon = text.rfind(':');
    const std::string keys = colon == std::string::npos ? "" : text.substr(0, colon);
    OtherRun other{.name = keys.empty() ? "the same run" : keys,
                   .experiment = changed(options, run.experiment, keys),
                   .step = {},
                   .sound = sound};
    Observed ignored;
    other.step = step_of(colon == std::string::npos ? text : text.substr(colon + 1),
                         other.experiment, ignored);
    if (other.step <= Seconds(0)) throw ConfigError("expected more than 0");
    return other;
}

// Whose they are is not said: some ranks stand for all.
void take_rank_times(const std::vector<std::string>& stated, AskedRun& run) {
    for (const std::string& text : stated)
        at_place("--rank-times " + text, [&] {
            run.observed.rank_times.push_back(parse_seconds(text).si());
            if (run.observed.rank_times.back() <= 0) throw ConfigError("expected more than 0");
        });
    const std::size_t ranks = as_index(rank_count(run.experiment.cluster)),
                      times = run.observed.rank_times.size();
    if (times > ranks)
        throw ConfigError(
            fmt::format("--rank-times: {} times of {} ranks; expected one of each", times, ranks));
    if (times > 0 && times < ranks)
        run.notes.push_back(fmt::format(
            "--rank-times: {} of {} ranks, taken as what all ranks are like; a slow one among the "
            "others is not seen",
            times, ranks));
}

void take_others(const Options& options, AskedRun& run) {
    for (const std::string& text : options.sound)
        at_place("--sound " + text,
                 [&] { run.others.push_back(other_run(options, run, text, true)); });
    for (const std::string& text : options.beside)
        at_place("--beside " + text,
                 [&] { run.others.push_back(other_run(options, run, text, false)); });
}

}  // namespace

AskedRun asked_run(const Options& options) {
    AskedRun run;
    const std::string& name = options.experiment;
    if (holds_runs(name)) {
        const Case c = one_case(options, name, CausesOfRows::left_out);
        run.experiment = c.experiment;
        for (const std::string& text : options.set) set_key(run.experiment, parse_override(text));
        check_experiment(run.experiment);
        require_batch(c, name, run.experiment);
        take_case(c, run.observed);
    } else {
        require_foreign(options, {name});
        run.experiment = asked_experiment(options, name, overrides_of(options), true);
    }
    if (!options.log.empty()) take_log(one_case(options, options.log), options.log, run);
    take_measured(options, run);
    if (run.observed.name.empty()) run.observed.name = std::filesystem::path(name).stem().string();
    if (run.observed.step <= Seconds(0))
        throw ConfigError("diagnose: of which step? expected --measured 4.31s or --log FILE");
    take_rank_times(options.rank_times, run);
    if (!options.profile.empty()) take_profile(options.profile, run.observed);
    if (!options.nccl_tests.empty())
        append(run.observed.links, measured_links(options.nccl_tests, run.experiment.cluster));
    if (!options.gpu_samples.empty()) take_clocks(options.gpu_samples, run.observed);
    for (const std::string& text : options.seen)
        at_place("--seen " + text, [&] { take_seen(text, run); });
    take_others(options, run);
    return run;
}

}  // namespace stepcast
