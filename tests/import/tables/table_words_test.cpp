// Words of cells as data: model/presets/table_words.toml, and how its phrases are found.

#include "import/tables/row_words.h"
#include "import/tables/shelf.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

// The plain cell of a row that states these.
std::string plain(const Cells& stated, const std::string& cell) {
    CaseRow row;
    row.cells = stated;
    std::vector<std::string> assumptions;
    return Shelf().words().plain(row, assumptions).cell(cell);
}

bool finds(const char* phrase, const std::string& text, Cells* cells = nullptr) {
    Cells found;
    const bool there = Phrase(phrase).find(text, cells ? *cells : found,
                                           [](std::size_t, std::size_t) { return true; });
    return there;
}

}  // namespace

TEST_CASE("a phrase takes the numbers beside its words, and 0 is no count") {
    Cells cells;
    CHECK(finds("{a} layers dense (ffn {b})", "first 3 layers dense (ffn 18432); more", &cells));
    CHECK(cells == Cells{{"a", "3"}, {"b", "18432"}});
    CHECK_FALSE(finds("{a} layers dense (ffn {b})", "layers dense (ffn 18432)"));
    CHECK_FALSE(finds("rank {r}", "time of rank 0"));
    cells.clear();
    CHECK(finds("rank {r}", "on rank 0; LoRA rank 16.", &cells));  // the full stop ends a sentence
    CHECK(cells["r"] == "16");
    cells.clear();
    CHECK(finds("container {v}", "nemo container 26.04.01; pretrain", &cells));
    CHECK(cells["v"] == "26.04.01");
    CHECK(complaint([] { Phrase("{alone}"); }) == "\"{alone}\": expected words beside the number");
}

// The same words, whoever wrote them: no entry asks for the row's source.
TEST_CASE("cells are read as their words say") {
    for (const auto& [column, text, cell, value] :
         std::vector<std::tuple<const char*, const char*, const char*, const char*>>{
             {"recompute", "not stated (recipe default)", "recompute", ""},
             {"recompute", "per recipe: off in one yaml", "recompute", ""},
             {"recompute", "full (checkpoint-activations)", "recompute", "full"},
             {"recompute", "selective, per-op policy", "recompute", "selective"},
             {"recompute", "mlp+core_attn", "recompute", "mlp+core_attn"},
             {"recompute", "selective (core attention)", "calls_again", "1"},
             {"zero", "0/1 (DDP, distributed optimizer by default)", "zero", "1"},
             {"zero", "ZeRO-3", "zero", "3"},
             {"zero", "stage 2", "zero", "2"},
             {"zero", "FULL_SHARD", "zero", "3"},
             {"zero", "SHARD_GRAD_OP", "zero", "2"},
             {"zero", "NO_SHARD", "zero", "0"},
             {"recompute", "gradient checkpointing", "recompute", "full"},
             {"recompute", "no AC", "recompute", "none"},
             {"zero", "2 (FSDP2, experts not resharded)", "zero", "2"},
             {"zero", "3 hybrid (shard in node)", "shard", "node"},
             {"precision", "NVFP4", "precision", "fp4"},
             {"precision", "bf16 with fp8 linears", "precision", "fp8"},
             {"precision", "fp32 (TF32 state unknown)", "precision", "tf32"},
             {"precision", "nf4 base, fp16 LoRA", "precision", "fp16"},
             {"sp", "on (assumed)", "sp", "on"},
             {"notes", "routing force-balanced, dropless unless tagged tokendrop",
              "capacity_factor", ""},
             {"notes", "tokendrop; dropless unless tagged tokendrop", "capacity_factor", "1"},
             {"notes", "kv_lora 512, qk 128+64", "work", ""},
             {"notes", "kv_lora 512; LoRA of rank 8", "work", "adapters"},
             {"notes", "8 (or 6 for LoRA) FLOP per parameter", "work", ""},
             {"notes", "LoRA (rank 16 in the recipes, all projections)", "adapter_on", "linear"},
             {"precision", "nf4 base, fp16 LoRA", "frozen", "nf4"},
             {"precision", "int8 base (default), fp16 LoRA", "frozen", "int8"},
             {"notes", "QLoRA (nf4 weights)", "frozen", "nf4"},
             {"notes", "QLoRA, double quantization", "frozen", "nf4_double"},
             {"notes", "q_lora 1536", "frozen", ""},
             {"notes", "QLoRA", "recompute", "full"},
             {"case_id", "automodel_lora_7b", "work", "adapters"},
             {"model", "llama-1.3b (mha, untied)", "tied", "no"},
             {"notes", "untie embeddings and output weights", "tied", "no"},
             {"notes", "no gradient-accumulation fusion", "fused_accumulation", "false"},
             {"notes", "gradient accumulation fusion", "fused_accumulation", ""},
             {"notes", "moe grouped gemm; more", "experts_one_by_one", "false"},
             {"notes", "no grouped gemm", "experts_one_by_one", ""},
             {"source", "ms-swift-megatron", "experts_one_by_one", "false"},
             {"source", "ms-swift", "experts_one_by_one", ""},
             {"notes", "overlap grad reduce; more", "overlap_gradients", "always"},
             {"notes", "overlap grad reduce; more", "gradient_bucket", "40e6 weights"},
             {"notes", "overlap param gather", "overlap_parameters", "true"},
             {"interconnect", "NVLink 900 GB/s", "network", ""},
             {"interconnect", "8x400Gb IB", "network", "400"},
             {"interconnect", "not stated; 400 Gb/s in the text", "network", "unstated"},
             {"interconnect", "Slingshot", "network", "stated"},
             {"interconnect", "PCIe inside the node; 2 x HDR IB between", "form", "pcie"},
             {"interconnect", "NVLink2, some pairs over PCIe/QPI", "form", ""},
             {"ref", "owner/repo#12", "issue", "12"}}) {
        CAPTURE(column, text, cell);
        CHECK(plain({{column, text}}, cell) == value);
    }
}

