#!/usr/bin/env python3
"""What a snapshot of PyTorch's memory holds, beside a forecast: memory-snapshot.py SNAPSHOT.pickle [FORECAST.json] [--device N] [--json]

SNAPSHOT.pickle: torch.cuda.memory._dump_snapshot(), or a pickle of torch.cuda.memory._snapshot() or .memory_snapshot(). In its place, of
peaks alone: a text with torch.cuda.memory_summary(), or what Hugging Face's Trainer writes with skip_memory_metrics=False
(train_results.json, all_results.json or its log).
FORECAST.json: what `stepcast simulate .. --memory --json` printed. Nothing of the pickle is executed: it may hold numbers, texts,
lists, tuples and dicts alone. Figures of a peak need a record of what happened (torch.cuda.memory._record_memory_history).
"""

import argparse
import json
import pickle
import re
import sys

# Where a stack says what a tensor is of; the first that fits. Names of functions, then parts of paths.
PARTS = (
    ("optimizer", ("_init_group", "_single_tensor_adamw", "_init_state"), ("/optim/", "optimizer")),
    ("backward", ("backward", "run_backward", "_engine_run_backward", "unpack_hook"), ("/autograd/",)),
    ("logits", ("cross_entropy", "nll_loss", "log_softmax"), ("/loss",)),
    ("weights", ("__init__", "reset_parameters", "_apply", "to_empty", "init_weights", "from_pretrained", "empty_init"), ("modeling_utils",)),
)
# Of which kinds of the forecast a part is.
KINDS = {
    "weights": ("weights",),
    "optimizer": ("optimizer",),
    "activations": ("activations", "logits"),
    "rest": ("gradients", "work", "gathered", "exchanged", "workspaces"),
}


class SnapshotError(ValueError):
    """What cannot be read, with what was expected."""


class PlainUnpickler(pickle.Unpickler):
    """Values alone: no class, no function."""

    def find_class(self, module, name):
        raise SnapshotError(f"found {module}.{name}; expected numbers, texts, lists, tuples and dicts alone, as torch.cuda.memory writes them")


def read_pickle(path):
    with open(path, "rb") as file:
        try:
            return PlainUnpickler(file).load()
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {error}") from None
        except Exception as error:  # whatever a damaged pickle makes of itself
            raise SnapshotError(f"{path}: no pickle ({error or type(error).__name__}); expected a file of torch.cuda.memory._dump_snapshot()") from None


def parts_of_snapshot(data, path):
    """Segments, events of each device, the version that writes so, what was not read."""
    if isinstance(data, list):
        return data, [], "torch.cuda.memory_snapshot(), or PyTorch before 2.0", ["no record of events: figures are of the end"]
    if not isinstance(data, dict) or not isinstance(data.get("segments"), list):
        found = ", ".join(sorted(map(str, data))) if isinstance(data, dict) else type(data).__name__
        raise SnapshotError(f"{path}: found {found or 'nothing'}; expected a dict with segments, or a list of them")
    unread = sorted(set(data) - {"segments", "device_traces", "allocator_settings", "external_annotations"})
    notes = [f"keys of a later version that were not read: {', '.join(unread)}"] if unread else []
    traces = data.get("device_traces") or []
    if not any(traces):
        notes.append("no record of events: figures are of the end")
    return data["segments"], traces, "PyTorch 2.1 or later" if "allocator_settings" in data else "PyTorch 2.0", notes


def figures_of(allocated, reserved, peak_allocated, peak_reserved, writer, notes):
    """A snapshot without parts; None: not said."""
    return {"version": writer, "notes": notes, "allocated": allocated, "reserved": reserved, "peak_allocated": peak_allocated,
            "peak_reserved": peak_reserved, "parts": {}, "out_of_memory": []}


UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def read_summary(text, path, device):
    """The last table of the device; sizes are whole numbers of their unit (torch/cuda/memory.py of 2.15.0: _format_size)."""
    tables = re.split(r"PyTorch CUDA memory summary, device ID (\d+)", text)
    of_device = [table for number, table in zip(tables[1::2], tables[2::2]) if int(number) == device]
    if not of_device:
        raise SnapshotError(f"{path}: summaries of device {', '.join(sorted(set(tables[1::2])))}; expected --device N of one of these")
    found = {}
    for name in ("Allocated memory", "GPU reserved memory"):
        sizes = re.search(name + r" *\|" + 2 * r" *(\d+) +([KMGTP]?i?B) *\|", of_device[-1])
        if not sizes:
            raise SnapshotError(f"{path}: no line \"{name}\" with its current and peak usage; expected a whole torch.cuda.memory_summary()")
        found[name] = [int(sizes[i]) * UNITS[sizes[i + 1]] for i in (1, 3)]
    (allocated, peak_allocated), (reserved, peak_reserved) = found.values()
    ooms = re.search(r"CUDA OOMs: (\d+)", of_device[-1])
    notes = [f"requests that failed: {ooms[1]}"] if ooms and int(ooms[1]) else []
    return figures_of(allocated, reserved, peak_allocated, peak_reserved, "torch.cuda.memory_summary()", notes)


def read_trainer(text, path):
    """Bytes in its JSON files, MB of 2^20 in its log (transformers 5.24.0, trainer_utils.py: TrainerMemoryTracker)."""
    found = {}
    for name, value, unit in re.findall(r"\b(before_init_mem_gpu|(?:init|train)_mem_gpu_(?:alloc|peaked)_delta)[\"']?\s*[:=]\s*[\"']?(-?\d+)(MB)?", text):
        found[name] = int(value) * (2**20 if unit else 1)
    missing = [name for name in ("train_mem_gpu_alloc_delta", "train_mem_gpu_peaked_delta") if name not in found]
    if missing:
        raise SnapshotError(f"{path}: no pickle, no memory_summary() and no {' or '.join(missing)}; expected a file of torch.cuda.memory._dump_snapshot(), "
                            "a summary, or metrics of the Trainer with skip_memory_metrics=False")
    before = found.get("before_init_mem_gpu", 0) + found.get("init_mem_gpu_alloc_delta", 0)
    notes = [] if "before_init_mem_gpu" in found else ["before_init_mem_gpu is missing: counted as nothing"]
    allocated = before + found["train_mem_gpu_alloc_delta"]
    return figures_of(allocated, None, allocated + found["train_mem_gpu_peaked_delta"], None, "Hugging Face's Trainer", notes)


def text_in(path):
    """None where the file is a pickle."""
    with open(path, "rb") as file:
        data = file.read(1 << 26)
    # protocols from 2 on begin with 0x80; a text of protocol 0 names no metric
    is_text = data[:1] != b"\x80" and (b"memory summary" in data or b"_mem_gpu_" in data)
    return data.decode("utf-8", "replace") if is_text else None


def part_of(frames):
    for part, names, paths in PARTS:
        for frame in frames or ():
            name, file = frame.get("name", ""), frame.get("filename", "")
            if any(name == n or name.endswith("." + n) for n in names) or any(p in file for p in paths):
                return part
    return "activations"


def blocks_of(segments):
    """(address, size, frames) of what lives at the end. Blocks of older versions have no address of their own."""
    for segment in segments:
        address = segment.get("address", 0)
        for block in segment.get("blocks", ()):
            history = block.get("history") or [{}]
            if block.get("state") == "active_allocated":
                yield block.get("address", address), block["size"], block.get("frames") or history[0].get("frames")
            address += block["size"]


def read(path, device=0):
    """Bytes allocated and reserved at the end and at their peaks, and what lived at the peak by part."""
    text = text_in(path)
    if text is not None:
        return read_summary(text, path, device) if "memory summary" in text else read_trainer(text, path)
    data = read_pickle(path)
    try:
        return read_snapshot(*parts_of_snapshot(data, path), path, device)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise SnapshotError(f"{path}: no snapshot ({type(error).__name__}: {error}); expected segments, blocks and events as torch.cuda.memory._snapshot() "
                            "has them") from None


