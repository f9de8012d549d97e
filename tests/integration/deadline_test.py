"""A switch that answers nothing any more: every rank ends soon after the deadline, and all at once (docs/communicator.md)."""

import signal
import time
import unittest

from jobs import Jobs

TIMEOUT = 4
# To ask ranks and switch who is missing takes a second. The rest is for a machine that has other things to do.
SOON = 2


class Deadline(Jobs):
    def ended_after(self, strategy, hosts):
        """Seconds from the silence of the switch to the end of each rank."""
        ranks = self.stream(strategy, len(hosts), hosts=hosts, timeout=str(TIMEOUT), job=f"{strategy}-{hosts}")
        self.switch.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        try:
            self.all_blame(ranks, "no answer from the switch", begun + TIMEOUT + 30)
        finally:
            self.switch.process.send_signal(signal.SIGCONT)
        return [each.ended - begun for each in ranks]

    def test_all_ranks_end_soon_after_the_deadline(self):
        for strategy, hosts in (("passing", "aabb"), ("passing", "abc"), ("in_network", "abc")):
            with self.subTest(strategy=strategy, hosts=hosts):
                seconds = self.ended_after(strategy, hosts)
                self.assertLess(max(seconds), TIMEOUT + SOON, seconds)
                self.assertLess(max(seconds) - min(seconds), SOON, seconds)


if __name__ == "__main__":
    unittest.main()
