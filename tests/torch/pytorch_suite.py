"""PyTorch's own tests of torch.distributed, run against a backend.

    pytorch_suite.py --backend passing --world 3 --hosts 2 [--only NAME ...] [--json FILE]

Prints how many passed, failed and were skipped. With --backend gloo it says what there is to reach. The tests ask for
backends by name; those questions are answered for "passing" as for gloo, and for all_to_all as for mpi.
"""

import argparse
import atexit
import dataclasses
import functools
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import time
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

# Where the suite looks at the backend's name only.
GATES = (
    ('BACKEND != "gloo"', 'BACKEND not in ("gloo", "passing")'),
    ('BACKEND == "gloo"', 'BACKEND in ("gloo", "passing")'),
    ('new_backend == "gloo"', 'new_backend in ("gloo", "passing")'),
    ('new_backend = "gloo"', 'new_backend = BACKEND'),
    ('require_backend({"gloo"})', 'require_backend({"gloo", "passing"})'),
    ("    dist.Backend.GLOO,\n", '    dist.Backend.GLOO,\n    "passing",\n'),
    ('BACKEND != "mpi", "Only MPI supports', 'BACKEND not in ("mpi", "passing"), "Only MPI supports'),
)


def stand_in_for_expecttest():
    """PyTorch's test base needs it for what these tests do not use; Debian does not have it."""
    module = types.ModuleType("expecttest")
    module.ACCEPT = False
    module.TestCase = type("TestCase", (unittest.TestCase,), {})
    sys.modules.setdefault("expecttest", module)


def import_shard():
    """torch 1.13 has a mutable default in a dataclass, which Python 3.11 refuses unless it can be hashed."""
    original = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda later: hashable(later, **options)
        return original(cls, **options) if "__hash__" in cls.__dict__ else original(cls, **{"unsafe_hash": True, **options})

    dataclasses.dataclass = hashable
    try:
        import torch.distributed._shard.replicated_tensor  # noqa: F401
        import torch.nn.parallel._replicated_tensor_ddp_utils  # noqa: F401
    finally:
        dataclasses.dataclass = original


@functools.cache
def load(backend, world):
    scratch = tempfile.mkdtemp(prefix="passing-test-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(world), TEMP_DIR=scratch)
    stand_in_for_expecttest()
    import torch  # noqa: F401
    torch.set_num_threads(1)
    import_shard()
    if backend != "gloo":
        import passing.torch  # noqa: F401
        from torch.testing._internal import common_distributed
        for features in common_distributed.DistTestCases.backend_feature.values():
            features.add(backend)
    name = "torch.testing._internal.distributed.distributed_test"
    spec = importlib.util.find_spec(name)
    with open(spec.origin) as file:
        source = file.read()
    if backend != "gloo":
        for gate, answer in GATES:
            assert gate in source, gate
            source = source.replace(gate, answer)
    module = types.ModuleType(name)
    module.__file__ = spec.origin
    sys.modules[name] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


def test_case(module, hosts):
    class Fork(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            import torch
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank, test_name, file_name, pipe):
            os.environ["PASSING_HOST"] = f"host{rank * hosts // int(os.environ['WORLD_SIZE'])}"
            super()._run(rank, test_name, file_name, pipe)

    return Fork


class Result(unittest.TextTestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.outcomes = {}

    def note(self, test, outcome):
        self.outcomes[test._testMethodName] = outcome

    def startTest(self, test):
        self.begin = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, ["passed", round(time.monotonic() - self.begin, 2)])

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, ["failed", str(error[1])[-1500:]])

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, ["failed", str(error[1])[-1500:]])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, ["skipped", reason])


def names(backend, world):
    return unittest.defaultTestLoader.getTestCaseNames(test_case(load(backend, world), 1))


def run(backend, world, hosts, only=(), verbosity=1):
    """The outcomes by name: passed, failed or skipped, and the time or the reason."""
    case = test_case(load(backend, world), hosts)
    suite = unittest.TestSuite(case(name) for name in names(backend, world) if not only or name in only)
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=verbosity, stream=sys.stderr)
    return runner.run(suite).outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="passing")
    parser.add_argument("--world", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=2, help="that the ranks say they are on")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--json")
    options = parser.parse_args()
    random.seed(1)
    switch = None
    if options.backend == "passing" and options.hosts > 1:
        from harness import Switch
        switch = Switch("--mtu", "1500")  # more slots than with the packets of loopback: some tests have many groups
        # auto would go without the switch where that is faster.
        os.environ.update(PASSING_CONTROLLER=switch.address, PASSING_STRATEGY="passing")
    try:
        outcomes = run(options.backend, options.world, options.hosts, options.only, 2)
    finally:
        if switch:
            switch.end()
    count = {kind: [name for name, outcome in outcomes.items() if outcome[0] == kind] for kind in ("passed", "failed", "skipped")}
    for name in count["failed"]:
        print(f"FAILED {name}: {outcomes[name][1]}")
    print(f"{options.backend}, world {options.world} on {options.hosts} hosts: "
          + ", ".join(f"{len(names)} {kind}" for kind, names in count.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(outcomes, file, indent=1)
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
