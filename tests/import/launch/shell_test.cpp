#include <catch2/catch.hpp>

#include "import/launch/shell.h"
#include "import/launch/shell_launch.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

ShellLaunch read_shell(const std::string& script) { return read_launch(script, "run.sh", {}); }

// The words of the launch behind the program's name.
std::string flags(const std::string& script) {
    std::string text;
    bool behind = false;
    for (const auto& argument : read_shell(script).arguments) {
        if (behind) text += (text.empty() ? "" : " ") + argument.text;
        behind = behind || argument.text == "train.py";
    }
    return text;
}

}  // namespace

TEST_CASE("functions of a script run where they are called, with their arguments") {
    CHECK(flags("main() {\n  setup\n  go 8 \"$@\" --a $A\n}\nsetup() { A=1; }\n"
                "function go {\n  local n=$1; shift\n  torchrun --nproc_per_node $n train.py "
                "\"$@\" $#\n}\nA=7\nmain\n") == "--a 1 2");
    // handed to another shell
    CHECK(flags("f() { torchrun train.py --a $A; }\nA=2\nexport -f f\nsrun bash -c f\n") ==
          "--a 2");
    CHECK(
        flags("die() { echo $* >&2; exit 1; }\n[ 1 -gt 0 ] || die no\ntorchrun train.py --a 1\n") ==
        "--a 1");
    CHECK(flags("f() { f; }\nf\ntorchrun train.py --a 1\n") == "--a 1");
}

TEST_CASE("where output goes is no argument, and a second training command is named") {
    for (const char* end :
         {"2>&1 | tee log", "> log 2>&1 &", ">> log", "&> log", "1>log 2> err", "< /dev/null"})
        CHECK(flags("torchrun train.py --a 1 " + std::string(end) + "\n") == "--a 1");
    const ShellLaunch two = read_shell("torchrun train.py --a 1 --b 2\ntorchrun train.py --a 3\n");
    CHECK(two.notes ==
          std::vector<std::string>{"training commands at run.sh:1 and run.sh:2: one is forecast, "
                                   "the one with most flags or the last"});
    CHECK(read_shell("torchrun train.py --a 1\n").notes.empty());
    // one command of a loop, with other flags each time
    CHECK(read_shell("for a in 1 2 4; do\ntorchrun train.py --a $a\ndone\n").notes ==
          std::vector<std::string>{"the training command at run.sh:2 runs several times: one is "
                                   "forecast, the one with most flags or the last"});
    CHECK(read_shell("for a in 1 2; do\ntorchrun train.py --a 1\ndone\n").notes.empty());
}

TEST_CASE("functions and loops without end are bounded") {
    std::string open, nested = "torchrun train.py --a 1\n", loops = "true";
    for (int i = 0; i < 2000; ++i) open += "f() {\n";
    CHECK_THROWS_WITH(read_shell(open + nested), Catch::Matchers::Contains("more than 64 deep"));
    for (int i = 0; i < 100; ++i) nested = "for a in 1\ndo\n" + nested + "done\n";
    CHECK_THROWS_WITH(read_shell(nested), Catch::Matchers::Contains("more than 64 deep"));
    for (int i = 0; i < 12; ++i) loops = "for a in 1 2 3 4 5 6 7 8; do " + loops + "; done";
    CHECK_THROWS_WITH(read_shell(loops + "\n"),
                      Catch::Matchers::Contains("more than 1000000 commands"));
}

