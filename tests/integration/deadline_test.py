"""A switch that answers nothing any more, or knows nothing any more: every rank ends soon, all at once, and says which it was
(docs/communicator.md, docs/errors.md)."""

import signal
import time
import unittest

from harness import Switch
from jobs import Jobs

TIMEOUT = 4
# To ask ranks and switch who is missing takes a second. The rest is for a machine that has other things to do.
SOON = 2
LAYOUTS = (("passing", "aabb"), ("passing", "abc"), ("in_network", "abc"))


class Deadline(Jobs):
    def all_end(self, ranks, code, words, limit):
        """In time, with this code and these words; and nobody takes long to go after that."""
        self.all_blame(ranks, words, limit)
        for each in ranks:
            self.assertIn(f'"code": "{code}"', each.out, each.errors)
            self.assertLess(each.ended - each.last_word, 1.5, f"rank {each.rank} takes long to end")  # 1 s, and a busy machine

    def test_all_ranks_end_soon_after_the_deadline(self):
        for strategy, hosts in LAYOUTS:
            with self.subTest(strategy=strategy, hosts=hosts):
                ranks = self.stream(strategy, len(hosts), hosts=hosts, timeout=str(TIMEOUT), job=f"{strategy}-{hosts}")
                self.switch.process.send_signal(signal.SIGSTOP)
                begun = time.monotonic()
                try:
                    self.all_end(ranks, "unreachable", "no answer from the switch", begun + TIMEOUT + SOON)
                finally:
                    self.switch.process.send_signal(signal.SIGCONT)
                ends = [each.ended for each in ranks]
                self.assertLess(max(ends) - min(ends), SOON)

    def test_a_switch_that_dies(self):
        """With a short time-out an operation finds it out, with a long one the heartbeat. Both say the same."""
        for timeout, limit in ((TIMEOUT, TIMEOUT + SOON), (30, 11 + SOON)):
            for strategy, hosts in LAYOUTS[1:]:
                with self.subTest(strategy=strategy, timeout=timeout):
                    ranks = self.stream(strategy, len(hosts), hosts=hosts, timeout=str(timeout), job=f"{strategy}-{timeout}")
                    self.switch.end(signal.SIGKILL)
                    self.switch = None
                    self.all_end(ranks, "unreachable", "no answer from the switch", time.monotonic() + limit)

    def test_a_switch_that_is_started_anew(self):
        for timeout in (TIMEOUT, 30):
            for strategy, hosts in LAYOUTS[1:]:
                with self.subTest(strategy=strategy, timeout=timeout):
                    ranks = self.stream(strategy, len(hosts), hosts=hosts, timeout=str(timeout), job=f"{strategy}-{timeout}")
                    port = self.switch.port
                    self.switch.end(signal.SIGKILL)
                    self.switch = Switch("--mtu", "1500", "--lease", "20", http=port)
                    words = rf"the switch at \S+:{port} has been started anew, and knows nothing of job "
                    self.all_end(ranks, "epoch ended", words, time.monotonic() + 2 + SOON)


if __name__ == "__main__":
    unittest.main()
