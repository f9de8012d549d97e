#!/usr/bin/env python3
"""Sums a tensor over all ranks, and broadcasts a number, from Python without any package. For instance

  passing lab run --hosts 2 --ranks 2 -- env PASSING_STRATEGY=passing ./all_reduce.py
  PASSING_DIRECTORY=$(mktemp -d) mpirun -n 4 ./all_reduce.py

The first, as root, makes hosts and a switch on this machine; between two hosts the default strategy, auto, would not use
the switch. The second needs any launcher, and a directory that all ranks share.

PASSING_LIBRARY is the path of libpassing.so, if it is not installed where the system looks.
"""

import array
import ctypes
import ctypes.util
import os
import sys

FLOAT32, INT32, SUM = 1, 4, 1  # of passing.h
COUNT = 1_000_000


class PassingError(Exception):
    pass


def load():
    """The library, with the types of the functions that are used here."""
    path = os.environ.get("PASSING_LIBRARY") or ctypes.util.find_library("passing")
    if not path:
        raise PassingError("libpassing.so is not installed; install it, or set PASSING_LIBRARY to its path")
    library = ctypes.CDLL(path)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    signatures = {
        "passing_error": (ctypes.c_char_p, []),
        "passing_config_from_environment": (ctypes.c_int, [pointer]),
        "passing_config_free": (None, [pointer]),
        "passing_create": (ctypes.c_int, [pointer, pointer]),
        "passing_free": (None, [pointer]),
        "passing_rank": (number, [pointer]),
        "passing_size": (number, [pointer]),
        "passing_strategy": (ctypes.c_char_p, [pointer]),
        "passing_all_reduce": (ctypes.c_int, [pointer, pointer, pointer, size, ctypes.c_int, ctypes.c_int,
                                              ctypes.c_double, pointer]),
        "passing_broadcast": (ctypes.c_int, [pointer, pointer, size, ctypes.c_int, number, ctypes.c_double,
                                             pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Communicator:
    """A communicator from the environment; its calls wait. For `with`."""

    def __init__(self):
        self.library = load()
        self.handle = ctypes.c_void_p()
        config = ctypes.c_void_p()
        self.check(self.library.passing_config_from_environment(ctypes.byref(config)))
        try:
            self.check(self.library.passing_create(config, ctypes.byref(self.handle)))
        finally:
            self.library.passing_config_free(config)
        self.rank = self.library.passing_rank(self.handle)
        self.size = self.library.passing_size(self.handle)
        self.strategy = self.library.passing_strategy(self.handle).decode()

    def check(self, status):
        if status != 0:
            raise PassingError(self.library.passing_error().decode())

    def sum(self, tensor):
        """Sums an array of floats in place."""
        data = tensor.buffer_info()[0]
        self.check(self.library.passing_all_reduce(self.handle, data, data, len(tensor), FLOAT32, SUM, 0, None))

    def broadcast(self, numbers, root=0):
        """Makes an array of ints what it is on the root."""
        data = numbers.buffer_info()[0]
        self.check(self.library.passing_broadcast(self.handle, data, len(numbers), INT32, root, 0, None))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.passing_free(self.handle)


def run(comm):
    # Whole numbers this small have exact sums, so the check can be exact, too.
    tensor = array.array("f", [comm.rank + 1.0]) * COUNT
    tensor[-1] = 100.0 * comm.rank
    comm.sum(tensor)
    expected = array.array("f", [comm.size * (comm.size + 1) / 2]) * COUNT
    expected[-1] = 100.0 * comm.size * (comm.size - 1) / 2
    if tensor != expected:
        raise PassingError(f"the sum is wrong on rank {comm.rank}")

    seed = array.array("i", [42 if comm.rank == 0 else 0])
    comm.broadcast(seed)
    if seed[0] != 42:
        raise PassingError(f"the seed is {seed[0]} on rank {comm.rank}, not 42")
    if comm.rank == 0:
        print(f"all_reduce: size {comm.size}, strategy {comm.strategy}: {COUNT} float32 summed, "
              f"every element right; seed {seed[0]}")


def main():
    try:
        with Communicator() as comm:
            run(comm)
    except (PassingError, OSError) as error:
        sys.exit(f"all_reduce: {error}")


if __name__ == "__main__":
    main()
