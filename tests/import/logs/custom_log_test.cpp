#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "import/logs/line_pattern.h"
#include "model/records/measurements.h"
#include "tests/calibrate/logs.h"

using namespace stepcast;
using Catch::Matchers::Contains;
using Points = std::vector<std::pair<int, double>>;

TEST_CASE("a pattern takes numbers between literal texts, in SI units") {
    const LinePattern pattern("iter {#}/{} | {}time: {step:ms}, peak {peak:GiB}");
    CHECK(pattern.counts_steps());
    CHECK(pattern.fields()[1].unit == "s");
    std::vector<double> values;
    REQUIRE(pattern.match("rank 0 iter   12/ 100 | loss 3 | time:1,250.5 , peak 2.0 GiB", values));
    CHECK(values == std::vector<double>{12, 1.2505, 2147483648.0});
    CHECK_FALSE(pattern.match("iter 12/ 100 | time: n/a, peak 2.0", values));
    CHECK_FALSE(pattern.match("iteration 12", values));
}

// 5.88K read as 5.88 would be a thousand times too little; with a star it is 5880.
TEST_CASE("a pattern refuses what it would cut") {
    std::vector<double> values;
    const LinePattern plain("step {#} tps: {rate:tokens/s}");
    CHECK_THROWS_WITH(
        plain.match("step 1 tps: 5.88K", values),
        Contains("\"5.88K\" is cut by {rate:tokens/s}") && Contains("{rate:tokens/s*}"));
    CHECK_THROWS_WITH(LinePattern("took {step:s}").match("took 200 ms", values),
                      Contains("cut by {step:s}"));
    CHECK_THROWS_WITH(LinePattern("took {step:s}").match("took 0,25 s", values),
                      Contains("cut by {step:s}"));
    const LinePattern told("step {#} tps: {rate:tokens/s*}");
    REQUIRE(told.match("step 1 tps: 5.88K", values));
    CHECK(values[1] == Approx(5880));
    REQUIRE(told.match("step 1 tps: 5,880 tokens/s", values));
    CHECK(values[1] == 5880);
    REQUIRE(LinePattern("memory: {m:GiB}").match("memory: 44.32GiB(55%)", values));
    REQUIRE(LinePattern("a {x:1}K b").match("a 3K b", values));
}

// Suffixes of thousands (B and G a billion), also behind a number with commas; where the unit is
// bytes, B is the unit. A rate of steps is their inverse: 0.8 a second are 1.25 s; of none, no
// number. Per cent are hundredths.
TEST_CASE("a pattern reads thousands, rates of steps and per cent") {
    std::vector<double> values;
    const LinePattern rate("rate {x:1*}"), bytes("mem {x:B*}"), steps("speed {x:steps/s}"),
        share("mfu {x:%}");
    for (const auto& [text, value] : {std::pair{"rate 1.5k", 1500.0},
                                      {"rate 1.5K", 1500},
                                      {"rate 2.25M |", 2.25e6},
                                      {"rate 3B", 3e9},
                                      {"rate 3G ", 3e9},
                                      {"rate 1.25T", 1.25e12},
                                      {"rate 2P", 2e15},
                                      {"rate 1,234K", 1.234e6},
                                      {"rate 1,234,567", 1234567},
                                      {"rate 1,234.5", 1234.5}}) {
        CAPTURE(text);
        REQUIRE(rate.match(text, values));
        CHECK(values[0] == Approx(value));
    }
    REQUIRE(bytes.match("mem 31.4G", values));
    CHECK(values[0] == Approx(31.4e9));
    REQUIRE(bytes.match("mem 512B", values));
    CHECK(values[0] == 512);
    REQUIRE(steps.match("speed 0.8", values));
    CHECK(values[0] == 1.25);
    REQUIRE(steps.match("speed 0", values));
    CHECK(std::isinf(values[0]));
    REQUIRE(share.match("mfu 31.25%", values));
    CHECK(values[0] == 0.3125);
}

namespace {

// A log's values of a phase, read as `--format auto` does.
Points values_of(const LogFolder& folder, const std::string& text, const std::string& phase,
                 const std::string& system) {
    const ReadLog read = import_log(folder.file("tool.log", text));
    REQUIRE(read.runs.size() == 1);
    CHECK(read.runs[0].system == system);
    return series(read.runs[0], phase);
}

}  // namespace

