"""Answers as typed, immutable objects.

Times are seconds, sizes bytes, rates per second, shares and errors fractions of one; a key says its unit. ``to_dict()`` has
exactly what ``--json`` prints, ``str()`` is the command line's table. A field that the answer does not hold is None.
"""

from __future__ import annotations

import copyreg
import dataclasses
import json
import tempfile
import types
import typing
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from . import _core
from .errors import ConfigError, Note

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class Svg(str):
    """The text of a picture; a notebook shows it."""

    def _repr_svg_(self) -> str:
        return self


def _built(kind: Any, data: Any) -> Any:
    """`data` as `kind`: a dataclass, or a list, dict or Optional of one; keys that the class does not name stay in to_dict()."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if data is None:
        return None
    if origin in (typing.Union, types.UnionType):
        return _built(inner[0], data)
    if origin is list:
        return [_built(inner[0], d) for d in data]
    if origin is dict:
        return {k: _built(inner[1], v) for k, v in data.items()}
    return _record(kind, data) if dataclasses.is_dataclass(kind) else data


def _record(kind: Any, data: dict[str, Any], **more: Any) -> Any:
    hints = typing.get_type_hints(kind, globals())
    return kind(**{f.name: _built(hints[f.name], data.get(f.name)) for f in dataclasses.fields(kind) if f.name not in more}, **more)


def _frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as missing:
        raise ImportError("no pandas: pip install pandas; rows() has the same as a list of dicts") from missing
    return pandas.DataFrame(rows)


@dataclass(frozen=True)
class _Kept:
    """What pickle keeps of an answer of the core: all but its pictures."""

    json: str
    text: str

    def write(self, folder: str) -> None:
        raise ConfigError(f"write {folder}: an answer that was pickled has no pictures; expected the one that was pickled, or asking again")


for _kind in (_core.Simulated, _core.Swept, _core.Compared):
    copyreg.pickle(_kind, lambda core: typing.cast(Any, (_Kept, (core.json, core.text))))


@dataclass(frozen=True)
class _Answer:
    """What all answers can do."""

    _core: Any = field(repr=False, compare=False, kw_only=True)

    @classmethod
    def _of(cls: type[T], core: _core.Answer) -> T:
        for line in core.said:
            warnings.warn(line, Note, stacklevel=4)
        return typing.cast(T, _record(cls, json.loads(core.json), _core=core))

    def to_dict(self) -> Any:
        """What ``--json`` prints, as a new value at each call."""
        return json.loads(self._core.json)

    def __str__(self) -> str:
        return str(self._core.text)


class _Pictured(_Answer):
    """An answer with pictures."""

    _main_plot = ""

    def write(self, folder: str | Path) -> None:
        """Writes what the command line writes with ``--out FOLDER``. Raises ConfigError where that cannot be."""
        if not str(folder):
            raise ConfigError('write: found no name of a folder; expected one, "." for this')
        self._core.write(str(folder))

    def plots(self) -> dict[str, Svg]:
        """Every picture by its name. Raises ConfigError without gnuplot (Debian package gnuplot-nox)."""
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder)
            return {file.stem: Svg(file.read_text("utf-8")) for file in sorted(Path(folder).glob("*.svg"))}

    def _repr_svg_(self) -> str | None:
        try:
            plots = self.plots()
        except ConfigError as error:
            warnings.warn(f"no picture: {error}", Note, stacklevel=2)
            return None
        return plots.get(self._main_plot) or next(iter(plots.values()), None)


@dataclass(frozen=True)
class Interval:
    """Seconds. p10 and p90: the next measured step lies between with four chances in five; p50 is the step as simulated."""

    mean: float
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class Phases:
    """Seconds, as a log of the reporting rank would print them."""

    forward: float
    backward: float
    gradient_sync: float
    optimizer: float


@dataclass(frozen=True)
class Breakdown:
    """Seconds; the six add up to the step of the slowest rank."""

    compute: float
    memory: float
    exposed_communication: float
    bubble: float
    imbalance: float
    host: float


@dataclass(frozen=True)
class Memory:
    """Bytes of the rank that needs most; `peak` is the sum of the five behind it. reserved: what the allocator holds at its
    peak, where it is replayed. capacity: of its device, if known."""

    peak: float
    weights: float
    gradients: float
    optimizer: float
    activations: float
    buffers: float
    overheads: float
    reserved: Optional[float]
    capacity: Optional[float]


@dataclass(frozen=True)
class Basis:
    """Share of the step that one constant of the cluster decides; `measured`: determined on this device, not a prior."""

    kind: str
    key: str
    measured: bool
    share: float


@dataclass(frozen=True)
class ClusterBasis:
    """The machine, and how much of the step rests on measurements of it."""

    name: str
    calibrated: bool
    prior_share: Optional[float]
    basis: Optional[list[Basis]]


@dataclass(frozen=True)
class KernelTime:
    """Summed time of all tasks of one name on one rank in one phase."""

    rank: int
    phase: str
    time_s: float


@dataclass(frozen=True)
class Training:
    """A whole training: `time_s`, `money`, `energy_j` have p10, p50, p90; `goodput` has share and intervals in seconds."""

    tokens: float
    steps: float
    time_s: dict[str, float]
    money: Optional[dict[str, float]]
    energy_j: Optional[dict[str, float]]
    currency: str
    price_per_gpu_hour: float
    price_source: str
    power_source: str
    goodput: dict[str, float]


@dataclass(frozen=True)
class Explanation:
    """Why the step takes as long as it does; the lists are described in docs/model.md."""

    step_s: float
    critical_path: list[dict[str, Any]]
    critical_path_by_link_s: dict[str, float]
    critical_path_host_s: float
    idle: dict[str, dict[str, float]]
    elasticity: dict[str, Any]
    measure_next: list[dict[str, Any]]
    uncertainty_s: float


@dataclass(frozen=True)
class _ForecastFields:
    experiment: str
    cluster: ClusterBasis
    framework: str
    step_s: Interval
    phases_s: Phases
    breakdown_s: Breakdown
    memory_bytes: Memory
    fits: bool
    out_of_memory: float
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_flops_utilization: float
    masked_flops_utilization: float
    model_tflops_per_gpu: float
    tasks: int
    ranks_simulated: int
    draws: int
    kernels_s: dict[str, list[KernelTime]]
    notes: list[str]
    explain: Optional[Explanation]
    training: Optional[Training]


@dataclass(frozen=True, repr=False)
class Forecast(_ForecastFields, _Pictured):
    """One predicted step. A notebook shows its Gantt chart."""

    _main_plot = "gantt"

    def __repr__(self) -> str:
        return f"<Forecast of {self.experiment} on {self.cluster.name}: step {self.step_s.p50:.4g} s, MFU {self.model_flops_utilization:.1%}>"

    def rows(self) -> list[dict[str, Any]]:
        """One a kernel, rank and phase: kernel, rank, phase, time_s."""
        return [{"kernel": name, **dataclasses.asdict(k)} for name, times in self.kernels_s.items() for k in times]

    def frame(self) -> pandas.DataFrame:
        """rows() as a pandas frame."""
        return _frame(self.rows())


@dataclass(frozen=True)
class Column(_ForecastFields):
    """One of several forecasts: `label` says what sets it apart."""

    label: str


@dataclass(frozen=True, repr=False)
class Beside(_Pictured):
    """Forecasts beside each other, in the order asked. A notebook shows their Gantt charts on one axis."""

    columns: list[Column]
    _main_plot = "gantt"

    @classmethod
    def _of(cls, core: _core.Answer) -> Beside:
        for line in core.said:
            warnings.warn(line, Note, stacklevel=4)
        return cls([_record(Column, c) for c in json.loads(core.json)], _core=core)

    def __repr__(self) -> str:
        return "<Beside: " + ", ".join(f"{c.label}: {c.step_s.p50:.4g} s" for c in self.columns) + ">"

    def rows(self) -> list[dict[str, Any]]:
        """One a forecast: label, step_s, tokens_per_s, model_flops_utilization, peak_bytes, fits, then the breakdown's parts."""
        return [
            {"label": c.label, "step_s": c.step_s.p50, "tokens_per_s": c.tokens_per_s,
             "model_flops_utilization": c.model_flops_utilization, "peak_bytes": c.memory_bytes.peak, "fits": c.fits,
             **{name + "_s": value for name, value in dataclasses.asdict(c.breakdown_s).items()}}
            for c in self.columns
        ]

    def frame(self) -> pandas.DataFrame:
        """rows() as a pandas frame."""
        return _frame(self.rows())


