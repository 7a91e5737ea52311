// stepcast._core: the functions that main.cpp calls, for Python. Answers are the text of --json,
// and Options holds a question, as on the command line. The package around it (stepcast/*.py) adds
// names and types.

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "cli/calibrate.h"
#include "cli/compare.h"
#include "cli/experiment_inputs.h"
#include "cli/simulate.h"
#include "cli/startup.h"
#include "cli/sweep.h"
#include "import/profiles/import_profiles.h"
#include "measured/show.h"
#include "model/base/errors.h"
#include "model/base/launcher.h"
#include "model/input/presets.h"
#include "reports/compare_page.h"
#include "reports/comparison_json.h"
#include "reports/comparison_tables.h"
#include "reports/json.h"
#include "reports/kernel_tables.h"
#include "reports/step_page.h"
#include "reports/sweep_json.h"
#include "reports/sweep_page.h"
#include "reports/sweep_tables.h"
#include "sim/sweep/sweep.h"

namespace py = pybind11;
using namespace stepcast;

namespace {

// A bug of stepcast, with the message that the program prints for exit code 3.
struct Bug : std::logic_error {
    using std::logic_error::logic_error;
};

// Runs `work` without the GIL.
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

// Reports progress to `callable`, unless it is None. Ctrl-C ends the work here.
std::function<void(std::string_view)> teller(const py::object& callable) {
    return [&callable](std::string_view text) {
        const py::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!callable.is_none() && !text.empty()) callable(std::string(text));
    };
}

// An answer, with the lines that the program would print on stderr.
struct Answer {
    std::string json, text;
    std::vector<std::string> said;
};

// The options, with `say` set to store those lines.
Options told_to(Options options, std::vector<std::string>& said) {
    options.say = [&said](const std::string& line) { said.push_back(line); };
    return options;
}

// ---- simulate

struct Simulated : Answer {
    SimulateQuestion question;
};

Simulated run_simulate(const Options& asked) {
    return unlocked([&] {
        Simulated simulated;
        simulated.question = simulate_question(told_to(asked, simulated.said));
        const SimulateAnswer found = answer(simulated.question, false);
        simulated.json = json_of(found);
        simulated.text = text_of(found);
        return simulated;
    });
}

void write_pictured(const Simulated& simulated, const std::string& folder) {
    unlocked([&] {
        write_simulated(folder, {version_text()}, simulated.question,
                        answer(simulated.question, true));
    });
}

// ---- sweep

struct Swept : Answer {
    SweepAnswer answer;
    std::vector<Fact> origin;
};

Swept run_sweep(const Options& asked, const py::object& progress) {
    if (mpi_processes() > 1)
        throw ConfigError(
            "sweep: this Python was started by an MPI launcher; expected mpirun .. stepcast sweep, "
            "or no launcher");
    // saves a tenth of a long search; the only lasting change that a call makes to the process
    keep_freed_memory(1 << 26);
    const auto tell = teller(progress);
    return unlocked([&] {
        Swept swept;
        const Options options = told_to(asked, swept.said);
        const SweepQuestion question = sweep_question(options);
        if (!options.out.empty()) check_files_of_sweep(options);
        swept.answer = sweep(question, {.threads = options.threads,
                                        .out = options.out,
                                        .map = !options.out.empty(),
                                        .progress = tell,
                                        .announce = {}});
        swept.origin = origin_of(question.experiment, {version_text()});
        swept.json = to_json(swept.answer);
        swept.text = sweep_table(swept.answer);
        return swept;
    });
}

// ---- compare

struct Read : Answer {
    std::vector<std::string> inputs;
    Compared compared;
};

Read run_compare(const Options& asked, const py::object& progress) {
    const auto tell = teller(progress);
    return unlocked([&] {
        Read read;
        read.inputs = asked.inputs;
        if (are_profiles(read.inputs))
            throw ConfigError(
                "compare: " + read.inputs.front() +
                " is a profiler's trace; expected tables and runs, or the command line's "
                "stepcast compare, which reads traces");
        read.compared = compare_inputs(told_to(asked, read.said), tell);
        const auto& [comparisons, kernels, summary, steps] = read.compared;
        read.json = to_json(summary, comparisons, kernels);
        read.text = (steps ? comparison_table(comparisons) : "") + kernel_table(kernels);
        return read;
    });
}

void write_compared(const Read& read, const std::string& folder) {
    unlocked([&] {
        write_comparison(folder, read.inputs, read.compared.comparisons, read.compared.kernels,
                         {version_text()});
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
    constexpr std::pair<std::string_view, PresetKind> kinds[] = {
        {"experiment", PresetKind::experiment}, {"workload", PresetKind::workload},
        {"cluster", PresetKind::cluster},       {"framework", PresetKind::framework},
        {"family", PresetKind::family},         {"nameplate", PresetKind::nameplate}};
    for (const auto& [name, which] : kinds)
        if (kind == name) return preset_names(which);
    throw ConfigError("presets: \"" + kind +
                      "\"; expected experiment, workload, cluster, framework, family or nameplate");
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
    for (const auto& [name, member] : {std::pair{"experiment", &Options::experiment},
                                       {"device", &Options::device},
                                       {"cluster", &Options::cluster},
                                       {"framework", &Options::framework},
                                       {"fit", &Options::fit},
                                       {"cross_validate", &Options::cross_validate},
                                       {"out", &Options::out},
                                       {"model", &Options::model},
                                       {"variant", &Options::variant},
                                       {"objective", &Options::objective},
                                       {"tokens", &Options::tokens},
                                       {"training_steps", &Options::training_steps},
                                       {"within", &Options::within},
                                       {"market", &Options::market}})
        add(name, member);
    for (const auto& [name, member] : {std::pair{"inputs", &Options::inputs},
                                       {"frameworks", &Options::frameworks},
                                       {"set", &Options::set},
                                       {"measurements", &Options::measurements},
                                       {"vary", &Options::vary},
                                       {"where", &Options::where},
                                       {"environment", &Options::environment}})
        add(name, member);
    for (const auto& [name, member] : {std::pair{"gpus", &Options::gpus},
                                       {"ranks", &Options::ranks},
                                       {"steps", &Options::steps},
                                       {"top", &Options::top},
                                       {"threads", &Options::threads}})
        add(name, member);
    for (const auto& [name, member] :
         {std::pair{"explain", &Options::explain}, {"pareto", &Options::pareto}})
        add(name, member);
    add("texts", &Options::texts);
}

}  // namespace

PYBIND11_MODULE(_core, m) {
    py::register_exception_translator(translate_errors);
    add_options(m);
    py::class_<Answer>(m, "Answer")
        .def_readonly("json", &Answer::json)
        .def_readonly("text", &Answer::text)
        .def_readonly("said", &Answer::said)
        .def("__deepcopy__",
             [](const py::object& unchanging, const py::object&) { return unchanging; });
    py::class_<Simulated, Answer>(m, "Simulated").def("write", write_pictured);
    py::class_<Swept, Answer>(m, "Swept")
        .def("write", [](const Swept& swept, const std::string& folder) {
            unlocked([&] { write_sweep(folder, swept.answer, swept.origin); });
        });
    py::class_<Read, Answer>(m, "Compared").def("write", write_compared);
    m.def("simulate", run_simulate);
    m.def("sweep", run_sweep);
    m.def("compare", run_compare);
    m.def("calibrate", run_calibrate);
    m.def("show_cluster", [](const std::string& name) {
        return unlocked([&] { return show(preset_path(PresetKind::cluster, name), {}); });
    });
    m.def("presets", presets);
    m.def("version", version_text);
}