// Lines as the tools of the named versions print them, with numbers of our own.
TEST_CASE("logs of nine more tools are read by shipped patterns") {
    const LogFolder folder;
    const auto read = [&](const std::string& text, const std::string& phase,
                          const std::string& system) {
        return values_of(folder, text, phase, system);
    };
    const std::string nanotron =
        "07/01/2026 10:00:00 [INFO|DP=0|PP=0|TP=0|n3]: iteration: 4 / 50 | consumed_tokens: 131K | "
        "elapsed_time_per_iteration_ms: 2.75K | tokens_per_sec: 47.7K | "
        "tokens_per_sec_per_gpu: 5.96K | global_batch_size: 16 | lm_loss: 9.5 | lr: 0.0003 | "
        "model_tflops_per_gpu: 88.5 | hardware_tflops_per_gpu: 90 | grad_norm: 3 | "
        "cuda_memory_allocated: 10G | cuda_max_memory_reserved: 22.5G | hd_total_memory_tb: 1T\n";
    CHECK(read(nanotron, "step", "nanotron") == Points{{4, 2.75}});
    CHECK(read(nanotron, "tokens_per_s", "nanotron") == Points{{4, 5960}});
    CHECK(read(nanotron, "memory_reserved", "nanotron") == Points{{4, 22.5e9}});
    const std::string maxtext =
        "completed step: 7, seconds: 1.875, TFLOP/s/device: 201.500, Tokens/s/device: 8738.133, "
        "total_weights: 32768, loss: 8.250\ncompleted step: 8, seconds: 1.750, total_weights: 3\n";
    CHECK(read(maxtext, "step", "maxtext") == Points{{7, 1.875}, {8, 1.75}});
    CHECK(read(maxtext, "tflops_per_rank", "maxtext") == Points{{7, 201.5}});
    const std::string nemo =
        "Training epoch 0, iteration 9/199 | lr: 6e-06 | global_batch_size: 32 | global_step: 9 | "
        "reduced_train_loss: 9.1 | train_step_timing in s: 3.125 | TFLOPS_per_GPU: 250.5\n"
        "Validation: iteration 1/4\nTraining epoch 0, iteration 19/199 | lr: 1e-05 | "
        "train_step_timing in s: 3.0\n";
    CHECK(read(nemo, "step", "nemo") == Points{{9, 3.125}, {19, 3}});
    CHECK(read(nemo, "global_batch", "nemo") == Points{{9, 32}});
    const std::string bar =
        "Epoch 0: :   3%|3 | 3/90 [00:15<07:15, reduced_train_loss=10.1, global_step=2.000, "
        "consumed_samples=24.0, train_step_timing in s=4.750]\r";
    CHECK(read(bar + bar, "step", "nemo") == Points{{2, 4.75}, {2, 4.75}});
    const std::string nanogpt =
        "step 0: train loss 10.8, val loss 10.8\niter 0: loss 10.8, time 7000.00ms, mfu "
        "-100.00%\niter 10: loss 9.9, time 250.50ms, mfu 37.50%\n";
    CHECK(read(nanogpt, "step", "nanogpt") == Points{{0, 7}, {10, 0.2505}});
    CHECK(read(nanogpt, "mfu", "nanogpt") == Points{{10, 0.375}});
    const std::string llm_c =
        "step    5/90 | loss 9.125 (+nanz)| norm 2.5 (+nanz)| lr 3e-05 | 135.25 ms | 45.1% bf16 "
        "MFU | 3877632 tok/s\nval loss 9.0\n";
    CHECK(read(llm_c, "step", "llm.c") == Points{{5, 0.13525}});
    const std::string pipeline =
        "steps: 10 loss: 9.1250 iter time (s): 1.250 samples/sec: 102.400\n";
    CHECK(read(pipeline, "step", "deepspeed") == Points{{10, 1.25}});
    const std::string composer =
        "[batch=3/9]:\n\t Train memory/peak_allocated_mem: 17.5000\n\t Train "
        "throughput/batches_per_sec: 1.6000\n\t Train throughput/device/mfu: 0.4100\n[Eval "
        "batch=1/2] Eval on x data\n";
    CHECK(read(composer, "step", "composer") == Points{{3, 0.625}});
    CHECK(read(composer, "memory", "composer") == Points{{3, 17.5e9}});
    CHECK(read(composer, "mfu", "composer") == Points{{3, 0.41}});
}

// litgpt counts micro-batches: with one of them a step, a line's time is a step's, with four it is
// not.
TEST_CASE("litgpt's time of an iteration is a step only without accumulation") {
    const LogFolder folder;
    const auto log = [](int each) {
        return fmt::format(
            "Epoch 1 | iter {} step 2 | loss train: 10.5, val: n/a | iter time: 415.50 ms (step) "
            "remaining time: 0:01:00\n| - Tok/sec       : 2.5 tok/s\n| - Memory Used   : 9.25 GB\n",
            2 * each);
    };
    CHECK(values_of(folder, log(1), "step", "litgpt") == Points{{2, 0.4155}});
    CHECK(values_of(folder, log(4), "step", "litgpt").empty());
    CHECK(values_of(folder, log(4), "micro_batch", "litgpt") == Points{{2, 0.4155}});
    CHECK(values_of(folder, log(4), "memory", "litgpt") == Points{{-1, 9.25e9}});
}

