"""Ranks of PyTorch as processes, for the tests of faults and of the store."""

import os
import subprocess
import tempfile
import textwrap

PYTHON = "/usr/bin/python3"  # the one that has torch
BEGIN = """
import datetime, os, signal, sys, time
import torch, torch.distributed as dist, torch.nn as nn
torch.set_num_threads(1)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def begin(timeout=20):
    import passing.torch
    dist.init_process_group("passing", init_method=os.environ["MEETING"], rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=timeout))
def says(what, call):
    try:
        call()
    except Exception as trouble:
        print(what, type(trouble).__name__, trouble, flush=True)
    else:
        print(what, "nothing", flush=True)
"""


def run_ranks(body, size, hosts, controller=None, sizes=None, timeout=60, meeting=None):
    """Exit status and output of each; they meet in a file, unless told otherwise."""
    with tempfile.TemporaryDirectory(prefix="passing-test-") as directory:
        processes = []
        for rank in range(size):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(sizes[rank] if sizes else size),
                           "MEETING": meeting or f"file://{directory}/meeting", "PASSING_HOST": f"host{rank * hosts // size}",
                           "OMP_NUM_THREADS": "1"}
            environment.pop("PASSING_CONTROLLER", None)
            if controller:
                environment["PASSING_CONTROLLER"] = controller
            processes.append(subprocess.Popen([PYTHON, "-c", BEGIN + textwrap.dedent(body)], env=environment,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        try:
            return [(each.communicate(timeout=timeout)[0], each.returncode) for each in processes]
        finally:
            for each in processes:
                each.kill()
                each.wait()
                each.stdout.close()
