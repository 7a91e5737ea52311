// stepcast._core: the functions that main.cpp calls, for Python. Answers are the text of --json; what a question is stands in
// Options, as on the command line. The package around it (stepcast/*.py) gives them names and types.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/calibrate.h"
#include "cli/compare.h"
#include "cli/early_checks.h"
#include "cli/foreign_inputs.h"
#include "cli/startup.h"
#include "model/errors.h"
#include "model/presets.h"
#include "model/show.h"
#include "reports/tables.h"
#include "reports/json.h"
#include "reports/pages.h"
#include "sim/campaign.h"
#include "sim/explain/explain.h"
#include "sim/gantt.h"
#include "sim/predict.h"
#include "sim/sweep/pool.h"
#include "sim/sweep/sweep.h"

namespace py = pybind11;
using namespace stepcast;

namespace {

// A broken promise of ours, in the words of the program's exit code 3.
struct Bug : std::logic_error {
    using std::logic_error::logic_error;
};

// Runs `work` while other Python threads go on.
template <class Work>
auto unlocked(const Work& work) {
    const py::gil_scoped_release released;
    try {
        return work();
    } catch (const ConfigError&) {
        throw;
    } catch (const DeviceError&) {
        throw;
    } catch (const py::error_already_set&) {
        throw;
    } catch (const std::exception& error) {
        throw Bug(std::string("a bug of stepcast: ") + error.what());
    }
}

// Tells `callable`, or nobody where it is None. Ctrl-C ends the work here.
std::function<void(std::string_view)> teller(const py::object& callable) {
    return [&callable](std::string_view text) {
        const py::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!callable.is_none() && !text.empty()) callable(std::string(text));
    };
}

// An answer, and the lines that the program would print on stderr.
struct Answer {
    std::string json, text;
    std::vector<std::string> said;
};

// The options with a place for those lines.
Options told_to(Options options, std::vector<std::string>& said) {
    options.say = [&said](const std::string& line) { said.push_back(line); };
    return options;
}

// ---- simulate

struct Column {
    std::string label;
    Experiment experiment;
};
struct Simulated : Answer {
    std::vector<Column> columns;
    bool explained = false;
};

void fill(Simulated& simulated, const std::optional<Training>& training) {
    std::vector<ForecastColumn> columns;
    for (const auto& [label, experiment] : simulated.columns) {
        columns.push_back({label, predict(experiment), {}});
        if (training) columns.back().campaign = campaign_of(*training, experiment, columns.back().forecast);
    }
    if (columns.size() > 1) {
        simulated.json = columns_json(columns);
        simulated.text = columns_table(columns);
        return;
    }
    const auto& [label, forecast, campaign] = columns.front();
    const auto why = simulated.explained ? std::optional(explain(simulated.columns.front().experiment)) : std::nullopt;
    simulated.json = to_json(forecast, why, campaign);
    simulated.text = forecast_table(forecast, simulated.explained);
    if (campaign) simulated.text += "\n" + campaign_table(*campaign);
    if (why) simulated.text += "\n" + explanation_table(*why) + "\n" + kernel_table(forecast);
}

Simulated run_simulate(const Options& asked) {
    return unlocked([&] {
        Simulated simulated;
        const Options options = told_to(asked, simulated.said);
        const std::vector<Variant> variants = variants_of(options);
        if (variants.size() > 1 && options.explain)
            throw ConfigError("simulate: explain is of one forecast; expected one experiment and every key set once");
        const std::optional<Training> training = training_of(options);
        for (const Variant& v : variants)
            simulated.columns.push_back({v.label, asked_experiment(options, v.experiment, v.overrides, true)});
        simulated.explained = options.explain;
        fill(simulated, training);
        return simulated;
    });
}

void write_simulated(const Simulated& simulated, const std::string& folder) {
    unlocked([&] {
        std::vector<Gantt> pictures;
        std::vector<ForecastColumn> columns;
        std::vector<Fact> origin;
        for (const auto& [label, experiment] : simulated.columns) {
            const Prediction prediction = predict_step(experiment);
            columns.push_back({label, prediction.forecast, {}});
            pictures.push_back(gantt_of(experiment, prediction));
            if (simulated.columns.size() > 1) pictures.back().title = label;
            add_once(origin, origin_of(experiment, version_text()));
        }
        if (columns.size() > 1) return write_columns(folder, columns, pictures, origin);
        const Experiment& experiment = simulated.columns.front().experiment;
        const auto why = simulated.explained ? std::optional(explain(experiment)) : std::nullopt;
        Page page = forecast_page(experiment, columns.front().forecast, why, std::nullopt);
        page.provenance = origin;
        write_forecast(folder, std::move(page), pictures.front(), why);
    });
}

// ---- sweep

struct Swept : Answer {
    SweepAnswer answer;
};