// Bars with a title, and bars that end elsewhere than the training's, are of something else; at 1.6
// steps a second a step takes 0.625. A log without a bar has the mean of its last line: 0.4 a
// second are 2.5 s. Numbers stand in quotes since 5.0.
TEST_CASE("the Trainer's log is its progress bar and its last line") {
    const LogFolder folder;
    for (const std::string quote : {"", "'"}) {
        CAPTURE(quote);
        const std::string
            logged = fmt::format(
                "{{'loss': {0}3.5{0}, 'grad_norm': {0}1{0}, 'learning_rate': {0}1e-05{0}, 'epoch': "
                "{0}0.1{0}}}\n",
                quote),
            last = fmt::format(
                "{{'train_runtime': {0}50.5{0}, 'train_samples_per_second': {0}3.2{0}, "
                "'train_steps_per_second': {0}0.4{0}, 'train_loss': {0}3{0}}}\n",
                quote),
            bars =
                "Map: 100%|##| 9/20 [00:01<00:00, 1.00it/s]\n[rank0]:   5%|# | 1/20 [00:03<00:57, "
                "3.25s/it]\r 10%|# | 2/20 [00:04<00:40,  1.60it/s]\r 25%|## | 1/4 [00:00<00:01, "
                "9.00it/s]\n";
        CHECK(values_of(folder, bars + logged + last, "step", "huggingface") ==
              Points{{1, 3.25}, {2, 0.625}});
        CHECK(values_of(folder, bars + logged + last, "loss", "huggingface") == Points{{2, 3.5}});
        CHECK(values_of(folder, logged + last, "step", "huggingface") == Points{{-1, 2.5}});
        CHECK(values_of(folder, logged + last, "samples_per_s", "huggingface") ==
              Points{{-1, 3.2}});
        // The last line ends a run: a second one has a bar of its own.
        const ReadLog both = import_log(folder.file(
            "two.log",
            bars + logged + last + "  3%|# | 1/30 [00:03<00:57, 2.25s/it]\n" + logged + last));
        REQUIRE(both.runs.size() == 2);
        CHECK(series(both.runs[1], "step") == Points{{1, 2.25}});
    }
}

// An evaluation of as many steps as the training: four of 3 s, whatever else the log says. What
// tells them apart is a line of the evaluation, the training that goes on, or, as tqdm draws one
// bar below another, the cursor that goes up.
TEST_CASE("bars of an evaluation with as many steps as the training are no run") {
    const LogFolder folder;
    const auto bar = [](int step, double each, const std::string& behind = "") {
        return fmt::format(" 25%|# | {}/4 [00:03<00:09,  {:.2f}s/it]{}\r", step, each, behind);
    };
    const auto evaluation = [&](const std::string& behind) {
        std::string text;
        for (int step = 1; step <= 4; ++step) text += bar(step, 0.25, behind);
        return text;
    };
    const std::string logged = "{'loss': 3.5, 'grad_norm': 1, 'learning_rate': 1e-05}\n",
                      last =
                          "{'train_runtime': 12.5, 'train_samples_per_second': 3.2, "
                          "'train_steps_per_second': 0.32, 'train_loss': 3}\n",
                      evaluated = "{'eval_loss': 3.5, 'eval_runtime': 1.0}\n",
                      first = bar(1, 3) + bar(2, 3) + logged, second = bar(3, 3) + bar(4, 3);
    const Points steps{{1, 3}, {2, 3}, {3, 3}, {4, 3}};
    for (const std::string behind : {"", "\x1b[A"})
        for (const std::string& said : {std::string(), evaluated})
            for (const std::string& before : {std::string(), evaluation("")})
                for (const std::string& after : {std::string(), evaluation("")}) {
                    CAPTURE(behind, said, before, after);
                    const std::string between = evaluation(behind) + said;
                    const auto read =
                        import_log(folder.file("a.log", before + first + between + second + logged +
                                                            between + last + after));
                    REQUIRE(read.runs.size() == 1);
                    CHECK(series(read.runs[0], "step") == steps);
                    // evaluations' bars, and what is said of them
                    const long bars = 8 + (before.empty() ? 0 : 4) + (after.empty() ? 0 : 4);
                    CHECK(read.lines == LineCounts{4 + 2 + 1, bars + (said.empty() ? 0 : 2), 0});
                }
    // A training that begins anew is a run of its own; bars of another length are none.
    const auto again = import_log(folder.file(
        "b.log", first + bar(1, 2) + "100%|#| 3/3 [00:01<00:00, 9.00it/s]\r" + bar(2, 2) + logged));
    REQUIRE(again.runs.size() == 2);
    CHECK(series(again.runs[1], "step") == Points{{1, 2}, {2, 2}});
    CHECK(import_log(folder.file("c.log", first + bar(1, 2))).runs.size() == 2);
    // an evaluation of another length before the training
    CHECK(values_of(folder, "100%|#| 3/3 [00:01<00:00, 9.00it/s]\r" + first, "step",
                    "huggingface") == Points{{1, 3}, {2, 3}});
    // the number of a rank is no title (srun --label)
    CHECK(values_of(folder, "0: " + bar(1, 3) + "0: " + bar(2, 3) + "0: " + logged, "step",
                    "huggingface") == Points{{1, 3}, {2, 3}});
}

// Colours, in the middle of a number's words too, and the name of a window are no part of a line.
TEST_CASE("a terminal's codes are no part of a log") {
    const LogFolder folder;
    const std::string log =
        "\x1b]0;train\a\x1b[1;32m iteration \x1b[0m  12/  50 | consumed samples: 1 | "
        "\x1b[33melapsed "
        "time\x1b[0m per iteration (ms): \x1b[1m1250.5\x1b[0m | \x1b(B\x1b[mglobal batch size: "
        "\x1b[36m64\x1b[0m | lm loss: 9\n";
    CHECK(values_of(folder, log, "step", "megatron-lm") == Points{{12, 1.2505}});
    CHECK(values_of(folder, log, "global_batch", "megatron-lm") == Points{{12, 64}});
}

