"""stepcast predicts how long one training step of a distributed model takes, and why.

The functions are the verbs of the command line and give the same figures to the digit:

=============  ==================================================================================
simulate       one step: time, memory, where the time goes
beside         several steps beside each other
sweep          the best of many configurations, with proof
compare        predicted against measured
calibrate      measure this machine, or fit recorded measurements; writes a cluster file
cluster        every key of a machine
presets        names of what is shipped
=============  ==================================================================================

Times are seconds, sizes bytes, rates per second. An experiment is a preset's name, a file, a model's config.json, a launch
script of another framework, or a dict with the tables of an experiment file. Errors: stepcast.ConfigError (what you can
repair), stepcast.DeviceError, stepcast.BugError; all are stepcast.Error. What the command line says beside its answer comes as
warnings of the class stepcast.Note. While stepcast works other Python threads go on; calls share nothing.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from . import _core
from .errors import BugError, ConfigError, DeviceError, Error, Note
from .results import (Basis, Behind, Beside, Breakdown, Calibration, Case, Cluster, ClusterBasis, Column, Comparison,
                      Configuration, Counts, Errors, Explanation, Forecast, Interval, KernelTime, Memory, Phases, Svg, Sweep, Training)
from .toml_text import plain, toml_text, value_text

__all__ = [
    "simulate", "beside", "sweep", "compare", "calibrate", "cluster", "presets", "version",
    "Error", "ConfigError", "DeviceError", "BugError", "Note",
    "Basis", "Behind", "Beside", "Breakdown", "Calibration", "Case", "Cluster", "ClusterBasis", "Column", "Comparison", "Configuration",
    "Counts", "Errors", "Explanation", "Forecast", "Interval", "KernelTime", "Memory", "Phases", "Svg", "Sweep", "Training",
]

Path = Union[str, "os.PathLike[str]"]
Experiment = Union[Path, Mapping[str, Any]]
Settings = Mapping[str, Any]
Progress = Union[Callable[[str], object], None]


def _value(key: str, value: Any) -> str:
    return value if isinstance(value, str) else value_text(value, key)


def _settings(settings: Settings | None) -> list[str]:
    return [f"{key}={_value(key, value)}" for key, value in (settings or {}).items()]


def _many(settings: Settings | None) -> list[str]:
    return [f"{key}={_value(key, v)}" for key, value in (settings or {}).items()
            for v in (plain(value) if isinstance(plain(value), (list, tuple)) else [value])]


def _axis(key: str, values: Any) -> str:
    values = plain(values)
    if not isinstance(values, (list, tuple, range)):
        return f"{key}={_value(key, values)}"
    for value in values:
        if isinstance(value, str) and "," in value:
            raise ConfigError(f'sweep: {key}: "{value}" holds a comma, which separates values; expected a value without')
    return f"{key}=" + ",".join(_value(key, v) for v in values)


_most = {"gpus": 1 << 20, "ranks": 1000000, "steps": 1000000, "top": 1000, "threads": 1024}  # as on the command line


def _count(name: str, value: Any) -> int:
    count, least = operator.index(value), 1 if name == "top" else 0
    if not least <= count <= _most[name]:
        raise ConfigError(f"{name}: found {count}, expected {least} to {_most[name]}")
    return count


def _options(experiments: Iterable[Experiment] = (), cluster: Path = "", **fields: Any) -> _core.Options:
    options = _core.Options()
    names: list[str] = []
    texts: dict[str, str] = {}
    for experiment in experiments:
        if isinstance(experiment, Mapping):
            name = "experiment" if not texts else f"experiment {len(texts) + 1}"
            texts[name] = toml_text(experiment)
        else:
            name = os.fspath(experiment)
        names.append(name)
    options.inputs, options.texts, options.experiment = names, texts, names[0] if names else ""
    options.cluster = os.fspath(cluster)
    for name, value in fields.items():
        setattr(options, name, _count(name, value) if name in _most else os.fspath(value) if isinstance(value, os.PathLike) else value)
    return options


def _names(framework: Path | Iterable[Path]) -> list[str]:
    several: Iterable[Path] = [framework] if isinstance(framework, (str, os.PathLike)) else framework
    return [os.fspath(one) for one in several if os.fspath(one)]


def _environment(env: Mapping[str, str] | None) -> list[str]:
    return [f"{name}={value}" for name, value in (env or {}).items()]


def simulate(experiment: Experiment, *, set: Settings | None = None, cluster: Path = "", framework: Path = "", gpus: int = 0,
             explain: bool = False, tokens: str | float = "", steps: str | float = "", market: Path = "", model: Path = "",
             variant: str = "", env: Mapping[str, str] | None = None) -> Forecast:
    """Predicts one step.

    experiment: preset, file, or dict such as ``{"workload": {"preset": "llama3-70b"}, "parallelism": {"tp": 8},
        "cluster": {"preset": "dgx-h100", "nodes": 8}}``.
    set: values of any key, ``{"parallelism.tp": 8, "cluster.link.intra.bandwidth": "900 GB/s"}``; a key may stand without its
        table where one table alone has it.
    cluster, framework: preset or file. gpus: so many of the cluster's ranks; data parallelism fills them.
    explain: also why: critical path, idle time, what 10 % more of anything would buy (slower).
    tokens ("15T") or steps ("100k"): also days, money and energy of such a training, at the prices of `market`, a file.
    model, variant, env: what a file of another tool leaves open (docs/bring-your-files.md).

    Raises ConfigError for what cannot be read, or cannot be.
    """
    answer = _core.simulate(_options(
        [experiment], cluster, set=_settings(set), framework=framework, gpus=gpus, explain=explain, tokens=str(tokens),
        training_steps=str(steps), market=market, model=model, variant=variant, environment=_environment(env)))
    if answer.json.startswith("["):
        raise ConfigError("simulate: found several values of one key; expected every key once, or beside()")
    return Forecast._of(answer)


def beside(experiments: Iterable[Experiment], *, set: Settings | None = None, cluster: Path = "",
           framework: Path | Iterable[Path] = "", gpus: int = 0, tokens: str | float = "", steps: str | float = "",
           market: Path = "") -> Beside:
    """Predicts several steps beside each other: every experiment with every value of the keys that `set` gives a list of, under
    every framework of a list.

    At most 12 and at least two, else ConfigError. The other arguments are those of simulate().
    """
    options = _options(experiments, cluster, set=_many(set), frameworks=_names(framework), gpus=gpus, tokens=str(tokens),
                       training_steps=str(steps), market=market)
    answer = _core.simulate(options)
    if not answer.json.startswith("["):
        raise ConfigError("beside: found one forecast; expected two experiments, or a key with a list of values")
    return Beside._of(answer)


def sweep(experiment: Experiment, vary: Mapping[str, Any], *, where: str | Iterable[str] = (), objective: str = "step",
          pareto: bool = False, top: int = 10, set: Settings | None = None, cluster: Path = "",
          framework: Path | Iterable[Path] = "", gpus: int = 0, tokens: str | float = "", steps: str | float = "",
          market: Path = "", within: str = "", threads: int = 0, out: Path = "", progress: Progress = None) -> Sweep:
    """Finds the best of many configurations, and proves it.

    vary: keys with lists of values or text as on the command line: ``{"parallelism": "all"}`` (every legal layout),
        ``{"parallelism.tp": [1, 2, 4, 8], "parallelism.micro_batch": "1..64*2"}``.
    where: constraints such as ``"memory.peak < 76 GiB"``. objective: step, tokens, cost or memory; two with a comma between, or
        `pareto` with the peak memory as the second, give a front. within: "60d", the least machines that end the training in time.
    framework: preset or file; a list compares them, the best of each beside the others (`of_each`).
    threads: 0 = one a core. out: a folder that keeps each simulated point (sweep.csv) as soon as it is known.
    progress: called with a line of text now and then. Ctrl-C ends the search.

    Raises ConfigError for axes and constraints that are not understood, and when nothing is legal or fits.
    """
    return Sweep._of(_core.sweep(_options(
        [experiment], cluster, vary=[_axis(key, values) for key, values in vary.items()],
        where=[where] if isinstance(where, str) else list(where), objective=objective, pareto=pareto, top=top, set=_settings(set),
        frameworks=_names(framework), gpus=gpus, tokens=str(tokens), training_steps=str(steps), market=market, within=within,
        threads=threads, out=out), progress))


def compare(inputs: Path | Iterable[Path], *, cluster: Path = "", framework: Path = "", progress: Progress = None) -> Comparison:
    """Predicts what was measured: tables of cases, measurements or kernels, and folders of runs (docs/files.md).

    cluster, framework: predict with these, presets or files. Cases that cannot be predicted are in `refused` with the reason.
    Raises ConfigError for files that cannot be read.
    """
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    return Comparison._of(_core.compare(_options(paths, cluster, framework=framework), progress))


def calibrate(*, out: Path = "", measurements: Path | Iterable[Path] = (), cluster: Path = "", framework: Path = "",
              fit: Literal["", "framework", "hardware", "both", "scatter"] = "",
              cross_validate: Literal["", "model", "ranks", "framework", "device", "source", "block"] = "",
              device: Literal["", "host"] = "", ranks: int = 0, steps: int = 0, progress: Progress = None) -> Calibration:
    """Fits a cluster file, or a framework's, to measurements; or measures this machine (``device="host"``).

    out: the file to write. cluster, framework: what to start from. fit: which constants to fit to measured steps. cross_validate:
    errors of the groups left out; writes nothing but, of source, a picture in the folder ``out``. ranks, steps: of device, how
    many ranks and repetitions. Raises ConfigError, DeviceError.
    """
    paths = [measurements] if isinstance(measurements, (str, os.PathLike)) else measurements
    options = _options((), cluster, out=out, measurements=[os.fspath(p) for p in paths], framework=framework,
                       fit=fit, cross_validate=cross_validate, device=device, ranks=ranks, steps=steps)
    return Calibration(_core.calibrate(options, progress).text, options.out)


def cluster(name: Path) -> Cluster:
    """Every key of a machine, preset or file, or the name of a GPU ("H100"). Raises ConfigError where there is none."""
    text = _core.show_cluster(os.fspath(name))
    keys = tomllib.loads(text)
    return Cluster(keys.get("name", os.fspath(name)), keys, text)


def presets(kind: Literal["experiment", "workload", "cluster", "framework", "family", "nameplate"] = "experiment") -> list[str]:
    """Names of what is shipped, or lies in $STEPCAST_HOME."""
    return _core.presets(kind)


def version() -> str:
    """As --version: release, commit, compiler and libraries."""
    return _core.version()