Swept run_sweep(const Options& asked, const py::object& progress) {
    if (mpi_processes() > 1)
        throw ConfigError("sweep: this Python was started by an MPI launcher; expected mpirun .. stepcast sweep, or no launcher");
    keep_freed_memory(1 << 26);  // a tenth of a long search; the only trace that a call leaves in the process
    const auto tell = teller(progress);
    return unlocked([&] {
        Swept swept;
        const Options options = told_to(asked, swept.said);
        const SweepQuestion question = question_of(options);
        if (!options.out.empty()) check_files_of_sweep(options);
        swept.answer = sweep(question, {.threads = options.threads, .out = options.out, .resume = options.resume, .map = !options.out.empty(), .progress = tell, .announce = {}});
        swept.json = to_json(swept.answer);
        swept.text = sweep_table(swept.answer);
        return swept;
    });
}

// ---- compare

struct Read : Answer {
    Compared compared;
};

Read run_compare(const Options& asked, const py::object& progress) {
    const auto tell = teller(progress);
    return unlocked([&] {
        Read read;
        read.compared = compare_inputs(told_to(asked, read.said), tell);
        const auto& [comparisons, kernels, summary, steps] = read.compared;
        read.json = to_json(summary, comparisons, kernels);
        read.text = (steps ? comparison_table(comparisons) : "") + kernel_table(kernels);
        return read;
    });
}

void write_compared(const Read& read, const std::string& folder) {
    unlocked([&] {
        write_comparison(folder, {}, read.compared.comparisons, read.compared.kernels, version_text());
    });
}

Answer run_calibrate(const Options& asked, const py::object& progress) {
    const auto tell = teller(progress);
    return unlocked([&] {
        Answer answer;
        answer.text = calibrate(told_to(asked, answer.said), tell);
        return answer;
    });
}

std::vector<std::string> presets(const std::string& kind) {
    constexpr std::pair<std::string_view, PresetKind> kinds[] = {{"experiment", PresetKind::experiment},
                                                                 {"workload", PresetKind::workload},
                                                                 {"cluster", PresetKind::cluster},
                                                                 {"framework", PresetKind::framework},
                                                                 {"family", PresetKind::family},
                                                                 {"nameplate", PresetKind::nameplate}};
    for (const auto& [name, which] : kinds)
        if (kind == name) return preset_names(which);
    throw ConfigError("presets: \"" + kind + "\"; expected experiment, workload, cluster, framework, family or nameplate");
}

void translate_errors(std::exception_ptr thrown) {
    const auto raise = [](const char* name, const std::exception& error) {
        PyErr_SetString(py::module_::import("stepcast.errors").attr(name).ptr(), error.what());
    };
    try {
        std::rethrow_exception(std::move(thrown));
    } catch (const ConfigError& error) {
        raise("ConfigError", error);
    } catch (const DeviceError& error) {
        raise("DeviceError", error);
    } catch (const Bug& error) {
        raise("BugError", error);
    }
}

void add_options(py::module_& m) {
    py::class_<Options> options(m, "Options");
    options.def(py::init<>());
    const auto add = [&](const char* name, auto member) { options.def_readwrite(name, member); };
    for (const auto& [name, member] : {std::pair{"experiment", &Options::experiment}, {"device", &Options::device}, {"cluster", &Options::cluster},
                                       {"framework", &Options::framework}, {"fit", &Options::fit}, {"cross_validate", &Options::cross_validate},
                                       {"out", &Options::out}, {"model", &Options::model}, {"variant", &Options::variant},
                                       {"objective", &Options::objective}, {"tokens", &Options::tokens}, {"training_steps", &Options::training_steps},
                                       {"within", &Options::within}, {"market", &Options::market}})
        add(name, member);
    for (const auto& [name, member] : {std::pair{"inputs", &Options::inputs}, {"set", &Options::set}, {"measurements", &Options::measurements},
                                       {"vary", &Options::vary}, {"where", &Options::where}, {"environment", &Options::environment}})
        add(name, member);
    for (const auto& [name, member] : {std::pair{"gpus", &Options::gpus}, {"ranks", &Options::ranks}, {"steps", &Options::steps},
                                       {"top", &Options::top}, {"threads", &Options::threads}})
        add(name, member);
    for (const auto& [name, member] : {std::pair{"explain", &Options::explain}, {"pareto", &Options::pareto}, {"resume", &Options::resume}})
        add(name, member);
    add("texts", &Options::texts);
}

}  // namespace

PYBIND11_MODULE(_core, m) {
    py::register_exception_translator(translate_errors);
    add_options(m);
    py::class_<Answer>(m, "Answer").def_readonly("json", &Answer::json).def_readonly("text", &Answer::text).def_readonly("said", &Answer::said);
    py::class_<Simulated, Answer>(m, "Simulated").def("write", write_simulated);
    py::class_<Swept, Answer>(m, "Swept").def("write", [](const Swept& swept, const std::string& folder) {
        unlocked([&] { write_sweep(folder, swept.answer); });
    });
    py::class_<Read, Answer>(m, "Compared").def("write", write_compared);
    m.def("simulate", run_simulate);
    m.def("sweep", run_sweep);
    m.def("compare", run_compare);
    m.def("calibrate", run_calibrate);
    m.def("show_cluster", [](const std::string& name) { return unlocked([&] { return show(preset_path(PresetKind::cluster, name), {}); }); });
    m.def("presets", presets);
    m.def("version", version_text);
}