// Of 5 steps each: 15 s, and 15 more, which together are 30 s of 10 steps: 3 s. The line of the
// validation is at 100 s, so that 24 s are of the next five: 4.8. Then the clock begins anew, of a
// run that was resumed: 6 s of 5 steps, less than 20, at its end: 1.2.
TEST_CASE("LLaMA-Factory's trainer_log.jsonl tells the time since the run began") {
    const LogFolder folder;
    const auto line = [](int step, const std::string& loss, const std::string& clock) {
        return fmt::format(
            "{{\"current_steps\": {}, \"total_steps\": 40, \"{}\": 1.5, \"lr\": 1e-05, \"epoch\": "
            "0.5, "
            "\"percentage\": 12.5, \"elapsed_time\": \"{}\", \"remaining_time\": \"0:09:09\", "
            "\"throughput\": 5000.25, \"total_tokens\": 81920, \"vram_allocated\": 20.5, "
            "\"vram_reserved\": 24.0}}\n",
            step, loss, clock);
    };
    const ReadLog log = import_log(folder.file(
        "trainer_log.jsonl", line(5, "loss", "0:00:30") + line(10, "loss", "0:00:45") +
                                 line(15, "loss", "0:01:00") + line(15, "eval_loss", "0:01:40") +
                                 line(20, "loss", "0:02:04") + line(25, "loss", "0:00:10") +
                                 line(30, "loss", "0:00:16")));
    REQUIRE(log.runs.size() == 2);
    CHECK(log.runs[0].system == "llama-factory");
    CHECK(series(log.runs[0], "step") == Points{{15, 3}, {20, 4.8}});
    CHECK(series(log.runs[0], "loss").size() == 4);
    CHECK(series(log.runs[0], "memory")[0].second == 20.5 * 1073741824);
    CHECK(series(log.runs[1], "step") == Points{{30, 1.2}});
    // 86,400 + 7,200 s are 1,000 less than 94,600
    const std::string days =
        line(5, "loss", "1 day, 2:00:00") + line(105, "loss", "1 day, 2:16:40");
    CHECK(values_of(folder, days, "step", "llama-factory") == Points{{105, 10}});
}

// Means over all steps so far: 1 x 12.5, 5 x 4.5 = 22.5, so four steps took 10 s. Behind the
// validation 5 x 6.5 = 32.5; 10 x 4.3 = 43, 10.5 s of five steps. A resumed run's mean is not over
// 105 steps (210 s on a clock of 10): its clock counts, 14 s, and 12 more, 26 s of ten steps.
TEST_CASE("ms-swift's logs tell the mean over all steps, on the console and in JSON") {
    const LogFolder folder;
    const auto line = [](const std::string& quote, const std::string& number, int step,
                         const std::string& loss, const std::string& clock,
                         const std::string& mean) {
        return fmt::format(
            "{{{0}{3}{0}: {1}1.5{1}, {0}learning_rate{0}: {1}1e-05{1}, "
            "{0}global_step/max_steps{0}: "
            "{0}{2}/200{0}, {0}elapsed_time{0}: {0}{4}{0}, {0}remaining_time{0}: {0}1m 9s{0}, "
            "{0}memory(GiB){0}: {1}20.5{1}, {0}{5}{1}}}\n",
            quote, number, step, loss, clock, mean);
    };
    for (const auto& [quote, number] :
         {std::pair<std::string, std::string>{"'", ""}, {"'", "'"}, {"\"", ""}}) {
        CAPTURE(quote, number);
        const auto one = [&](int step, const std::string& loss, const std::string& clock,
                             const std::string& mean) {
            return line(quote, number, step, loss, clock,
                        fmt::format("train_speed(s/it){}: {}{}", quote, number, mean));
        };
        const std::string log = one(1, "loss", "12s", "12.5") + one(5, "loss", "22s", "4.5") +
                                one(5, "eval_loss", "32s", "6.5") + one(10, "loss", "43s", "4.3");
        CHECK(values_of(folder, log, "step", "ms-swift") == Points{{5, 2.5}, {10, 2.1}});
        CHECK(values_of(folder, log, "memory_reserved", "ms-swift").size() == 4);
        const std::string resumed = one(105, "loss", "10s", "2.0") +
                                    one(110, "loss", "24s", "2.4") + one(115, "loss", "36s", "2.4");
        CHECK(values_of(folder, resumed, "step", "ms-swift") == Points{{115, 2.6}});
    }
    // up to 3.x rates: 20 steps at 0.25 a second are 80 s, 30 at 0.2 are 150 s
    const std::string old = line("'", "", 20, "loss", "1m 20s", "train_speed(iter/s)': 0.25") +
                            line("'", "", 30, "loss", "2m 30s", "train_speed(iter/s)': 0.2");
    CHECK(values_of(folder, old, "step", "ms-swift") == Points{{30, 7}});
}

