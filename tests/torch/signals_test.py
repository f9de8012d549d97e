"""Signals are the program's: no thread of ours ever takes one, docs/torch.md."""

import os
import signal
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]

from harness import Switch  # noqa: E402
from processes import run_ranks  # noqa: E402

# Callbacks that run at the same time make the group start more threads.
BODY = """
    import threading
    heard = []
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(each, lambda number, frame: heard.append(number))
    os.environ["PASSING_STRATEGY"] = "passing"  # auto may go without the switch
    begin()
    gate = threading.Event()
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3)]
    futures = [work.get_future().then(lambda _: gate.wait(20)) for work in works]
    for _ in range(100):
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), each)
        dist.all_reduce(torch.ones(1000))
    time.sleep(0.2)
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        if "passing" in lines["Name"]:
            print("thread", lines["Name"].strip(), lines["SigBlk"].strip())
    gate.set()
    for future in futures:
        future.wait()
    print("heard", *sorted({signal.Signals(each).name for each in heard}))
    dist.barrier()
    dist.destroy_process_group()
"""
# The C library keeps the two for itself.
CATCHABLE = set(range(1, signal.SIGRTMAX + 1)) - {signal.SIGKILL, signal.SIGSTOP} - set(range(32, signal.SIGRTMIN))


class SignalsOfTheProgram(unittest.TestCase):
    def test_none_is_taken(self):
        switch = Switch("--mtu", "1500")
        try:
            ended = run_ranks(BODY, 2, 2, switch.address)
        finally:
            switch.end()
        for output, status in ended:
            self.assertEqual(status, 0, output)
            self.assertIn("heard SIGINT SIGTERM SIGUSR1", output)
            threads = [line.split()[1:] for line in output.splitlines() if line.startswith("thread ")]
            self.assertEqual({name for name, _ in threads}, {"passing", "passing-heart", "passing-torch"}, output)
            for name, mask in threads:
                free = {each for each in CATCHABLE if not int(mask, 16) >> (each - 1) & 1}
                self.assertEqual(free, set(), f"{name} takes signals")


if __name__ == "__main__":
    unittest.main(verbosity=2)
