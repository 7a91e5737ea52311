"""scripts/memory-snapshot.py on snapshots of each form that PyTorch writes, made by hand."""

import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

from support import SOURCES, json_of

SCRIPT = os.path.join(SOURCES, "scripts", "memory-snapshot.py")
spec = importlib.util.spec_from_file_location("memory_snapshot", SCRIPT)
memory_snapshot = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory_snapshot)

MIB = 2**20


def frames(*names):
    return [{"filename": f"/site-packages/torch/{file}", "line": 1, "name": name} for file, name in names]


FORWARD = frames(("nn/functional.py", "linear"), ("model.py", "forward"))
INIT = frames(("nn/modules/linear.py", "__init__"),)
STATES = frames(("optim/adamw.py", "_init_group"), ("optim/optimizer.py", "step"))
BACKWARD = frames(("autograd/graph.py", "_engine_run_backward"), ("_tensor.py", "backward"))


def block(address, mib, state="active_allocated", of=INIT):
    return {"address": address, "size": mib * MIB, "requested_size": mib * MIB, "state": state, "frames": of}


def event(action, address, mib, of=()):
    return {"action": action, "addr": address, "size": mib * MIB, "stream": 0, "time_us": 0, "frames": list(of)}


# 10 MiB of weights lived before the record. In it: a segment of 40 MiB, 20 of activations, 6 of a gradient, the activations go, 8 of states.
# Peak of allocated: 10 + 20 + 6 = 36; at the end 10 + 6 + 8 = 24. Reserved 20 before, 60 after the segment, the peak.
EVENTS = [event("segment_alloc", 1000, 40), event("alloc", 1000, 20, FORWARD), event("alloc", 1020, 6, BACKWARD),
          event("free_requested", 1000, 20), event("free_completed", 1000, 20), event("alloc", 1030, 8, STATES)]
SEGMENTS = [{"device": 0, "address": 0, "total_size": 20 * MIB, "blocks": [block(0, 10), block(10, 10, "inactive")]},
            {"device": 0, "address": 1000, "total_size": 40 * MIB,
             "blocks": [block(1000, 20, "inactive"), block(1020, 6, of=BACKWARD), block(1030, 8, of=STATES), block(1040, 6, "inactive")]}]