TEST_CASE("a clock is read as Python or people write it") {
    std::vector<double> values;
    const LinePattern clock("at {clock:clock}");
    for (const auto& [text, seconds] : {std::pair{"at 0:01:02", 62.0},
                                        {"at 1 day, 1:00:00.5", 90000.5},
                                        {"at 2 days, 0:00:01", 172801},
                                        {"at 62s", 62},
                                        {"at 1m 2s", 62},
                                        {"at 1d 0h 0m 2s", 86402}}) {
        CAPTURE(text);
        REQUIRE(clock.match(text, values));
        CHECK(values[0] == seconds);
    }
    for (const char* text : {"at 12", "at 1:02", "at -1:00:00", "at 1 day, x", "at 1h"})
        CHECK_FALSE(clock.match(text, values));
}

// A bar without a time yet is the training's, whose end, 40, an evaluation of 20 batches before the
// first step (eval_on_start) has not.
TEST_CASE("an evaluation before the first step is not the training") {
    const LogFolder folder;
    const std::string log =
        "  0%|          | 0/40 [00:00<?, ?it/s]\r\n  0%|          | 0/20 [00:00<?, ?it/s]\r"
        " 50%|#         | 10/20 [00:01<00:01,  9.00it/s]\r100%|##| 20/20 [00:02<00:00, 9.00it/s]\n"
        "  2%|          | 1/40 [00:05<03:15,  5.00s/it]\r  5%|          | 2/40 [00:07<02:15,  "
        "3.50s/it]\r\n{'loss': 3.5, 'grad_norm': 1, 'learning_rate': 1e-05, 'epoch': 0.1}\n";
    CHECK(values_of(folder, log, "step", "huggingface") == Points{{1, 5}, {2, 3.5}});
}

// A word of a known tool in another's log is not enough; the message says the line, and how another
// log is read.
TEST_CASE("another tool's log is not taken for a known one") {
    const LogFolder folder;
    for (const auto& [text, near] :
         {std::pair{"[it 3] loss 2 mfu: 0.31 tps 5\n", "line 1 has a word of torchtitan's"},
          {"start\nTrain throughput/device/mfu: 0.3\n", "line 2 has a word of torchtitan's"},
          {"completed step: none\n", "line 1 has a word of maxtext's"},
          {"took 5 ms, mfu 3\n", "line 1 has a word of nanogpt's"},
          {"elapsed time per iteration (ms): ?\n", "line 1 has a word of megatron-lm's"}}) {
        CAPTURE(text);
        CHECK_THROWS_WITH(import_log(folder.file("other.log", text)),
                          Contains("not a log that stepcast recognises") && Contains(near) &&
                              Contains("--format custom --pattern FILE"));
    }
}

// What people have beside logs and traces is told from its first bytes or its name.
TEST_CASE("files that are no text are named with what to do") {
    const LogFolder folder;
    for (const auto& [name, text, says] : std::vector<std::array<std::string, 3>>{
             {"t.zip", "PK\x03\x04 abc", "unzip it"},
             {"t.json.zst", "\x28\xb5\x2f\xfd abc", "unzstd it"},
             {"t.json", "\xff\xfe{ }", "iconv -f UTF-16"},
             {"r.nsys-rep", "NVIDIA\nabc", "nsys export --type sqlite"},
             {"s.pickle", "\x80\x04\x95 abc", "scripts/memory-snapshot.py"},
             {"p.pftrace", "\n abc", "PyTorch's own JSON"}}) {
        CAPTURE(name);
        CHECK_THROWS_WITH(import_log(folder.file(name, text)), Contains(says));
    }
    CHECK_THROWS_WITH(import_log(folder.file("s.txt", "\x80 abc")),
                      Contains("not a log that stepcast recognises"));
}

// Megatron-LM states memory once, after its first logged step, in units of 2^20 bytes and by rank:
// a run's is the greatest, though no other step has it.
TEST_CASE("a run's memory is the greatest that its log states") {
    const LogFolder folder;
    std::string text;
    for (int i = 1; i <= 40; ++i) {
        text += fmt::format(
            " [2026-01-01 00:00:00] iteration {:8}/      40 | elapsed time per iteration (ms): "
            "500.0 | global batch size:    16 |\n",
            i);
        if (i == 1)
            text +=
                "[Rank 0] (after 1 iterations) memory (MB) | allocated: 100.0 | max allocated: "
                "2048.5 | reserved: 2100.0 | max reserved: 3000.0\n"
                "[Rank 1] (after 1 iterations) memory (MB) | allocated: 100.0 | max allocated: "
                "2560.0 | reserved: 2100.0 | max reserved: 3100.0\n";
    }
    const std::string out = (folder.path / "m.csv").string();
    import_to_files({.logs = {folder.file("a.log", text)},
                     .out = out,
                     .routing_out = {},
                     .medians_only = true,
                     .system = {},
                     .model = "m"});
    std::vector<std::string> rows;
    for (const Sample& s : read_measurements(out))
        if (s.unit == "B")
            rows.push_back(fmt::format("{} {} {} {}", s.phase, s.rank, s.step, s.value / 1048576));
    CHECK(rows == std::vector<std::string>{"memory -1 -1 2048.5", "memory 1 -1 2560",
                                           "memory_reserved -1 -1 3000",
                                           "memory_reserved 1 -1 3100"});
}

