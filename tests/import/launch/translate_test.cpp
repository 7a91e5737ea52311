#include <filesystem>

#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "import/launch/translation.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/runtime_rules.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

const std::string own_script = test_data() + "/launch/gpt_arrays.sh";

}  // namespace

// The script of tests/data: 4 nodes by default, 8 GPUs each, tp 2 x pp 4, so dp 4; global batch 32
// / 8 x 16 = 64; 32 layers over 4 stages in chunks of 2 are 4 chunks a stage.
TEST_CASE("a launch script is read: arrays, +=, arithmetic, branches, defaults of its arguments") {
    const auto t = translate(own_script, {});
    CHECK(t.format == "Megatron-LM");
    CHECK(t.framework == "megatron-lm");
    check_values(t, {{"workload.layers", "32"},
                     {"workload.hidden", "4096"},
                     {"workload.ffn", "14336"},
                     {"workload.kv_heads", "8"},
                     {"workload.vocab", "128256"},
                     {"workload.gated", "true"},
                     {"workload.norm", "rmsnorm"},
                     {"workload.positions", "rotary"},
                     {"workload.linear_bias", "false"},
                     {"workload.tied", "false"},
                     {"workload.dtype", "fp8"},
                     {"parallelism.tp", "2"},
                     {"parallelism.pp", "4"},
                     {"parallelism.dp", "4"},
                     {"parallelism.vp", "4"},
                     {"parallelism.global_batch", "64"},
                     {"parallelism.zero", "1"},
                     {"parallelism.sequence_parallel", "true"},
                     {"cluster.nodes", "4"},
                     {"cluster.gpus_per_node", "8"}});
    CHECK(t.find("workload.hidden")->at == own_script + ":25");
    CHECK_THAT(lines(t.open), Contains("WANDB_API_KEY"));
    CHECK_FALSE(std::filesystem::exists("HACKED"));
}

TEST_CASE("variables of a script are settable, and what then cannot run is said") {
    TranslateOptions options;
    options.environment = {{"SLURM_NNODES", "3"}};
    const auto t = translate(own_script, options);
    CHECK(value(t, "cluster.nodes") == "3");
    CHECK(value(t, "parallelism.dp") == "3");
    options.environment = {{"SLURM_NNODES", "1"}, {"TP", "9"}};  // the script sets TP itself
    CHECK(value(translate(own_script, options), "parallelism.dp") == "1");
    const TestFolder folder;
    const auto large =
        folder.write("large.sh",
                     "torchrun --nproc_per_node 8 train.py --num-layers 96 --hidden-size 12288 "
                     "--num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 "
                     "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --fp16 "
                     "--micro-batch-size 1 --global-batch-size 1536 "
                     "--step-batch-size-schedule \"0:16 300B:1536\"\n");
    const auto gpt = translate(large, {});
    check_values(gpt, {{"workload.ffn", "49152"},
                       {"workload.dropout", "0.1"},
                       {"workload.dtype", "fp16"},
                       {"workload.tied", "true"},
                       {"parallelism.global_batch", "1536"},
                       {"parallelism.zero", "0"},
                       {"workload.linear_bias", "true"},
                       {"workload.positions", "learned"}});
    CHECK_THAT(lines(gpt.problems),
               Contains("8 ranks cannot run tp 8 x pp 16") && Contains("a multiple of 128"));
    CHECK_THAT(lines(gpt.problems), Contains("exclude each other"));
}

TEST_CASE("launchers in the forms of Megatron's relatives") {
    const auto file = [](const char* name) { return test_data() + "/launch/" + name; };
    // bf16, stage and micro-batch stand in the here-document, with the script's variables in it.
    const auto deepspeed = translate(file("deepspeed_document.sh"), {});
    CHECK(deepspeed.framework == "megatron-deepspeed");
    check_values(deepspeed, {{"workload.dtype", "bf16"},
                             {"parallelism.zero", "1"},
                             {"workload.kv_heads", "4"},
                             {"workload.norm", "rmsnorm"},
                             {"workload.positions", "rotary"},
                             {"parallelism.dp", "1"},
                             {"parallelism.recompute", "none"}});
    // Sizes by name, a beginning of a flag, what the caller gives as $3 and $4.
    TranslateOptions positional;
    positional.environment = {{"3", "1"}, {"4", "128"}};
    const auto named = translate(file("sizes_by_name.sh"), positional);
    check_values(named, {{"workload.layers", "32"},
                         {"workload.kv_heads", "8"},
                         {"parallelism.tp", "4"},
                         {"parallelism.pp", "2"},
                         {"parallelism.vp", ""},
                         {"parallelism.dp", "2"},
                         {"parallelism.micro_batch", "1"},
                         {"parallelism.global_batch", "128"},
                         {"parallelism.recompute", "selective"},
                         {"parallelism.sequence_parallel", "true"},
                         {"workload.dtype", "bf16"}});
    // Dotted overrides are Megatron-Bridge's.
    TranslateOptions model;
    model.model = "llama3-70b";
    const auto bridge = translate(file("overrides.sh"), model);
    CHECK(bridge.framework == "megatron-bridge");
    check_values(bridge, {{"parallelism.tp", "4"},
                          {"parallelism.pp", "4"},
                          {"parallelism.vp", "5"},
                          {"parallelism.cp", "2"},
                          {"parallelism.dp", "2"},
                          {"parallelism.global_batch", "128"},
                          {"runtime.exchanges.tensor", "always"},
                          {"cluster.nodes", "8"}});
    // A run prints every argument and its world.
    const auto dump = translate(file("arguments.log"), {});
    check_values(dump, {{"workload.layers", "64"},
                        {"workload.vocab", "152064"},
                        {"workload.kv_heads", "8"},
                        {"workload.moe.top_k", ""},
                        {"workload.qkv_bias", "true"},
                        {"workload.linear_bias", "false"},
                        {"workload.tied", "false"},
                        {"parallelism.vp", "4"},
                        {"parallelism.dp", "4"},
                        {"parallelism.recompute", "selective"},
                        {"runtime.attention", ""}});
    CHECK(std::ranges::find(dump.defaulted, "runtime.attention = flash, where the device has it") !=
          dump.defaulted.end());
    CHECK(dump.find("workload.hidden")->at == file("arguments.log") + ":20");
    const auto tables = translate(file("tables.yaml"), {});  // 1024 x 4 x 2 / 3 in multiples of 64
    check_values(tables, {{"workload.layers", "24"},
                          {"workload.hidden", "1024"},
                          {"workload.gated", "true"},
                          {"workload.ffn", "2688"},
                          {"parallelism.tp", "2"},
                          {"parallelism.zero", "1"},
                          {"workload.dtype", "bf16"},
                          {"workload.linear_bias", "false"}});
}

