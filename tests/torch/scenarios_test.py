"""Training through the backend is training with gloo, and the same on all ranks and in every run: docs/torch.md."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), HERE]

from harness import Switch  # noqa: E402

PYTHON = "/usr/bin/python3"
WORLD = 4
# Relative, of the whole curve. Sums differ in their last bits; half precision differs by more.
TOLERANCE = {"fp16_hook": 5e-3, "bf16_hook": 3e-2}
DEFAULT_TOLERANCE = 1e-4


def run(backend, hosts, controller):
    """What each rank says."""
    with tempfile.TemporaryDirectory(prefix="passing-test-") as directory:
        ranks = []
        for rank in range(WORLD):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(WORLD), "PASSING_HOST": f"host{rank * hosts // WORLD}",
                           "OMP_NUM_THREADS": "1", "PASSING_CONTROLLER": controller, "PASSING_STRATEGY": "passing"}
            ranks.append(subprocess.Popen([PYTHON, os.path.join(HERE, "scenarios.py"), backend, directory], env=environment))
        try:
            for each in ranks:
                assert each.wait(timeout=240) == 0, f"a rank of {backend} failed"
        finally:
            for each in ranks:
                each.kill()
                each.wait()
        results = []
        for rank in range(WORLD):
            with open(f"{directory}/result.{rank}") as file:
                results.append(json.load(file))
        return results


class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        switch = Switch("--mtu", "1500")
        try:
            cls.gloo = run("gloo", 1, "")
            cls.runs = {hosts: run("passing", hosts, switch.address) for hosts in (1, 2, 3)}
            cls.again = run("passing", 2, switch.address)
        finally:
            switch.end()

    def check(self, name):
        for hosts, ranks in self.runs.items():
            with self.subTest(hosts=hosts):
                # Ranks are identical to the bit,
                self.assertEqual(len({each[name]["state"] for each in ranks}), 1)
                self.assertEqual(len({str(each[name]["losses"]) for each in ranks}), 1)
                # and the losses are gloo's.
                expected = self.gloo[0][name]["losses"]
                for found, wanted in zip(ranks[0][name]["losses"], expected, strict=True):
                    self.assertAlmostEqual(found / wanted, 1, delta=TOLERANCE.get(name, DEFAULT_TOLERANCE))
        # So are two runs.
        self.assertEqual([each[name] for each in self.again], [each[name] for each in self.runs[2]])


def add(name):
    setattr(Scenarios, f"test_{name}", lambda self: self.check(name))


for each in ("ddp", "larger", "join", "accumulation", "fp16_hook", "bf16_hook", "scaler", "zero", "checkpoint", "local_sgd"):
    add(each)

if __name__ == "__main__":
    unittest.main(verbosity=2)
