"""Errors, threads, memory, pictures, and what is missing."""

import copy
import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import stepcast
from stepcast.toml_text import value_text
from support import SOURCES, message_of


class Errors(unittest.TestCase):
    def refused(self, expected, call):
        with self.assertRaises(stepcast.ConfigError) as found:
            call()
        self.assertEqual(str(found.exception), expected)
        self.assertIsInstance(found.exception, (stepcast.Error, ValueError))

    def test_messages_are_those_of_the_command_line(self):
        self.refused(message_of("simulate", "gpt3_175b_a10"), lambda: stepcast.simulate("gpt3_175b_a10"))
        self.refused(message_of("simulate", "gpt3_175b_a100", "--set", "parallelism.tpp=8"),
                     lambda: stepcast.simulate("gpt3_175b_a100", set={"parallelism.tpp": 8}))
        self.refused(message_of("simulate", "gpt3_175b_a100", "--set", "tp=7"),
                     lambda: stepcast.simulate("gpt3_175b_a100", set={"tp": 7}))
        self.refused(message_of("sweep", "gpt3_175b_a100", "--vary", "parallelism.tp=8..1"),
                     lambda: stepcast.sweep("gpt3_175b_a100", {"parallelism.tp": "8..1"}))
        self.refused(message_of("compare", "absent.csv"), lambda: stepcast.compare("absent.csv"))
        self.refused(message_of("compare", "absent.csv", "--cluster", "dgx-h101"), lambda: stepcast.cluster("dgx-h101"))
        self.refused(message_of("calibrate", "--device", "host"), lambda: stepcast.calibrate(device="host"))

    def test_a_dict_is_checked_like_a_file(self):
        with self.assertRaisesRegex(stepcast.ConfigError, r'experiment:1:13: .*tpp.*did you mean "parallelism.tp"'):
            stepcast.simulate({"parallelism": {"tpp": 8}})
        with self.assertRaisesRegex(stepcast.ConfigError, "parallelism.tp: found NoneType, expected a text, a number"):
            stepcast.simulate({"parallelism": {"tp": None}})
        with self.assertRaisesRegex(stepcast.ConfigError, "beside: found one forecast"):
            stepcast.beside(["moe_layer_fast_moe"])
        with self.assertRaises(TypeError):
            stepcast.simulate("moe_layer_fast_moe", gpus="eight")

    def test_what_would_be_ignored_is_refused(self):
        for refused in (lambda: stepcast.simulate("host_moe", gpus=-8), lambda: stepcast.calibrate(device="host", ranks=-1),
                        lambda: stepcast.sweep("host_moe", {"parallelism.tp": [1]}, threads=-1)):
            with self.assertRaisesRegex(stepcast.ConfigError, "found -[18], expected 0 to"):
                refused()
        with self.assertRaisesRegex(stepcast.ConfigError, "--model"):
            stepcast.simulate("gpt3_175b_a100", model="llama3-8b")
        with self.assertRaisesRegex(stepcast.ConfigError, "several values of one key.*beside"):
            stepcast.simulate("gpt3_175b_a100", set={"recompute": "selective", "parallelism.recompute": "full"})
        with self.assertRaisesRegex(stepcast.ConfigError, "profiler's trace"):
            stepcast.compare(SOURCES + "/tests/data/traced/rank0.json.gz")
        with self.assertRaisesRegex(stepcast.ConfigError, "name of a folder"):
            stepcast.simulate("moe_layer_fast_moe").write("")

    def test_no_name_is_no_cluster_and_a_comma_no_value(self):
        with self.assertRaisesRegex(stepcast.ConfigError, '"" is no preset'):
            stepcast.cluster("")
        with self.assertRaisesRegex(stepcast.ConfigError, 'workload.name: "a,b" holds a comma'):
            stepcast.sweep("moe_layer_fast_moe", {"workload.name": ["a,b", "c"]})
        self.assertEqual(stepcast.sweep("moe_layer_fast_moe", {"parallelism.moe_system": "fast_moe,alltoall"}).counts.legal, 2)

    def test_paths_are_files(self):
        with tempfile.TemporaryDirectory() as folder:
            mine = Path(folder) / "mine.toml"
            mine.write_text('preset = "nemo"\n')
            named = stepcast.simulate("gpt3_175b_a100", framework="nemo").step_s
            self.assertEqual(stepcast.simulate("gpt3_175b_a100", framework=mine).step_s, named)
        with self.assertRaisesRegex(stepcast.ConfigError, "--model"):
            stepcast.simulate("gpt3_175b_a100", model=Path("config.json"))

    def test_answers_are_copied_and_pickled(self):
        asked = stepcast.simulate("moe_layer_fast_moe")
        kept = pickle.loads(pickle.dumps(asked))
        self.assertEqual((kept, str(kept), kept.to_dict()), (asked, str(asked), asked.to_dict()))
        with self.assertRaisesRegex(stepcast.ConfigError, "pickled has no pictures"):
            kept.write("folder")
        for copied in (copy.copy(asked), copy.deepcopy(asked)):
            self.assertEqual(copied, asked)
            self.assertIn("</svg>", copied._repr_svg_())

    def test_numbers_of_numpy_are_numbers(self):
        class Scalar(float):  # as numpy.float64, whose repr has the name of its type
            def __repr__(self):
                return "np.float64(1.25)"

        class Other:  # as numpy.int64, numpy.bool_ and arrays
            def __init__(self, value):
                self.value = value

            def tolist(self):
                return self.value

        def text(value):
            return value_text(value, "key")

        self.assertEqual([text(Scalar(1.25)), text(Other(8)), text(Other(True)), text(Other([1, 2]))], ["1.25", "8", "true", "[1, 2]"])

    def test_names_that_are_hostile_stay_text(self):
        name = 'a"b\\c`d<e>\n\u202e'
        with self.assertRaises(stepcast.ConfigError):
            stepcast.simulate({"workload": {"preset": name}})

    def test_refused_cases_have_reasons(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "cases.csv")
            path.write_text("source,case_id,model,gpus,gpu,step_s\nown,one,no-such-model,8,H100,10\n")
            found = stepcast.compare(path)
            self.assertEqual((found.predicted, found.refused_count, found.mape), (0, 1, None))
            self.assertIn("no-such-model", found.refused[0]["reason"])


