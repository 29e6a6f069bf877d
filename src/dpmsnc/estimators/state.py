"""Fitted attributes as tensors by name and JSON values, and back: networks, arrays, estimators within an estimator.

In JSON, what is a tensor elsewhere is a dictionary with one key that says its kind: `{"tensor": name}`, `{"array":
name}`, `{"network": prefix}` or `{"estimator": ...}`. A dictionary of ours is `{"dict": ...}`, so the two cannot be
confused. No class is found by anything but the name of an estimator that is defined already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpmsnc.errors import ModelFileError
from dpmsnc.estimators.base import KINDS, Estimator
from dpmsnc.files import json_value, storable


def pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """A value in JSON's types; its tensors are added to `tensors` under names that begin with `name`."""
    if isinstance(value, nn.Module):
        tensors |= {f"{name}.{key}": tensor.detach() for key, tensor in value.state_dict().items()}
        return {"network": name}
    if isinstance(value, (Tensor, np.ndarray)):
        tensors[name] = torch.as_tensor(value).detach()
        return {"tensor" if isinstance(value, Tensor) else "array": name}
    if isinstance(value, Estimator):
        inner, values = value._state()
        tensors |= {f"{name}.{key}": tensor for key, tensor in inner.items()}
        params = json_value({key: storable(part) for key, part in value.nested_params().items()})
        return {"estimator": {"kind": type(value).__name__, "params": params, "values": values, "tensors": name}}
    if isinstance(value, dict):
        return {"dict": {key: pack(part, f"{name}.{key}", tensors) for key, part in value.items()}}
    if isinstance(value, (list, tuple)):
        return [pack(part, f"{name}.{k}", tensors) for k, part in enumerate(value)]
    return json_value(value)


def unpack(model: Any, packed: Any, tensors: dict[str, Tensor]) -> Any:
    """What `pack` packed, for `model`: a network is of the shape that its `_fitted_network` has."""
    if isinstance(packed, list):
        return [unpack(model, part, tensors) for part in packed]
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "dict":
        return {key: unpack(model, part, tensors) for key, part in content.items()}
    if kind == "tensor":
        return tensors[content]
    if kind == "array":
        return tensors[content].numpy()
    if kind == "network":
        with torch.device("meta"):  # no memory is taken but that of the weights there are
            network = model._fitted_network()
        network.load_state_dict(_within(content, tensors), assign=True)
        return network.requires_grad_(False)
    part = KINDS.get(content["kind"])
    if part is None:
        raise ModelFileError(f"a part of the model is a {content['kind']}, which is not known here; import it first")
    return part._from_state(content["params"], _within(content["tensors"], tensors), content["values"], model.graph_)


def is_network(item: tuple[str, Any]) -> bool:
    """Whether an attribute that was packed is a network."""
    return isinstance(item[1], dict) and "network" in item[1]


def _within(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