// FlashAttention begins at compute capability 80, so a script that names no kernel has plain
// attention on a V100. One that names it gets it, and the forecast's notes say that there is none.
TEST_CASE("a script's attention is the device's unless it names a kernel") {
    const TestFolder folder;
    const auto attention = [&](const std::string& flags, const std::string& machine) {
        const std::string script =
            folder.write("t.sh",
                         "torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 4 --hidden-size "
                         "512 --num-attention-heads 8 "
                         "--seq-length 256 --max-position-embeddings 256 --micro-batch-size 2 "
                         "--global-batch-size 2 "
                         "--vocab-size 32000 --fp16" +
                             flags + "\n");
        const std::vector<Override> overrides{{"cluster.preset", machine},
                                              {std::string(ranks_key), "1"}};
        return read_experiment({script, experiment_text(translate(script, {}))}, overrides)
            .runtime.attention;
    };
    CHECK(attention("", "dgx-v100") == AttentionKind::plain);
    CHECK(attention("", "V100 PCIe") == AttentionKind::plain);
    CHECK(attention("", "dgx-a100") == AttentionKind::flash);
    CHECK(attention("", "MI300X") == AttentionKind::flash);  // other makers have their own kernels
    CHECK(attention(" --attention-backend flash", "dgx-v100") == AttentionKind::flash);
    CHECK(attention(" --attention-backend unfused", "dgx-a100") == AttentionKind::plain);
}

// Slurm's own variables follow from its directives, a commented one counts for nothing, "-N" is
// "--nodes".
TEST_CASE("a script's nodes: from Slurm's directives, and not told where nobody says them") {
    const TestFolder folder;
    const std::string flags =
        " --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 64 "
        "--max-position-embeddings 64 "
        "--micro-batch-size 1 --global-batch-size 64 --fp16 --vocab-size 1000\n";
    const auto nodes = [&](const std::string& text) {
        const auto t = translate(folder.write("job.sh", text), {});
        return std::pair(t.count("cluster.nodes", 0), t.count("cluster.gpus_per_node", 0));
    };
    CHECK(nodes("#SBATCH --nodes=48\nG=8\ntorchrun --nproc_per_node $G --nnodes $SLURM_NNODES "
                "train.py" +
                flags) == std::pair(48L, 8L));
    CHECK(nodes("#SBATCH -N 16\n##SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun -l python "
                "train.py" +
                flags) == std::pair(16L, 4L));
    CHECK(nodes("#SBATCH --nodes 4\n#SBATCH --ntasks 32\nsrun python train.py" + flags) ==
          std::pair(4L, 8L));
    CHECK(nodes("#SBATCH --ntasks-per-node=4\nsrun python train.py" + flags) == std::pair(0L, 0L));
    CHECK(nodes("torchrun --nproc_per_node 8 --nnodes $NODES train.py" + flags) ==
          std::pair(0L, 0L));
    CHECK(nodes("torchrun --nproc_per_node 8 train.py" + flags) == std::pair(1L, 8L));
    // Only --bf16 makes Megatron accumulate gradients in fp32.
    CHECK(translate(folder.write("fp16.sh", "torchrun train.py" + flags), {})
              .find("runtime.gradients.type")
              ->value == "fp16");
}

// 50,257 at tp 8: 50 multiples of 128 x 8. A divisor of 1 leaves multiples of tp.
TEST_CASE(
    "Megatron's vocabulary is padded to a multiple of 128 rows a tensor-parallel rank, or of those "
    "that it is told") {
    const TestFolder folder;
    const auto vocab = [&](const std::string& more) {
        return translate(folder.write("job.sh",
                                      "torchrun --nproc_per_node 8 train.py --num-layers 4 "
                                      "--hidden-size 512 --num-attention-heads 8 --bf16 "
                                      "--seq-length 64 --max-position-embeddings 64 "
                                      "--micro-batch-size 1 --global-batch-size 64 "
                                      "--vocab-size 50257 " +
                                          more + "\n"),
                         {})
            .count("workload.vocab", 0);
    };
    CHECK(vocab("") == 50304);
    CHECK(vocab("--tensor-model-parallel-size 8") == 51200);
    CHECK(vocab("--tensor-model-parallel-size 8 --make-vocab-size-divisible-by 1") == 50264);
    CHECK(vocab("--padded-vocab-size 50400") == 50400);
}

