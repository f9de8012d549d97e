"""A rank is killed where one packet in twenty is lost: every survivor names it alone (docs/faults.md section 8).

PASSING_REPEAT says how often; `make losses` does it 20 times.
"""

import os
import re
import time

import own_network
from jobs import Jobs, others, random_source

REPEAT = int(os.environ.get("PASSING_REPEAT", "1"))
RANKS = 8


class Losses(Jobs):
    def test_every_survivor_names_the_killed_rank_alone(self):
        source = random_source()
        own_network.drop("numgen random mod 100 < 5 drop;")
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


if __name__ == "__main__":
    own_network.main()
