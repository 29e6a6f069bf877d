"""Splits that come with data: labels outside of training and validation are hidden, so that a test stays a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import counted, noted
from dpmsnc.graph.graph import Graph

MASKS = ("train_mask", "val_mask", "test_mask")
Mask = NDArray[np.bool_]


def hide_by_masks(graph: Graph, masks: Mapping[str, Any], split: int | None, all_labels: bool) -> Graph:
    """The graph with the labels that masks (N, or N x S for S splits) leave to see, and a note on the others."""
    found = ", ".join(masks)
    if not masks:
        return graph
    if all_labels:
        return noted(graph, f"{found} ignored: every label given counts as known")
    columns = {name: _column(name, mask, graph.num_nodes, split) for name, mask in masks.items()}
    if "train_mask" in columns:
        shown = columns["train_mask"] | columns.get("val_mask", False)
        where = "outside train_mask" + (" and val_mask" if "val_mask" in columns else "")
    elif "test_mask" in columns:
        shown, where = ~columns["test_mask"], "inside test_mask"
    else:
        return noted(graph, f"{found} ignored: without train_mask or test_mask every label given counts as known")
    hidden = graph.known & ~shown
    if not hidden.any():
        return graph
    return noted(graph.hide(hidden), f"{counted(int(hidden.sum()), 'label')} {where} hidden; all_labels=True keeps all")


def _column(name: str, mask: Any, num_nodes: int, split: int | None) -> Mask:
    """One split of a mask, as N booleans."""
    mask = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    mask = mask[:, None] if mask.ndim == 1 else mask
    if mask.ndim != 2 or len(mask) != num_nodes or not np.isin(mask, (0, 1)).all():
        raise InputError(f"{name} of shape {mask.shape} is not a mask of {num_nodes} nodes; pass one boolean per node")
    number = mask.shape[1]
    if not (number == 1 if split is None else split in range(number)):
        raise InputError(f"{name} holds {counted(number, 'split')}; choose one of split=0 to split={number - 1}")
    return mask[:, split or 0].astype(bool)
