"""`passing train`: real training and replays in a lab, and what goes wrong in them. Needs root."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from bench_test import orphans
from harness import PASSING

# What docs/train.md and the report rely on.
FIELDS = {"mode": str, "model": str, "strategy": str, "peer": bool, "hosts": int, "ranks_per_host": int, "servers": int, "rate_bps": (int, float),
          "mtu": int, "batch": int, "steps": int, "rounds": int, "bytes": int, "samples_per_second": float, "steps_per_second": float,
          "step_seconds": float, "compute_seconds": float, "exposed_communication_seconds": (int, float), "busiest_link_bytes": float,
          "busiest_link": str, "losses": list, "step_ends": list, "speedup_over": dict}


def children(parent):
    """Processes of Python that a process has started, by rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) != parent:
                    continue
            with open(f"/proc/{pid}/environ") as file:
                environment = dict(each.split("=", 1) for each in file.read().split("\0") if "=" in each)
            with open(f"/proc/{pid}/cmdline") as file:
                if "passing.train.worker" not in file.read():
                    continue
        except OSError:
            continue
        found[int(environment["PASSING_RANK"])] = int(pid)
    return found


class Train(unittest.TestCase):
    def setUp(self):
        self.assertEqual(os.geteuid(), 0, "the lab needs root")
        self.before = orphans()
        self.directory = tempfile.mkdtemp(prefix="passing-train-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.json = os.path.join(self.directory, "results.json")

    def tearDown(self):
        self.assertEqual(orphans() - self.before, set(), "namespaces were left behind")

    def train(self, *arguments, status=0, environment=None):
        result = subprocess.run([PASSING, "train", "--json", self.json, *arguments], capture_output=True, text=True, timeout=120,
                                env={**os.environ, **(environment or {})})
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        if status == 0:
            with open(self.json) as file:
                self.results = json.load(file)
            for row in self.results["results"]:
                for field, kind in FIELDS.items():
                    self.assertIsInstance(row[field], kind, field)
                self.assertAlmostEqual(row["samples_per_second"], row["batch"] * row["hosts"] * row["ranks_per_host"] / row["step_seconds"])
                self.assertGreaterEqual(row["step_seconds"], row["compute_seconds"] - 1e-3)
                self.assertEqual(len(row["step_ends"]), row["steps"])
        return result

    def test_real(self):
        report = os.path.join(self.directory, "report.html")
        result = self.train("--hosts", "2", "--ranks", "1", "--steps", "12", "--batch", "8", "--strategies", "ps,gloo,passing", "--rounds", "2",
                            "--report", report)
        rows = {row["strategy"]: row for row in self.results["results"]}
        self.assertEqual(list(rows), ["ps", "gloo", "passing"])
        for name, row in rows.items():
            self.assertIn(f"\n{name} ", result.stdout)
            self.assertEqual((row["mode"], row["model"], row["rounds"], row["rate_bps"]), ("real", "digits", 2, 200e6))
            self.assertEqual(len(row["losses"]), 12 + 2)  # with the warm-up
            self.assertLess(row["final_loss"], row["losses"][0])
            for found, expected in zip(row["losses"], rows["gloo"]["losses"]):
                self.assertAlmostEqual(found / expected, 1, delta=1e-4)
            self.assertGreater(row["exposed_communication_seconds"], 0)
        # One gradient over every link, or two over the server's.
        self.assertLess(abs(rows["passing"]["busiest_link_bytes"] / rows["passing"]["bytes"] - 1.07), 0.05)
        self.assertGreater(rows["ps"]["busiest_link_bytes"], 2 * rows["ps"]["bytes"])
        self.assertEqual(rows["ps"]["speedup_over_ps"], 1)
        self.assertGreater(rows["passing"]["speedup_over_ps"], 1.2)
        for field in ("commit", "machine", "command", "date"):
            self.assertTrue(self.results[field])
        self.assertIn(f"The report is in {report}", result.stdout)
        with open(report) as file:
            self.assertIn("passing-train", file.read())

    def test_replay(self):
        self.train("--mode", "replay", "--hosts", "2", "--ranks", "2", "--model", "resnet50", "--equivalent", "25gbit,100gbit", "--steps", "2",
                   "--strategies", "ring_hierarchical,passing")
        self.assertEqual([(row["strategy"], row["equivalent_bps"]) for row in self.results["results"]],
                         [(name, rate) for rate in (25e9, 100e9) for name in ("ring_hierarchical", "passing")])
        for row in self.results["results"]:
            self.assertEqual((row["mode"], row["model"], row["gpu"], row["batch"]), ("replay", "resnet50", "V100", 64))
            self.assertAlmostEqual(row["compute_seconds"], 64 / 367, delta=1e-3)
            self.assertAlmostEqual(row["bytes"] * row["equivalent_bps"] / 200e6 / 4 / 25_557_032, 1, delta=1e-3)
            self.assertIsNone(row["final_loss"])
            self.assertIsNone(row["speedup_over_ps"])

    def test_model_of_ones_own(self):
        path = os.path.join(self.directory, "mine.json")
        with open(path, "w") as file:
            json.dump({"format": "passing-model", "version": 1, "model": "mine", "gpu": "H100", "batch": 2, "samples_per_second": 50, "source": "made up",
                       "layers": [{"name": str(i), "parameters": 5_000_000, "forward_seconds": 0.01, "backward_seconds": 0.02} for i in range(4)]}, file)
        self.train("--mode", "replay", "--hosts", "2", "--ranks", "1", "--model", path, "--steps", "2", "--strategies", "passing")
        row, = self.results["results"]
        self.assertEqual((row["model"], row["gpu"], row["bytes"]), ("mine", "H100", 4 * 20_000_000 // 50))
        self.assertAlmostEqual(row["compute_seconds"], 0.12)

    def running(self, *arguments):
        """A training that is well under way, and its workers."""
        process = subprocess.Popen([PASSING, "train", "--hosts", "2", "--ranks", "1", "--rate", "20mbit", "--strategies", "passing", "--steps", "5000",
                                    *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        while len(children(process.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(6)
        workers = children(process.pid)
        self.assertEqual(len(workers), 2)
        return process, workers

    def test_a_worker_that_dies_is_named(self):
        process, workers = self.running()
        os.kill(workers[1], signal.SIGKILL)
        begin = time.monotonic()
        _, said = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(process.returncode, 1)
        self.assertIn("passing train: passing: rank 1 was killed by signal 9", said)
        self.assertFalse(os.path.exists(f"/proc/{workers[0]}"))

    def test_interrupted(self):
        process, workers = self.running()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("interrupted", said)
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in workers.values()))

    def test_without_torch(self):
        # One that stands in front of it.
        os.makedirs(os.path.join(self.directory, "torch"))
        with open(os.path.join(self.directory, "torch", "__init__.py"), "w") as file:
            file.write("raise ImportError('no torch here')\n")
        result = self.train("--hosts", "1", "--ranks", "1", status=1, environment={"PYTHONPATH": self.directory})
        self.assertRegex(result.stderr, r"torch cannot be imported by /usr/bin/python3 \(no torch here\): install python3-torch")
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)

    def test_bad_input(self):
        broken = os.path.join(self.directory, "broken.json")
        with open(broken, "w") as file:
            file.write("{")
        for arguments, sentence in (
                (["--model", "vgg99"], "--model: 'vgg99' is no model to train: there are digits, digits_cnn, mlp5m; --mode replay has alexnet, bert_base"),
                (["--mode", "replay", "--model", "vgg99"], "--model: 'vgg99' is no model to replay: there are alexnet,"),
                (["--mode", "replay", "--model", broken], f"{broken} is not JSON"),
                (["--mode", "replay", "--model", "./none.json"], "./none.json cannot be read (No such file or directory)"),
                (["--strategies", "ps,fast"], "--strategies: 'fast' is no strategy: there are auto,"),
                (["--mode", "dream"], "--mode: dream not in {real,replay}"),
                (["--mode", "replay", "--rate", "none"], "--rate none: a replay scales models"),
                (["--mode", "replay", "--equivalent", "none"], "--equivalent none: must be a rate"),
                (["--servers", "0"], "'0': must be 1 to 16"),
                (["--steps", "0"], "'0': must be 1 to")):
            result = self.train(*arguments, status=2)
            self.assertIn(sentence, result.stderr)
        self.json = "/nowhere/at/all.json"
        result = self.train(status=2)
        self.assertIn("--json: cannot write '/nowhere/at/all.json'", result.stderr)


if __name__ == "__main__":
    unittest.main()