@dataclass(frozen=True)
class Behind:
    """By which share of the first row's step this one's is longer; `distinguishable`: it stays so when measured."""

    p10: float
    p50: float
    p90: float
    distinguishable: bool


@dataclass(frozen=True)
class Configuration:
    """One of the best: what was varied as text, its step in seconds with the bound that was proven, its peak in bytes."""

    settings: dict[str, str]
    step_s: float
    lower_bound_s: float
    estimate_s: Optional[float]
    interval_s: Interval
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_flops_utilization: float
    masked_flops_utilization: float
    model_tflops_per_gpu: float
    peak_bytes: float
    within_margin: bool
    out_of_memory: float
    gap: float
    behind_first: Optional[Behind]
    cost_per_token: Optional[float]
    ranks: int
    training: Optional[Training]


@dataclass(frozen=True)
class Counts:
    """How many points there are and what became of them; `illegal` and `infeasible` by reason."""

    points: int
    legal: int
    feasible: int
    bounded_away: int
    simulated: int
    twins: int
    illegal: dict[str, int]
    infeasible: dict[str, int]


@dataclass(frozen=True, repr=False)
class Sweep(_Pictured):
    """The best of many configurations: `top`, best first, or with two objectives `front`. of_each: the best of each setting of
    the keys `each_of` (frameworks, machines), where those vary. A notebook shows the map."""

    experiment: str
    cluster: ClusterBasis
    framework: str
    objective: str
    second_objective: Optional[str]
    varied: list[str]
    where: list[str]
    top: Optional[list[Configuration]]
    front: Optional[list[Configuration]]
    scaling: list[Configuration]
    each_of: list[str]
    of_each: list[Configuration]
    counts: Counts
    proven: bool
    proof: str
    _main_plot = "map"

    def __repr__(self) -> str:
        return f"<Sweep of {self.experiment}: {self.counts.legal:,} legal, best {self.best.step_s:.4g} s>"

    @property
    def best(self) -> Configuration:
        """The first of `top`, or of `front`."""
        return (self.top or self.front or [])[0]

    def rows(self) -> list[dict[str, Any]]:
        """One a configuration of `top` or `front`: a column a varied key, then the figures."""
        figures = ("step_s", "lower_bound_s", "tokens_per_s", "model_flops_utilization", "peak_bytes", "cost_per_token", "ranks")
        return [{**c.settings, **{name: getattr(c, name) for name in figures}} for c in self.top or self.front or []]

    def frame(self) -> pandas.DataFrame:
        """rows() as a pandas frame."""
        return _frame(self.rows())