// What an editor of another system makes of a file: line ends, a byte order mark, two bytes a
// character.
TEST_CASE("a script reads alike whatever system wrote it") {
    const TestFolder folder;
    const std::string text =
        "#!/bin/bash\nARGS=(\n  --num-layers 4 # four\n  --hidden-size 512\n)\nOPTS=\"--bf16 \\\n "
        "--num-attention-heads 8\"\n"
        "torchrun --nproc_per_node 8 train.py ${ARGS[@]} $OPTS --seq-length 64 "
        "--max-position-embeddings 64 "
        "--micro-batch-size 1 --global-batch-size 64 --vocab-size 1000\n";
    std::string windows, wide = "\xff\xfe";
    for (const char c : text) {
        windows += c == '\n' ? "\r\n" : std::string(1, c);
        wide += {c, '\0'};
    }
    const auto plain = experiment_text(translate(folder.write("a.sh", text), {}));
    for (const std::string& other : {windows, "\xef\xbb\xbf" + text, wide})
        CHECK(experiment_text(translate(folder.write("a.sh", other), {})) == plain);
}

// $DEGREE is the caller's: the flag is without a value.
TEST_CASE("a value that is refused names the variables that nobody set") {
    const TestFolder folder;
    const auto path = folder.write("run.sh",
                                   "torchrun --nproc_per_node 8 pretrain_gpt.py "
                                   "--tensor-model-parallel-size $DEGREE --num-layers 4\n");
    CHECK_THAT(complaint([&] { translate(path, {}); }),
               Contains("tensor_model_parallel_size: found no value") &&
                   Contains("not set in the script: DEGREE (") && Contains("set it with --env"));
}

TEST_CASE("a launch whose expert exchanges hide behind another micro-batch says so") {
    const TestFolder folder;
    const std::string launch =
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
        "--num-attention-heads 4 --seq-length 16 "
        "--micro-batch-size 1 --global-batch-size 16 --num-experts 8 --bf16";
    const auto by_turns =
        translate(folder.write("turns.sh", launch + " --overlap-moe-expert-parallel-comm\n"), {});
    REQUIRE(by_turns.find("parallelism.overlap_experts"));
    CHECK(by_turns.find("parallelism.overlap_experts")->value == "true");
    CHECK_FALSE(
        translate(folder.write("alone.sh", launch + "\n"), {}).find("parallelism.overlap_experts"));
}

// Keys of torchtitan before v0.2, and DeepSpeed's JSON with places that a template fills.
TEST_CASE("old keys, templates and classes of models are not passed over") {
    const TestFolder folder;
    const auto old = translate(
        folder.write("old.toml",
                     "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = "
                     "1\nseq_len = 8192\n"
                     "data_parallel_shard_degree = 4\ntensor_parallel_degree = 2\n[experimental]\n"
                     "context_parallel_degree = 2\npipeline_parallel_degree = "
                     "2\n[float8]\nenable_float8_linear = true\nrecipe_name = \"rowwise\"\n"),
        {});
    CHECK(old.count("parallelism.tp", 0) == 2);
    CHECK(old.count("parallelism.cp", 0) == 2);
    CHECK(old.count("parallelism.pp", 0) == 2);
    CHECK(old.count("parallelism.dp", 0) == 4);
    CHECK(old.find("workload.dtype")->value == "fp8");
    CHECK(old.find("runtime.row_scales")->value == "true");
    CHECK(old.find("parallelism.recompute")->value == "full");  // every second layer, its default
    const auto json =
        translate(folder.write("ds.json",
                               "{\"train_batch_size\": \"{{ batch }}\", \"zero_optimization\": "
                               "{\"stage\": 2}, \"bf16\": {\"enabled\": true}}"),
                  {});
    CHECK_FALSE(json.find("parallelism.global_batch"));
    CHECK(std::ranges::any_of(json.open, [](const std::string& line) {
        return line.find("filled in by a template") != std::string::npos;
    }));
    const auto bridge = translate(
        folder.write("bridge.yaml",
                     "model:\n  _target_: megatron.bridge.models.llama.Llama3ModelProvider8B\n  "
                     "num_layers: 4\n  hidden_size: 512\n"
                     "  ffn_hidden_size: 2048\n  num_attention_heads: 8\n  seq_length: 64\n  "
                     "vocab_size: 1000\ntrain:\n  global_batch_size: 8\n  micro_batch_size: 1\n"),
        {});
    CHECK(bridge.find("workload.gated")->value == "true");
    CHECK(bridge.find("workload.norm")->value == "rmsnorm");
    CHECK(bridge.find("workload.tied")->value == "false");
    CHECK(bridge.find("workload.dropout")->value == "0");
}

// 61 layers over pp 4 x vp 2: 8 chunks. "Et*3|(tt|)*6t.." in Megatron's letters; 62 = 60 +
// embedding + loss over 2 stages. 8192 x 7 / 2; the sequence stands a table up.
TEST_CASE("templates of NeMo inside each other, and names of tables above") {
    const TestFolder folder;
    const auto t =
        translate(folder.write("nemo.yaml",
                               "trainer:\n  num_nodes: 1\n  devices: 8\nmodel:\n  mcore_gpt: "
                               "true\n  micro_batch_size: 1\n  global_batch_size: 8\n"
                               "  num_layers: 4\n  hidden_size: 8192\n  ffn_hidden_size: "
                               "${divide_ceil:${multiply:${.hidden_size}, 7}, 2}\n"
                               "  num_attention_heads: 64\n  encoder_seq_length: "
                               "${.data.seq_length}\n  max_position_embeddings: 4096\n"
                               "  data:\n    seq_length: ${..max_position_embeddings}\n"),
                  {});
    check_values(t, {{"workload.ffn", "28672"}, {"workload.seq", "4096"}});
    // Names that name each other grow 10^9 times; numbers that none of 64 bits holds stay as they
    // stand.
    std::string names;
    for (int i = 0; i < 9; ++i)
        names += fmt::format("  n{}: {}\n", i,
                             fmt::join(std::vector(10, fmt::format("${{model.n{}}}", i + 1)), ""));
    const auto refused = [&](const std::string& layers) {
        return complaint([&] {
            translate(
                folder.write("many.yaml",
                             "trainer:\n  devices: 8\nmodel:\n  mcore_gpt: true\n  num_layers: " +
                                 layers + "\n" + names + "  n9: " + std::string(900, 'x') + "\n"),
                {});
        });
    };
    CHECK_THAT(refused("${model.n0}"), Contains("num_layers: found \"${model.n"));
    CHECK_THAT(refused("${multiply:4294967296,4294967296}"),
               Contains("num_layers: found \"${multiply:4294967296,4294967296}\""));
    CHECK_THAT(refused("${divide:-9223372036854775808,-1}"),
               Contains("num_layers: found \"${divide:-9223372036854775808,-1}\""));
}

