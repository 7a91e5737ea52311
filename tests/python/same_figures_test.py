"""The module answers what the command line prints, to the digit."""

import re
import tempfile
import unittest
from pathlib import Path

import stepcast
from support import SOURCES, command_line, json_of

MEASUREMENTS = SOURCES + "/calibrate/measurements/"


class Simulate(unittest.TestCase):
    def test_presets(self):
        for name in ("gpt3_175b_a100", "llama_1b_pp8", "moe_layer_fast_moe"):
            self.assertEqual(stepcast.simulate(name).to_dict(), json_of("simulate", name))

    def test_settings_machine_explanation_and_training(self):
        asked = stepcast.simulate("llama3-70b", cluster="H100", gpus=64, framework="megatron-core", explain=True, tokens="15T",
                                  set={"tp": 8, "parallelism.pp": 2, "parallelism.sequence_parallel": True})
        line = ["simulate", "llama3-70b", "--cluster", "H100", "--gpus", 64, "--framework", "megatron-core", "--explain", "--tokens",
                "15T", "--set", "tp=8", "--set", "parallelism.pp=2", "--set", "parallelism.sequence_parallel=true"]
        self.assertEqual(asked.to_dict(), json_of(*line))
        self.assertEqual(str(asked), command_line(*line))
        self.assertEqual(asked.step_s.p50, asked.to_dict()["step_s"]["p50"])
        self.assertEqual(asked.training.time_s["p50"], asked.to_dict()["training"]["time_s"]["p50"])
        self.assertEqual(asked.explain.measure_next, asked.to_dict()["explain"]["measure_next"])

    def test_a_dict_is_an_experiment_file(self):
        asked = stepcast.simulate({"workload": {"preset": "gpt3-175b"}, "parallelism": {"tp": 8, "pp": 8, "dp": 1, "global_batch": 64},
                                   "cluster.preset": "dgx-a100", "cluster": {"nodes": 8, "link": {"intra": {"latency": "2 us"}}}})
        same = json_of("simulate", "gpt3-175b", "--cluster", "dgx-a100", "--set", "cluster.nodes=8", "--set", "tp=8", "--set", "pp=8",
                       "--set", "dp=1", "--set", "global_batch=64", "--set", "cluster.link.intra.latency=2 us")
        self.assertEqual(asked.experiment, "experiment")
        self.assertEqual({**asked.to_dict(), "experiment": same["experiment"]}, same)

    def test_beside(self):
        asked = stepcast.beside(["moe_layer_fast_moe"], set={"parallelism.moe_system": ["fast_moe", "alltoall"]})
        self.assertEqual(asked.to_dict(), json_of("simulate", "moe_layer_fast_moe", "--set", "parallelism.moe_system=fast_moe", "--set",
                                                  "parallelism.moe_system=alltoall"))
        self.assertEqual([row["label"] for row in asked.rows()], ["moe_system = fast_moe", "moe_system = alltoall"])
        self.assertEqual([c.step_s.p50 for c in asked.columns], [row["step_s"] for row in asked.rows()])

    def test_kernels_are_rows(self):
        asked = stepcast.simulate("moe_layer_fast_moe")
        times = [k["time_s"] for list_ in asked.to_dict()["kernels_s"].values() for k in list_]
        self.assertEqual([row["time_s"] for row in asked.rows()], times)


def without_command(file):
    """A page without the row that says which command line wrote it."""
    file = re.sub(rb"<div class=\"plain\"><dt>command</dt>.*?</div>\n?", b"", file, flags=re.S)
    return re.sub(rb"(?m)^- command: .*\n", b"", file)


class Pages(unittest.TestCase):
    """write(folder) is what --out writes, to the letter but for the command line, which Python has not."""

    def same(self, answer, *line, may_lack=frozenset()):
        with tempfile.TemporaryDirectory() as folder:
            command_line(*line, "--out", folder + "/theirs")
            answer.write(folder + "/ours")
            ours, theirs = ({file.name: without_command(file.read_bytes()) for file in Path(folder, who).iterdir()}
                            for who in ("ours", "theirs"))
            self.assertEqual({name for name in theirs if ours.get(name) != theirs[name]}, may_lack)

    def test_of_a_training(self):
        self.same(stepcast.simulate("moe_layer_fast_moe", tokens="1T"), "simulate", "moe_layer_fast_moe", "--tokens", "1T")
        self.same(stepcast.beside(["moe_layer_fast_moe", "moe_layer_alltoall"], steps="1k"), "simulate", "moe_layer_fast_moe",
                  "moe_layer_alltoall", "--steps", "1k")

    def test_of_a_search_and_a_comparison(self):
        table = MEASUREMENTS + "pipeline_llama.csv"
        self.same(stepcast.compare(table), "compare", table)
        with tempfile.TemporaryDirectory() as folder:
            axes = {"parallelism.overlap_chunks": [1, 2], "parallelism.moe_system": ["fast_moe", "alltoall"]}
            self.same(stepcast.sweep("moe_layer_alltoall", axes, out=folder), "sweep", "moe_layer_alltoall", "--vary",
                      "parallelism.overlap_chunks=1,2", "--vary", "parallelism.moe_system=fast_moe,alltoall",
                      may_lack={"sweep.csv"})  # lies where sweep(out=..) kept it


