"""passing simulate, as users run it: docs/simulation.md."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

PASSING = os.environ.get("PASSING", "build/release/passing")

CLUSTER = """name = "mine"
[hosts]
count = 4
gpus_per_host = 2
in_host_gbps = 80
nic_gbps = 10
[racks]
hosts_per_rack = 4
oversubscription = 1
[switch]
placement = "none"
[latency]
message_us = 20
in_host_us = 5
"""


class Simulate(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="passing-simulate-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def file(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def simulate(self, *arguments, status=0):
        result = subprocess.run([PASSING, "simulate", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def refused(self, *arguments):
        result = self.simulate(*arguments, status=2)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr

    def test_sweep(self):
        result = self.simulate("--cluster", "gpus65536", "--model", "vgg16", "--strategies", "all", "--sweep", "gpus=8..65536",
                               "--json", self.path("results.json"), "--report", self.path("report.html"))
        self.assertIn("vgg16 on gpus65536: 553 MB of gradients", result.stdout)
        self.assertIn("The report is in", result.stdout)
        with open(self.path("results.json")) as file:
            results = json.load(file)
        self.assertEqual((results["format"], results["version"]), ("passing-simulate", 1))
        self.assertTrue(results["command"].startswith("passing simulate --cluster gpus65536"), results["command"])
        rows = results["results"]
        self.assertEqual(len(rows), 14 * 9)
        for row in rows:
            for field in ("strategy", "model", "gpus", "level", "iteration_seconds", "communication_seconds", "exposed_communication_seconds",
                          "speedup_over_ps", "busiest_link"):
                self.assertIn(field, row)
            self.assertEqual(row["level"], "explicit" if row["gpus"] <= 1024 else "folded")
            self.assertGreaterEqual(row["iteration_seconds"], row["compute_seconds"] * (1 - 1e-9))
        best = [row["iteration_seconds"] for row in rows if row["gpus"] == 65536 and row["strategy"] == "passing"]
        self.assertEqual(min(row["iteration_seconds"] for row in rows if row["gpus"] == 65536), min(best))
        with open(self.path("report.html")) as file:
            self.assertIn("passing-simulate", file.read())
        # And what it wrote can be reported later.
        subprocess.run([PASSING, "report", self.path("results.json"), "--output", self.path("again.html")], check=True, stdout=subprocess.DEVNULL)

    def test_combinations(self):
        self.simulate("--cluster", "gpus1024", "--model", "vgg16,resnet50", "--strategies", "ps,passing", "--sweep", "rate=10gbit,400gbit",
                      "--sweep", "gpus_per_host=1,8", "--sweep", "servers=1..4", "--level", "folded", "--json", self.path("results.json"))
        with open(self.path("results.json")) as file:
            rows = json.load(file)["results"]
        self.assertEqual(len(rows), 2 * 2 * 2 * 3 * 2)
        self.assertEqual({row["gpus"] for row in rows}, {1024})
        self.assertEqual({(row["hosts"], row["gpus_per_host"]) for row in rows}, {(1024, 1), (128, 8)})

    def test_jobs_beside(self):
        alone = self.simulate("--cluster", "testbed", "--strategies", "ps").stdout
        shared = self.simulate("--cluster", "testbed", "--strategies", "ps", "--beside", "vgg16").stdout
        self.assertIn("beside vgg16", shared)
        time = lambda text: float(re.search(r"ps +([\d.]+) ms", text)[1])
        self.assertGreater(time(shared), 1.8 * time(alone))

    def test_strategies_that_cannot_run(self):
        cluster = self.file("mine.toml", CLUSTER)
        said = self.simulate("--cluster", cluster, "--strategies", "all").stdout
        self.assertIn("Not simulated with 8 GPUs: passing needs a switch that sums, and mine has none", said)
        self.assertIn("ring", said)
        self.assertIn("passing needs a switch that sums, and mine has none", self.refused("--cluster", cluster, "--strategies", "ring,passing"))
        self.assertIn("ps needs parameter servers, and mine has none", self.refused("--cluster", cluster, "--strategies", "ps"))

    def test_calibrate_and_compare(self):
        # As if a lab had measured: rings at 0.9 of what links allow, the switch at 0.95.
        def row(strategy, hosts, size, seconds):
            return {"strategy": strategy, "local_domain": "host", "hosts": hosts, "ranks_per_host": 1, "racks": 1, "servers": 0, "rate_bps": 2e8, "mtu": 1500,
                    "bytes": size, "repeat": 4, "in_flight": 2, "median_seconds": seconds}
        rows = [row("ring", hosts, size, 2 * (hosts - 1) / hosts * size * 1514 / 1448 / 0.9 / 25e6) for hosts in (2, 4) for size in (4e6, 16e6)]
        rows += [row("passing", hosts, size, size * 1486 / 1408 / 0.95 / 25e6) for hosts in (2, 4) for size in (4e6, 16e6)]
        bench = self.file("bench.json", json.dumps({"format": "passing-bench", "version": 1, "results": rows}))
        said = self.simulate("--cluster", "lab", "--model", "resnet50", "--strategies", "ring,passing", "--calibrate", bench, "--json", self.path("r.json")).stdout
        self.assertIn("switch_efficiency = 0.95\nmesh_efficiency = 0.9\n", said)
        with open(self.path("r.json")) as file:
            self.assertAlmostEqual(json.load(file)["calibration"]["mesh_efficiency"], 0.9, 4)
        said = self.simulate("--cluster", "lab", "--against", bench, "--json", self.path("v.json")).stdout
        self.assertIn("(calibrated on)", said)
        with open(self.path("v.json")) as file:
            validation = json.load(file)["validation"]
        self.assertEqual(validation["cases"], 6)
        self.assertLess(validation["worst_error"], 0.01)

    def test_validate_in_a_lab(self):
        said = self.simulate("--cluster", "lab", "--validate", "--hosts", "2", "--ranks", "1,2", "--sizes", "4M", "--strategies", "ring,passing",
                             "--json", self.path("v.json")).stdout
        self.assertIn("cases beside what it was calibrated on: median error", said)
        with open(self.path("v.json")) as file:
            validation = json.load(file)["validation"]
        self.assertEqual((len(validation["rows"]), validation["cases"]), (4, 2))
        self.assertLess(validation["worst_error"], 1)  # how small it is, claims say

    def test_straggler(self):
        slow = self.file("slow.toml", CLUSTER + "[straggler]\nhost = 2\ncompute_factor = 2\n")
        self.simulate("--cluster", slow, "--strategies", "ring", "--level", "folded")
        self.assertIn("a straggler beside other jobs cannot be folded",
                      self.refused("--cluster", slow, "--strategies", "ring", "--level", "folded", "--beside", "vgg16"))
        self.simulate("--cluster", slow, "--strategies", "ring", "--level", "explicit", "--beside", "vgg16")

    def test_bad_cluster(self):
        for text, sentence in (
                (CLUSTER.replace("nic_gbps = 10\n", ""), "mine.toml:2: hosts.nic_gbps is missing: expected a number from"),
                (CLUSTER.replace("nic_gbps", "nic_gpbs"), "mine.toml:6: hosts.nic_gpbs: unknown key; expected one of count, gpus_per_host"),
                (CLUSTER.replace("count = 4", "count = -4"), "mine.toml:3: hosts.count is -4: expected a whole number from 1"),
                (CLUSTER.replace("nic_gbps = 10", "nic_gbps = 0"), "mine.toml:6: hosts.nic_gbps is 0: expected a number from"),
                (CLUSTER.replace("hosts_per_rack = 4", "hosts_per_rack = 5"), "mine.toml:8: racks.hosts_per_rack is 5, but hosts.count is 4"),
                (CLUSTER + "[[", "is not TOML"),
                ("", "name is missing")):
            self.assertIn(sentence, self.refused("--cluster", self.file("mine.toml", text), "--strategies", "ring"))
        self.assertIn("there is no 'nowhere': there are gpus1024, gpus65536, lab, testbed", self.refused("--cluster", "nowhere"))
        self.assertIn("./none.toml cannot be read (No such file or directory)", self.refused("--cluster", "./none.toml"))

    def test_bad_input(self):
        cluster = self.file("mine.toml", CLUSTER)
        model = {"format": "passing-model", "version": 1, "model": "m", "gpu": "g", "source": "s", "batch": 1, "samples_per_second": 1, "layers": []}
        empty = self.file("empty.json", json.dumps(model))
        for arguments, sentence in (
                (["--model", empty], "empty.json has no list of \"layers\""),
                (["--model", "vgg99"], "--model: 'vgg99' is no model to replay: there are alexnet,"),
                (["--beside", "vgg99"], "--model: 'vgg99' is no model to replay"),
                (["--strategies", "fast"], "--strategies: 'fast' is none that can be simulated: there are ps,"),
                (["--sweep", "gpus=16"], "16 GPUs are more than the 4 hosts of mine have, 2 each: 8 at most"),
                (["--sweep", "gpus=3"], "3 GPUs do not fill hosts of mine, which has 2 in each"),
                (["--sweep", "gpus=0"], "--sweep: 'gpus=0' must be values above 0 such as gpus=8..65536"),
                (["--sweep", "gpus=8..4"], "--sweep: 'gpus=8..4' must be values above 0"),
                (["--sweep", "colour=3"], "--sweep: 'colour=3' is nothing that can be swept: there are gpus=8..65536"),
                (["--sweep", "rate=fast"], "--sweep: 'rate=fast' must be values above 0 such as rate=10gbit"),
                (["--sweep", "gpus=4", "--sweep", "gpus=8"], "--sweep: gpus is swept twice: give all its values at once, gpus=A,B"),
                (["--sweep", "gpus_per_host=3"], "--sweep: gpus_per_host=3 does not divide the 8 GPUs of mine"),
                (["--model", "/"], "/ is a directory"),
                (["--calibrate", "/"], "/ is a directory"),
                (["--calibrate", empty], "empty.json is not a file of results of a benchmark"),
                (["--against", "./none.json"], "./none.json cannot be read (No such file or directory)"),
                (["--json", "/nowhere/at/all.json"], "--json: cannot write '/nowhere/at/all.json'"),
                (["--report", "/nowhere/at/all.html"], "--report: cannot write '/nowhere/at/all.html'")):
            self.assertIn(sentence, self.refused("--cluster", cluster, *([] if "--strategies" in arguments else ["--strategies", "ring"]), *arguments))
        for arguments in (["--level", "wild"], ["--wild"], ["--hosts", "1"], ["--validate", "--report", "x.html"], ["--against", "x.json", "--sweep", "gpus=8"]):
            self.simulate("--cluster", cluster, *arguments, status=2)
        self.assertIn("--level explicit: 65536 GPUs are more than the 1024", self.refused("--cluster", "gpus65536", "--level", "explicit"))


if __name__ == "__main__":
    unittest.main()
