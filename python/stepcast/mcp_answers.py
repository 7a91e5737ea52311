"""What stepcast-mcp answers: the figures of --json that an assistant needs, each with its interval and with what it rests on.

Times are seconds, sizes bytes, rates per second, shares and errors fractions of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional

from pydantic import BaseModel, ConfigDict, Field

from .results import Basis, Breakdown, Case, Counts, Training


class Range(BaseModel):
    """p50 as simulated; the next measured one lies between p10 and p90 with four chances in five."""

    p10: float
    p50: float
    p90: float


class Evidence(BaseModel):
    """What a forecast rests on."""

    cluster: str
    calibrated: bool = Field(description="false: datasheet values and assumed costs, error not known")
    framework: str
    prior_share: Optional[float] = Field(None, description="share of the step forecast by constants not measured on this machine")
    rests_on: list[Basis] = Field([], description="at least 1 % of the step each")
    interval_log: dict[str, Any] = Field({}, description="what makes the interval, as logarithms")
    notes: list[str] = Field([], description="extrapolations, priors, what is not modelled")

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Evidence:
        """Of the object that --json prints of a forecast or a sweep."""
        basis = [b for b in found["cluster"].get("basis") or [] if b["share"] >= 0.01]
        return cls.model_validate({**found, **found["cluster"], "cluster": found["cluster"]["name"], "rests_on": basis})


class Answer(BaseModel):
    command: str = Field(description="shell command that gives the same answer; with --json all of it")
    said: list[str] = Field(description="what the program said beside it: settings that it guessed, parts that it left out")


class Rates(BaseModel):
    """Of a step. Rates are one over it and have its interval."""

    step_s: Range
    tokens_per_s: Range
    tokens_per_s_per_gpu: Range
    model_flops_utilization: Range
    masked_flops_utilization: Range
    model_tflops_per_gpu: Range


def with_ranges(found: Mapping[str, Any], step: Mapping[str, float]) -> dict[str, Any]:
    """`found` with its step and rates as ranges: a long step is a low rate."""
    ratios = {"p10": step["p50"] / step["p90"], "p50": 1.0, "p90": step["p50"] / step["p10"]}
    rates = {name: {p: found[name] * ratio for p, ratio in ratios.items()} for name in Rates.model_fields if name != "step_s"}
    return {**found, "step_s": step, **rates}


class Forecast(Rates, Answer):
    """One step. The program states no interval of the breakdown and of memory."""

    phases_s: dict[str, Range]
    breakdown_s: Breakdown = Field(description="of the slowest rank; adds up to the step")
    causal_mask_counted: bool = Field(description="false: the MFU counts scores that the causal mask hides as well")
    memory_bytes: dict[str, Any] = Field(description="rank with the highest peak: tensors, their parts; overheads (context, allocator) on top")
    fits: bool
    out_of_memory: float = Field(description="chance, by how far measured peaks lay from forecasts")
    training: Optional[Training] = Field(None, description="at list prices; without stragglers: long runs take 1 to 15 % longer")
    evidence: Evidence


class Explanation(Answer):
    """Why a step takes as long as it does (one step without noise)."""

    step_s: Range
    breakdown_s: Breakdown
    critical_path: list[dict[str, Any]] = Field(description="adds up to the step, by kind of work and link")
    idle: dict[str, dict[str, float]] = Field(description="seconds of the slowest and of the median rank, by cause")
    ten_percent_more: list[dict[str, Any]] = Field(description="what 10 % more of a number of the machine changes, the most first")
    measure_next: list[dict[str, Any]] = Field(description="whose uncertainty moves the step most")
    evidence: Evidence


class Levers(Answer):
    """Single changes of an experiment, each the forecast of `simulate` with its keys set."""

    step_s: Range = Field(description="of the experiment as it is")
    levers: list[dict[str, Any]] = Field(
        description="set (keys and values), from, step_s, memory_bytes, fits, framework_cannot (why; empty: it can)")
    evidence: Evidence


class Row(Rates):
    settings: dict[str, str]
    lower_bound_s: float = Field(description="the model's step of this row cannot be shorter")
    peak_bytes: float
    ranks: int
    cost_per_token: Optional[float]
    behind_first: Optional[dict[str, Any]] = Field(None, description="how much longer than the first; not distinguishable: may be faster")
    training: Optional[Training] = None


class Swept(Answer):
    """The best configurations, the best first."""

    objective: str
    top: list[Row]
    front: list[Row] = Field(description="of two objectives: none is better in both")
    scaling: list[Row] = Field(description="the best of each number of ranks, where that varies")
    of_each: list[Row] = Field(description="the best of each machine or model, where those vary")
    counts: Counts
    proven: bool
    proof: str
    evidence: Evidence = Field(description="of the first")


class Cause(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    what: str
    probability: float
    costs_s: float
    step_without_s: float
    stated: bool = Field(False, description="by the configuration: it is there for certain, the forecast has it, and it is no part of the gap")
    evidence: list[dict[str, Any]]
    test: str
    test_minutes: float
    change: str


class Diagnosis(Answer):
    """Why a run is slower than its forecast. Probabilities are over a closed list of causes."""

    verdict: str
    answer: str
    measured_s: float
    forecast: Range = Field(description="of the step of such runs: tuned, typical, slow")
    probability_nothing_is_wrong: float
    steps: Any = Field(None, description="what the single steps say")
    causes: list[Cause]
    notes: list[str]
    evidence: Optional[Evidence] = Field(description="of the forecast; null where a log or a row is asked about")


class Waterfall(Answer):
    """What each differing key costs; bars and `unexplained_s` add up to the difference of the steps."""

    model_config = ConfigDict(populate_by_name=True)
    first: dict[str, Any] = Field(alias="from")
    second: dict[str, Any] = Field(alias="to")
    difference: Range = Field(description="second forecast / first - 1; bars have no interval of their own")
    bars: list[dict[str, Any]]
    unexplained_s: Optional[float] = Field(description="of a measured difference, what the configuration does not explain: diagnose")
    follows: list[Any]
    without_effect: list[Any]
    evidence: list[Optional[Evidence]] = Field(description="of both; null of a log or a row")


class Gate(Answer):
    """Is a run slower than its history: pass, fail or cannot_tell. It rests on measured steps alone."""

    model_config = ConfigDict(extra="allow")
    verdict: str
    because: str
    false_alarms: float


class Compared(Answer):
    """Forecasts against what was measured."""

    cases: int
    predicted: int
    median_ape: Optional[float]
    mape: Optional[float]
    bias: Optional[float]
    inside_interval: Optional[float] = Field(description="share inside p10 .. p90; 0.8 is expected")
    rows: list[Case] = Field(description="the worst first, at most 50; evidence: fitted: a fit has read the row; seen: known while the"
                             " model was made; unseen: neither")
    kernels: list[dict[str, Any]] = Field(description="kernels and collectives by kind")
    kernel_rows: list[dict[str, Any]] = Field(description="the worst first, at most 50")
    refused: list[dict[str, Any]] = Field(description="not predicted, and why")


class Entry(BaseModel):
    section: str = Field(description="of presets: their kind")
    name: str
    about: str = Field(description="of keys: kind | default | meaning")


class Listed(Answer):
    entries: list[Entry]


def entries_of(text: str, sections: bool) -> list[Entry]:
    """The lines of `stepcast list`: a name and what it is, texts that go on below, names alone with commas; `sections` have no indent."""
    found: list[Entry] = []
    section = ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        name, _, about = line.strip().partition("  ")
        if sections and indent == 0:
            section = line
        elif indent > 8:
            found[-1].about += " " + line.strip()
        else:
            about = " | ".join(re.split(r"\s{2,}", about.strip()))
            found += [Entry(section=section, name=one, about=about) for one in re.split(r",\s*", name) if one]
    return found
