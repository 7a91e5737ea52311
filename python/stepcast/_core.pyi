from collections.abc import Callable

class Options:
    experiment: str
    device: str
    cluster: str
    framework: str
    fit: str
    cross_validate: str
    out: str
    model: str
    variant: str
    objective: str
    tokens: str
    training_steps: str
    within: str
    market: str
    inputs: list[str]
    frameworks: list[str]
    set: list[str]
    measurements: list[str]
    vary: list[str]
    where: list[str]
    environment: list[str]
    gpus: int
    ranks: int
    steps: int
    top: int
    threads: int
    explain: bool
    pareto: bool
    texts: dict[str, str]
    def __init__(self) -> None: ...

class Answer:
    @property
    def json(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def said(self) -> list[str]: ...
    def __deepcopy__(self, memo: object) -> Answer: ...

class Drawn(Answer):
    def write(self, folder: str) -> None: ...

class Simulated(Drawn): ...
class Swept(Drawn): ...
class Compared(Drawn): ...

Progress = Callable[[str], object] | None

def simulate(options: Options) -> Simulated: ...
def sweep(options: Options, progress: Progress) -> Swept: ...
def compare(options: Options, progress: Progress) -> Compared: ...
def calibrate(options: Options, progress: Progress) -> Answer: ...
def show_cluster(name: str) -> str: ...
def presets(kind: str) -> list[str]: ...
def version() -> str: ...
