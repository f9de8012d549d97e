"""Bad input and faults: an exception on every rank, with a sentence that names the cause; never a hang."""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]

from harness import Switch  # noqa: E402

PYTHON = "/usr/bin/python3"
BEGIN = """
import datetime, os, signal, sys, time
import torch, torch.distributed as dist, torch.nn as nn
torch.set_num_threads(1)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def begin(timeout=20):
    import passing.torch
    dist.init_process_group("passing", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=timeout))
def says(what, call):
    try:
        call()
    except Exception as trouble:
        print(what, type(trouble).__name__, trouble, flush=True)
    else:
        print(what, "nothing", flush=True)
"""


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.switch = Switch("--mtu", "1500")

    @classmethod
    def tearDownClass(cls):
        cls.switch.end()

    def ranks(self, body, size=3, hosts=2, switch=True, sizes=None, timeout=60, killed=()):
        """What each of them prints."""
        with tempfile.TemporaryDirectory(prefix="passing-test-") as directory:
            processes = []
            for rank in range(size):
                environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(sizes[rank] if sizes else size),
                               "MEETING": f"{directory}/meeting", "PASSING_HOST": f"host{rank * hosts // size}", "OMP_NUM_THREADS": "1"}
                environment.pop("PASSING_CONTROLLER", None)
                if switch:
                    environment["PASSING_CONTROLLER"] = self.switch.address
                processes.append(subprocess.Popen([PYTHON, "-c", BEGIN + textwrap.dedent(body)], env=environment,
                                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            outputs = []
            try:
                for rank, each in enumerate(processes):
                    outputs.append(each.communicate(timeout=timeout)[0])
                    if rank not in killed:
                        self.assertEqual(each.returncode, 0, outputs[-1])
            finally:
                for each in processes:
                    each.kill()
                    each.wait()
            return outputs

    def all_say(self, outputs, expected):
        for rank, each in enumerate(outputs):
            self.assertRegex(each, expected, f"rank {rank}")

    def test_no_switch_configured(self):
        self.all_say(self.ranks('says("init", begin)', switch=False),
                     "init RuntimeError passing: the 3 ranks are on 2 hosts, and no switch is configured: .*PASSING_CONTROLLER")

    def test_no_switch_needed(self):
        body = 'begin(); t = torch.ones(5); dist.all_reduce(t); print("sum", t.tolist())'
        self.all_say(self.ranks(body, hosts=1, switch=False), r"sum \[3.0, 3.0")

    def test_a_switch_that_is_not_there(self):
        body = """
            os.environ["PASSING_CONTROLLER"] = "127.0.0.1:9"
            os.environ["PASSING_STRATEGY"] = "passing"  # auto would go without where that is faster
            says("init", lambda: begin(5))
        """
        self.all_say(self.ranks(body), "init RuntimeError passing: .*127.0.0.1:9")

    def test_another_torch(self):
        self.all_say(self.ranks('torch.__version__ = "9.9.1"; says("import", begin)', size=1, hosts=1),
                     "import ImportError passing.torch was built for torch 1.13.*this is torch 9.9.1")

    def test_mismatched_world(self):
        outputs = self.ranks('says("init", lambda: begin(6))', sizes=[3, 3, 2], switch=False)
        self.assertRegex(outputs[0], "init RuntimeError passing: .*rank 2 has a world size of 2, this one, rank 0, of 3|did not come")
        self.assertRegex(outputs[2], "init (RuntimeError|ValueError) ")

    def test_a_rank_that_does_not_come(self):
        outputs = self.ranks('rank < 2 and says("init", lambda: begin(4))', switch=False)
        for each in outputs[:2]:
            self.assertRegex(each, "init RuntimeError .*rank 2 of 3 did not come within|init RuntimeError .*[Tt]imed out")

    def test_tensors_that_are_not_supported(self):
        body = """
            begin()
            says("sparse", lambda: dist.all_reduce(torch.ones(3).to_sparse()))
            group = dist.distributed_c10d._get_default_group()  # torch itself asks less there
            says("meta", lambda: group.allreduce_coalesced([torch.ones(3, device="meta")]))
            says("complex", lambda: group.allreduce([torch.ones(2, dtype=torch.complex64)]))
            says("quantized", lambda: dist.all_reduce(torch.quantize_per_tensor(torch.ones(3), 1., 0, torch.qint8)))
            says("bitwise", lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND))
            t = torch.ones(3); dist.all_reduce(t); print("sum", t.tolist())
        """
        outputs = self.ranks(body)
        self.all_say(outputs, "sparse RuntimeError passing: all_reduce: a tensor is Sparse, but this backend takes dense ones")
        self.all_say(outputs, "meta RuntimeError passing: all_reduce: a tensor is on meta, but this backend takes those on the CPU")
        self.all_say(outputs, "complex RuntimeError passing: all_reduce: tensors of ComplexFloat cannot be reduced")
        self.all_say(outputs, "quantized RuntimeError passing: all_reduce: tensors of QInt8 cannot be reduced")
        self.all_say(outputs, "bitwise RuntimeError passing: .*float32 cannot be reduced by bit_and")
        self.all_say(outputs, r"sum \[3.0, 3.0, 3.0\]")  # none of it broke the group

    def test_a_rank_that_dies_in_the_backward_pass(self):
        body = """
            begin(30)
            net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(10, 4000), nn.Linear(4000, 10)), bucket_cap_mb=0.05)
            def die(grad):
                if rank == 1 and step == 3: os.kill(os.getpid(), signal.SIGKILL)
            list(net.parameters())[0].register_hook(die)
            def train():
                global step
                for step in range(10000):
                    net(torch.randn(4, 10)).sum().backward()
            says("train", train)
        """
        begun = time.monotonic()
        outputs = self.ranks(body, killed=(1,))
        self.assertLess(time.monotonic() - begun, 25)
        for rank in (0, 2):
            self.assertRegex(outputs[rank], "train RuntimeError passing: a connection is closed : .*rank 1 ")

    def test_a_rank_that_is_late(self):
        body = """
            begin(3)
            t = torch.ones(1000)
            dist.all_reduce(t)
            if rank == 1:
                time.sleep(14)
            says("reduce", lambda: dist.all_reduce(t))
        """
        outputs = self.ranks(body)
        for rank in (0, 2):
            self.assertRegex(outputs[rank], "reduce RuntimeError passing: Timed out : .*rank 1 ")
        self.assertRegex(outputs[1], "reduce RuntimeError passing: ")

    def test_ranks_that_disagree(self):
        outputs = self.ranks('begin(5); says("reduce", lambda: dist.all_reduce(torch.ones(100 + rank)))')
        self.all_say(outputs, "reduce RuntimeError passing: .*10[012] float32")

    def test_explain(self):
        body = 'begin(); import passing.torch; print("way:", passing.torch.explain(10_000_000))'
        self.all_say(self.ranks(body), "way: .*switch")


if __name__ == "__main__":
    unittest.main(verbosity=2)
