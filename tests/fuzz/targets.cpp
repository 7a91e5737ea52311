#include "tests/fuzz/targets.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "calibrate/building_blocks.h"
#include "calibrate/replay.h"
#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "import/logs/import.h"
#include "import/logs/line_pattern.h"
#include "import/logs/stream_log.h"
#include "import/machine/machine.h"
#include "import/machine/nccl_topology.h"
#include "import/machine/node_listings.h"
#include "import/profiles/collective_times.h"
#include "import/profiles/import_profiles.h"
#include "import/profiles/nccl_tests.h"
#include "import/profiles/profile_times.h"
#include "import/tables/case_files.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/experiment.h"
#include "model/graph/trace_file.h"
#include "model/input/check_experiment.h"
#include "model/input/hub_config.h"
#include "model/machine/cluster_file.h"
#include "model/records/measurements.h"
#include "model/records/run_folder.h"
#include "model/routing_file.h"
#include "sim/sweep/axes.h"
#include "sim/sweep/constraints.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

// A folder of this process in memory, where there is one, with the bytes as a file.
const fs::path& scratch() {
    static const fs::path folder = [] {
        const fs::path root = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
        const fs::path own = root / ("stepcast-fuzz-" + std::to_string(getpid()));
        fs::create_directories(own);
        return own;
    }();
    return folder;
}
std::string file_of(const std::string& name, const std::string& bytes) {
    const fs::path path = scratch() / name;
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path.string();
}

// What readers begin with. Without the presets they would refuse every input unread, and find
// nothing.
template <class Read>
auto preset(Read read, const char* name) {
    try {
        return read(name);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fuzz: preset %s: %s; expected STEPCAST_HOME to name the sources\n",
                     name, error.what());
        std::abort();
    }
}
Experiment start() {
    static const Experiment experiment =
        preset([](const char* name) { return read_experiment(name); }, "host_moe");
    return experiment;
}

void read_experiment_file(const std::string& bytes) {
    const std::string path = file_of("e.toml", bytes);
    (void)read_unchecked_experiment(path);
    (void)read_experiment(path);
}
void read_cluster_file(const std::string& bytes) { (void)read_cluster(file_of("c.toml", bytes)); }
void read_model_config(const std::string& bytes) {
    (void)read_hub_config(file_of("config.json", bytes));
}
void read_case_table(const std::string& bytes) {
    (void)read_comparisons(file_of("cases.csv", bytes), "");
}
void read_samples(const std::string& bytes) { (void)read_measurements(file_of("m.csv", bytes)); }
void read_blocks(const std::string& bytes) {
    const std::string path = file_of("blocks.csv", bytes);
    (void)kind_of_table(path);
    BuildingBlocks blocks;
    static const Gpu gpu = preset(read_cluster, "dgx-a100").gpu;
    read_building_blocks(path, gpu, blocks);
}
void read_routing_file(const std::string& bytes) {
    const std::string path = file_of("routing.csv", bytes);
    (void)read_routing(path);
}
void read_routing_layer(const std::string& bytes) {
    file_of("layers.csv", bytes);
    (void)read_routing((scratch() / "layers.csv#16/0").string());
}
void read_trace_file(const std::string& bytes) { (void)read_trace(file_of("trace.csv", bytes)); }
void read_log(const std::string& bytes) {
    const std::string path = file_of("a.log", bytes);
    for (const LogFormat format :
         {LogFormat::automatic, LogFormat::moe_steps, LogFormat::moe_phases, LogFormat::opt_prime,
          LogFormat::deepspeed})
        try {
            ImportRequest options;
            options.format = format;
            (void)stream_log(path, options, [](ImportedRun&&, SampleRecord& samples) {
                samples.replay([](const auto&) {});
            });
        } catch (const ConfigError&) {  // the next dialect may take it
        }
}
void read_pattern(const std::string& bytes) {
    const LogPattern pattern = read_log_pattern(file_of("p.toml", bytes));
    const std::string line(4096, 'a');
    std::vector<double> values;
    for (const LinePattern& one : pattern.lines)
        for (const std::string& text :
             {std::string("iteration 12/ 100 | elapsed time per iteration (ms): 1,650.5 |"), line})
            (void)one.match(text, values);
}
void read_run_head(const std::string& bytes) {
    fs::create_directories(scratch() / "run");
    file_of("run/run.toml", bytes);
    (void)read_run((scratch() / "run").string());
}
void read_run_samples(const std::string& bytes) {
    fs::create_directories(scratch() / "samples");
    file_of("samples/run.toml", "format = 1\nexperiment = \"host_moe\"\n");
    file_of("samples/cluster.toml", write_cluster(start().cluster));
    file_of("samples/run.csv", bytes);
    (void)read_run((scratch() / "samples").string());
}
void read_override(const std::string& bytes) {
    Experiment experiment = start();
    set_key(experiment, parse_override(bytes));
    check_experiment(experiment);
}
void read_question(const std::string& bytes) {
    try {
        (void)parse_axis(bytes);
    } catch (const ConfigError&) {  // it may still be a constraint
    }
    (void)parse_constraints(std::vector<std::string>{bytes});
}
void read_names(const std::string& bytes) {
    const std::string plain = plain_text(bytes);
    if (plain_text(plain) != plain) throw std::logic_error("plain_text: what it made is not plain");
}