TEST_CASE("layouts of a pipeline, and layers that count the ends") {
    const TestFolder folder;
    const auto with = [&](const std::string& flags) {
        return translate(folder.write("a.sh",
                                      "torchrun --nproc_per_node 8 p.py --hidden-size 64 "
                                      "--num-attention-heads 4 --seq-length 8 "
                                      "--max-position-embeddings 8 --micro-batch-size 1 --bf16 " +
                                          flags + "\n"),
                         {});
    };
    const auto layout = with(
        "--num-layers 61 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "
        "\"Et*7|(t*8|)*6t*6mL\"");
    CHECK(value(layout, "parallelism.vp") == "2");
    CHECK(value(layout, "parallelism.stage_layers") == "[7, 8, 8, 8, 8, 8, 8, 6]");
    CHECK_THAT(complaint([&] { with("--num-layers 4 --pipeline-model-parallel-layout \"(t|t\""); }),
               Contains("closing bracket"));
    CHECK_THAT(
        complaint([&] {
            with("--num-layers 4 --pipeline-model-parallel-layout \"(((t*9999)*9999)*9999)\"");
        }),
        Contains("20000 letters"));
    for (const std::string endless : {"()*9223372036854775807", "(tttt)*4611686018427387904"})
        CHECK_THAT(complaint([&] {
                       with("--num-layers 4 --pipeline-model-parallel-layout \"" + endless + "\"");
                   }),
                   Contains("20000 letters"));
    const auto ends = with(
        "--num-layers 62 --pipeline-model-parallel-size 4 "
        "--account-for-embedding-in-pipeline-split "
        "--account-for-loss-in-pipeline-split");
    CHECK(value(ends, "parallelism.stage_layers") == "[15, 16, 16, 15]");
    CHECK(value(with("--num-layers 62 --pipeline-model-parallel-size 4 "
                     "--decoder-first-pipeline-num-layers 14"),
                "parallelism.stage_layers") == "[14, 16, 16, 16]");
    CHECK_THAT(complaint([&] { with("--num-layers 4 --pipeline-model-parallel-layout \"t*|t\""); }),
               Contains("a number behind each *"));
}

// 28 layers: 6 + 8 + 8 + 6, each in two chunks that a stage holds four chunks apart. 30 and the
// ends are 32, 4 a chunk of 8, the ends' own a layer less.
TEST_CASE("uneven stages in chunks") {
    const TestFolder folder;
    const auto with = [&](const std::string& flags) {
        return translate(folder.write("a.sh",
                                      "torchrun --nproc_per_node 8 p.py --hidden-size 64 "
                                      "--num-attention-heads 4 --seq-length 8 "
                                      "--max-position-embeddings 8 --micro-batch-size 1 --bf16 "
                                      "--pipeline-model-parallel-size 4 " +
                                          flags + "\n"),
                         {});
    };
    const std::string ends =
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split ";
    const auto six = with(
        "--num-layers 28 --num-virtual-stages-per-pipeline-rank 2 "
        "--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 6");
    CHECK(value(six, "parallelism.stage_layers") == "[3, 4, 4, 3, 3, 4, 4, 3]");
    for (const char* chunks : {"--num-virtual-stages-per-pipeline-rank 2",
                               "--num-layers-per-virtual-pipeline-stage 4"}) {
        const auto counted = with("--num-layers 30 " + ends + chunks);
        CHECK(value(counted, "parallelism.vp") == "2");
        CHECK(value(counted, "parallelism.stage_layers") == "[3, 4, 4, 4, 4, 4, 4, 3]");
    }
    const auto odd = with(
        "--num-layers 30 --num-virtual-stages-per-pipeline-rank 2 "
        "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7");
    CHECK_THAT(lines(odd.problems), Contains("decoder_first_pipeline_num_layers (") &&
                                        Contains("do not divide over 4 stages of 2 chunks"));
    CHECK(value(odd, "parallelism.stage_layers").empty());
}

TEST_CASE("a translated file reads as an experiment") {
    const auto t = translate(own_script, {});
    const auto e = read_experiment({own_script, experiment_text(t)},
                                   std::vector<Override>{{"cluster.preset", "dgx-h100"}});
    CHECK(e.parallelism.dp == 4);
    CHECK(e.cluster.nodes == 4);
    CHECK(e.name == "gpt_arrays");
}