TEST_CASE("a run reaches from its first to its last line of a step, whatever stands around them") {
    const LogFolder folder;
    ImportRequest options;
    options.pattern = folder.file("p.toml", "lines = [\"step={#} took {step:s}\"]\n");
    const auto runs =
        import_log(
            folder.file("a.log",
                        "begin\nstep=1 took 1 s\nstep=2 took 1 s\nsaved\n\nstep=1 took 2 s\nend\n"),
            options)
            .runs;
    REQUIRE(runs.size() == 2);
    CHECK((runs[0].first_line == 2 && runs[0].last_line == 3));
    CHECK((runs[1].first_line == 6 && runs[1].last_line == 6));
}

TEST_CASE("a step ten times off its neighbours is warned about") {
    const LogFolder folder;
    std::string log;
    for (int i = 1; i <= 12; ++i)
        log += "step=" + std::to_string(i) + (i == 6 ? " took 0.5 s\n" : " took 50 s\n");
    ImportRequest request;
    request.logs = {folder.file("a.log", log)};
    request.pattern = folder.file(
        "p.toml", "system = \"mine\"\nmodel = \"m\"\nlines = [\"step={#} took {step:s}\"]\n");
    request.out = folder.file("out.csv", "");
    const auto report = import_to_files(request);
    CHECK(std::count_if(report.begin(), report.end(), [](const std::string& line) {
              return line.find(
                         "warning: step 6 took 0.5 s, after 50 s of the one before it (1 such "
                         "steps)") != std::string::npos;
          }) == 1);
}

TEST_CASE("a pattern that cannot be matched is refused") {
    CHECK_THROWS_WITH(LinePattern("{step:ms} ms"), Contains("expected literal text first"));
    CHECK_THROWS_WITH(LinePattern("step {step:parsec}"), Contains("\"parsec\" is no unit here"));
    CHECK_THROWS_WITH(LinePattern("step {step"), Contains("a { is not closed"));
    CHECK_THROWS_WITH(LinePattern("step {step}"), Contains("expected {name:unit}"));
    CHECK_THROWS_WITH(LinePattern("step {}{step:ms}"), Contains("followed by a field"));
    CHECK_THROWS_WITH(LinePattern("step"), Contains("expected a field"));
    const LogFolder folder;
    CHECK_THROWS_WITH(read_log_pattern(folder.file("p.toml", "lines = [\"step {#\"]\n")),
                      Contains("p.toml:1:9: lines"));
    CHECK_THROWS_WITH(read_log_pattern(folder.file("p.toml", "line = [\"step {#}\"]\n")),
                      Contains("did you mean \"lines\"?"));
    CHECK_THROWS_WITH(read_log_pattern(folder.file("p.toml", "lines = [\"step {step:ms}\"]\n")),
                      Contains("no line has {#}"));
}

TEST_CASE("a home-made log is read with a pattern file; numbers that go back begin a new run") {
    const LogFolder folder;
    ImportRequest options;
    options.pattern = folder.file("mine.toml",
                                  "system = \"mine\"\nmodel = \"small\"\nranks = 2\n"
                                  "lines = [\"step={#} took {step:s}\", \"fwd={forward:ms}\"]\n");
    const std::string log = folder.file(
        "a.log",
        "hello\nfwd=1\nstep=1 took 0.5 s\nfwd=200 ms\nstep=2 took 0.25 s\nstep=1 took 1 s\n");
    const ReadLog result = import_log(log, options);
    REQUIRE(result.runs.size() == 2);
    CHECK(result.runs[0].run_id == "a-1-mine-small");
    CHECK(result.runs[0].ranks == 2);
    CHECK(series(result.runs[0], "step") == Points{{1, 0.5}, {2, 0.25}});
    CHECK(series(result.runs[0], "forward") == Points{{1, 0.2}});
    CHECK(series(result.runs[1], "step") == Points{{1, 1}});
    CHECK(result.lines == LineCounts{4, 1, 1});  // the first fwd is of no step
    CHECK_THROWS_WITH(import_log(folder.file("b.log", "hello\n"), options),
                      Contains("b.log:1: the log ends without a step"));
    CHECK_THROWS_WITH(
        import_log(folder.file("c.log", "step=1 took 1 s\nstep=2 took -5 s\n"), options),
        Contains("c.log:2: step is -5; expected 0 or more"));
    options.pattern.clear();
    options.format = LogFormat::custom;
    CHECK_THROWS_WITH(import_log(log, options), Contains("needs --pattern FILE"));
}

