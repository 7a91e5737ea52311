#include <catch2/catch.hpp>

#include "import/tables/case_files.h"
#include "import/tables/recorded.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// A home whose one experiment says which runs it predicts; its steps settle at step 2.
struct RecordedHome {
    TestFolder folder;
    RecordedHome() {
        namespace fs = std::filesystem;
        const auto presets = fs::path(folder.path()) / "home/model/presets";
        fs::create_directories(presets / "experiments");
        fs::create_directories(presets / "clusters");
        fs::copy_file(test_data() + "/home/model/presets/clusters/four.toml",
                      presets / "clusters/four.toml", fs::copy_options::overwrite_existing);
        folder.write("home/model/presets/experiments/small_ddp.toml",
                     "[workload]\nkind = \"mlp\"\nlayers = 2\nhidden = 64\nffn = 128\nseq = 32\n"
                     "[parallelism]\ndp = 4\nmicro_batch = 1\n[cluster]\npreset = \"four\"\n"
                     "[recorded]\nsystem = \"naive, other\"\nmodel = \"small\"\nsteps_from = 2\n"
                     "backward = \"backward,optimizer\"\n");
    }
    [[nodiscard]] std::string home() const { return folder.path() + "/home"; }
};

Sample row(const std::string& phase, int rank, int step, double value,
           const std::string& unit = "s") {
    return {"r", "naive", "small", 0, 4, phase, rank, step, value, unit};
}

}  // namespace

TEST_CASE("a recorded run finds the experiment that names its system and model") {
    const RecordedHome files;
    const TestHome home(files.home());
    const auto known = recorded_experiments();
    REQUIRE(known.size() == 1);
    CHECK(known[0].systems == std::vector<std::string>{"naive", "other"});
    CHECK(experiment_of_recorded("other", "small", known) == "small_ddp");
    CHECK(experiment_of_recorded("x", "small_ddp", known) == "small_ddp");
    CHECK(experiment_of_recorded("x", "a/mine.toml", known) == "a/mine.toml");
    CHECK(
        complaint([&] { experiment_of_recorded("third", "small", known); }) ==
        "no experiment is recorded for system \"third\" and model \"small\"; expected an "
        "experiment's name or file as "
        "model, or a preset whose [recorded] table names both (there are: naive, other of small)");
}

// Steady from step 2: steps 2, 3, 4 with 0.02, 0.04, 0.03 s: median and mean 0.03; the summary of
// all steps does not count.
TEST_CASE(
    "steps of a recorded run count from its first steady step; kernels and phases come along") {
    const RecordedHome files;
    const TestHome home(files.home());
    std::vector<Sample> samples{row("step", -1, 0, 9),
                                row("step", -1, 1, 9),
                                row("step", -1, 2, 0.02),
                                row("step", -1, 3, 0.04),
                                row("step", -1, 4, 0.03),
                                row("step", -1, -1, 0.5),
                                row("forward", -1, -1, 0.01),
                                row("gradient_sync", -1, -1, 0.002),
                                row("gemm1.forward", 2, -1, 0.003),
                                row("overflow", -1, 3, 1, "1")};
    const auto found = comparisons_of_recorded(samples);
    REQUIRE(found.size() == 1);
    const Case& what = found[0].what;
    CHECK(found[0].refused_because.empty());
    CHECK(what.case_id == "r");
    CHECK(what.series == "small_ddp");
    CHECK(what.measured_step == Seconds(0.03));
    CHECK(what.measured_mean->si() == Approx(0.03));
    CHECK(what.measured_forward == Seconds(0.01));
    CHECK(what.recorded_steps == std::vector<Seconds>{Seconds(0.02), Seconds(0.04), Seconds(0.03)});
    CHECK(what.measured_phases == std::vector<MeasuredPhase>{{"gradient_sync", -1, Seconds(0.002)},
                                                             {"gemm1.forward", 2, Seconds(0.003)}});
    CHECK(what.experiment.recorded.backward == "backward,optimizer");
}

// Steps 2 and 4 have 16 tokens (0.02, 0.03: median 0.025), step 3 has 48; steps 0 and 1 are not
// steady.
TEST_CASE("steps with equal inputs are one case of a recorded run") {
    const RecordedHome files;
    const TestHome home(files.home());
    std::vector<Sample> samples;
    const double tokens[] = {48, 16, 16, 48, 16}, times[] = {9, 9, 0.02, 0.04, 0.03};
    for (int step = 0; step < 5; ++step) {
        samples.push_back(row("workload.seq", -1, step, tokens[step], "1"));
        samples.push_back(row("step", -1, step, times[step]));
    }
    const auto found = comparisons_of_recorded(samples);
    REQUIRE(found.size() == 2);
    CHECK(found[0].what.case_id == "r seq 16");
    CHECK(found[0].what.x == 16);
    CHECK(found[0].what.experiment.workload.seq == 16);
    CHECK(found[0].what.measured_step.si() == Approx(0.025));
    CHECK(found[1].what.case_id == "r seq 48");
    CHECK(found[1].what.measured_step == Seconds(0.04));
}

TEST_CASE(
    "a recorded run that cannot be predicted is refused with its reason, and the rest goes on") {
    const RecordedHome files;
    const TestHome home(files.home());
    Sample unknown = row("step", -1, -1, 0.5), wide = unknown, good = unknown;
    unknown.run_id = "u";
    unknown.model = "huge";
    wide.run_id = "w";
    wide.ranks = 2;  // half of its preset's
    const auto found = comparisons_of_recorded({unknown, wide, good});
    REQUIRE(found.size() == 3);
    CHECK(found[0].refused_because.starts_with(
        "run u: no experiment is recorded for system \"naive\" and model \"huge\""));
    CHECK(found[0].what.measured_step == Seconds(0.5));
    CHECK(found[1].refused_because.empty());
    CHECK(rank_count(found[1].what.experiment.cluster) == 2);
    CHECK(found[1].what.experiment.parallelism.dp == 2);
    CHECK(found[2].refused_because.empty());
}
