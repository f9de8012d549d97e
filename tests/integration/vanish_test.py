"""A machine is gone, and says nothing: whoever waits for it hears of that in seconds (docs/mesh.md, docs/communicator.md)."""

import signal
import time

import own_network
from jobs import Jobs, others

TIMEOUT = 4
SOON = 2  # for asking around, and for a machine that has other things to do


class Vanish(Jobs):
    def setUp(self):
        super().setUp()
        own_network.drop("")

    def vanish(self, process):
        own_network.cut_off(process)
        process.send_signal(signal.SIGSTOP)
        return time.monotonic()

    def test_a_rank_with_data_under_way(self):
        """8 s without an answer, whatever the deadline."""
        for strategy in ("ring", "halving_doubling"):
            with self.subTest(strategy=strategy):
                ranks = self.stream(strategy, 4, timeout="120", job=strategy, hosts="abcd")
                begun = self.vanish(ranks[2].process)
                self.all_blame(others(ranks, 2), "rank 2 at", begun + 8 + 2 + SOON)
                ranks[2].process.kill()
                own_network.drop("")

    def test_the_switch(self):
        for strategy, hosts in (("passing", "aabb"), ("in_network", "abc")):
            with self.subTest(strategy=strategy):
                ranks = self.stream(strategy, len(hosts), hosts=hosts, timeout=str(TIMEOUT), job=strategy)
                begun = self.vanish(self.switch.process)
                self.all_blame(ranks, "no answer from the switch", begun + TIMEOUT + SOON)
                for each in ranks:
                    self.assertIn('"code": "unreachable"', each.out, each.errors)
                    self.assertLess(each.ended - each.last_word, 1.5, f"rank {each.rank} takes long to end")
                self.switch.process.send_signal(signal.SIGCONT)
                own_network.drop("")


if __name__ == "__main__":
    own_network.main()
