// Whatever `import` writes, `simulate` reads, or the import said which key is missing or wrong.

#include <filesystem>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "tests/import/launch/shared_configs.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

struct Count {
    int read = 0, open = 0, refused = 0;
};

// The machine that a user names beside the file: as many ranks as it asks for.
std::vector<Override> machine_for(const Translation& t) {
    std::vector<Override> machine{{"cluster.preset", "dgx-h100"}};
    if (t.find("cluster.nodes")) return machine;
    long ranks = t.ranks_of_split() * std::max(1L, t.count("parallelism.ep", 1));
    if (const auto* dp = t.find("parallelism.dp"))
        ranks = t.ranks_of_split() * std::stol(dp->value);
    if (ranks > 8) ranks = (ranks + 7) / 8 * 8;
    machine.push_back({std::string(ranks_key), std::to_string(ranks)});
    return machine;
}

// "" if `simulate` reads what is written of the file. A key that it asks for may be one that the
// import left open or called wrong.
std::string unread(const std::string& path, Count& count) {
    Translation t;
    std::string text;
    try {
        t = translate(path, {});
        text = experiment_text(t);
    } catch (const ConfigError&) {
        ++count.refused;
        return "";
    }
    try {
        read_experiment({path, text}, machine_for(t));
        ++count.read;
        return "";
    } catch (const ConfigError& error) {
        const std::string what = error.what(), said = lines(t.open) + lines(t.problems);
        const auto key = what.find("workload.") != std::string::npos ? what.find("workload.")
                         : what.find("parallelism.") != std::string::npos
                             ? what.find("parallelism.")
                             : what.size();
        const std::string name = what.substr(key, what.find_first_of(": =", key) - key),
                          last = name.substr(name.rfind('.') + 1);
        const bool no_model = said.find("--model") != std::string::npos &&
                              what.find("workload.") != std::string::npos;
        if (no_model || (!last.empty() && said.find(last) != std::string::npos)) {
            ++count.open;
            return "";
        }
        return what + "\nwhere the import said\n" + said;
    }
}

Count check_folder(const std::string& folder) {
    Count count;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        const auto format = recognise_foreign(entry.path().string());
        if (format == ForeignFormat::none || is_cluster(format)) continue;
        INFO(entry.path().string());
        CHECK(unread(entry.path().string(), count) == "");
    }
    return count;
}

}  // namespace

TEST_CASE("simulate reads what import writes of each fixture") {
    const Count count = check_folder((fs::path(home_folder()) / "tests" / "data").string());
    CAPTURE(count.read, count.open, count.refused);
    CHECK(count.read + count.open >= 6);
}

TEST_CASE("simulate reads what import writes of each published file and of each case") {
    for (const std::string name : {"configs", "cases"}) {
        const fs::path folder = shared_folder(name);
        if (is_absent(folder.string(), "shared/" + name)) return;
        const Count count = check_folder(folder.string());
        CAPTURE(folder.string(), count.read, count.open, count.refused);
        CHECK(count.read + count.open >= 5);
    }
}

// A norm of queries and keys is no operator of latent attention in the forecast, whose latents have
// norms of their own. Relative positions are Transformer-XL's there, not T5's as in Megatron-LM.
// Each line is a script by itself.
TEST_CASE("norms of queries and keys are read where the attention has them") {
    const TestFolder folder;
    const std::string model =
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 6 --hidden-size 768 "
        "--num-attention-heads 12 --seq-length 512 "
        "--max-position-embeddings 512 --micro-batch-size 2 --global-batch-size 16 --vocab-size "
        "30000 --bf16 --qk-layernorm ";
    const auto read = [&](const std::string& flags) {
        const auto path = folder.write("run.sh", model + flags + "\n");
        const auto t = translate(path, {});
        return read_experiment({path, experiment_text(t)},
                               std::vector<Override>{{"cluster.preset", "dgx-h100"}})
            .workload;
    };
    CHECK(read("").qk_norm);
    CHECK_FALSE(read("--multi-latent-attention").qk_norm);
    CHECK_FALSE(read("--multi-latent-attention --q-lora-rank 256 --kv-lora-rank 128").qk_norm);
    // which is named as a problem
    CHECK(read("--position-embedding-type relative").positions == Positions::none);
}

// Flags that are read one by one and do not go together: 6 layers over 4 stages of 2 chunks; 12
// heads over 8 ranks; two experts of one; windows and latents; more experts' ranks than experts.
TEST_CASE("an import names what simulate refuses") {
    const TestFolder folder;
    Count count;
    const std::string model =
        "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 6 --hidden-size 768 "
        "--num-attention-heads 12 --seq-length 512 "
        "--max-position-embeddings 512 --micro-batch-size 2 --global-batch-size 256 --vocab-size "
        "30000 --bf16 ";
    for (const char* flags :
         {"", "--num-experts 4 --moe-router-topk 5",
          "--num-experts 6 --expert-model-parallel-size 4", "--tensor-model-parallel-size 8",
          "--multi-latent-attention --window-size 127,0",
          "--multi-latent-attention --kv-lora-rank 0",
          "--num-query-groups 5 --group-query-attention",
          "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2",
          "--expert-model-parallel-size 4", "--context-parallel-size 32 --seq-length 500",
          "--num-experts 4 --moe-layer-freq 7", "--mtp-num-layers 9",
          "--num-experts 4 --moe-expert-capacity-factor -1",
          "--recompute-granularity full --recompute-method block --recompute-num-layers 9",
          "--num-experts 4 --overlap-moe-expert-parallel-comm --recompute-granularity full",
          "--hidden-dropout 2"}) {
        const auto path = folder.write("run.sh", model + flags + "\n");
        INFO(flags);
        CHECK(unread(path, count) == "");
    }
    CHECK(count.read >= 2);
    CHECK(count.open >= 8);
}