def read_snapshot(segments, traces, version, notes, path, device):
    segments = [s for s in segments if s.get("device", 0) == device]
    events = traces[device] if device < len(traces) else []
    if not segments and not events:
        raise SnapshotError(f"{path}: nothing of device {device}; expected --device N of one that the record is of")
    living = {address: (size, part_of(frames)) for address, size, frames in blocks_of(segments)}
    allocated, reserved = sum(size for size, _ in living.values()), sum(s["total_size"] for s in segments)
    signs = {"alloc": (1, 0), "free_requested": (-1, 0), "segment_alloc": (0, 1), "segment_map": (0, 1), "segment_free": (0, -1), "segment_unmap": (0, -1)}
    # What lived before the first event: what lives at the end, taken back event by event.
    before = dict(living)
    for event in reversed(events):
        if event["action"] == "alloc":
            before.pop(event["addr"], None)
        elif event["action"] == "free_requested":
            before[event["addr"]] = (event["size"], "before the record")
    now = dict(before)
    held = {"allocated": sum(size for size, _ in now.values()), "reserved": reserved - sum(signs.get(e["action"], (0, 0))[1] * e["size"] for e in events)}
    peak, fullest, failures = dict(held), dict(now), []
    for event in events:
        change = signs.get(event["action"], (0, 0))
        held["allocated"] += change[0] * event["size"]
        held["reserved"] += change[1] * event["size"]
        if event["action"] == "alloc":
            now[event["addr"]] = (event["size"], part_of(event.get("frames")))
        elif event["action"] == "free_requested":
            now.pop(event["addr"], None)
        elif event["action"] == "oom":
            failures.append({"asked": event["size"], "allocated": held["allocated"], "reserved": held["reserved"]})
        if held["allocated"] > peak["allocated"]:
            fullest = dict(now)
        peak = {key: max(peak[key], held[key]) for key in peak}
    parts = {}
    for size, part in fullest.values():
        parts[part] = parts.get(part, 0) + size
    return {"version": version, "notes": notes, "allocated": allocated, "reserved": reserved, "peak_allocated": peak["allocated"],
            "peak_reserved": peak["reserved"], "parts": parts, "out_of_memory": failures}


def beside(snapshot, forecast):
    """Rows (name, measured, forecast) of peaks and parts."""
    if "allocator_bytes" not in forecast:
        raise SnapshotError("the forecast has no allocator_bytes; expected the output of stepcast simulate .. --memory --json")
    said = forecast["allocator_bytes"]
    rows = [(name, snapshot["peak_" + name], said[name]) for name in ("allocated", "reserved") if snapshot["peak_" + name] is not None]
    parts = snapshot["parts"]
    if not parts:
        return rows
    measured = {"weights": parts.get("weights", 0), "optimizer": parts.get("optimizer", 0), "activations": parts.get("activations", 0) + parts.get("logits", 0)}
    measured["rest"] = sum(parts.values()) - sum(measured.values())
    for part, kinds in KINDS.items():
        rows.append((part, measured[part], sum(said["kinds"].get(kind, 0) for kind in kinds)))
    return rows


def text_of(snapshot, rows):
    gib = 2.0**30
    lines = [f"written by {snapshot['version']}"] + snapshot["notes"]
    for failure in snapshot["out_of_memory"]:
        lines.append(f"out of memory: asked for {failure['asked'] / gib:.2f} GiB with {failure['allocated'] / gib:.2f} GiB allocated, "
                     f"{failure['reserved'] / gib:.2f} GiB reserved")
    if rows:
        lines.append(f"{'':14}{'measured':>12}{'forecast':>12}{'error':>10}")
        for name, measured, said in rows:
            error = f"{100 * (said / measured - 1):+.1f} %" if measured else "-"
            lines.append(f"{name:14}{measured / gib:>8.2f} GiB{said / gib:>8.2f} GiB{error:>10}")
    else:
        peaks = [(snapshot["peak_" + name], name) for name in ("allocated", "reserved")]
        lines.append("peak: " + ", ".join(f"{size / gib:.2f} GiB {name}" for size, name in peaks if size is not None))
        lines += [f"  {part:20}{size / gib:>8.2f} GiB" for part, size in sorted(snapshot["parts"].items(), key=lambda one: -one[1])]
    return "\n".join(lines)


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("snapshot")
    reader.add_argument("forecast", nargs="?")
    reader.add_argument("--device", type=int, default=0)
    reader.add_argument("--json", action="store_true")
    options = reader.parse_args()
    try:
        snapshot = read(options.snapshot, options.device)
        rows = []
        if options.forecast:
            with open(options.forecast, encoding="utf-8") as file:
                rows = beside(snapshot, json.load(file))
    except (SnapshotError, OSError, json.JSONDecodeError) as error:
        sys.exit(f"memory-snapshot: {error}")
    if options.json:
        print(json.dumps({**snapshot, "rows": [{"what": name, "measured": measured, "forecast": said} for name, measured, said in rows]}))
    else:
        print(text_of(snapshot, rows))


if __name__ == "__main__":
    main()
