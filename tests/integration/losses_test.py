"""A rank is killed where one packet in twenty is lost: every survivor names it alone (docs/faults.md section 8).

PASSING_REPEAT says how often; `make losses` does it 20 times.
"""

import os
import re
import subprocess
import sys
import time
import unittest

from jobs import Jobs, others, random_source

REPEAT = int(os.environ.get("PASSING_REPEAT", "1"))
INSIDE = "PASSING_TEST_INSIDE"
RANKS = 8


class Losses(Jobs):
    def test_every_survivor_names_the_killed_rank_alone(self):
        source = random_source()
        for strategy in ("ring", "in_network"):
            for time_round in range(REPEAT):
                who = source.randrange(RANKS)
                with self.subTest(strategy=strategy, who=who, round=time_round):
                    hosts = [f"host{r}" for r in range(RANKS)]
                    ranks = self.stream(strategy, RANKS, 100_000, patience=60, hosts=hosts, job=f"{strategy}-{time_round}", timeout="20",
                                        variables={"PASSING_QUIET": "1"})  # waiting for slow ones is no blame
                    time.sleep(source.random() / 2)
                    began = time.monotonic()
                    ranks[who].process.kill()
                    self.all_blame(others(ranks, who), f"rank {who} at", began + 12)
                    for each in others(ranks, who):
                        blamed = re.sub(r" \(not confirmed by .*\)", "", each.errors)
                        self.assertEqual(set(re.findall(r"rank (\d+) at", blamed)), {str(who)}, f"rank {each.rank}: {each.errors}")


def inside():
    """The same in a network of its own, of which it loses packets."""
    rules = "table inet losses { chain input { type filter hook input priority 0; numgen random mod 100 < 5 drop; }; }"
    lossy = f"ip link set lo up && nft '{rules}' && exec \"$0\" \"$@\""
    made = subprocess.run(["unshare", "--net", "sh", "-c", lossy, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"}, check=False)
    return made.returncode


if __name__ == "__main__":
    if INSIDE in os.environ:
        unittest.main()
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        print("a network that loses packets needs root, and a system that permits network namespaces")
        sys.exit(77)
    sys.exit(inside())