class Locales(unittest.TestCase):
    def test_a_comma_as_the_decimal_point_changes_nothing(self):
        """A program around us may call setlocale: with German numbers a map once held 1 for a step of 1.5 s."""
        script = ("import locale, sys, stepcast\n"
                  "locale.setlocale(locale.LC_ALL, sys.argv[1])\n"
                  "stepcast.sweep('host_block', {'parallelism.micro_batch': [1, 2], 'cluster.link.intra.latency': ['1 us', '2 us']},"
                  " out=sys.argv[2]).write(sys.argv[2])\n")
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", f"{folder}/de_DE.UTF-8"], capture_output=True) \
                if shutil.which("localedef") else None
            if made is None or made.returncode > 1:
                self.skipTest("no localedef here")
            pages = {}
            for name in ("C", "de_DE.UTF-8"):
                subprocess.run([sys.executable, "-c", script, name, f"{folder}/{name[0]}"], check=True, env={**os.environ, "LOCPATH": folder})
                pages[name] = Path(folder, name[0], "report.html").read_text()
            self.assertIn('"points"', pages["C"])
            self.assertEqual(pages["C"], pages["de_DE.UTF-8"])


class Threads(unittest.TestCase):
    def test_others_go_on_while_stepcast_works(self):
        # No thread is made to give way: the main one runs before the sweep's end only if the sweep lets go.
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            ended = threading.Event()

            def work():
                stepcast.sweep("llama3_8b_h100_fsdp", {"parallelism": "all"}, top=1, threads=1)
                ended.set()

            thread = threading.Thread(target=work)
            thread.start()
            seen = ended.is_set()
            thread.join()
        finally:
            sys.setswitchinterval(before)
        self.assertFalse(seen)

    def test_many_at_once_answer_as_one_after_another(self):
        splits = [{"tp": tp, "pp": 64 // 2 // tp, "dp": 2} for tp in (2, 4, 8)] * 4
        alone = [stepcast.simulate("gpt3_175b_a100", set={**s, "vp": 1}).to_dict() for s in splits]
        beside = [None] * len(splits)

        def work(i):
            beside[i] = stepcast.simulate("gpt3_175b_a100", set={**splits[i], "vp": 1}).to_dict()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(splits))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(alone, beside)

    def test_progress_is_told_and_may_end_the_work(self):
        told = []
        stepcast.sweep("llama3_8b_h100_fsdp", {"parallelism": "all"}, top=1, progress=told.append)
        self.assertTrue(told and all("points" in line for line in told))

        def stop(line):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            stepcast.sweep("llama3_8b_h100_fsdp", {"parallelism": "all"}, top=1, progress=stop)


class Memory(unittest.TestCase):
    def test_hundreds_of_forecasts_of_a_folded_70b_leak_nothing(self):
        def resident():
            return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024  # MiB

        def one(i):
            return stepcast.simulate("llama3-70b", cluster="H100", gpus=512, set={"tp": 8, "pp": 4, "micro_batch": 1 + i % 2})

        for i in range(100):
            one(i)
        before = resident()
        for i in range(250):
            one(i)
        self.assertLess(resident() - before, 4)  # 16 KiB a forecast


class Pictures(unittest.TestCase):
    def test_notebooks_show_them(self):
        forecast = stepcast.simulate("moe_layer_fast_moe")
        self.assertRegex(forecast._repr_svg_(), r"(?s)^<\?xml.*</svg>")
        self.assertEqual(list(stepcast.simulate("moe_layer_fast_moe", explain=True).plots()), ["elasticity", "gantt"])
        found = stepcast.sweep("gpt3_175b_a100", {"parallelism.tp": [4, 8], "parallelism.pp": [4, 8], "parallelism.dp": "rest"})
        self.assertIn("</svg>", found._repr_svg_())
        self.assertIn("</svg>", stepcast.beside(["moe_layer_fast_moe", "moe_layer_alltoall"])._repr_svg_())

    def test_without_gnuplot_it_is_said_and_the_rest_is_there(self):
        forecast = stepcast.simulate("moe_layer_fast_moe")
        path = os.environ["PATH"]
        os.environ["PATH"] = "/nowhere"
        try:
            with self.assertWarnsRegex(stepcast.Note, "no picture: .*gnuplot-nox"):
                self.assertIsNone(forecast._repr_svg_())
            with self.assertRaisesRegex(stepcast.ConfigError, "gnuplot-nox"):
                forecast.plots()
        finally:
            os.environ["PATH"] = path

    def test_folders_that_cannot_be_written(self):
        with self.assertRaisesRegex(stepcast.ConfigError, "/proc/nowhere"):
            stepcast.simulate("moe_layer_fast_moe").write("/proc/nowhere")


class Tables(unittest.TestCase):
    def frame_with(self, pandas):
        """frame() where `import pandas` finds this text, or where it is None nothing."""
        with tempfile.TemporaryDirectory() as folder:
            code = "import stepcast; print(stepcast.simulate('moe_layer_fast_moe').frame())"
            if pandas is None:
                code = "import sys; sys.modules['pandas'] = None; " + code
            else:
                Path(folder, "pandas.py").write_text(pandas)
            path = os.pathsep.join([folder, *sys.path])
            return subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)

    def test_frames_are_made_by_pandas(self):
        found = self.frame_with("class DataFrame:\n    def __init__(self, rows): self.rows = rows\n    def __repr__(self): return repr(self.rows)")
        self.assertEqual(found.stdout.strip(), repr(stepcast.simulate("moe_layer_fast_moe").rows()))

    def test_without_pandas_it_is_said(self):
        found = self.frame_with(None)
        self.assertIn("ImportError: no pandas: pip install pandas; rows() has the same", found.stderr)


class Types(unittest.TestCase):
    def test_answers_cannot_be_changed_and_compare_by_value(self):
        a, b = stepcast.simulate("moe_layer_fast_moe"), stepcast.simulate("moe_layer_fast_moe")
        self.assertEqual(a, b)
        with self.assertRaises(AttributeError):
            a.fits = False
        a.to_dict()["fits"] = "changed"
        self.assertIs(a.to_dict()["fits"], True)

    def test_what_is_not_said_by_the_answer_is_none(self):
        self.assertIsNone(stepcast.simulate("moe_layer_fast_moe").explain)

    def test_notes_are_warnings(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "config.json")
            path.write_text('{"model_type": "no_such_family", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,'
                            ' "intermediate_size": 4096, "vocab_size": 32000}')
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                stepcast.simulate(path, cluster="H100", gpus=8, set={"workload.seq": 1024})
            self.assertTrue(any(issubclass(w.category, stepcast.Note) for w in told), told)


if __name__ == "__main__":
    unittest.main()