// The JSON has one line; what is wrong stands in a line of what was made of it, and the experiment
// is named after the JSON alone.
TEST_CASE("a message about a translation says that its lines are not the file's") {
    const TestFolder folder;
    for (const char* name : {"ds.json", "ds", "ds.v2.json"}) {
        const auto path = folder.write(
            name,
            R"({"train_micro_batch_size_per_gpu": 8, "train_batch_size": 63, "bf16": {"enabled": true}})");
        TranslateOptions how;
        how.format = ForeignFormat::deepspeed;
        how.model = "llama3-8b";
        const auto text = experiment_text(translate(path, how));
        const std::vector<Override> overrides{{"cluster.preset", "dgx-h100"},
                                              {std::string(ranks_key), "8"},
                                              {"workload.seq", "4096"}};
        const auto said = complaint(
            [&] {
                read_experiment({path + of_translation, text}, overrides);
            },
            folder.path());
        CHECK_THAT(said, Catch::StartsWith(std::string(name) + ", translated:") &&
                             Contains(": parallelism.global_batch: 63 is no multiple"));
        auto fits = overrides;
        fits.push_back({"parallelism.global_batch", "64"});
        CHECK(read_experiment({path + of_translation, text}, fits).name ==
              std::filesystem::path(name).stem());
    }
}

// torchtitan: global batch = local batch x replicas, in micro-batches of one with a pipeline. 256
// GPUs / (tp 8 x pp 4) = 8 replicas: 8 x 8 = 64 sequences; with cp 2 there are 4 replicas, 32
// sequences. 8 replicas without a pipeline are 2 of 4 shards, which cp 2 doubles. With a pipeline
// weights stay gathered, which is modelled with shards over all 8 alone.
TEST_CASE("a batch that is stated for each replica is multiplied by those that fill the machine") {
    const TestFolder folder;
    const auto file = [&](const std::string& cp, const std::string& rest,
                          const std::string& shard = "data_parallel_shard_degree = -1") {
        return folder.write("t.toml",
                            "[model]\nname = \"llama3\"\nflavor = "
                            "\"70B\"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n" +
                                rest + "[parallelism]\ndata_parallel_replicate_degree = 2\n" +
                                shard +
                                "\ntensor_parallel_degree = 8\n"
                                "pipeline_parallel_degree = 4\npipeline_parallel_schedule = "
                                "\"Interleaved1F1B\"\ncontext_parallel_degree = " +
                                cp + "\n");
    };
    TranslateOptions machine;
    machine.replicas = 8;
    const auto titan = translate(file("1", ""), machine);
    check_values(titan, {{"parallelism.global_batch", "64"},
                         {"parallelism.micro_batch", "1"},
                         {"parallelism.shard", ""},
                         {"parallelism.zero", "2"},
                         {"parallelism.dp", ""}});
    CHECK(titan.open.empty());
    CHECK_THAT(lines(titan.problems),
               Contains("2 replicas of shards") && Contains("over all replicas only"));
    CHECK(value(translate(file("1", "", "data_parallel_shard_degree = 4"), {}), "parallelism.shard")
              .empty());
    check_values(translate(file("2", "", "fsdp_reshard_after_forward = \"always\""), machine),
                 {{"parallelism.zero", "3"}, {"parallelism.shard", "8"}});
    CHECK(value(translate(file("1", "global_batch_size = 128\n"), machine),
                "parallelism.global_batch") == "128");
    // Stated degrees of 8 replicas on a machine that holds two: those, with their batch, and a
    // word.
    const std::string stated = "data_parallel_shard_degree = 4";
    machine.replicas = 8;
    check_values(translate(file("1", "", stated), machine),
                 {{"parallelism.dp", "8"}, {"parallelism.global_batch", "64"}});
    machine.replicas = 2;
    const auto fewer = translate(file("1", "", stated), machine);
    check_values(fewer, {{"parallelism.dp", ""}, {"parallelism.global_batch", "16"}});
    // Degrees without shards stay so.
    machine.replicas = 4;
    check_values(translate(file("1", "", "data_parallel_shard_degree = 1"), machine),
                 {{"parallelism.zero", "0"}, {"parallelism.global_batch", "32"}});
    CHECK_THAT(lines(fewer.problems), Contains("8 data-parallel replicas by its degrees (") &&
                                          Contains("but 2 on as many GPUs as asked"));
    machine.replicas = 4;
    check_values(translate(file("2", ""), machine), {{"parallelism.global_batch", "32"}});
    const auto open = translate(file("1", ""), {});
    CHECK_FALSE(open.find("parallelism.global_batch"));
    CHECK_THAT(lines(open.open), Contains("how many GPUs: a multiple of 32") &&
                                     Contains("set it with --set global_batch"));
    CHECK_THAT(lines(translate(file("1", "", "fsdp_reshard_after_forward = \"always\""), {}).open),
               Contains("use --set shard"));
    // DeepSpeed: 2 sequences x 4 pieces x 16 replicas.
    const auto json = folder.write(
        "ds.json",
        R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1}})");
    machine.replicas = 16;
    CHECK(value(translate(json, machine), "parallelism.global_batch") == "128");
    CHECK_FALSE(translate(json, {}).find("parallelism.global_batch"));
}

// MiCS keeps all states over 8 ranks, hpZ over all of them.
// 33 layers do not divide over 2 stages.
TEST_CASE("words and splits of a launch that the framework would refuse are problems") {
    const TestFolder folder;
    const auto with = [&](const std::string& flags) {
        return translate(
            folder.write(
                "run.sh",
                "torchrun pretrain_gpt.py --num-layers 32 --hidden-size 64 --num-attention-heads 8 "
                "--seq-length 128 "
                "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1000 --bf16 " +
                    flags + "\n"),
            {});
    };
    CHECK(with("--normalization RMSNorm --position-embedding-type rope "
               "--pipeline-model-parallel-size 2")
              .problems.empty());
    CHECK_THAT(lines(with("--normalization Foo").problems),
               Contains("\"Foo\" is not known; taken as layernorm"));
    CHECK_THAT(lines(with("--position-embedding-type spiral").problems),
               Contains("\"spiral\" is not known; taken as none"));
    CHECK_THAT(lines(with("--num-layers 33 --pipeline-model-parallel-size 2").problems),
               Contains("33 layers do not divide over 2 stages of 1 chunks"));
    CHECK(value(with("--qk-layernorm"), "workload.qk_norm") == "true");
}