TEST_CASE("what a row states in the column itself stays, beside words elsewhere") {
    CHECK(plain({{"zero", "offload"}}, "zero") == "offload");
    CHECK(plain({{"gpus_per_node", "4"}, {"notes", "gpus_per_node=8"}}, "gpus_per_node") == "4");
    CHECK(plain({{"recompute", "none"}, {"notes", "QLoRA"}}, "recompute") == "none");
}

TEST_CASE("denied words do not count") {
    CHECK(plain({{"notes", "HybridEP, CUDA graphs on attention"}}, "graphs") == "yes");
    CHECK(plain({{"notes", "alltoall dispatcher; CUDA graphs off"}}, "graphs").empty());
    CHECK(plain({{"notes", "no CUDA graphs"}}, "graphs").empty());
    CHECK(plain({{"precision", "fp32 (mixed precision off; TF32 off)"}}, "precision") == "fp32");
    CHECK(plain({{"notes", "DeepEP off"}}, "dispatcher").empty());
    CHECK(plain({{"notes", "full fine-tuning; LoRA off"}}, "work") == "fine-tuning");
    CHECK(plain({{"notes", "without LoRA"}}, "work").empty());
    CHECK(plain({{"notes", "not an inference run"}}, "work").empty());
    CHECK(plain({{"notes", "hybridep_overlap_off"}}, "dispatcher") == "once");
    CHECK(plain({{"case_id", "qwen3_8g_no_deepep"}}, "dispatcher").empty());
    CHECK(plain({{"case_id", "8g_no_deepep"}, {"notes", "equal to the DeepEP row"}}, "dispatcher")
              .empty());
}

TEST_CASE("every word names its source and fills cells that are known") {
    Shelf shelf;
    const auto& words = shelf.sources("word");
    REQUIRE(words.size() > 40);
    for (const SourceRow& word : words) {
        CAPTURE(word.at("in"), word.at("phrase"));
        CHECK_FALSE(word.at("source").empty());
    }
    const TestFolder folder;
    std::filesystem::create_directories(folder.path() + "/model/presets");
    folder.write("model/presets/table_words.toml", "[[word]]\nphrase = \"a\"\ndense = \"1\"\n");
    const TestHome home(folder.path());
    CHECK(complaint([] { (void)Shelf().words(); }).find("dense: unknown key") != std::string::npos);
}
