#include "cli/experiment_inputs.h"

#include <algorithm>

#include "import/launch/emit.h"
#include "import/launch/translation.h"
#include "import/launch/unknown.h"
#include "measured/read.h"
#include "measured/show.h"
#include "model/base/lists.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// If a file leaves its number of replicas open, or the chosen machine has room for another number,
// replicas fill the machine, and a batch that the file states per replica follows.
Translation asked_translation(const Options& options, const std::string& name,
                              const std::vector<Override>& overrides) {
    TranslateOptions how = translate_options(options);
    Translation translation = translate(name, how);
    try {
        const Experiment e = read_unchecked_experiment(
            {name + of_translation, experiment_text(translation)}, overrides);
        const auto& p = e.parallelism;
        if (ranks_of_all(p) != rank_count(e.cluster) ||
            p.dp == translation.count("parallelism.dp", 0))
            return translation;
        how.replicas = p.dp;
    } catch (const ConfigError&) {
        return translation;  // the translation's report must come before the complaint
    }
    return translate(name, how);
}

// Whether the format is another tool's, except a config.json, which is read like a preset unless
// --model says what it leaves out.
bool is_translated(const Options& options, ForeignFormat format) {
    return format != ForeignFormat::none &&
           (format != ForeignFormat::hub_config || !options.model.empty());
}

void require_experiment(const std::string& name) {
    if (is_cluster(recognise_foreign(name)))
        throw ConfigError(name +
                          ": describes a machine; expected an experiment. Make it a cluster first: "
                          "stepcast import " +
                          name + " --out cluster.toml");
}

// Only .toml and a model's .json can be stepcast's own.
void refuse_unknown(const std::string& name) {
    if (!name.ends_with(".yaml") && !name.ends_with(".yml")) return;
    if (const auto what = unknown_configuration(name); !what.empty()) throw ConfigError(what);
}

}  // namespace

std::vector<Override> overrides_of(const Options& options) {
    std::vector<Override> overrides;
    if (!options.framework.empty()) overrides.push_back({"framework.preset", options.framework});
    for (const std::string& name : options.frameworks)
        overrides.push_back({"framework.preset", name});
    if (!options.cluster.empty()) overrides.push_back({"cluster.preset", options.cluster});
    if (options.gpus > 0)
        overrides.push_back({std::string(ranks_key), std::to_string(options.gpus)});
    for (const std::string& text : options.set) overrides.push_back(parse_override(text));
    return overrides;
}

std::optional<Training> training_of(const Options& options) {
    if (!options.tokens.empty() && !options.training_steps.empty())
        throw ConfigError("--tokens and --steps: both say how long the training is; expected one");
    if (options.tokens.empty() && options.training_steps.empty()) {
        if (options.market.empty()) return std::nullopt;
        throw ConfigError(
            "--market: of which training? expected --tokens 15T or --steps 100k as well");
    }
    Training training{.tokens = 0, .steps = 0, .market = read_market(options.market)};
    if (!options.tokens.empty())
        training.tokens = positive("--tokens", options.tokens, parse_count);
    if (!options.training_steps.empty())
        training.steps = positive("--steps", options.training_steps, parse_count);
    return training;
}

TranslateOptions translate_options(const Options& options) {
    TranslateOptions how;
    how.model = options.model;
    how.variant = options.variant;
    for (const std::string& text : options.environment) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0)
            throw ConfigError("--env " + text + ": expected NAME=VALUE");
        how.environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return how;
}

void require_foreign(const Options& options, const std::vector<std::string>& names) {
    const char* option = !options.model.empty()         ? "--model"
                         : !options.variant.empty()     ? "--variant"
                         : !options.environment.empty() ? "--env"
                                                        : nullptr;
    const auto translated = [&](const std::string& name) {
        return !options.texts.contains(name) && is_translated(options, recognise_foreign(name));
    };
    if (option == nullptr || std::ranges::any_of(names, translated)) return;
    throw ConfigError(
        std::string(option) +
        ": is for what a launch script or configuration of another tool leaves open; " +
        names.front() + " is none. Expected --set, for a model --set workload.preset=..");
}

void require_one_answer(const Options& options) {
    if (!options.emit.empty() && options.json)
        throw ConfigError(
            "--emit and --json: both are the answer on standard output; expected one");
}

std::vector<std::string> files_asked(const Options& options, const std::string& name,
                                     const std::vector<Override>& overrides) {
    if (options.texts.contains(name)) return {};
    if (!is_translated(options, recognise_foreign(name))) {
        refuse_unknown(name);
        return files_of_experiment(name, overrides);
    }
    return {name};
}

std::vector<Override> stated_keys_asked(const Options& options, const std::string& name,
                                        const std::vector<Override>& overrides) {
    if (const auto own = value_in(options.texts, name)) return stated_keys({name, *own}, overrides);
    if (!is_translated(options, recognise_foreign(name))) {
        refuse_unknown(name);
        return stated_keys(name, overrides);
    }
    return stated_keys(
        {name + of_translation, experiment_text(asked_translation(options, name, overrides))},
        overrides);
}

Experiment asked_experiment(const Options& options, const std::string& name,
                            const std::vector<Override>& overrides, bool checked) {
    const auto read = [&](const ExperimentSource& source) {
        return checked ? read_experiment(source, overrides)
                       : read_unchecked_experiment(source, overrides);
    };
    if (const auto own = value_in(options.texts, name)) return read({name, *own});
    const auto format = recognise_foreign(name);
    require_experiment(name);
    if (!is_translated(options, format)) {
        refuse_unknown(name);
        if (format == ForeignFormat::hub_config)
            for (const std::string& line : notes_of_hub_config(name)) options.say("note: " + line);
        return read(name);
    }
    const Translation translation = asked_translation(options, name, overrides);
    for (const std::string& line : report(translation)) options.say(line);
    const bool machine =
        translation.find("cluster.preset") || std::ranges::any_of(overrides, [](const Override& o) {
            return o.key == "cluster.preset" || o.key.starts_with("cluster.gpu.");
        });
    if (checked && !machine)
        throw ConfigError(name +
                          ": names no machine; expected --cluster NAME (stepcast list presets)");
    return read({name + of_translation, experiment_text(translation)});
}

std::string shown(const Options& options) {
    const std::string& name = options.experiment;
    const std::vector<Override> overrides = overrides_of(options);
    if (!is_translated(options, recognise_foreign(name))) {
        refuse_unknown(name);
        return show(name, overrides);
    }
    require_experiment(name);
    const Translation translation = asked_translation(options, name, overrides);
    for (const std::string& line : report(translation)) options.say(line);
    return show({name + of_translation, experiment_text(translation)}, overrides);
}

std::string headline(const std::string& experiment, const std::string& cluster, const Experiment& e,
                     Seconds step) {
    return experiment + " on " + std::to_string(rank_count(e.cluster)) + " ranks of " + cluster +
           ": step " + time_text(step);
}

std::string emitted(const Experiment& experiment, const Options& options,
                    const std::string& forecast) {
    const Emission emission = emit(experiment, parse_name<EmitFormat>(options.emit));
    if (options.emit == "deepspeed") {  // JSON has no comments
        options.say(forecast);
        for (const std::string& line : emission.without) options.say("no counterpart: " + line);
        return emission.text;
    }
    std::string text = "# " + forecast + "\n";
    for (const std::string& line : emission.without) text += "# no counterpart: " + line + "\n";
    return text + emission.text;
}

}  // namespace stepcast
