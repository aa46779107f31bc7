"""What is exported: a module, its inputs for given sizes, the names of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Case:
    name: str
    module: Callable[[], torch.nn.Module]
    inputs: Callable[..., tuple[torch.Tensor, ...]]  # of sizes by name
    names: tuple[str, ...]  # of the inputs
    axes: dict[str, dict[int, str]]  # input -> axis -> name of a size that the dynamic exports leave open
    sizes: tuple[dict[str, int], ...]  # exported with the first; the last are 1 where the model can be
