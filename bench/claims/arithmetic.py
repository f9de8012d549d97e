"""Claims about arithmetic, measured side by side in one process by passing_claims (micro.cc)."""

import functools
import json
import subprocess

from lab import program


@functools.lru_cache
def micro(build):
    """The figures of passing_claims, measured once for all claims that need them."""
    return json.loads(subprocess.check_output([program(build, "passing_claims")]))


def from_micro(name):
    return lambda build: micro(build)[name]


def claims():
    return [
        ("quantise", "scan and quantise 16 MB, against memcpy", ">=", 0.5, "of memcpy", from_micro("quantise")),
        ("dequantise", "dequantise 16 MB, against memcpy", ">=", 0.5, "of memcpy", from_micro("dequantise")),
        ("slot-add", "slot add, against a plain vector add", ">=", 0.7, "of plain add", from_micro("slot-add")),
        ("aggregator", "aggregator beyond the slot add, 352 elements, 256 slots", "<=", 80, "ns per packet",
         from_micro("aggregator")),
    ]
