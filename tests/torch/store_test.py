"""Groups that meet by torch's TCPStore, as init_method="env://" and torchrun have it: late ranks, time-outs, restarts."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]

from harness import Switch  # noqa: E402
from processes import PYTHON, run_ranks  # noqa: E402

# `make torch-restarts` has 50.
RESTARTS = int(os.environ.get("PASSING_TEST_RESTARTS", "3"))


def free_port():
    """Below those that the system gives to whoever connects: nobody takes it before the ranks do."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


class Store(unittest.TestCase):
    def ranks(self, body, size=2, timeout=120):
        """What each of them prints, on one host and without a switch."""
        ended = run_ranks(body, size, 1, timeout=timeout, meeting=f"tcp://127.0.0.1:{free_port()}")
        for rank, (output, status) in enumerate(ended):
            self.assertEqual(status, 0, f"rank {rank}: {output}")
        return [output for output, _ in ended]

    def all_right(self, outputs):
        for rank, each in enumerate(outputs):
            self.assertIn("right", each, f"rank {rank}")

    def test_a_group_after_a_monitored_barrier_that_timed_out(self):
        self.all_right(self.ranks("""
            begin()
            import passing.torch
            for late in range(size):
                if rank == late: time.sleep(2)
                says("barrier", lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5)))
                for _ in range(3):
                    group = dist.new_group(timeout=datetime.timedelta(seconds=10))
                    t = torch.ones(5); dist.all_reduce(t, group=group); assert t.tolist() == [size] * 5, t
            print("right")
        """, size=3))

    def test_ranks_that_come_late_to_a_group(self):
        """By every offset around the time after which who waits looks again, which once left a waiter behind."""
        self.all_right(self.ranks("""
            begin()
            late = [0.001 * each for each in (0, 1, 2, 5, 20, 49, 50, 51, 100)] + [0.98 + 0.005 * each for each in range(9)]
            for offset in late:
                for who in range(size):
                    if rank == who: time.sleep(offset)
                    group = dist.new_group(timeout=datetime.timedelta(seconds=20))
                    t = torch.ones(5); dist.all_reduce(t, group=group); assert t.tolist() == [2] * 5, (offset, t)
                    dist.destroy_process_group(group)
            print("right")
        """))

    def test_groups_one_after_another_in_one_process(self):
        self.all_right(self.ranks("""
            import passing.torch, random
            address, port = os.environ["MEETING"].removeprefix("tcp://").split(":")
            source = random.Random(rank)
            for number in range(20):
                store = dist.TCPStore(address, int(port), size, rank == 0, datetime.timedelta(seconds=30)) if number == 0 else store
                time.sleep(source.random() * 0.2)
                dist.init_process_group("passing", store=dist.PrefixStore(str(number), store), rank=rank, world_size=size,
                                        timeout=datetime.timedelta(seconds=30))
                t = torch.ones(5); dist.all_reduce(t); assert t.tolist() == [size] * 5, t
                dist.destroy_process_group()
            store.set(f"end{rank}", "")
            store.wait([f"end{each}" for each in range(size)])  # who has the store stays until all have come
            time.sleep(0.5 if rank == 0 else 0)
            print("right")
        """, size=3))


WORKER = """
    import os, signal, torch, torch.distributed as dist
    import passing.torch
    os.environ["PASSING_HOST"] = "host" + os.environ["LOCAL_RANK"]
    os.environ["PASSING_STRATEGY"] = "passing"  # so that the switch, too, sees members die and come again
    torch.set_num_threads(1)
    round = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    last = int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
    dist.init_process_group("passing")
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(20):
        t = torch.full((10_000,), float(rank)); dist.all_reduce(t)
        assert t.eq(size * (size - 1) / 2).all(), t
        if round < last and rank == round % size and step == round % 20: os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0: print("right after", round, flush=True)
    dist.destroy_process_group()
"""


class Restarts(unittest.TestCase):
    def test_torchrun_starts_killed_ranks_again(self):
        switch = Switch("--mtu", "1500")
        self.addCleanup(switch.end)
        with tempfile.TemporaryDirectory(prefix="passing-test-") as directory:
            script = os.path.join(directory, "worker.py")
            with open(script, "w") as file:
                file.write(textwrap.dedent(WORKER))
            command = [PYTHON, "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--nproc_per_node", "3", "--master_addr", "127.0.0.1",
                       "--master_port", str(free_port()), "--max_restarts", str(RESTARTS), "--log_dir", directory,
                       "--monitor_interval", "0.2", script]
            environment = {**os.environ, "PASSING_CONTROLLER": switch.address, "OMP_NUM_THREADS": "1"}
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True)
            try:
                output, _ = process.communicate(timeout=60 + 30 * RESTARTS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            self.assertEqual(process.returncode, 0, output[-4000:])
            self.assertRegex(output, f"right after {RESTARTS}")
            self.assertIsNone(re.search("Stop_waiting|did not come within", output), output[-4000:])


if __name__ == "__main__":
    unittest.main()
