import subprocess
import sys

import pytest
import torch

from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.process import threads
from random_graphs import random_graph


def test_threads_are_as_before_after_the_block_even_if_it_fails():
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    with pytest.raises(KeyError), threads(before + 1):
        raise KeyError
    assert torch.get_num_threads() == before


MEASURE = """
import sys
import numpy as np
from contextlib import nullcontext
from dpmsnc.nn.process import keep_freed_memory

assert "torch" not in sys.modules

def given_back():
    big = np.ones(2**24)
    before = resident_mb()
    del big
    return before - resident_mb() > 64

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024

found = [given_back()]
with keep_freed_memory():
    with keep_freed_memory():
        found.append(given_back())
    found.append(given_back())
    held = resident_mb()
found += [held - resident_mb() > 64, given_back()]
print(found)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is glibc's")
def test_freed_memory_is_kept_inside_the_block_and_given_back_after_it():
    """In a process of its own, whose memory nothing else uses."""
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[True, False, False, True, True]"


def test_a_graph_as_a_network_sees_it_leaves_the_allocator_alone(monkeypatch):
    monkeypatch.setattr("dpmsnc.nn.process._glibc", lambda name: pytest.fail(f"{name} was called"))
    assert GraphTensors.of(random_graph()).operator("gcn").shape == (20, 20)
