#include "cli/verbs.h"

#include "cli/early_checks.h"
#include "cli/foreign_inputs.h"
#include "cli/startup.h"
#include "model/errors.h"
#include "reports/json.h"
#include "reports/pages.h"
#include "sim/campaign.h"
#include "sim/gantt.h"

namespace stepcast {

SimulateQuestion simulate_question(const Options& options) {
    const std::vector<Variant> variants = variants_of(options);
    if (variants.size() > 1 && (options.explain || !options.trace.empty() || !options.emit.empty()))
        throw ConfigError("simulate: --trace, --emit and --explain are of one forecast; expected one experiment and every key set once");
    require_one_answer(options);
    require_foreign(options, options.inputs);
    check_files_of_simulate(options, variants);
    SimulateQuestion question{.columns = {}, .training = training_of(options), .explained = options.explain};
    for (const Variant& v : variants)
        question.columns.push_back({v.label, asked_experiment(options, v.experiment, v.overrides, true)});
    return question;
}

SimulateAnswer answer(const SimulateQuestion& question, bool pictures) {
    const bool lone = question.columns.size() == 1;
    SimulateAnswer found;
    for (const auto& [label, experiment] : question.columns) {
        Prediction prediction = predict_step(experiment);
        found.columns.push_back({label, prediction.forecast, {}});
        if (question.training) found.columns.back().campaign = campaign_of(*question.training, experiment, prediction.forecast);
        if (pictures) found.pictures.push_back(gantt_of(experiment, prediction));
        if (pictures && !lone) found.pictures.back().title = label;
        if (lone) found.prediction = std::move(prediction);
        if (lone && question.explained) found.why = explain(experiment);
    }
    return found;
}

std::string json_of(const SimulateAnswer& answer) {
    if (answer.columns.size() > 1) return columns_json(answer.columns);
    const auto& [label, forecast, campaign] = answer.columns.front();
    return to_json(forecast, answer.why, campaign);
}

std::string text_of(const SimulateAnswer& answer) {
    if (answer.columns.size() > 1) return columns_table(answer.columns);
    const auto& [label, forecast, campaign] = answer.columns.front();
    std::string text = forecast_table(forecast, answer.why.has_value());
    if (campaign) text += "\n" + campaign_table(*campaign);
    if (answer.why) text += "\n" + explanation_table(*answer.why) + "\n" + kernel_table(forecast);
    return text;
}

void write_simulated(const std::string& folder, const SimulateQuestion& question, const SimulateAnswer& answer) {
    std::vector<Fact> origin;
    for (const auto& [label, experiment] : question.columns) add_once(origin, origin_of(experiment, version_text()));
    if (answer.columns.size() > 1) return write_columns(folder, answer.columns, answer.pictures, origin);
    const auto& [label, forecast, campaign] = answer.columns.front();
    Page page = forecast_page(question.columns.front().experiment, forecast, answer.why, campaign);
    page.provenance = origin;
    write_forecast(folder, std::move(page), answer.pictures.front(), answer.why);
}

}  // namespace stepcast