@dataclass(frozen=True)
class Errors:
    """Of predicted cases: (predicted - measured) / measured. mape: mean of the absolute errors; bias: signed mean."""

    predicted: int
    mape: Optional[float]
    median_ape: Optional[float]
    p90_ape: Optional[float]
    bias: Optional[float]
    rank_correlation: Optional[float]
    inside_interval: Optional[float]


@dataclass(frozen=True)
class Case:
    """One measured step and its prediction, in seconds; `evidence`: fitted, seen or unseen by the cluster's fit."""

    case_id: str
    source: str
    series: str
    measured_s: Optional[float]
    predicted_s: Optional[float]
    p10_s: Optional[float]
    p90_s: Optional[float]
    error: Optional[float]
    inside: Optional[bool]
    cluster: ClusterBasis
    ranks: Optional[int]
    framework: str
    evidence: Optional[str]
    notes: Optional[list[str]]
    refused_because: Optional[str]


@dataclass(frozen=True, repr=False)
class Comparison(Errors, _Pictured):
    """Predicted against measured; errors over all predicted cases, then by what the fit has seen of them.

    `refused` has the cases that cannot be predicted and why. A notebook shows predicted against measured.
    """

    cases: int
    refused_count: int
    refused: list[dict[str, str]]
    fitted: Errors
    seen: Errors
    unseen: Errors
    held_out: Errors
    rows_: list[Case]
    kernel_rows: list[dict[str, Any]]
    _main_plot = "scatter"

    @classmethod
    def _of(cls, core: _core.Answer) -> Comparison:
        for line in core.said:
            warnings.warn(line, Note, stacklevel=4)
        data = json.loads(core.json)
        return typing.cast(Comparison, _record(cls, data, rows_=[_record(Case, row) for row in data["rows"]], _core=core))

    def __repr__(self) -> str:
        mean = "" if self.mape is None else f", mean error {self.mape:.1%}"
        return f"<Comparison: {self.predicted} of {self.cases} cases predicted{mean}>"

    def rows(self) -> list[dict[str, Any]]:
        """One a case: case_id, measured_s, predicted_s, p10_s, p90_s, error, evidence .. Of a table of kernels: one a kernel."""
        names = [f.name for f in dataclasses.fields(Case) if f.name not in ("cluster", "notes")]
        return [{**{n: getattr(c, n) for n in names}, "cluster": c.cluster.name} for c in self.rows_] or list(self.kernel_rows)

    def frame(self) -> pandas.DataFrame:
        """rows() as a pandas frame."""
        return _frame(self.rows())


@dataclass(frozen=True, repr=False)
class Calibration:
    """What a fit says of itself, and the file it wrote ("" of a cross-validation, which writes none)."""

    text: str
    out: str

    def __repr__(self) -> str:
        return f"<Calibration {self.out or 'without a file'}>"

    def to_dict(self) -> dict[str, str]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Cluster:
    """A machine: every key with its value as TOML has it, e.g. ``keys["gpu"]["memory"]`` is ``"80 GiB"``."""

    name: str
    keys: dict[str, Any]
    text: str

    def __repr__(self) -> str:
        return f"<Cluster {self.name}>"

    def to_dict(self) -> dict[str, Any]:
        """The keys, tables within tables."""
        return typing.cast("dict[str, Any]", json.loads(json.dumps(self.keys)))

    def __str__(self) -> str:
        return self.text