void read_framework_file(const std::string& bytes) {
    (void)read_framework(file_of("framework.toml", bytes));
}
void read_family_file(const std::string& bytes) {
    const std::string text = "[workload]\nfamily = \"" + file_of("family.toml", bytes) +
                             "\"\nlayers = 2\nhidden = 64\nheads = 4\nseq = 64\n";
    (void)read_unchecked_experiment({(scratch() / "of_family.toml").string(), text}, {});
}
void read_prices(const std::string& bytes) { (void)read_market(file_of("market.toml", bytes)); }

// Of a profiler: all that is made of it without another file.
void use(const Profile& profile) {
    (void)device_times(profile);
    (void)operator_times(profile);
    (void)collective_times({profile});
    (void)replay({profile});
}
void read_kineto_trace(const std::string& bytes) {
    use(read_profiles(file_of("trace.json", bytes)).front());
}
void read_nsight_export(const std::string& bytes) {
    use(read_profiles(file_of("export.sqlite", bytes)).front());
}
void read_benchmark(const std::string& bytes) {
    (void)read_nccl_tests(file_of("all_reduce.log", bytes));
}

// Of another launcher or framework, as each of them; what comes out of it is a legal file of ours.
void read_configuration(const std::string& bytes) {
    for (const ForeignFormat format :
         {ForeignFormat::megatron, ForeignFormat::nemo, ForeignFormat::megatron_bridge,
          ForeignFormat::torchtitan, ForeignFormat::deepspeed}) {
        const std::string path =
            file_of(format == ForeignFormat::megatron ? "launch.sh" : "configuration.yaml", bytes);
        std::string text;
        try {
            TranslateOptions how;
            how.format = format;
            text = experiment_text(translate(path, how));
        } catch (const ConfigError&) {  // the next format may take it
            continue;
        }
        (void)read_unchecked_experiment({path, text}, {});
    }
}
void read_machine(const std::string& bytes) {
    (void)recognise_foreign(file_of("machine.txt", bytes));
    for (const auto& read :
         {read_topology_matrix, read_nccl_topology, read_nvidia_smi, read_lspci}) {
        std::string text;
        try {
            Machine machine;
            read(bytes, "machine.txt", machine);
            text = cluster_of_machine(machine, "fuzzed", "").text;
        } catch (const ConfigError&) {  // the next reader may take it
            continue;
        }
        (void)read_cluster(file_of("fuzzed.toml", text));
    }
}

constexpr std::array targets{FuzzTarget{"experiment", read_experiment_file},
                             FuzzTarget{"cluster", read_cluster_file},
                             FuzzTarget{"model_config", read_model_config},
                             FuzzTarget{"cases", read_case_table},
                             FuzzTarget{"measurements", read_samples},
                             FuzzTarget{"building_blocks", read_blocks},
                             FuzzTarget{"routing", read_routing_file},
                             FuzzTarget{"routing_layer", read_routing_layer},
                             FuzzTarget{"trace", read_trace_file},
                             FuzzTarget{"log", read_log},
                             FuzzTarget{"pattern", read_pattern},
                             FuzzTarget{"run_head", read_run_head},
                             FuzzTarget{"run_samples", read_run_samples},
                             FuzzTarget{"override", read_override},
                             FuzzTarget{"question", read_question},
                             FuzzTarget{"names", read_names},
                             FuzzTarget{"framework", read_framework_file},
                             FuzzTarget{"family", read_family_file},
                             FuzzTarget{"market", read_prices},
                             FuzzTarget{"kineto", read_kineto_trace},
                             FuzzTarget{"nsight", read_nsight_export},
                             FuzzTarget{"nccl_tests", read_benchmark},
                             FuzzTarget{"configuration", read_configuration},
                             FuzzTarget{"machine", read_machine}};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return targets; }

const FuzzTarget* find_fuzz_target(std::string_view name) {
    for (const FuzzTarget& target : targets)
        if (target.name == name) return &target;
    return nullptr;
}

void try_bytes(const FuzzTarget& target, const std::string& bytes) {
    try {
        target.read(bytes);
    } catch (const ConfigError&) {  // the user can fix it
    } catch (const DeviceError&) {
    }
}

}  // namespace stepcast
