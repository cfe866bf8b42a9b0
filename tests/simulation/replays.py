"""Functions that the tests of both simulations share: traces in another process, and blocks of schedules."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable

from tests.simulation.seeds import COUNT, FIRST
from tests.simulation.world import BrokenRule

__all__ = ["BLOCK", "digest_of", "play_block"]

BLOCK = 20


def digest_of(code: str, hash_seed: str) -> str:
    """Return a digest of the output of code in a process of its own, where strings have other hashes."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        timeout=200,  # of a hang: a busy machine has taken more than a minute
        check=True,
    )
    assert len(result.stdout) > 1000
    return hashlib.sha256(result.stdout).hexdigest()


def play_block(
    name: str, block: int, play: Callable[[int], object], played: dict[str, int], count: int = COUNT
) -> list[int]:
    """Play the schedules of a block and print the traces of those that break a rule. Return their seeds.

    Args:
        count: how many schedules there are in all.
    """
    start = FIRST + block * BLOCK
    seeds = range(start, min(start + BLOCK, FIRST + count))
    print(f"{name}: seeds {seeds.start} to {seeds.stop - 1}")
    broken = []
    for seed in seeds:
        played[name] = played.get(name, 0) + 1
        try:
            play(seed)
        except BrokenRule as error:
            broken.append(seed)
            print(error)
    return broken
