"""Many jobs on one switch: each keeps its slots, and goes on, whoever else comes and goes."""

import time
import unittest

from harness import Switch
from jobs import Jobs, random_source

# Hosts of the ranks, with a letter for each.
SHAPES = ("ab", "aabb", "abc", "aab", "aabbcc", "abcd")


class Crowd(Jobs):
    def setUp(self):
        super().setUp()
        self.switch = Switch("--mtu", "1500", "--threads", "2")
        self.slots = self.switch.free_slots()

    def passing(self, job, hosts, repeat, **options):
        return self.start("passing", len(hosts), 20_000, repeat, hosts=hosts, job=job, timeout="20", **options)

    def completed(self, job):
        """Chunks of a job, whose lanes may be jobs of their own."""
        return sum(each["chunks_completed"] for each in self.switch.jobs() if each["name"].split(".lane")[0] == job)

    def test_a_job_keeps_its_slots_when_others_join(self):
        # Z has two ranks on each host, so two jobs of one lane: nothing on one of the switch's threads.
        for job, hosts in (("A", "ab"), ("Z", "aabb"), ("C", "ab"), ("D", "ab")):
            self.passing(job, hosts, 1_000_000)
            self.eventually(lambda job=job: self.completed(job) > 1000, f"job {job} does not begin")
        for job in "AZCD":
            before = self.completed(job)
            self.eventually(lambda job=job, before=before: self.completed(job) > before + 1000, f"job {job} has stopped")

    def test_forty_jobs_of_mixed_shapes_come_and_go(self):
        source = random_source()
        living = []
        for number in range(40):
            variables = {"PASSING_SLOTS": source.choice(("16", "64", "128")), "PASSING_LANES": source.choice(("0", "1"))}
            hosts = source.choice(SHAPES)
            if len(set(hosts)) < len(hosts):
                variables.pop("PASSING_LANES")
            ranks = self.passing(f"job-{number}", hosts, source.choice((1, 20, 200)), variables=variables)
            living.append(ranks)
            time.sleep(source.random() * 0.2)
            living = [each for each in living if any(rank.ended is None for rank in each)]
            while len(living) >= 6:
                self.all_right(living.pop(source.randrange(len(living))))
        self.all_right(self.ranks)
        self.eventually(lambda: self.switch.free_slots() == self.slots, "slots are not given back")
        self.assertEqual(self.switch.metric("passing_drops_total"), 0)


if __name__ == "__main__":
    unittest.main()
