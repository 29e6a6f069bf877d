"""What a label is: one class, several tags or a real value, on nodes or on edges; one file a kind."""

from dpmsnc.targets.base import TARGETS, Target, target_from
from dpmsnc.targets.one_class import OneClass
from dpmsnc.targets.real_value import RealValue
from dpmsnc.targets.tags import Tags

__all__ = ["TARGETS", "OneClass", "RealValue", "Tags", "Target", "target_from"]