class Snapshots(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file_of(self, data):
        path = os.path.join(self.folder.name, "snapshot.pickle")
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else pickle.dumps(data))
        return path

    def test_damaged_records_are_refused_in_words(self):
        for segment in ({"address": 0, "total_size": MIB, "blocks": [{"address": 0, "size": "x", "state": "active_allocated"}]},
                        {"address": 0, "total_size": MIB, "blocks": [{"state": "active_allocated"}]}, 7):
            with self.assertRaisesRegex(memory_snapshot.SnapshotError, "no snapshot .*; expected segments, blocks and events"):
                memory_snapshot.read(self.file_of({"segments": [segment], "device_traces": [[event("alloc", 0, 1)]]}))

    def test_peaks_and_parts_of_a_record(self):
        found = memory_snapshot.read(self.file_of({"segments": SEGMENTS, "device_traces": [EVENTS], "allocator_settings": {}}))
        self.assertEqual(found["version"], "PyTorch 2.1 or later")
        self.assertEqual([found[key] / MIB for key in ("allocated", "reserved", "peak_allocated", "peak_reserved")], [24, 60, 36, 60])
        self.assertEqual({part: size / MIB for part, size in found["parts"].items()}, {"weights": 10, "activations": 20, "backward": 6})

    def test_versions_are_named(self):
        older = memory_snapshot.read(self.file_of(SEGMENTS))
        self.assertIn("before 2.0", older["version"])
        self.assertEqual(older["peak_allocated"], 24 * MIB)
        self.assertIn("no record of events", older["notes"][0])
        later = memory_snapshot.read(self.file_of({"segments": SEGMENTS, "device_traces": [EVENTS], "allocator_settings": {}, "pools_v3": 1}))
        self.assertEqual(later["notes"], ["keys of a later version that were not read: pools_v3"])
        with self.assertRaisesRegex(memory_snapshot.SnapshotError, "found frames; expected a dict with segments"):
            memory_snapshot.read(self.file_of({"frames": 1}))

    def test_nothing_of_a_pickle_is_executed(self):
        marker = os.path.join(self.folder.name, "ran")
        attack = b"cposix\nsystem\n(S'touch " + marker.encode() + b"'\ntR."
        with self.assertRaisesRegex(memory_snapshot.SnapshotError, "found posix.system"):
            memory_snapshot.read(self.file_of(attack))
        self.assertFalse(os.path.exists(marker))
        for cut in (b"", b"\x80\x04", pickle.dumps(SEGMENTS)[:40]):
            with self.assertRaisesRegex(memory_snapshot.SnapshotError, "no pickle"):
                memory_snapshot.read(self.file_of(cut))

    def test_beside_a_forecast(self):
        forecast = json_of("simulate", "one_gpu_gpt2_124m", "--memory")
        said = forecast["allocator_bytes"]
        rows = dict((name, (measured, of)) for name, measured, of in memory_snapshot.beside(
            memory_snapshot.read(self.file_of({"segments": SEGMENTS, "device_traces": [EVENTS], "allocator_settings": {}})), forecast))
        self.assertEqual(rows["allocated"], (36 * MIB, said["allocated"]))
        self.assertEqual(rows["weights"], (10 * MIB, said["kinds"]["weights"]))
        self.assertEqual(rows["rest"][0], 6 * MIB)
        self.assertAlmostEqual(sum(rows[part][1] for part in memory_snapshot.KINDS), sum(said["kinds"].values()))
        with self.assertRaisesRegex(memory_snapshot.SnapshotError, "--memory --json"):
            memory_snapshot.beside({}, {})

    # The table as torch/cuda/memory.py prints it: whole numbers, a unit a row. The last one of the device counts.
    def test_a_memory_summary(self):
        line = "|" + 75 * "-" + "|\n"
        def table(device, peak, ooms=0):
            return (line + f"|{'':18}PyTorch CUDA memory summary, device ID {device:<17d} |\n" + line
                    + f"|  {'':9} CUDA OOMs: {ooms:<12d} | {'':6} cudaMalloc retries: {0:<8d}  |\n" + line
                    + "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n" + line
                    + f"| Allocated memory      |   1024 KiB | {peak:6d} KiB | 900000 KiB | 900000 KiB |\n"
                    + "|       from large pool |      0 KiB |      7 KiB |      0 KiB |      0 KiB |\n" + line
                    + "| GPU reserved memory   |     20 MiB |     60 MiB |    100 MiB |     80 MiB |\n" + line)
        path = self.file_of((table(0, 5) + "step 7\n" + table(0, 36864, 2) + table(1, 9)).encode())
        found = memory_snapshot.read(path)
        self.assertEqual([found[key] for key in ("allocated", "reserved", "peak_allocated", "peak_reserved")], [MIB, 20 * MIB, 36 * MIB, 60 * MIB])
        self.assertEqual(found["notes"], ["requests that failed: 2"])
        said = {"allocator_bytes": {"allocated": 40 * MIB, "reserved": 66 * MIB, "kinds": {}}}
        self.assertEqual(memory_snapshot.beside(found, said), [("allocated", 36 * MIB, 40 * MIB), ("reserved", 60 * MIB, 66 * MIB)])
        with self.assertRaisesRegex(memory_snapshot.SnapshotError, "summaries of device 0, 1; expected --device"):
            memory_snapshot.read(path, 4)
        with self.assertRaisesRegex(memory_snapshot.SnapshotError, "no line \"Allocated memory\""):
            memory_snapshot.read(self.file_of(table(0, 5)[:300].encode()))

    # 100 MiB before, 20 by the model's way to the GPU, 30 left behind by the training, and 50 more at its peak: 200. The log has whole MB.
    def test_metrics_of_the_trainer(self):
        sizes = {"before_init_mem_gpu": 100, "init_mem_gpu_alloc_delta": 20, "init_mem_gpu_peaked_delta": 9,
                 "train_mem_cpu_alloc_delta": 70, "train_mem_gpu_alloc_delta": 30, "train_mem_gpu_peaked_delta": 50}
        stated = json.dumps({"train_runtime": 3.5, **{name: size * MIB for name, size in sizes.items()}})
        log = "***** train metrics *****\n" + "".join(f"  {name:30} = {size:8d}MB\n" for name, size in sizes.items())
        for text in (stated, log):
            found = memory_snapshot.read(self.file_of(text.encode()))
            self.assertEqual([found["allocated"], found["peak_allocated"], found["peak_reserved"]], [150 * MIB, 200 * MIB, None])
        said = {"allocator_bytes": {"allocated": 210 * MIB, "reserved": 1, "kinds": {}}}
        self.assertEqual(memory_snapshot.beside(found, said), [("allocated", 200 * MIB, 210 * MIB)])
        self.assertIn("peak: 0.20 GiB allocated", memory_snapshot.text_of(found, []))
        with self.assertRaisesRegex(memory_snapshot.SnapshotError, "no train_mem_gpu_peaked_delta; expected"):
            memory_snapshot.read(self.file_of(b"train_mem_gpu_alloc_delta = 5MB"))

    def test_the_program(self):
        path = self.file_of({"segments": SEGMENTS, "device_traces": [EVENTS], "allocator_settings": {}})
        done = subprocess.run([sys.executable, SCRIPT, path, "--json"], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["peak_reserved"], 60 * MIB)
        refused = subprocess.run([sys.executable, SCRIPT, path, "--device", "3"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("nothing of device 3", refused.stderr)


if __name__ == "__main__":
    unittest.main()
