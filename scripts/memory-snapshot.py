#!/usr/bin/env python3
"""What a snapshot of PyTorch's memory holds, beside a forecast: memory-snapshot.py SNAPSHOT.pickle [FORECAST.json] [--device N] [--json]

SNAPSHOT.pickle: torch.cuda.memory._dump_snapshot(), or a pickle of torch.cuda.memory._snapshot() or .memory_snapshot().
FORECAST.json: what `stepcast simulate .. --memory --json` printed. Nothing of the pickle is executed: it may hold numbers, texts,
lists, tuples and dicts alone. Figures of a peak need a record of what happened (torch.cuda.memory._record_memory_history).
"""

import argparse
import json
import pickle
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
    segments, traces, version, notes = parts_of_snapshot(read_pickle(path), path)
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
    rows = [("allocated", snapshot["peak_allocated"], said["allocated"]), ("reserved", snapshot["peak_reserved"], said["reserved"])]
    parts = snapshot["parts"]
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
        lines.append(f"peak: {snapshot['peak_allocated'] / gib:.2f} GiB allocated, {snapshot['peak_reserved'] / gib:.2f} GiB reserved")
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
