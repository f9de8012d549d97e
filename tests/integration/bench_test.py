"""`passing bench`: what it says of strategies and peers, in a lab. Needs root."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import PASSING

# What docs/benchmarks.md and the report rely on.
FIELDS = {"strategy": str, "peer": bool, "hosts": int, "ranks_per_host": int, "racks": int, "servers": int, "local_domain": str, "dataplane": str,
          "rate_bps": (int, float), "spine_rate_bps": (int, float), "mtu": int, "bytes": int, "repeat": int, "in_flight": int,
          "samples": int, "median_seconds": float, "min_seconds": float, "max_seconds": float, "latency_seconds": float,
          "algorithm_bandwidth": float, "line_ratio": (int, float), "ceiling_ratio": (int, float), "limit_seconds": (int, float),
          "limit_ratio": (int, float), "cpu_seconds_per_gb": float, "machine_cpu_seconds_per_gb": (int, float), "program_seconds_per_gb": (int, float), "busiest_link_bytes": float, "busiest_link": str,
          "least_link_bytes": (int, float), "verified": bool, "ratio_to": dict}


def orphans():
    """Namespaces of labs whose process is gone: those of others, at the same time, are not ours to judge."""
    names = [line.split()[0] for line in subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()
             if line.startswith("passing-")]
    return {name for name in names if name.split("-")[1].isdigit() and not os.path.exists("/proc/" + name.split("-")[1])}


class Bench(unittest.TestCase):
    def setUp(self):
        self.assertEqual(os.geteuid(), 0, "the lab needs root")
        self.before = orphans()
        self.directory = tempfile.mkdtemp(prefix="passing-bench-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.json = os.path.join(self.directory, "results.json")

    def tearDown(self):
        self.assertEqual(orphans() - self.before, set(), "namespaces were left behind")

    def bench(self, *arguments, status=0, environment=None):
        result = subprocess.run([PASSING, "bench", "--json", self.json, *arguments], capture_output=True, text=True, timeout=300,
                                env={**os.environ, **(environment or {})})
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        if status != 2:
            with open(self.json) as file:
                self.results = json.load(file)
        return result

    def row(self, strategy, **values):
        found = [row for row in self.results["results"]
                 if row["strategy"] == strategy and all(row[name] == value for name, value in values.items())]
        self.assertEqual(len(found), 1, (strategy, values))
        return found[0]

    def test_dataplanes_side_by_side(self):
        result = self.bench("--hosts", "2", "--rate", "none", "--sizes", "4K,1M", "--samples", "1", "--repeat", "4", "--profile",
                            "--strategies", "passing,ring", "--peers", "none", "--dataplane", "userspace,mmsg,tc,xdp")
        self.assertIn("mach s/GB", result.stdout)
        self.assertEqual(len(self.results["results"]), 2 * 5)
        for dataplane in ("userspace", "mmsg", "tc", "xdp"):
            for size in (4000, 1_000_000):
                row = self.row("passing", dataplane=dataplane, bytes=size)
                self.assertTrue(row["verified"])
                self.assertEqual(row["program_seconds_per_gb"] > 0, dataplane in ("tc", "xdp"))
                self.assertIn("passing@tc" if dataplane != "tc" else "passing", row["ratio_to"])
        self.assertEqual(self.row("ring", bytes=4000)["dataplane"], "")
        said = self.bench("--dataplane", "tc,xdp", "--mtu", "9000", status=2)
        self.assertIn("XDP takes frames of one buffer, up to 3500", said.stderr)

    def test_every_contender(self):
        ours = ["passing", "auto", "ring_hierarchical", "ring", "halving_doubling", "in_network", "ps", "ps_hierarchical", "ps_sharded"]
        peers = ["gloo", "gloo_bcube", "gloo_hd", "openmpi", "openmpi_ring", "openmpi_polling"]
        result = self.bench("--hosts", "2", "--ranks", "2", "--rate", "500mbit", "--sizes", "40K,1M", "--samples", "1", "--repeat", "4",
                            "--strategies", ",".join(ours), "--peers", "all")
        self.assertEqual(self.results["absent"], [], "opponents are missing here")
        self.assertEqual(len(self.results["results"]), 2 * (len(ours) + len(peers)))
        for name in ours + peers:
            self.assertEqual(result.stdout.count(f"\n{name} "), 2)
            for size in (40_000, 1_000_000):
                row = self.row(name, bytes=size)
                for field, kind in FIELDS.items():
                    self.assertIsInstance(row[field], kind, f"{name}: {field}")
                self.assertTrue(row["verified"])
                self.assertEqual(row["peer"], name in peers)
                self.assertEqual(row["rate_bps"], 500e6)
                self.assertAlmostEqual(row["line_ratio"], 8 * size / row["median_seconds"] / 500e6)
                self.assertGreaterEqual(row["busiest_link_bytes"], row["least_link_bytes"])
                self.assertEqual(set(row["ratio_to"]), set(ours + peers) - {name})
                self.assertGreater(row["cpu_seconds_per_gb"], 0)
        # What the strategies are about, in tensors: headers are 6 %, a little more is set-up.
        carried = {name: self.row(name, bytes=1_000_000)["busiest_link_bytes"] / 1e6 for name in ours}
        for name, tensors in {"passing": 1, "ring_hierarchical": 1, "in_network": 2, "ps": 4, "ps_hierarchical": 2, "ps_sharded": 2}.items():
            self.assertGreater(carried[name], tensors)
            self.assertLess(carried[name], 1.15 * tensors + 0.05, name)
        for field in ("commit", "machine", "command", "date"):
            self.assertTrue(self.results[field])
        self.assertIn("--sizes 40K,1M", self.results["command"])

    def test_several_clusters(self):
        self.bench("--hosts", "1,3", "--ranks", "1,2", "--rate", "none,200mbit", "--sizes", "1K:16K", "--samples", "2", "--repeat", "3",
                   "--strategies", "passing", "--peers", "none")
        shapes = {(row["hosts"], row["ranks_per_host"], row["rate_bps"], row["bytes"]) for row in self.results["results"]}
        self.assertEqual(shapes, {(h, r, b, s) for h in (1, 3) for r in (1, 2) for b in (0, 200e6) for s in (1000, 4000, 16000)})
        self.assertTrue(all(row["verified"] and row["samples"] == 2 for row in self.results["results"]))

    def test_racks(self):
        self.bench("--hosts", "4", "--racks", "2", "--rate", "400mbit", "--spine-rate", "100mbit", "--sizes", "2M", "--samples", "1",
                   "--repeat", "3", "--strategies", "passing,passing:rack", "--peers", "none")
        whole, racks = self.row("passing", local_domain="host"), self.row("passing", local_domain="rack")
        self.assertRegex(racks["busiest_link"], r"^(rack|host)\d (up|down)$")
        # Two tensors over the uplink, or one.
        self.assertGreater(whole["busiest_link_bytes"], 2 * 2e6)
        self.assertEqual(whole["busiest_link"].split()[0][:4], "rack")
        self.assertGreater(whole["median_seconds"] / racks["median_seconds"], 1.5)

    def test_absent_peers_are_reported(self):
        # Without mpirun, and without the program for Gloo.
        place = os.path.join(self.directory, "bin")
        os.mkdir(place)
        for name in ("passing", "peer_passing", "peer_open_mpi"):
            shutil.copy(os.path.join(os.path.dirname(PASSING), name), place)
        tools = os.path.join(self.directory, "tools")
        os.mkdir(tools)
        for name in ("ip", "tc", "nft", "ethtool", "sh", "cat", "timeout", "unshare"):
            if shutil.which(name):
                os.symlink(shutil.which(name), os.path.join(tools, name))
        result = subprocess.run([os.path.join(place, "passing"), "bench", "--hosts", "2", "--sizes", "4K", "--samples", "1", "--repeat", "2",
                                 "--strategies", "passing", "--peers", "gloo,openmpi", "--json", self.json],
                                capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": tools})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.json) as file:
            absent = {each["strategy"]: each["reason"] for each in json.load(file)["absent"]}
        self.assertEqual(set(absent), {"gloo", "openmpi"})
        self.assertIn("install libgloo-dev", absent["gloo"])
        self.assertIn("install openmpi-bin", absent["openmpi"])
        self.assertIn("absent: peer_gloo is not there", result.stdout)

    def test_bad_input(self):
        for arguments, sentence in (
                (["--sizes", "17"], "--sizes: '17' must be a multiple of 4 bytes"),
                (["--sizes", "16M:1M"], "--sizes: '16M:1M' must be"),
                (["--sizes", "many"], "--sizes: 'many' must be"),
                (["--strategies", "fast"], "'fast' is no strategy: there are auto,"),
                (["--peers", "nccl"], "'nccl' is no strategy"),
                (["--hosts", "0"], "must be 1 to 64"),
                (["--rate", "quick"], "quick"),
                (["--hosts", "2", "--racks", "3"], "--racks: '3': there are only 2 hosts")):
            result = self.bench(*arguments, status=2)
            self.assertIn(sentence, result.stderr)
            self.assertEqual(len(result.stderr.strip().splitlines()[:1]), 1)

    def test_interrupted(self):
        process = subprocess.Popen([PASSING, "bench", "--hosts", "2", "--rate", "20mbit", "--sizes", "64M", "--peers", "gloo,openmpi"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertNotEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
