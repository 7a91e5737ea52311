#include "cli/calibrate.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "calibrate/from_measurements.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/leave_out_blocks.h"
#include "calibrate/left_out_sources.h"
#include "calibrate/scatter.h"
#include "calibrate/step_fit_files.h"
#include "cli/calibrate_device.h"
#include "cli/output_files.h"
#include "cli/verbs.h"
#include "exec/host_machine.h"
#include "measured/nearest.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/whole_files.h"
#include "model/experiment.h"
#include "reports/compare_page.h"
#include "reports/error_plots.h"
#include "reports/forecast_tables.h"
#include "reports/kernel_tables.h"
#include "reports/table.h"

namespace stepcast {
namespace {

constexpr const char *measured_here = "This machine", *recorded = "Recorded measurements";

std::string calibrate_steps(const Options& options, CalibrationRequest request,
                            const Progress& progress) {
    if (!options.fit.empty()) request.target = parse_fit_target(options.fit);
    const std::string text =
        options.cross_validate.empty()
            ? calibrate_few_shot(request, progress)
            : cross_validate(request, parse_block(options.cross_validate), progress);
    progress("");
    return text;
}

// The widths of intervals; few-shot: those of fits to few steps, which take an hour.
bool fits_widths(const Options& options) {
    return options.fit == "scatter" || options.fit == "few-shot";
}

constexpr const char *picture_png = "left_out.png", *picture_svg = "left_out.svg";

bool leaves_sources_out(const Options& options) {
    return options.cross_validate == "source" && options.cluster.empty();
}

// Left-out rows beside those of recipes as shipped.
std::string drawn_left_out(const std::string& folder, std::vector<LeftOutRow> rows,
                           std::vector<ScatterRow> shipped) {
    CasesByKind test;
    for (LeftOutRow& row : rows) test[row.kind].push_back(std::move(row.of));
    std::vector<Comparison> recipes;
    for (ScatterRow& row : shipped)
        if (row.what.circumstances.by == RunBy::recipe)
            recipes.push_back({std::move(row.what), std::move(row.forecast), {}, ""});
    const std::filesystem::path picture = std::filesystem::path(folder) / picture_png;
    plot_left_out(test, recipes, (picture.parent_path() / picture.stem()).string());
    return "picture: " + picture.string() + "\n";
}

std::string with_picture(const Options& options, const Progress& progress) {
    std::vector<ScatterRow> shipped = scatter_rows(options.measurements, progress);
    std::vector<LeftOutRow> rows =
        left_out_rows(shipped, rows_of_unseen(options.measurements, shipped, progress));
    const std::string text = left_out_tables(rows);
    return text + drawn_left_out(options.out, std::move(rows), std::move(shipped));
}

// Without a cluster, every row is predicted as shipped.
std::string calibrate_intervals(const Options& options, const Progress& progress) {
    std::string text;
    if (leaves_sources_out(options) && !options.out.empty())
        text = with_picture(options, progress);
    else if (!options.cross_validate.empty())
        text = cross_validate_scatter(options.measurements, parse_block(options.cross_validate),
                                      progress);
    else if (options.fit == "few-shot")
        text = calibrate_few_shot_widths(options.measurements, options.out, progress);
    else
        text = calibrate_scatter(options.measurements, options.out, current_date(), progress);
    progress("");
    return text;
}

// If --out is a folder, it gets the cluster file and, for tables of kernels, a page of plots.
std::string file_of(const Options& options) {
    if (!options.out.ends_with('/') && !std::filesystem::is_directory(options.out))
        return options.out;
    std::filesystem::create_directories(options.out);
    const std::string name = options.fit != "framework"  ? read_cluster(options.cluster).name
                             : options.framework.empty() ? "framework"
                                                         : read_framework(options.framework).name;
    return (std::filesystem::path(options.out) / (name + ".toml")).string();
}

std::string page_of(const Options& options) {
    const Cluster fitted = read_cluster(options.out);
    KernelComparisons kernels;
    for (const std::string& path : options.measurements)
        if (holds_kernels(path)) add(kernels, read_own_kernels(path, fitted));
    if (kernels.rows.empty()) return "";
    const std::string folder = std::filesystem::path(options.out).parent_path().string();
    write_comparison(folder, options.measurements, {}, kernels, {version_text(), options.command});
    return "page of plots: " + folder + "/report.html\n";
}

std::string left_out_text(const std::vector<BlockLeftOut>& blocks) {
    Table table{"",
                {{"machine", 0, true},
                 {"left out", 0, true},
                 {"kind", 0, true},
                 {"fitted on"},
                 {"rows"},
                 {"median"},
                 {"mean"},
                 {"bias"},
                 {"worst"}},
                {}};
    for (const BlockLeftOut& block : blocks)
        for (const HeldOutError& e : block.errors)
            table.rows.push_back({{block.cluster},
                                  {block.block},
                                  {e.kind},
                                  count_cell(block.fitted_rows),
                                  count_cell(e.samples),
                                  percent_cell(e.median),
                                  percent_cell(e.mape),
                                  signed_percent_cell(e.bias),
                                  signed_percent_cell(e.worst)});
    return text_of(table);
}

std::string parts_left_out(const Options& options, const Progress& progress) {
    const bool folds = options.cross_validate == "fold";
    const std::string table =
        left_out_text(folds ? leave_out_tenths(options.measurements, options.cluster, progress)
                            : leave_out_blocks(options.measurements, options.cluster, progress));
    progress("");
    return (folds ? "10-fold cross-validation: every shape from constants fitted without its fold\n"
                  : "grouped hold-out: every block of sizes from constants fitted without it\n") +
           table;
}

// Sister machines are fitted with the rows of all of them. If one is left out, the fits of its
// sisters have still seen its rows.
std::string sisters_text() {
    std::vector<std::string> related;
    for (const std::string& name : measured_machines())
        if (!sisters_of(name).empty()) related.push_back(name);
    return related.empty()
               ? ""
               : fmt::format(
                     "not unseen: {}, whose rows were fitted for similar devices (the same SMs)\n",
                     joined(related, ", "));
}

// Predicts every device from its datasheet and the constants of the other machines.
std::string cross_validate_kernels(const Options& options, const Progress& progress) {
    if (options.cross_validate == "block" || options.cross_validate == "fold")
        return parts_left_out(options, progress);
    if (options.cross_validate != "device")
        throw ConfigError("--cross-validate " + options.cross_validate +
                          ": of tables of kernels a device, a block of sizes or a fold of the "
                          "shapes can be left out; expected device, block or fold");
    KernelComparisons kernels;
    for (const std::string& path : options.measurements)
        add(kernels, read_transferred_kernels(path));
    if (!options.out.empty())
        write_whole(
            {{options.out, write_transfer_spreads(transfer_spreads(kernels), current_date())}});
    return "every device from its datasheet and the constants of the others\n" + sisters_text() +
           kernel_table(kernels);
}

// Refuses options that the chosen way of calibrating does not use, rather than ignoring them.
void refuse_unread(const Options& o) {
    const bool device = !o.device.empty(), left_out = !o.cross_validate.empty(),
               named = !o.cluster.empty();
    const bool transfer =
        o.cross_validate == "device" && std::ranges::all_of(o.measurements, holds_kernels);
    const std::pair<bool, std::string> rules[] = {
        {device && (!o.framework.empty() || !o.fit.empty() || left_out),
         "--device measures this machine; expected no --framework, --fit or --cross-validate, "
         "which are of recorded steps"},
        {o.device == "host" && named,
         "--device host fits all that a host's file holds; expected no --cluster"},
        {!device && (o.ranks > 0 || o.steps > 0),
         "--ranks and --steps are of --device; expected neither with --measurements"},
        {fits_widths(o) && (named || !o.framework.empty()),
         "--fit " + o.fit +
             " predicts every row as shipped; expected no --cluster and no --framework"},
        {left_out && !named && !o.framework.empty(),
         "--cross-validate without --cluster predicts every row as shipped; expected no "
         "--framework, or --cluster next to it"},
        {transfer && named,
         "--cross-validate device predicts every device from the other machines; expected no "
         "--cluster"},
        {left_out && !transfer && !leaves_sources_out(o) && !o.out.empty(),
         "--cross-validate prints its table and writes nothing, but source without --cluster a "
         "picture; expected no --out"}};
    for (const auto& [unread, what] : rules)
        if (unread) throw ConfigError(std::string("calibrate: ") + what);
}

void check_calibration_files(const Options& options) {
    Paths outputs = named({}, {options.trace});
    if (leaves_sources_out(options))
        add_in(outputs, options.out, {picture_png, picture_svg}, options.measurements);
    else
        outputs.push_back(options.out);
    // written next to the cluster's file
    if (options.fit == "both" || (options.fit.empty() && !options.framework.empty()))
        outputs.push_back(framework_file(options.out));
    check_outputs(outputs, named(options.measurements, {options.cluster, options.framework}));
}

int run_calibrate(const Options& options) {
    print(calibrate(options, show_progress));
    return 0;
}

}  // namespace

void require_device(const std::string& device) {
    if (device != "host" && device != "cuda")
        throw ConfigError("--device: \"" + device + "\" is no device; expected host or cuda");
}

namespace {

bool fits_steps(const Options& options) {
    return !options.fit.empty() || !options.cross_validate.empty() ||
           (!options.framework.empty() && !are_tables(options.measurements));
}

void check_options(const Options& options) {
    if (options.out.empty() && options.cross_validate.empty())
        throw ConfigError("calibrate: expected --out, the file to write");
    if (options.device.empty() == options.measurements.empty())
        throw ConfigError(
            "calibrate: expected --device host or cuda to measure this machine, or --measurements "
            "to fit recorded "
            "files");
    refuse_unread(options);
}

std::string calibrate_device(const Options& options, const Progress& progress) {
    require_device(options.device);
    check_calibration_files(options);
    return options.device == "cuda" ? calibrate_cuda(options, progress)
                                    : calibrate_host(options, progress);
}

}  // namespace

std::string calibrate(const Options& options, const Progress& progress) {
    check_options(options);
    if (!options.device.empty()) return calibrate_device(options, progress);
    if (!options.cross_validate.empty() && std::ranges::all_of(options.measurements, holds_kernels))
        return cross_validate_kernels(options, progress);
    if (leaves_sources_out(options)) check_calibration_files(options);
    if (fits_widths(options) || (options.cluster.empty() && !options.cross_validate.empty()))
        return calibrate_intervals(options, progress);
    if (options.cluster.empty())
        throw ConfigError(
            "calibrate: --measurements needs --cluster, the file or preset to start from");
    Options asked = options;
    if (!options.out.empty()) {
        asked.out = file_of(options);
        check_calibration_files(asked);
    }
    const CalibrationRequest request{.measurements = options.measurements,
                                     .cluster = options.cluster,
                                     .framework = options.framework,
                                     .out = asked.out,
                                     .date = current_date(),
                                     .enough = stop_asked};
    if (fits_steps(options)) return calibrate_steps(options, request, progress);
    const std::string text = calibrate_from_measurements(request, progress);
    return asked.out == options.out ? text : text + page_of(asked);
}

Verb calibrate_verb() {
    const Arguments what{
        {"--device", &Options::device, "host|cuda",
         "measure this machine: its processor or its GPUs", measured_here},
        {"--ranks", &Options::ranks, "COUNT", "ranks to start; one a GPU with --device cuda",
         measured_here},
        {"--steps", &Options::steps, "COUNT", "repetitions of each sweep (11)", measured_here},
        {"--measurements",
         &Options::measurements,
         "FILE.csv",
         "measured steps, kernels or collectives to fit",
         recorded,
         {.many = true}},
        {"--cluster", &Options::cluster, "CLUSTER", "the machine to start from: file or preset",
         recorded},
        {"--framework", &Options::framework, "FRAMEWORK",
         "framework that the steps ran in, to start from: file or preset", recorded},
        {"--fit", &Options::fit, "framework|hardware|both|scatter|few-shot",
         "which constants to fit to measured steps; scatter: widths of intervals; few-shot: "
         "widths after a fit to a few steps",
         recorded},
        {"--cross-validate", &Options::cross_validate,
         "model|ranks|framework|device|source|block|fold",
         "cross-validation: errors of the group left out; device --out FILE: spreads of "
         "machines without measurements; source --out DIR: a picture",
         recorded},
        {"--out", &Options::out, "FILE.toml",
         "the cluster's file, or of --fit framework the framework's", of_output}};
    return {"calibrate", "measure this machine or fit recorded measurements; write a cluster file",
            "stepcast calibrate --device host --out here.toml", what, run_calibrate};
}

}  // namespace stepcast
