"""Bad input and faults: an exception on every rank, with a sentence that names the cause; never a hang."""

import os
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]

from harness import Switch  # noqa: E402
from processes import run_ranks  # noqa: E402


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.switch = Switch("--mtu", "1500")

    @classmethod
    def tearDownClass(cls):
        cls.switch.end()

    def ranks(self, body, size=3, hosts=2, switch=True, sizes=None, timeout=60, killed=()):
        """What each of them prints."""
        ended = run_ranks(body, size, hosts, self.switch.address if switch else None, sizes, timeout)
        for rank, (output, status) in enumerate(ended):
            if rank not in killed:
                self.assertEqual(status, 0, output)
        return [output for output, _ in ended]

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
        outputs = self.ranks(body)
        self.all_say(outputs, "init RuntimeError passing: .*127.0.0.1:9")
        self.assertTrue(any("has waited 3 s for the switch: the controller at 127.0.0.1:9 does not answer" in each for each in outputs), outputs)
        outputs = self.ranks(body.replace('os.environ["PASSING_STRATEGY"]', 'os.environ["PASSING_QUIET"] = "1"; os.environ["PASSING_STRATEGY"]'))
        self.all_say(outputs, "init RuntimeError passing: .*127.0.0.1:9")
        for each in outputs:
            self.assertNotIn("has waited", each)

    def test_another_torch(self):
        self.all_say(self.ranks('torch.__version__ = "9.9.1"; says("import", begin)', size=1, hosts=1),
                     "import ImportError passing.torch was built for torch 1.13.*this is torch 9.9.1")

    def test_mismatched_world(self):
        outputs = self.ranks('says("init", lambda: begin(15))', sizes=[3, 3, 4], switch=False)
        for rank in (0, 1):
            self.assertRegex(outputs[rank], "init RuntimeError passing: .*rank 2(: rank 0 has a world size of 3, this one, rank 2, of 4| has a world size of 4)")
        self.assertRegex(outputs[2], "init RuntimeError passing: rank 0 has a world size of 3, this one, rank 2, of 4")

    def test_a_rank_that_cannot_be(self):
        self.all_say(self.ranks('says("init", lambda: begin(15))', size=1, sizes=[0], hosts=1, switch=False), "init (RuntimeError|ValueError)")

    def test_a_rank_that_does_not_come(self):
        for missing in (0, 2):
            outputs = self.ranks(f'rank == {missing} or says("init", lambda: begin(4))', switch=False)
            for rank in {0, 1, 2} - {missing}:
                # Who is late by a moment hears it of the other instead.
                self.assertRegex(outputs[rank], f"init RuntimeError passing: (Timed out|a connection is closed) : (rank [012]: )?rank {missing} of 3 did not come within 4 s")
                self.assertIn(f"passing: rank {rank} has waited 3 s for rank {missing} of 3 to come to the store", outputs[rank])

    def test_time_to_meet_that_is_the_default_but_set(self):
        """It counts, and not the group's time-out, which is shorter."""
        outputs = self.ranks("""
            os.environ["PASSING_CREATE_TIMEOUT"] = "60"
            if rank == 2: time.sleep(6)
            says("init", lambda: begin(3))
        """, switch=False, hosts=1)
        self.all_say(outputs, "init nothing")

    def test_a_rank_with_a_bad_setting(self):
        for bad in (0, 2):
            body = f"""
                if rank == {bad}: os.environ["PASSING_SLOTS"] = "x"
                begun = time.monotonic()
                says("init", lambda: begin(30))
                print("after", "short" if time.monotonic() - begun < 10 else "long")
            """
            outputs = self.ranks(body)
            for rank, each in enumerate(outputs):
                self.assertRegex(each, "init RuntimeError passing: .*" + ("" if rank == bad else f"rank {bad}: .*") + "PASSING_SLOTS is 'x'")
                self.assertIn("after short", each)

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

    def test_bad_peers_and_lists(self):
        body = """
            begin()
            other = 1 - rank
            says("send", lambda: dist.send(torch.ones(3), -1) if rank == 0 else dist.send(torch.ones(3), 7))
            says("recv", lambda: dist.distributed_c10d._get_default_group().recv([torch.ones(3)], -1, 0))
            big = lambda: [torch.zeros(10_000_000), torch.zeros(4)]
            says("second", lambda: dist.all_gather_coalesced([big(), big()], [torch.ones(10_000_000), torch.ones(5)]))
            t = torch.ones(3); dist.all_reduce(t); print("sum", t.tolist())
        """
        outputs = self.ranks(body, size=2)
        self.all_say(outputs, "send RuntimeError passing: send: the peer is rank (-1|7) of 2|send RuntimeError .*rank")
        self.all_say(outputs, "recv RuntimeError passing: recv: the peer is rank -1 of 2")
        self.all_say(outputs, "second RuntimeError passing: all_gather: the input has 5 elements, this rank's output 4")
        self.all_say(outputs, r"sum \[2.0, 2.0, 2.0\]")

    def test_tensors_that_share_memory(self):
        """As gloo has it: every tensor is reduced by itself, from what it was."""
        body = """
            begin()
            group = dist.distributed_c10d._get_default_group()
            for _ in range(20):
                t = torch.ones(100_000); group.allreduce_coalesced([t, t]).wait(); assert t.eq(2).all(), t
            b = torch.arange(8.) + 10 * rank
            outs = list(b.chunk(2)); first = outs[0].clone(); dist.all_gather(outs, outs[0])
            assert outs[0].tolist() == [0, 1, 2, 3] and outs[1].tolist() == [10, 11, 12, 13], outs
            s = torch.arange(4.) + 10 * rank; dist.all_to_all_single(s, s)
            assert s.tolist() == ([0, 1, 10, 11] if rank == 0 else [2, 3, 12, 13]), s
            print("right")
        """
        self.all_say(self.ranks(body, size=2), "right")

    def test_futures_that_wait_for_futures(self):
        body = """
            begin()
            from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
            t = torch.ones(10)
            def nested(future):
                u = torch.ones(10); dist.all_reduce(u, async_op=True).get_future().wait(); return u
            print("nested", dist.all_reduce(t, async_op=True).get_future().then(nested).wait()[0].item())
            for i in range(2000):
                work = dist.all_reduce(t, async_op=True); work.wait(); assert work.get_future().done(), i
            net = nn.parallel.DistributedDataParallel(nn.Linear(200, 200))
            net.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
            for _ in range(5):
                net(torch.randn(4, 200)).sum().backward()
            print("PowerSGD ended")
        """
        outputs = self.ranks(body)
        self.all_say(outputs, r"nested 3.0")
        self.all_say(outputs, "PowerSGD ended")

    def test_destroyed_while_in_use(self):
        body = """
            import threading
            for round in range(8):
                dist.destroy_process_group() if dist.is_initialized() else None
                os.environ["MEETING"] = os.environ["MEETING"].split("+")[0] + f"+{round}"
                begin()
                group = dist.distributed_c10d._get_default_group()
                def submit():
                    try:
                        while True: group.allreduce([torch.ones(1000)])
                    except RuntimeError as trouble:
                        assert "passing: " in str(trouble), trouble
                thread = threading.Thread(target=submit); thread.start()
                time.sleep(0.05)
                dist.destroy_process_group()
                thread.join(20); assert not thread.is_alive()
            begin_again = os.environ["MEETING"] + "last"; os.environ["MEETING"] = begin_again
            begin()
            done = threading.Event()
            def destroy(future):
                dist.destroy_process_group(); done.set()
            dist.all_reduce(torch.ones(4), async_op=True).get_future().then(destroy)
            assert done.wait(20)
            time.sleep(0.5)  # the callback's thread returns from Python
            print("survived")
        """
        self.all_say(self.ranks(body, size=2, hosts=1, switch=False), "survived")

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
        body = 'begin(); import passing.torch; print("way:", passing.torch.explain(10_000_000, dtype=torch.bfloat16))'
        self.all_say(self.ranks(body), "way: all_reduce of 10000000 bfloat16 .*16 bits go through the switch as words of 32")


if __name__ == "__main__":
    unittest.main(verbosity=2)