// Each took minutes, gigabytes or more stack than there is.
TEST_CASE("long scripts of one thing again and again are read or refused at once") {
    const auto times = [](std::size_t count, const std::string& text) {
        std::string all;
        for (std::size_t i = 0; i < count; ++i) all += text;
        return all;
    };
    const std::string run = "\ntorchrun train.py --a $A\n";
    CHECK(flags("A=0\n" + times(100'001, "! ") + "true || A=1" + run) == "--a 1");
    CHECK(flags("A=0\n[[ " + times(100'000, "1 && ") + "1 ]] && A=1" + run) == "--a 1");
    CHECK(flags(times(100'000, "time ") + "A=1" + run) == "--a 1");
    CHECK(flags("N=" + times(1'000'000, "-") + "\nA=$(( $N 1 ))" + run) == "--a");
    CHECK(flags("N=" + times(100'000, "a") + "\nA=${N//a/bb}; A=${#A}" + run) == "--a 1");
    const auto too_much =
        Catch::Matchers::Contains("the variables become more than 16777216 bytes of text");
    CHECK_THROWS_WITH(read_shell("N=" + times(100'000, "a") + "\nA=${N//a/$N}" + run), too_much);
    CHECK_THROWS_WITH(read_shell("N=" + times(100'000, "a") + "\nA=${N#*b}" + run), too_much);
    CHECK_THROWS_WITH(read_shell("N=" + times(1000, "a") + "\nsbatch <<E\n#!/bin/sh\n" +
                                 times(20'000, "$N\n") + "E" + run),
                      too_much);
    CHECK_THROWS_WITH(
        read_shell("A=" + times(33, "\"$(") + run),
        Catch::Matchers::Contains("run.sh:1: brackets in quotes in brackets, more than 32 deep"));
}

TEST_CASE("quotes in a substitution in quotes are of the substitution") {
    CHECK(flags("torchrun train.py --a \"$(echo \"1 2\")\" --b 3\n") == "--a 1 2 --b 3");
    CHECK(flags("torchrun train.py --a x\"$(cat \"a file\")\" --b 3\n") == "--a x --b 3");
}

TEST_CASE("loops over words, tables by key, elements by number") {
    CHECK(flags("for a in '--x 1' --y; do A=\"$A $a\"; done\ntorchrun train.py --z $A\n") ==
          "--z --x 1 --y");
    CHECK(flags("declare -A H=( [\"7b\"]=4096 [13b]=5120 )\nH[70b]=8192\nS=13b\ntorchrun train.py "
                "--h ${H[$S]} ${H[70b]}\n") == "--h 5120 8192");
    CHECK(flags("S=(1 2 4); I=1\ntorchrun train.py --s ${S[$I]} ${S[-1]} ${S[I+1]} ${#S[@]}\n") ==
          "--s 2 4 4 3");
}

TEST_CASE("patterns, parts of values, defaults that are kept") {
    const std::string by_size =
        "case $M in\n *70b*)\n  N=80\n  ;;\n *13b*) N=40;;\n *7b|*8b) N=32;;\nesac\ntorchrun "
        "train.py --n $N\n";
    CHECK(flags("M=llama2-13b\n" + by_size) == "--n 40");
    CHECK(flags("M=llama3-8b\n" + by_size) == "--n 32");
    CHECK(flags("M=llama2-13b\nif [[ $M == gpt* || ( -z $M ) ]]; then A=1; elif [[ $M == llama* && "
                "${M##*-} != 7b ]]; then A=2; fi\n"
                "torchrun train.py --a $A\n") == "--a 2");
    CHECK(
        flags(
            "M=Llama2-13b\ntorchrun train.py --a ${M##*-} ${M%-*} ${M/13b/7b} ${M:0:5} ${M,,}\n") ==
        "--a 13b Llama2 Llama2-7b Llama llama2-13b");
    CHECK(flags(": ${TP:=4} \"${PP:=2}\"\ntorchrun train.py --a $TP $PP $(echo x$TP)\n") ==
          "--a 4 2 x4");
}

// 2 x 8 x 4 x 8 / (2 x 4) = 64; 13 > 10 chooses 4.
TEST_CASE("sums with brackets and choices; one that cannot be read is named, not guessed") {
    CHECK(flags("TP=2; PP=4; N=4\ntorchrun train.py --g $((2*8*N*8/(TP*PP))) $(( (N+1)*2 ))\n") ==
          "--g 64 10");
    CHECK(flags("S=13b\ntorchrun train.py --g $(( ${S%b} > 10 ? 4 : 2 )) $((1 && 0)) $((7 % 4 == "
                "3))\n") == "--g 4 0 1");
    const auto unread = read_shell("torchrun train.py --g $((16#ff))\n");
    REQUIRE(unread.unknown.size() == 1);
    CHECK(unread.unknown[0] == "$((16#ff)) (run.sh:1)");
}

// 64 / 8 = 8 replicas x 4 = 32; a comment in backticks, as people put it into a long command, is
// nothing.
TEST_CASE("backticks are one word, expr is a sum, and a comment in them is no argument") {
    CHECK(
        flags(
            "D=$(expr 64 / 8)\nG=`expr $D \\* 4`\ntorchrun train.py --g $G --h `expr $G - 2`\n") ==
        "--g 32 --h 30");
    CHECK(flags("torchrun train.py --bf16 True `# mixed` \\\n  --a 1 `# one` --b 2\n") ==
          "--bf16 True --a 1 --b 2");
    CHECK_THROWS_WITH(read_shell("torchrun train.py --a `echo 1\n"), Contains("a ` is not closed"));
}

TEST_CASE(
    "what stands behind a command that does its work is run, a script in a here-document too") {
    CHECK(flags("cd /opt/megatron && torchrun train.py --a 1 || { echo failed; exit 1; }\n") ==
          "--a 1");
    CHECK(flags("A=0; B=0\nfalse && { A=1; B=1; }\ntrue || { A=2; B=2; }\ntorchrun train.py --a $A "
                "--b $B\n") == "--a 0 --b 0");
    CHECK(flags("M=b\ncase $M in b) A=1; B=2 ;; *) A=3; esac\ntorchrun train.py --a $A --b $B\n") ==
          "--a 1 --b 2");
    CHECK(flags("A=1\necho $X | grep -q y && A=2\ntorchrun train.py --a $A\n") == "--a 1");
    const auto batch = read_shell(
        "N=4\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\nsrun python train.py --n $N\nEOF\n");
    CHECK(batch.directives.at("nodes") == "4");
    const auto several = read_shell(
        "#!/bin/bash\n#SBATCH --nodes=4 --gpus-per-node 8 -n32  # in all\n#SBATCH -J x "
        "--exclusive\nsrun python train.py --n $SLURM_NNODES\n");
    CHECK(several.directives == std::map<std::string, std::string>{{"nodes", "4"},
                                                                   {"gpus-per-node", "8"},
                                                                   {"ntasks", "32"},
                                                                   {"ntasks-per-node", "8"},
                                                                   {"J", "x"}});
    CHECK(several.arguments.back().text == "4");
    REQUIRE(batch.arguments.size() == 5);
    CHECK(batch.arguments[3].at == "run.sh:5");
    CHECK(batch.arguments[4].text == "4");
}
