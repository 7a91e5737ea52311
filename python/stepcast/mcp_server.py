"""stepcast-mcp: the verbs of the command line as tools of the Model Context Protocol, over stdin and stdout.

Each call runs the program with --json and keeps the figures that an assistant needs (mcp_answers.py). There is no state between
calls. Texts that a call brings lie in a temporary folder while it runs; nothing else is written. docs/assistants.md says which tool
answers which question."""

from __future__ import annotations

import json
import math
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar, Union

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from . import _axis, _settings
from .errors import ConfigError
from .mcp_answers import (Answer, Compared, Diagnosis, Evidence, Explanation, Forecast, Gate, Levers, Listed, Swept, Waterfall, entries_of,
                          with_ranges)
from .program import program
from .toml_text import toml_text

LIMIT_S = 300  # of one run of the program
GUIDE = """\
Forecasts of one training step of distributed training, and causes of slow steps. Times are seconds, sizes bytes, shares fractions.
- Which parallel layout, device, batch, precision, how many GPUs: sweep. How long, does it fit, what does it cost: simulate. Why no faster: explain; what a switch would change: levers.
- A run that disappoints: diagnose. Slower than a recipe: waterfall. Slower than its own history: gate. Against tables: compare.
- list_keys before a key that you are not sure of, list_presets for names. A refusal says what to change, with the options of the
  command line, which are the arguments here (--cluster is cluster).
Tell p50 with p10 .. p90 (the next measured step lies between with four chances in five), and what `evidence` and `said` say: a cluster
that is not calibrated, extrapolations, settings that were guessed. Give `command`, so that a person can repeat it. Never call a forecast
a measurement, never promise a difference that is not distinguishable, never name one cause where the verdict is cannot_tell."""


