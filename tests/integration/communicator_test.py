"""Ranks as processes: killed, stopped, delayed, joined twice. Everyone ends in time and names the one at fault."""
import json
import re
import time
import unittest

from jobs import STRATEGIES, Jobs, Rank, others, random_source, resume, stop


class Communicators(Jobs):
    def test_a_rank_is_killed(self):
        source = random_source()
        for strategy in STRATEGIES:
            for who in (0, 3):  # the first of its host, and one that is not
                with self.subTest(strategy=strategy, who=who):
                    ranks = self.stream(strategy, 4, job=f"{strategy}-{who}", timeout="20")
                    time.sleep(source.random() / 4)
                    began = time.monotonic()
                    ranks[who].process.kill()
                    # By the broken connection, not by the deadline.
                    self.all_blame(others(ranks, who), rf"rank {who} at \S+", began + 5)

    def test_a_rank_is_stopped(self):
        source = random_source()
        stopped = []
        for strategy in STRATEGIES:
            for who in (1, 2) if strategy == "ps_hierarchical" else (1,):
                ranks = self.stream(strategy, 4, job=f"{strategy}-stop-{who}", timeout="3")
                time.sleep(source.random() / 4)
                stopped.append((strategy, ranks, who, time.monotonic()))
                stop(ranks[who])  # from here on they all wait, while the next job begins
        for strategy, ranks, who, began in stopped:
            with self.subTest(strategy=strategy, who=who):
                self.all_blame(others(ranks, who), rf"rank {who} at \S+", began + (13 if strategy == "in_network" else 6))
                for each in others(ranks, who):
                    self.assertRegex(each.errors, r"since [\d.]+ s|missing|answer")
        # They wake up in groups that are gone, and hear so.
        for _, ranks, who, _ in stopped:
            resume(ranks[who])
        for _, ranks, who, _ in stopped:
            self.assertEqual(ranks[who].end(20)[0], 1)

    def test_a_rank_is_delayed_at_random(self):
        source = random_source()
        jobs = [self.start(strategy, 3, 50_000, 300, job=f"{strategy}-delay", timeout="30") for strategy in STRATEGIES]
        for _ in range(8):
            late = [source.choice(ranks) for ranks in jobs]
            stop(*late)
            time.sleep(source.random() * 0.2)
            resume(*late)
            time.sleep(source.random() * 0.05)
        for ranks in jobs:
            self.all_right(ranks)
            self.assertTrue(all(json.loads(each.out)["ok"] for each in ranks))

    def test_again_after_a_failure(self):
        for strategy in STRATEGIES:
            with self.subTest(strategy=strategy):
                servers = self.serve(2)
                ranks = self.stream(strategy, 3, timeout="20", servers=servers)
                ranks[2].process.kill()
                self.all_blame(ranks[:2], r"rank 2 at \S+", time.monotonic() + 5)
                # The same job, the same switch, the same servers.
                self.all_right(self.start(strategy, 3, 1000, 5, timeout="20", create="40", servers=servers))

    def test_two_claim_one_rank(self):
        ranks = self.start("ring", 3, 1000, 5, who=[0, 1, 1], create="3")
        for each in ranks:
            self.assertEqual(each.end(20)[0], 1)
        texts = [each.errors for each in ranks]
        self.assertTrue(any(re.search("rank 1", text) for text in texts), texts)

    def test_no_switch_at_the_address(self):
        rank = Rank(0, 2, "in_network", {"PASSING_CONTROLLER": "127.0.0.1:1", "PASSING_TOKEN": self.token, "PASSING_CREATE_TIMEOUT": "1"},
                    "all_reduce", "10", "1", "0", "1")
        self.ranks.append(rank)
        self.assertEqual(rank.end(20)[0], 1)
        self.assertIn("127.0.0.1:1", rank.errors)

    def test_says_what_it_waits_for(self):
        waits = (("ring", {"PASSING_DIRECTORY": self.directory.name}, r"rank 0 has waited 3 s for rank 1 to come to .*" + self.directory.name),
                 ("ring", {"PASSING_CONTROLLER": "127.0.0.1:1"}, "rank 0 has waited 3 s for the meeting of all ranks: the controller at 127.0.0.1:1"),
                 ("ring", {"PASSING_CONTROLLER": "127.0.0.1:1", "PASSING_QUIET": "1"}, ""))
        for strategy, variables, said in waits:
            rank = Rank(0, 2, strategy, {"PASSING_TOKEN": self.token, "PASSING_CREATE_TIMEOUT": "3.5", **variables}, "all_reduce", "10", "1", "0", "1")
            self.ranks.append(rank)
            rank.end(30)
            if said:
                self.assertRegex(rank.errors, said)
            else:
                self.assertNotIn("has waited", rank.errors)

    def test_unknown_strategy(self):
        rank = Rank(0, 2, "telepathy", {"PASSING_DIRECTORY": self.directory.name}, "all_reduce", "10", "1", "0", "1")
        self.ranks.append(rank)
        self.assertEqual(rank.end(20)[0], 1)
        self.assertIn("'telepathy'", rank.errors)
        for strategy in STRATEGIES:
            self.assertIn(strategy, rank.errors)


if __name__ == "__main__":
    unittest.main()