TEST_CASE("DeepSpeed keeps gradients in the type that it accumulates in") {
    const TestFolder folder;
    const auto with = [&](const std::string& text) {
        return translate(
            folder.write("ds.json", "{\"train_micro_batch_size_per_gpu\": 1, " + text + "}"), {});
    };
    const std::string bf16 = "\"bf16\": {\"enabled\": true}, ",
                      sent = "\"communication_data_type\": \"bf16\"";
    CHECK(value(with(bf16 + sent), "runtime.gradients.type") == "bf16");
    const auto both = with(bf16 + sent + ", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}");
    CHECK(value(both, "runtime.gradients.type") == "fp32");
    CHECK_THAT(lines(both.problems),
               Contains("gradients are kept in fp32; the forecast also exchanges them so"));
    CHECK_THAT(lines(with(bf16 + "\"fp16\": {\"enabled\": true}").problems),
               Contains("bf16.enabled as well"));
}

TEST_CASE("hpZ is ZeRO-3 with a note, MiCS has shards") {
    const TestFolder folder;
    const auto with = [&](const std::string& field) {
        return translate(
            folder.write(
                "ds.json",
                "{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": {\"stage\": 3, \"" +
                    field + "\": 8}}"),
            {});
    };
    const auto hpz = with("zero_hpz_partition_size");
    check_values(hpz, {{"parallelism.zero", "3"}, {"parallelism.shard", ""}});
    CHECK_THAT(lines(hpz.problems), Contains("zero_hpz_partition_size") &&
                                        Contains("read as plain ZeRO-3; the second copy of the "
                                                 "weights over 8 ranks is not in the memory"));
    CHECK(value(with("mics_shard_size"), "parallelism.shard") == "8");
    CHECK(with("mics_shard_size").problems.empty());
}

// As many copies as replicas shard nothing: 16 GPUs hold 2 copies over 8 ranks, or 16 whole ones;
// MiCS over one rank alike.
TEST_CASE("copies of one rank each are no shards") {
    const TestFolder folder;
    const auto with = [&](const std::string& copies) {
        return translate(folder.write("fsdp.sh",
                                      "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py "
                                      "--num-layers 4 --hidden-size 512 --num-attention-heads 8"
                                      " --seq-length 64 --micro-batch-size 1 --global-batch-size "
                                      "16 --use-megatron-fsdp --data-parallel-sharding-strategy"
                                      " optim_grads_params --num-distributed-optimizer-instances " +
                                          copies),
                         {});
    };
    check_values(with("2"), {{"parallelism.zero", "3"}, {"parallelism.shard", "8"}});
    check_values(with("16"), {{"parallelism.zero", "0"}, {"parallelism.shard", ""}});
    const auto mics = folder.write(
        "ds.json",
        R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "mics_shard_size": 1}})");
    check_values(translate(mics, {}), {{"parallelism.zero", "0"}, {"parallelism.shard", ""}});
}

// NeMo's adapter_dim is 32 by default; its adapters are next to queries, keys and values unless
// target_modules says another place.
TEST_CASE("LoRA of NeMo trains adapters, other schemes are refused by name") {
    const TestFolder folder;
    const auto with = [&](const std::string& peft) {
        return translate(
            folder.write("tune.yaml",
                         "trainer:\n  num_nodes: 1\n  devices: 8\nmodel:\n  mcore_gpt: true\n  "
                         "micro_batch_size: 1\n  global_batch_size: 8\n"
                         "  num_layers: 4\n  hidden_size: 512\n  num_attention_heads: 8\n  "
                         "encoder_seq_length: 64\n" +
                             peft),
            {});
    };
    CHECK(value(with(""), "workload.adapter_rank").empty());
    CHECK(value(with("  peft:\n    peft_scheme: null\n    lora_tuning:\n      adapter_dim: 16\n"),
                "workload.adapter_rank")
              .empty());
    const auto narrow = with(
        "  peft:\n    peft_scheme: lora\n    lora_tuning:\n      adapter_dim: 16\n      "
        "target_modules: [attention_qkv, attention_dense]\n");
    CHECK(value(narrow, "workload.adapter_rank") == "16");
    CHECK(narrow.problems.empty());
    CHECK_THAT(lines(narrow.ignored), !Contains("peft"));
    const auto usual = with("  peft:\n    peft_scheme: \"lora\"\n");
    CHECK(value(usual, "workload.adapter_rank") == "32");
    CHECK(value(usual, "workload.adapter_modules") == R"(["query", "key", "value"])");
    CHECK(usual.problems.empty());
    const auto all =
        with("  peft:\n    peft_scheme: lora\n    lora_tuning:\n      target_modules: [all]\n");
    CHECK(value(all, "workload.adapter_on") == "linear");
    CHECK(all.problems.empty());
    CHECK_THAT(complaint([&] { with("  peft:\n    peft_scheme: ptuning\n"); }, folder.path()),
               Contains("tune.yaml:13: peft.peft_scheme: found \"ptuning\"; expected lora or null: "
                        "other schemes are not modelled"));
}

