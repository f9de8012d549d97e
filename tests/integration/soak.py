#!/usr/bin/python3
"""Random jobs come and go on one switch: nothing may leak. `make soak SECONDS=180`."""

import os
import random
import secrets
import sys
import time

from harness import Member, Switch


def state_of(switch):
    status = dict(line.split(":", 1) for line in open(f"/proc/{switch.process.pid}/status") if ":" in line)
    return {"resident_kb": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{switch.process.pid}/fd")), "free_slots": switch.free_slots()}


def one_job(switch, source, number):
    """Starts a job: most are right, some lose a member on the way."""
    size = source.randrange(1, 6)
    token = secrets.token_hex(8)
    arguments = ["--elements", str(source.randrange(200_000)), "--repeat", str(source.randrange(1, 6)), "--slots",
                 source.choice(["16", "64", "256"]), "--lanes", source.choice(["1", "2"]), "--timeout", "3", "--join-timeout", "10",
                 "--dtype", source.choice(["float32", "float16", "bfloat16", "int32"])]
    killed = source.random() < 0.15
    members = [Member(switch, f"soak{number}", size, rank, *arguments, token=token) for rank in range(size)]
    if killed:
        time.sleep(source.random() * 0.3)
        members[0].process.kill()
    return killed, members


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 180
    source = random.Random(20251116)
    switch = Switch("--mtu", "1500", "--lease", "2")
    slots = switch.free_slots()
    wrong = 0
    jobs = 0
    try:
        baseline = None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            batch = [one_job(switch, source, jobs + i) for i in range(3)]
            jobs += len(batch)
            for killed, members in batch:
                for member in members:
                    status, report = member.end(60)
                    wrong += not killed and status != 0
                    if not killed and status != 0:
                        print(f"rank {member.rank}: {report} {member.errors}")
            if baseline is None and jobs >= 15:
                baseline = state_of(switch)
            print(f"{jobs} jobs, {end - time.monotonic():.0f} s left", file=sys.stderr)
        time.sleep(4)  # leases of the killed
        after = state_of(switch)
        left = switch.jobs()
    finally:
        switch.end()
    print(f"{jobs} jobs, {wrong} wrong; before {baseline}, after {after}")
    leaked = (wrong or left or after["free_slots"] != slots or after["threads"] > baseline["threads"]
              or after["descriptors"] > baseline["descriptors"] + 2 or after["resident_kb"] > 1.2 * baseline["resident_kb"] + 4096)
    sys.exit(1 if leaked else 0)


if __name__ == "__main__":
    main()
