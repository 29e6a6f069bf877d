"""Values in JSON's own types, and back: JSON knows neither NaN nor infinity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def json_value(value: Any) -> Any:
    """The same in JSON's own types: NaN is null, infinity a word, an object its type's name."""
    if isinstance(value, dict):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if isinstance(value, np.generic):
        return json_value(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__


def with_infinities(values: dict[str, Any]) -> dict[str, Any]:
    """The values, with infinity as a number again."""
    return {name: float(value) if value in ("inf", "-inf") else value for name, value in values.items()}


def with_nan(values: list[float | None]) -> list[float]:
    """Measurements, with NaN where there was nothing to measure."""
    return [math.nan if value is None else value for value in values]