// Steps 0, 1, 11 and 13: nine lie before the third line and one before the last, so that two of the
// lines are means.
TEST_CASE("lines that are means over steps between them are counted") {
    const LogFolder folder;
    ImportRequest options;
    options.pattern = folder.file(
        "mine.toml",
        "system = \"mine\"\nmean_since_last = true\nlines = [\"step={#} took {step:s}\"]\n");
    const auto notes = [&](const char* text) {
        return import_log(folder.file("a.log", text), options).runs.at(0).notes;
    };
    CHECK_THAT(
        notes("step=0 took 1 s\nstep=1 took 1 s\nstep=11 took 1 s\nstep=13 took 1 s\n").at(0),
        Contains("2 of its 4 lines are means"));
    CHECK_THAT(notes("step=0 took 1 s\nstep=10 took 1 s\n").at(0),
               Contains("1 of its 2 lines are means"));
    for (const std::string& note : notes("step=5 took 1 s\nstep=6 took 1 s\n"))
        CHECK_THAT(note, !Contains("are means"));
}

TEST_CASE("Megatron-LM's log is recognised; timers belong to the iteration before them") {
    const LogFolder folder;
    const std::string line =
        " | consumed samples:   2560 | elapsed time per iteration (ms): 1234.5 | throughput per "
        "GPU (TFLOP/s/GPU): "
        "150.2 | learning rate: 1.0E-04 | global batch size:   256 | lm loss: 1.0E+01 |\n";
    const std::string text =
        " [2024-05-01 12:00:00] iteration        1/     100" + line +
        "    forward-compute ................................: (10.25, 12.5)\n" +
        " [2024-05-01 12:00:10] iteration       11/     100" + line;
    const ReadLog result = import_log(folder.file("a.log", text));
    REQUIRE(result.format == LogFormat::custom);
    const ReadRun& run = result.runs.at(0);
    CHECK(run.system == "megatron-lm");
    CHECK(series(run, "step") == Points{{1, 1.2345}, {11, 1.2345}});
    CHECK(series(run, "tflops_per_rank") == Points{{1, 150.2}, {11, 150.2}});
    CHECK(series(run, "forward") == Points{{1, 0.0125}});
    CHECK_THAT(run.notes.at(0),
               Contains("1 of its 2 lines are means over the steps since the line before"));
}

// Megatron-Bridge's are gigabytes of 1e9: 54.761 and 64.425 of them, not what is allocated now.
TEST_CASE("peaks of Megatron-Bridge's log are read in its unit") {
    const LogFolder folder;
    const ReadRun run =
        import_log(
            folder.file("a.log",
                        " iteration        1/     100 | consumed samples:          128 | elapsed "
                        "time per iteration (ms): 1500.0 | learning rate: 1.000000E-05 |\n"
                        "[Rank 4] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: "
                        "31.458 | mem-active-gigabytes: 31.458 | mem-inactive-gigabytes: 1.2 | "
                        "mem-reserved-gigabytes: 62.9 | mem-max-allocated-gigabytes: 54.761 | "
                        "mem-max-active-gigabytes: 54.8 | mem-max-inactive-gigabytes: 3.1 | "
                        "mem-max-reserved-gigabytes: 64.425 | mem-alloc-retires: 0\n"))
            .runs.at(0);
    CHECK(series(run, "memory", 4) == Points{{1, 54.761e9}});
    CHECK(series(run, "memory_reserved", 4) == Points{{1, 64.425e9}});
}

// Binary gigabytes: 39.5 and 44.25 of them.
TEST_CASE("torchtune's log gives rates and, where it has them, peaks") {
    const LogFolder folder;
    const ReadRun run =
        import_log(folder.file("a.log",
                               "Step 1 | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:5120.5 "
                               "peak_memory_active:40.1 peak_memory_alloc:39.5 "
                               "peak_memory_reserved:44.25 grad_norm:1.2 \n"
                               "Step 2 | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:5121.5 \n"))
            .runs.at(0);
    CHECK(run.system == "torchtune");
    CHECK(series(run, "tokens_per_s") == Points{{1, 5120.5}, {2, 5121.5}});
    CHECK(series(run, "memory") == Points{{1, 39.5 * 1073741824}});
    CHECK(series(run, "memory_reserved") == Points{{1, 44.25 * 1073741824}});
}

// 16384 tokens at 8192 tokens/s a rank are 2 s.
TEST_CASE("torchtitan's log gives rates, and steps where the pattern states the tokens") {
    const LogFolder folder;
    const std::string text =
        "[rank0]:[titan] 2025-01-01 00:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  "
        "7.7  "
        "\x1b[38mgrad_norm:  "
        "1.0  \x1b[33mmemory: 44.00GiB(46%)  \x1b[34mtps: 8,192  \x1b[36mtflops: 95.5  "
        "\x1b[35mmfu: 9.6%\x1b[39m\n"
        "[rank3]:[titan] 2025-01-01 00:00:00,000 - root - INFO - step:  1  loss:  7.7  memory: "
        "40.00GiB(46%)  "
        "tps: 8,192  tflops: 95.5  mfu: 9.6%\n";
    const std::string log = folder.file("a.log", text);
    const ReadRun run = import_log(log).runs.at(0);
    CHECK(run.system == "torchtitan");
    CHECK(series(run, "tokens_per_s") == Points{{1, 8192}});
    CHECK(series(run, "memory_reserved", 3) == Points{{1, 40.0 * 1073741824}});
    CHECK(series(run, "step").empty());
    ImportRequest options;
    options.pattern = folder.file(
        "t.toml", "tokens = 16384\nlines = [\"step: {#}{}tps: {tokens_per_s:tokens/s}\"]\n");
    CHECK(series(import_log(log, options).runs.at(0), "step").front() == std::pair{1, 2.0});
}

