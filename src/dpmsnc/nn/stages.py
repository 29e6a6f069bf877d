"""What a module of a network asks of training beyond descent on the loss of its output: one hook for all networks.

undecayed   parameters that weight decay leaves alone
warm_up     epochs in which the network is trained without the module (`warming`); the best weights of these are
            kept, `start` follows, and then the epochs that were asked for begin
start       a start from training labels
penalty     a term of the loss
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpmsnc.errors import InputError
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.targets import OneClass, Target


class Staged:
    """Base of such modules, beside `nn.Module`; what is not overridden asks for nothing."""

    undecayed: ClassVar[tuple[str, ...]] = ()
    classes_only: ClassVar[bool] = False
    """Whether labels must be classes."""
    warm_up: int = 0
    warming: bool = False

    def start(self, network: nn.Module, graph: GraphTensors, y: Tensor) -> None:
        """Begin from the labels y (-1 where unknown), and from what the network says after its warm-up."""

    def penalty(self, graph: GraphTensors, y: Tensor) -> Tensor | float:
        """What is added to the loss, after a forward pass with dropout on."""
        return 0.0


def staged(network: nn.Module) -> list[Staged]:
    """The modules of a network that ask for something."""
    return [module for module in network.modules() if isinstance(module, Staged)]


def parameter_groups(network: nn.Module) -> list[dict[str, Any]]:
    """For the optimiser: the parameters that decay, and those that do not where there are any."""
    free = {id(getattr(module, name)) for module in staged(network) for name in module.undecayed}
    decaying = [p for p in network.parameters() if id(p) not in free]
    if not free:
        return [{"params": decaying}]
    return [{"params": decaying}, {"params": [p for p in network.parameters() if id(p) in free], "weight_decay": 0.0}]


def penalties(network: nn.Module, graph: GraphTensors, y: Tensor) -> Tensor | float:
    """The sum of all terms that the modules add to the loss."""
    return sum(module.penalty(graph, y) for module in staged(network))


@torch.no_grad()
def start_from(network: nn.Module, graph: GraphTensors, y: Tensor) -> None:
    """Let the modules that ask for it begin from labels, and from what the network says without dropout."""
    for module in staged(network):
        module.start(network, graph, y)


@contextmanager
def warming_up(network: nn.Module) -> Iterator[int]:
    """The network without the modules that wait for its warm-up; gives the epochs that it takes, 0 for most."""
    modules = staged(network)
    try:
        for module in modules:
            module.warming = True
        yield max((module.warm_up for module in modules), default=0)
    finally:
        for module in modules:
            module.warming = False


def check_target(network: nn.Module, target: Target) -> None:
    """Raise `InputError` where a module learns from classes and labels are none."""
    found = [type(module).__name__ for module in staged(network) if module.classes_only]
    if found and not isinstance(target, OneClass):
        raise InputError(f"{found[0]} learns which classes are neighbours, and labels here are {target.kind}; take gcn")