TEST_CASE("hostile text is bounded and refused with its place") {
    const TestFolder folder;
    const auto refusal = [&](const std::string& name, const std::string& text) {
        const auto path = folder.write(name, text);
        TranslateOptions options;
        if (recognise_foreign(path) == ForeignFormat::none)
            options.format = ForeignFormat::megatron;
        return complaint([&] { translate(path, options); }, folder.path());
    };
    CHECK_THAT(refusal("open.sh", "torchrun train.py --num-layers \"3\n"),
               Contains("open.sh:1: a \" is not closed"));
    CHECK_THAT(refusal("none.sh", "#!/bin/sh\necho --num-layers 3\n"),
               Contains("launches no training"));
    CHECK_THAT(refusal("torn.json", "{\"train_batch_size\": 8, \"zero_optimization\": {"),
               Contains("torn.json:1:"));
    CHECK_THAT(refusal("deep.json", "{\"train_batch_size\": " + std::string(5000, '[')),
               Contains("deep.json"));
    std::string bomb = "trainer:\n  devices: 8\n  a: &a [x, x, x, x, x, x, x, x, x]\nmodel:\n";
    for (int i = 0; i < 12; ++i)
        bomb += "  b" + std::to_string(i) + ": &b" + std::to_string(i) + " {p: *" +
                (i ? "b" + std::to_string(i - 1) : "a") + ", q: *" +
                (i ? "b" + std::to_string(i - 1) : "a") + ", r: *" +
                (i ? "b" + std::to_string(i - 1) : "a") + ", s: *" +
                (i ? "b" + std::to_string(i - 1) : "a") + "}\n";
    CHECK_THAT(refusal("bomb.yaml", bomb), Contains("more than 100000 values"));
    // Defaults in defaults, a variable that grows out of itself, a script that reads itself, sums
    // beyond 64 bits.
    std::string nested = "A=";
    for (int i = 0; i < 50'000; ++i) nested += "${A:-";
    nested += "1" + std::string(50'000, '}') + "\ntorchrun t.py --num-layers $A\n";
    CHECK_THAT(refusal("nested.sh", nested),
               Contains("nested.sh:1: defaults in defaults, more than 32 deep"));
    std::string grown = "A=xxxxxxxxxx\n";
    for (int i = 0; i < 40; ++i) grown += "A=$A$A$A$A$A$A$A$A\n";
    CHECK_THAT(refusal("grown.sh", grown + "torchrun t.py --num-layers $A\n"),
               Contains("the variables become more than"));
    std::string reads_itself = "#" + std::string(100'000, '-') + "\n";
    for (int i = 0; i < 50; ++i) reads_itself += "source again.sh\n";
    CHECK_THAT(refusal("again.sh", reads_itself + "torchrun t.py --num-layers 3\n"),
               Contains("bytes of scripts are read"));
    CHECK_THAT(refusal("sum.sh",
                       "A=$((-9223372036854775807 - 1))\ntorchrun t.py --num-layers $((A / -1)) "
                       "--hidden-size $((A * A + -A))\n"),
               Contains("num_layers"));
    TranslateOptions variant;
    variant.variant = "h100,many,bf16";
    const auto table = folder.write("table.yaml",
                                    "trainer:\n  max_steps: 1\nperf_matrix:\n  h100:\n    "
                                    "num_gpus_many:\n      bf16:\n        mbs: 1\n");
    variant.format = ForeignFormat::megatron_bridge;
    CHECK_THAT(complaint([&] { translate(table, variant); }, folder.path()),
               Contains("many is no number of GPUs"));
    CHECK_THAT(refusal("word.sh",
                       "torchrun t.py --num-layers many --hidden-size 4 --micro-batch-size 1\n"),
               Contains("word.sh:1: num_layers: found \"many\"; expected a whole number"));
}

// An import that writes an experiment which no forecast reads would say yes too early.
// Ten names of ten aliases each: 10^10 words, or as many empty tables, if they were written out.
TEST_CASE("aliases of YAML that repeat each other are cut, or refused") {
    const TestFolder folder;
    for (const std::string& leaf : {std::string("[x, x, x]"), std::string("{}")}) {
        const bool list = leaf[0] == '[';
        std::string text = "trainer: {devices: 8}\nmodel:\n  a: &a " + leaf + "\n";
        for (char name = 'b'; name < 'l'; ++name) {
            text += std::string("  ") + name + ": &" + name + (list ? " [" : " {");
            for (int i = 0; i < 10; ++i)
                text += (i > 0 ? ", " : "") +
                        (list ? std::string() : "k" + std::to_string(i) + ": ") + "*" +
                        static_cast<char>(name - 1);
            text += list ? "]\n" : "}\n";
        }
        const auto path = folder.write("bomb.yaml", text);
        if (list)
            CHECK_NOTHROW(translate(path, {}));
        else
            CHECK_THAT(complaint([&] { translate(path, {}); }),
                       Contains("aliases repeat more than"));
    }
}

TEST_CASE("a config.json without its sizes is refused when it is imported") {
    const TestFolder folder;
    const auto path =
        folder.write("config.json", "{\"model_type\": \"llama\", \"hidden_size\": 64}");
    CHECK_THAT(complaint([&] { translate(path, {}); }), Contains("num_hidden_layers"));
}

// The model is a file of the working folder, or stands beside the file that names it; a preset is a
// name.
TEST_CASE(
    "a text part that is only named takes its sizes from --model, wherever that file stands") {
    const TestFolder folder;
    const auto vision = folder.write(
        "vision.json",
        R"({"model_type": "see", "text_config": {"_name_or_path": "our/text", "model_type": "llama", "vocab_size": 5120}})");
    const auto text = folder.write(
        "text.json",
        R"({"model_type": "llama", "num_hidden_layers": 6, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 5000})");
    CHECK_THAT(complaint([&] { translate(vision, {}); }),
               Contains("only that its model is \"our/text\"") && Contains("expected --model"));
    TranslateOptions how;
    how.model = "llama3-8b";
    check_values(translate(vision, how),
                 {{"workload.preset", "llama3-8b"}, {"workload.vocab", "5120"}});
    how.model = "text.json";  // beside it
    check_values(translate(vision, how), {{"workload.preset", text}});
    how.model = std::filesystem::relative(text).string();  // from the working folder
    check_values(translate(vision, how), {{"workload.preset", text}});
    how.model = "none.json";
    CHECK_THAT(complaint([&] { translate(vision, how); }),
               Contains("no such file in the working folder nor beside"));
    how.model = "llama3-8b";
    CHECK_THAT(complaint([&] { translate(text, how); }), Contains("states the sizes of its model"));
}

// What divides or is multiplied comes from the file: a zero would end the program, two huge numbers
// would wrap around.
TEST_CASE(
    "degrees and counts of zero, below zero or beyond any cluster are refused with their place") {
    const TestFolder folder;
    const auto refused = [&](const std::string& name, const std::string& text,
                             const std::string& words) {
        INFO(text);
        CHECK_THROWS_WITH(translate(folder.write(name, text), {}), Contains(words));
    };
    const std::string launch =
        "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size "
        "4096 ";
    refused("a.sh", launch + "--tensor-model-parallel-size 0",
            "a.sh:1: 0 is out of range; expected 1 to");
    refused("b.sh", launch + "--pipeline-model-parallel-size -4", "b.sh:1: -4 is out of range");
    refused("c.sh",
            launch + "--tensor-model-parallel-size 2000 --pipeline-model-parallel-size 2000",
            "more ranks than 1000000 (parallelism.pp = 2000)");
    refused("d.sh",
            launch + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 0",
            "from 1 to 10^9");
    refused(
        "e.sh",
        "torchrun --nproc_per_node 5000000000 --nnodes 5000000000 pretrain_gpt.py --num-layers 2",
        "e.sh:1: nproc_per_node: found \"5000000000\"; expected a count from 1 to 10^9");
    refused("f.toml",
            "[parallelism]\npipeline_parallel_degree = 0\n[model]\nname = \"llama3\"\nflavor = "
            "\"8B\"\n",
            "f.toml:2: 0 is out of range");
    refused("g.toml",
            "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[activation_checkpoint]\nmode = "
            "\"selective\"\nselective_ac_option = \"0\"\n",
            "from 1 to 10^9");
    refused(
        "h.json",
        R"({"train_micro_batch_size_per_gpu": 0, "train_batch_size": 8, "zero_optimization": {"stage": 1}})",
        "from 1 to 10^9");
}

// components/loss.py compiles the loss only where compile.enable is true; gate and up are two
// operators there.
TEST_CASE("a torchtitan file that does not compile runs as the preset of uncompiled torchtitan") {
    const TestFolder folder;
    const std::vector<Override> machine{{"cluster.preset", "dgx-h100"}};
    const auto read = [&](const std::string& text) {
        return read_experiment({"test", text}, machine);
    };
    const auto file = [&](const std::string& enable) {
        return translate(folder.write("t.toml",
                                      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n"
                                      "local_batch_size = 1\nglobal_batch_size = 8\n[compile]\n"
                                      "enable = " +
                                          enable + "\n"),
                         {.replicas = 8});
    };
    CHECK(file("true").framework == "torchtitan");
    const Experiment e = read(experiment_text(file("false"))),
                     preset = read(
                         "[framework]\npreset = \"torchtitan-eager\"\n[workload]\npreset "
                         "= \"llama3-8b\"\n[parallelism]\ndp = 8\nzero = 3\n"
                         "global_batch = 8\n");
    for (const Experiment* each : {&e, &preset})
        CHECK(std::tuple(is_eager(*each), each->runtime.loss.fused, each->runtime.fused_gate) ==
              std::tuple(true, false, false));
}

TEST_CASE("torchtitan's training.dtype puts all states into bf16") {
    const TestFolder folder;
    TranslateOptions how;
    how.model = "llama3-8b";
    const auto read = [&](const std::string& more) {
        return translate(folder.write("t.toml",
                                      "[model]\nname = \"llama3\"\nflavor = "
                                      "\"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n" +
                                          more),
                         how);
    };
    CHECK(value(read("dtype = \"bfloat16\"\n"), "runtime.optimizer.master_weights") == "false");
    CHECK(value(read("dtype = \"float32\"\n"), "runtime.optimizer.master_weights") == "true");
    CHECK(read("").find("runtime.optimizer.master_weights") == nullptr);
}

// Converters make the products fp8, whatever mixed precision says of the rest; row-wise scales are
// of fp8 alone.
TEST_CASE("float8 of torchtitan is fp8 with and without mixed precision") {
    const TestFolder folder;
    TranslateOptions how;
    how.model = "llama3-8b";
    const auto read = [&](const std::string& more) {
        return translate(
            folder.write("t.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + more +
                                       "[training]\nlocal_batch_size = 1\nseq_len = "
                                       "8192\nmixed_precision_param = \"bfloat16\"\n"),
            how);
    };
    CHECK(value(read(""), "workload.dtype") == "bf16");
    CHECK(value(read("converters = [\"float8\"]\n"), "workload.dtype") == "fp8");
    const Translation rows =
        read("converters = [\"float8\"]\n[float8]\nrecipe_name = \"rowwise\"\n");
    CHECK((value(rows, "workload.dtype") == "fp8" && value(rows, "runtime.row_scales") == "true"));
}