// Three steps of 16384 tokens at 8192 tokens/s are 2 s each. The lines of validation, eight times
// as fast because nothing is differentiated, have the same numbers behind the same words and are no
// steps: known, and nothing of them is kept.
TEST_CASE("lines of validation are no steps: a pattern file names what it ignores") {
    const LogFolder folder;
    std::string text;
    for (const int step : {10, 20, 30})
        text += fmt::format(
            "[rank0]:step: {0}  loss: 7.7  memory: 44.00GiB(46%)  tps: 8,192  tflops: 95.5  mfu: "
            "9.6%\n"
            "[rank0]:\x1b[32mvalidate step: {0}  \x1b[31mloss: 7.9  memory: 44.00GiB(46%)  tps: "
            "65,536\x1b[39m\n",
            step);
    const std::string log = folder.file("a.log", text);
    const ReadLog shipped = import_log(log);
    CHECK(series(shipped.runs.at(0), "tokens_per_s") == Points{{10, 8192}, {20, 8192}, {30, 8192}});
    CHECK(shipped.lines == LineCounts{3, 3, 0});
    ImportRequest options;
    options.pattern =
        folder.file("t.toml",
                    "tokens = 16384\nignore = [\"no such line\", \"validate step:\"]\n"
                    "lines = [\"step: {#}{}tps: {tokens_per_s:tokens/s}\"]\n");
    CHECK(series(import_log(log, options).runs.at(0), "step") == Points{{10, 2}, {20, 2}, {30, 2}});
    CHECK_THROWS_WITH(
        read_log_pattern(folder.file("p.toml", "ignore = \"x\"\nlines = [\"step {#}\"]\n")),
        Contains("p.toml:1:10: ignore: found \"x\"; expected an array of texts"));
    CHECK_THROWS_WITH(
        read_log_pattern(folder.file("p.toml", "ignore = [\"\"]\nlines = [\"step {#}\"]\n")),
        Contains("p.toml:1:10: ignore: an empty text stands in every line"));
}

// 1.2 million samples exceed what a record keeps in memory (2^20); the median of 400000 equal steps
// is theirs.
TEST_CASE("a run beyond what is kept in memory loses no sample and keeps its medians") {
    const LogFolder folder;
    SampleRecord record;
    const auto step = record.phase("step");
    for (int i = 0; i < 1'200'000; ++i) record.add(step, -1, i, i);
    double sum = 0;
    record.replay([&](const SampleRecord::Value& v) { sum += v.value; });
    CHECK(sum == 1'200'000.0 * 1'199'999.0 / 2);
    CHECK(record.last_step() == 1'199'999);
}

TEST_CASE("an import writes only the phases asked for beside medians and inputs") {
    const LogFolder folder;
    std::string text;
    for (int i = 1; i <= 20; ++i) text += "step=" + std::to_string(i) + " took 0.5 s fwd 0.2 s\n";
    const std::string log = folder.file("a.log", text), out = (folder.path / "m.csv").string();
    const std::string pattern =
        folder.file("p.toml", "lines = [\"step={#} took {step:s} s fwd {forward:s}\"]\n");
    import_to_files({.logs = {log},
                     .out = out,
                     .routing_out = {},
                     .medians_only = true,
                     .kept_phases = {"step"},
                     .pattern = pattern,
                     .system = {},
                     .model = "m",
                     .inputs = {"workload.seq=128"}});
    const std::vector<Sample> rows = read_measurements(out);
    // steps; the input; medians of step and forward, mean of the step
    CHECK(rows.size() == 20 + 1 + 3);
    CHECK(rows.front().model == "m");
    CHECK(std::count_if(rows.begin(), rows.end(),
                        [](const Sample& s) { return s.phase == "forward"; }) == 1);
}

// Fifty lines, one of ten steps; and a run that went on after 50,000: medians of either are of what
// the log tells, its first steps left out.
TEST_CASE("logs of every tenth step and of resumed runs have medians") {
    const LogFolder folder;
    const std::string out = (folder.path / "m.csv").string();
    const std::string pattern = folder.file("p.toml", "lines = [\"step={#} took {step:s} s\"]\n");
    const auto median_of = [&](int first, int every, int lines) {
        std::string text;
        for (int i = 0; i < lines; ++i)
            text += fmt::format("step={} took {} s\n", first + every * i, i < 10 ? 9 : 0.5);
        import_to_files({.logs = {folder.file("a.log", text)},
                         .out = out,
                         .routing_out = {},
                         .medians_only = true,
                         .pattern = pattern,
                         .system = {},
                         .model = "m"});
        std::vector<double> medians;
        for (const Sample& s : read_measurements(out))
            if (s.phase == "step") medians.push_back(s.value);
        return medians;
    };
    CHECK(median_of(10, 10, 50) == std::vector<double>{0.5});
    // of thirty the first nine are no steady ones
    CHECK(median_of(50001, 1, 30) == std::vector<double>{0.5});
}
