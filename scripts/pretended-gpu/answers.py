"""What the host reads from a pretended GPU is zeros; here are the few answers on which memory depends, as a real step would give them.

Import before the model runs, or run a script under it: answers.py SCRIPT.py [ARGUMENTS..]. A mask's `all()` is true (no padding: Transformers
then passes no mask). With balanced(EXPERTS), or BALANCED_EXPERTS in the environment, every expert of a loop has the same number of tokens.
"""
import importlib.util
import os
import runpy
import sys

import torch

_all = torch.Tensor.all


def _true(self, *args, **kwargs):
    found = _all(self, *args, **kwargs)
    return torch.tensor(True) if self.is_cuda and not args and not kwargs else found


torch.Tensor.all = _true
if importlib.util.find_spec("transformers"):
    import transformers.masking_utils as masks
    if hasattr(masks, "fast_all"):
        masks.fast_all = lambda mask, sums=masks.fast_all: (sums(mask), True)[1]


def balanced(experts):
    """Mixtral's loop of Transformers: torch.where(mask of one expert) and nonzero() of the experts that are hit."""
    where, nonzero = torch.where, torch.Tensor.nonzero

    def balanced_where(condition, *rest, **kwargs):
        if rest or not condition.is_cuda or condition.dim() != 2:
            return where(condition, *rest, **kwargs)
        return torch.zeros(condition.numel() // experts, 2, dtype=torch.int64, device=condition.device).unbind(1)

    def balanced_nonzero(self, *args, **kwargs):
        if self.is_cuda and self.dim() == 1 and self.numel() == experts:
            return torch.zeros(experts, 1, dtype=torch.int64, device=self.device)
        return nonzero(self, *args, **kwargs)

    torch.where, torch.Tensor.nonzero = balanced_where, balanced_nonzero


if os.environ.get("BALANCED_EXPERTS"):
    balanced(int(os.environ["BALANCED_EXPERTS"]))

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")