class OtherVerbs(unittest.TestCase):
    def test_sweep(self):
        asked = stepcast.sweep("gpt3_175b_a100", {"parallelism": "all", "cluster.nodes": [8]}, where="memory.peak < 76 GiB", top=3)
        line = ["sweep", "gpt3_175b_a100", "--vary", "parallelism=all", "--vary", "cluster.nodes=8", "--where", "memory.peak < 76 GiB",
                "--top", 3]
        self.assertEqual(asked.to_dict(), json_of(*line))
        self.assertEqual(str(asked), command_line(*line))
        self.assertEqual([row["step_s"] for row in asked.rows()], [c.step_s for c in asked.top])
        self.assertEqual(asked.best.settings["parallelism.tp"], asked.to_dict()["top"][0]["settings"]["parallelism.tp"])

    def test_frameworks_beside_each_other(self):
        batch = {"global_batch": 64, "seq": 4096}
        line = ["llama3-8b", "--cluster", "H100", "--gpus", 8, "--framework", "megatron-core", "--framework", "fsdp", "--set",
                "global_batch=64", "--set", "seq=4096"]
        both = {"cluster": "H100", "gpus": 8, "framework": ["megatron-core", "fsdp"]}
        self.assertEqual(stepcast.beside(["llama3-8b"], set=batch, **both).to_dict(), json_of("simulate", *line))
        asked = stepcast.sweep("llama3-8b", {"parallelism": "all"}, set=batch, top=2, **both)
        self.assertEqual(asked.to_dict(), json_of("sweep", *line, "--top", 2))
        self.assertEqual({one.settings["framework.preset"] for one in asked.of_each}, {"megatron-core", "fsdp"})
        # parallelism=all compares frameworks and, in each, its stages of ZeRO
        self.assertEqual(asked.each_of, ["framework.preset", "parallelism.zero"])
        self.assertIsNotNone(asked.of_each[1].behind_first)

    def test_front(self):
        asked = stepcast.sweep("moe_layer_alltoall", {"parallelism.overlap_chunks": [1, 2, 4]}, pareto=True)
        self.assertIsNone(asked.top)
        self.assertEqual(asked.to_dict(), json_of("sweep", "moe_layer_alltoall", "--vary", "parallelism.overlap_chunks=1,2,4", "--pareto"))

    def test_compare(self):
        asked = stepcast.compare(MEASUREMENTS + "pipeline_llama.csv")
        self.assertEqual(asked.to_dict(), json_of("compare", MEASUREMENTS + "pipeline_llama.csv"))
        self.assertEqual([row["error"] for row in asked.rows()], [row["error"] for row in asked.to_dict()["rows"]])
        self.assertEqual(asked.fitted.mape, asked.to_dict()["fitted"]["mape"])

    def test_calibrate(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = folder + "/ours.toml", folder + "/theirs.toml"
            measured = MEASUREMENTS + "ddp_models.csv"
            asked = stepcast.calibrate(measurements=measured, cluster="pcie-a100-x4", fit="hardware", out=ours)
            printed = command_line("calibrate", "--measurements", measured, "--cluster", "pcie-a100-x4", "--fit", "hardware", "--out", theirs)
            self.assertEqual(str(asked).replace(ours, theirs), printed)
            # The files are the same but for the minute.
            ours, theirs = ([line for line in Path(file).read_text().splitlines() if "date" not in line] for file in (ours, theirs))
            self.assertEqual(ours, theirs)

    def test_cluster(self):
        asked = stepcast.cluster("H100")
        def values(text):  # without the files that they were read from
            return [line.split("  # ")[0] for line in text.splitlines()]

        self.assertEqual(values(str(asked)), values(command_line("show", "dgx-h100")))
        self.assertEqual((asked.name, asked.keys["gpus_per_node"], asked.keys["gpu"]["memory"]), ("dgx-h100", 8, "79.18 GiB"))

    def test_presets_and_version(self):
        self.assertIn("gpt3_175b_a100", stepcast.presets())
        self.assertEqual(stepcast.presets("cluster"), command_line("generate", "words", "=simulate", "=--cluster", "=").split()[1:])
        self.assertEqual(stepcast.version().splitlines()[0], command_line("--version").splitlines()[0])


if __name__ == "__main__":
    unittest.main()