class TextFile(BaseModel):
    """A file that exists only in the conversation."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(description="without folders; its ending says what it is: train.sh, config.json, train.log")
    text: str


Source = Annotated[Union[str, TextFile, dict[str, Any]], Field(description=(
    "a preset's name, a path (of a table's row TABLE.csv:CASE), a text as {name, text}, or the tables of an experiment: {workload: {preset:"
    " llama3-70b, seq: 8192}, parallelism: {tp: 8, global_batch: 512}, cluster: {preset: dgx-h100, nodes: 8}, framework: {preset: nemo}}"))]
Set = Annotated[Optional[dict[str, Any]], Field(description="values of keys, {tp: 8, recompute: full}; list_keys has them")]
Machine = Annotated[str, Field(description="a preset, a GPU's name (H100) or a path; else the experiment's own")]
Framework = Annotated[str, Field(description="what runs it: a preset (megatron-core, torchtitan, ..) or a path")]
Gpus = Annotated[int, Field(ge=0, description="so many GPUs of the machine; data parallelism fills them. 0: the experiment's own")]
Model = Annotated[str, Field(description="what a script or log leaves open: a workload preset or config.json; of a log an experiment")]
Variant = Annotated[str, Field(description="GPU,GPUS,PRECISION of a file with a table of configurations")]
Env = Annotated[Optional[dict[str, str]], Field(description="variables that a launch script reads")]


@dataclass
class Line:
    """A command line of the program, and the texts that it reads as files of a temporary folder."""

    folder: Path
    words: list[str]
    texts: dict[str, str] = field(default_factory=dict)

    def file(self, source: Source) -> str:
        """What the program is given for `source`: a text becomes a file."""
        if isinstance(source, str):
            if source.startswith("-"):
                raise ConfigError(f'"{source}": expected a preset, a path, a text or tables')
            return source
        name, text = (source.name, source.text) if isinstance(source, TextFile) else ("experiment.toml", toml_text(source))
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise ConfigError(f'"{name}": expected the name of a file without folders')
        while name in self.texts:
            name = f"other-{name}"
        self.texts[name] = text if text.endswith("\n") else text + "\n"
        (self.folder / name).write_text(self.texts[name], "utf-8")
        return str(self.folder / name)

    def add(self, options: Mapping[str, Any]) -> None:
        """Options by their names; empty ones, 0 and False are left out. A value with a dash in front stays a value: --measured=-,2s."""
        for name, value in options.items():
            option = "--" + name.replace("_", "-")
            value = _settings(value) if isinstance(value, Mapping) else value
            for one in value if isinstance(value, list) else [value] if value else []:
                self.words += [option] if one is True else [f"{option}={one}"] if str(one).startswith("-") else [option, str(one)]

    def shown(self, text: str) -> str:
        return text.replace(f"{self.folder}/", "")

    def command(self) -> str:
        """What a person types to get this answer."""
        files = ""
        for name, text in self.texts.items():
            end = "END"
            while f"\n{end}\n" in f"\n{text}":
                end += "_"
            files += f"cat > {name} <<'{end}'\n{text}{end}\n"
        return files + self.shown(shlex.join(["stepcast", *self.words]))

    async def run(self, words: Sequence[str] = ("--json",), accepted: Sequence[int] = (0,)) -> tuple[str, list[str]]:
        """What the program prints, and what it says beside. Raises ConfigError with its words if it refuses."""
        path, environment = program()
        with anyio.move_on_after(LIMIT_S):
            done = await anyio.run_process([path, *self.words, *words], input=b"", check=False, env=environment)
            said = self.shown(done.stderr.decode("utf-8", "replace")).splitlines()
            if done.returncode not in accepted:
                raise ConfigError("\n".join(s.removeprefix("stepcast: ") for s in said) or f"the program ended with {done.returncode}")
            return done.stdout.decode("utf-8", "replace"), said
        raise ConfigError(f"took longer than {LIMIT_S} s: ask for less (fewer values, a smaller step), or run it in a shell: "
                          + self.command())

    async def evidence(self, source: str, options: Mapping[str, Any]) -> Optional[Evidence]:
        """Of answers that do not say what they rest on: that of the forecast of `source`; None where it has none alone (a log, a row)."""
        alone = Line(self.folder, ["simulate", source])
        try:
            alone.add(options)
            return Evidence.of(json.loads((await alone.run())[0]))
        except ConfigError:
            return None


@contextmanager
def asked(verb: str, sources: Sequence[Source] = (), options: Mapping[str, Any] = {}, files: Mapping[str, Any] = {}) -> Iterator[Line]:
    """`stepcast VERB SOURCES.. OPTIONS..`, where the values of `files` are sources too. Refusals become those of the tool."""
    with tempfile.TemporaryDirectory(prefix="stepcast-mcp-") as folder:
        line = Line(Path(folder), [verb])
        try:
            line.words += [line.file(source) for source in sources]
            line.add(options)
            line.add({name: line.file(source) for name, source in files.items() if source})
            yield line
        except ConfigError as error:
            raise ToolError(line.shown(str(error))) from error


Found = TypeVar("Found", bound=Answer)


def answer(kind: type[Found], line: Line, said: list[str], found: Mapping[str, Any], **more: Any) -> Found:
    return kind.model_validate({**found, "command": line.command(), "said": said, **more})


server = MCPServer("stepcast", instructions=GUIDE)
tool = server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False))


@tool
async def simulate(experiment: Source, set: Set = None, cluster: Machine = "", framework: Framework = "", gpus: Gpus = 0,
                   tokens: str = "", steps: str = "", model: Model = "", variant: Variant = "", env: Env = None) -> Forecast:
    """How long one step takes, its MFU, memory (does it fit), and with tokens ("15T") or steps ("100k") days, money, energy."""
    options = {"set": set, "cluster": cluster, "framework": framework, "gpus": gpus, "tokens": tokens, "steps": steps,
               "model": model, "variant": variant, "env": env}
    with asked("simulate", [experiment], options) as line:
        text, said = await line.run()
        found = json.loads(text)
        phases = {phase: found[f"{phase}_s"] for phase in found["phases_s"]}
        return answer(Forecast, line, said, with_ranges(found, found["step_s"]), phases_s=phases, evidence=Evidence.of(found))


@tool
async def explain(experiment: Source, set: Set = None, cluster: Machine = "", framework: Framework = "", gpus: Gpus = 0,
                  model: Model = "", variant: Variant = "", env: Env = None) -> Explanation:
    """Why a step is no faster: critical path, idle time by cause (bubble, waiting, host), what 10 % more of anything would buy."""
    options = {"set": set, "cluster": cluster, "framework": framework, "gpus": gpus, "model": model, "variant": variant, "env": env}
    with asked("simulate", [experiment], {**options, "explain": True}) as line:
        text, said = await line.run()
        found = json.loads(text)
        why = found["explain"]
        most = sorted(why["elasticity"]["parameters"], key=lambda p: -abs(p["step_change_s"]))[:12]
        return answer(Explanation, line, said, {**found, **why}, step_s=found["step_s"], ten_percent_more=most,
                      measure_next=why["measure_next"][:8], evidence=Evidence.of(found))


@tool
async def levers(experiment: Source, set: Set = None, cluster: Machine = "", framework: Framework = "", gpus: Gpus = 0,
                 model: Model = "", variant: Variant = "", env: Env = None) -> Levers:
    """What each switch and each neighbour of the parallel layout, changed alone, makes of step and memory; fastest first."""
    options = {"set": set, "cluster": cluster, "framework": framework, "gpus": gpus, "model": model, "variant": variant, "env": env}
    with asked("simulate", [experiment], {**options, "levers": True}) as line:
        text, said = await line.run()
        found = json.loads(text)
        return answer(Levers, line, said, found, step_s=found["step_s"], evidence=Evidence.of(found))


@tool
async def sweep(experiment: Source, vary: Annotated[dict[str, Any], Field(description=(
                    '{parallelism: "all"} is every legal layout; {tp: [1, 2, 4], micro_batch: "1..16*2", "cluster.nodes": [8, 16], machines:'
                    ' ["64xdgx-h100", "64xb200-x8"]}'))],
                where: Annotated[Optional[list[str]], Field(description='"memory.peak < 70 GiB", "step < 12 s", "mfu > 0.4"')] = None,
                objective: Annotated[str, Field(description="step, tokens, cost, memory; two with a comma: a front")] = "",
                top: Annotated[int, Field(ge=1, le=50)] = 5, set: Set = None, cluster: Machine = "", framework: Framework = "",
                gpus: Gpus = 0, tokens: str = "", within: Annotated[str, Field(description='"60d": least machines that end in time')] = "",
                model: Model = "", variant: Variant = "", env: Env = None) -> Swept:
    """The best of many configurations (parallel layout, batch, precision, number or kind of machines), proven; says which cannot be told apart."""
    common = {"set": set, "cluster": cluster, "framework": framework, "gpus": gpus, "model": model, "variant": variant, "env": env}
    with asked("sweep", [experiment]) as line:
        line.add({"vary": [_axis(key, values) for key, values in vary.items()], "where": where, "objective": objective, "top": top,
                  "tokens": tokens, "within": within, **common})
        text, said = await line.run()
        found = json.loads(text)
        lists = {name: [with_ranges(row, row["interval_s"]) for row in found.get(name) or []]
                 for name in ("top", "front", "scaling", "of_each")}
        best = {**(set or {}), **(lists["top"] + lists["front"] + [{"settings": {}}])[0]["settings"]}
        count, _, preset = str(best.pop("machines", "")).partition("x")
        machine = {"gpus": count, "cluster": preset} if preset else {}
        evidence = await line.evidence(line.words[1], {**common, **machine, "set": best}) or Evidence.of(found)
        return answer(Swept, line, said, found, **lists, evidence=evidence)


@tool
async def diagnose(run: Source, measured: Annotated[Union[str, list[str]], Field(description=(
                       '"4.31s", "38%MFU", "410TFLOP/s", "3700tokens/s/gpu", or five and more single steps ["4.3s", "4.4s", ..]'))] = "",
                   log: Annotated[Optional[Source], Field(description="its training log")] = None,
                   rank_times: Annotated[Optional[list[str]], Field(description="what each rank computes in a step, by profiles")] = None,
                   profile: Annotated[str, Field(description="path of a rank's profile (PyTorch's trace, Nsight's SQLite), or of a folder of several")] = "",
                   nccl_tests: Annotated[Optional[Source], Field(description="output of all_reduce_perf on these machines")] = None,
                   nvidia_smi: Annotated[Optional[Source], Field(description="nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,clocks_event_reasons.active --format=csv -l 1, sampled during the run")] = None,
                   seen: Annotated[Optional[list[str]], Field(description=(
                       "what was read off: forward, backward, passes (both), gradient_sync, optimizer=1.2s; busy (nvidia-smi's utilisation), clock=45%;"
                       " memory (peak of tensors)=61GiB; bus_bandwidth=12GB/s"))] = None,
                   sound: Annotated[Optional[list[str]], Field(description=(
                       'the same run where nothing is wrong (a recipe\'s, before the upgrade, elsewhere): "2.9s"; or another such run: "gpus=8:1.9s"'))] = None,
                   beside: Annotated[Optional[list[str]], Field(description='other runs of the same set-up: "gpus=8,global_batch=16:1.2s"')] = None,
                   ruled_out: Annotated[Optional[list[str]], Field(description="causes that were tested and are not it")] = None,
                   set: Set = None, cluster: Machine = "", framework: Framework = "", gpus: Gpus = 0, model: Model = "",
                   env: Env = None) -> Diagnosis:
    """Why a run is slower than it should be: ranked causes, the cheapest test, what to change; or nothing is wrong, or cannot tell."""
    common = {"set": set, "cluster": cluster, "framework": framework, "gpus": gpus, "model": model, "env": env}
    options = {**common, "measured": measured if isinstance(measured, str) else ",".join(measured),
               "rank_times": ",".join(rank_times or []), "profile": profile, "seen": seen, "sound": sound,
               "beside": beside, "ruled_out": ruled_out}
    with asked("diagnose", [run], options, {"log": log, "nccl_tests": nccl_tests, "nvidia_smi": nvidia_smi}) as line:
        text, said = await line.run()
        return answer(Diagnosis, line, said, json.loads(text), evidence=await line.evidence(line.words[1], common))


@tool
async def waterfall(first: Source, second: Source, measured: Annotated[Optional[list[Optional[str]]], Field(description=(
                        'measured steps of both, ["3.9s", null] where one is not known'))] = None) -> Waterfall:
    """What each difference of two configurations costs: my run against a published recipe, an old script against a new one."""
    options = {"waterfall": True, "measured": ",".join(step or "-" for step in measured or [])}
    with asked("compare", [first, second], options) as line:
        text, said = await line.run()
        found = json.loads(text)
        ratio, reach = found["to"]["forecast_s"] / found["from"]["forecast_s"], math.exp(found["log_reach"])
        return answer(Waterfall, line, said, found, evidence=[await line.evidence(source, {}) for source in line.words[1:3]],
                      difference={"p10": ratio / reach - 1, "p50": ratio - 1, "p90": ratio * reach - 1})


@tool
async def gate(run: Source, history: Annotated[str, Field(description="folder of logs or measurements of earlier runs")],
               model: Model = "", false_alarms: Annotated[str, Field(description="rate of false alarms: share of healthy runs that may fail")] = "1%",
               allow: Annotated[bool, Field(description="a history of other configurations too")] = False, set: Set = None) -> Gate:
    """Is a run slower than its own history allows (after an upgrade, in CI)? With a stated rate of false alarms."""
    options = {"gate": True, "history": history, "model": model, "false_alarms": false_alarms, "allow": allow, "set": set}
    with asked("compare", [run], options) as line:
        text, said = await line.run(accepted=(0, 4, 5))
        return answer(Gate, line, said, json.loads(text))


@tool
async def compare(inputs: Annotated[list[Source], Field(description="tables of cases or measurements, logs, folders of runs")],
                  model: Model = "", cluster: Machine = "", framework: Framework = "", set: Set = None) -> Compared:
    """Forecasts against measured steps: a log, a table of runs, a folder of own runs."""
    with asked("compare", inputs, {"model": model, "cluster": cluster, "framework": framework, "set": set}) as line:
        text, said = await line.run()
        found = json.loads(text)
        worst = {name: sorted(found[name], key=lambda row: -abs(row["error"] or 0))[:50] for name in ("rows", "kernel_rows")}
        return answer(Compared, line, said, found, **worst)


async def listed(what: Literal["presets", "keys"], word: str) -> Listed:
    with asked("list", [what, word] if word else [what]) as line:
        text, said = await line.run(())
        return answer(Listed, line, said, {}, entries=entries_of(text, what == "presets"))


@tool
async def list_presets(word: Annotated[str, Field(description="h100, llama, experiments, datasheet; empty: all")] = "") -> Listed:
    """Names of shipped experiments, workloads, clusters, frameworks, families, datasheets."""
    return await listed("presets", word)


@tool
async def list_keys(word: Annotated[str, Field(description="recompute, bucket, expert, ..")]) -> Listed:
    """Keys that `set` and `vary` take, with kind, default and meaning. tp stands for parallelism.tp."""
    return await listed("keys", word)


def main() -> None:
    """Serves a client on stdin and stdout until it goes."""
    server.run()
