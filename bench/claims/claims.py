#!/usr/bin/env python3
"""Measures what the project promises and prints target, figure, and pass or miss.

Every "must reach" is an entry of CLAIMS. Figures are ratios taken in one run. A table for people
goes to standard output, line by line; JSON to build/claims.json, beside what was measured before. The exit status is 0 if all was measured,
whether or not it passed: a miss is a result.
"""

import argparse
import functools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import bench
import collectives
import dataplanes
import hierarchy
import simulate
import train
from lab import CEILING, ROOT, ROUNDS, in_lab, median_seconds, peer, slowest_total


@functools.lru_cache
def micro(build):
    """The figures of passing_claims, measured once for all claims that need them."""
    return json.loads(subprocess.check_output([os.path.join(ROOT, build, "passing_claims")]))


def from_micro(name):
    return lambda build: micro(build)[name]


def clean_clone(_build):
    """Minutes that `make test` takes in a fresh clone, compiler cache off."""
    scratch = tempfile.mkdtemp(prefix="passing-clone-")
    try:
        subprocess.check_call(["git", "clone", "-q", ROOT, scratch + "/clone"])
        begin = time.monotonic()
        subprocess.check_call(["make", "test"], cwd=scratch + "/clone", stdout=subprocess.DEVNULL,
                              env={**os.environ, "CCACHE_DISABLE": "1"})
        return (time.monotonic() - begin) / 60
    finally:
        shutil.rmtree(scratch)


def ours(build, elements, repeat, *more):
    return [os.path.join(ROOT, build, "passing"), "all-reduce", "--elements", str(elements), "--repeat", str(repeat),
            "--warm-up", "2", "--check-last", "--json", *more]


def against_echo(build):
    """Time with sums over time with a contribution echoed to all instead."""
    ratios = []
    for _ in range(ROUNDS):
        command = ours(build, 4_000_000, 10)
        summed = median_seconds(in_lab(build, [], command))
        # The echo is no sum, so only the time counts.
        echoed = subprocess.run([os.path.join(ROOT, build, "passing"), "lab", "run", "--hosts", "4", "--plain",
                                 "--switch-argument=--echo", "--", *command, "--no-check"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        rows = [json.loads(line) for line in echoed.splitlines() if line.startswith("{")]
        if len(rows) != 4 or not all(row["ok"] for row in rows):
            raise RuntimeError("the echo did not run: " + echoed)
        ratios.append(summed / median_seconds(rows))
    return statistics.median(ratios)


def against_gloo(build):
    """Gloo's time over ours, 4 hosts, not shaped, 16 MB, alternating."""
    ratios = []
    for _ in range(ROUNDS):
        mine = median_seconds(in_lab(build, [], ours(build, 4_000_000, 15)))
        theirs = min(median_seconds(peer(build, name, "all_reduce", 4_000_000, 15)) for name in ("gloo ring", "gloo bcube"))
        ratios.append(theirs / mine)
    return statistics.median(ratios)


def of_ceiling(rate, bits, elements, repeat, loss=None):
    """Back-to-back operations on shaped links: rate reached, over what headers leave of the link."""
    def measure(build):
        samples = []
        for _ in range(3):
            arguments = ["--rate", rate] + (["--loss", str(loss)] if loss else [])
            rows = in_lab(build, arguments, ours(build, elements, repeat, "--in-flight", "2" if elements > 1_000_000 else "8"))
            samples.append(8 * rows[0]["bytes"] * rows[0]["repeat"] / slowest_total(rows) / bits / CEILING)
        return statistics.median(samples)
    return measure


def ring_against_others(rate, repeat):
    """Time of the better of Gloo's and Open MPI's ring over ours: 16 MB back to back, one operation at a time."""
    def measure(build):
        def sample(name):
            return slowest_total(peer(build, name, "all_reduce", 4_000_000, repeat, rate)) / repeat
        return collectives.rounds(("passing ring",), ("gloo ring", "open_mpi all_reduce ring"), sample)
    return measure


def in_network_of_ceiling(rate, bits, elements, repeat):
    def measure(build):
        seconds = statistics.median(
            slowest_total(peer(build, "passing in_network", "all_reduce", elements, repeat, rate,
                               in_flight=2 if elements > 1_000_000 else 8, least=1.0)) for _ in range(3))
        return 8 * 4 * elements * repeat / seconds / bits / CEILING
    return measure


def idle(field):
    """What a communicator costs that does nothing: the worst of 4 ranks, through the switch."""
    def measure(build):
        output = subprocess.check_output(
            [os.path.join(ROOT, build, "passing"), "lab", "run", "--hosts", "4", "--plain", "--",
             os.path.join(ROOT, build, "peer_passing"), "idle", "4"], text=True, stderr=subprocess.STDOUT,
            env={**os.environ, "PASSING_STRATEGY": "in_network"})
        return max(json.loads(line)[field] for line in output.splitlines() if line.startswith("{"))
    return measure


def switch_memory(build):
    """Peak resident memory of a switch whose slots have nearly all been used, in MB."""
    command = os.path.join(ROOT, build, "passing")
    lab = subprocess.Popen([command, "lab", "run", "--hosts", "2", "--plain", "--", command, "all-reduce", "--elements", "8000000",
                            "--lanes", "10", "--slots", "1024", "--repeat", "2", "--pause", "3"], stdout=subprocess.DEVNULL)
    peak = 0
    while lab.poll() is None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
                with open(f"/proc/{pid}/status") as file:
                    status = dict(line.split(":", 1) for line in file if ":" in line)
            except OSError:
                continue
            if words[1:2] == ["switch"] and int(status["PPid"]) == lab.pid:
                peak = max(peak, int(status["VmHWM"].split()[0]))
        time.sleep(0.2)
    if lab.returncode != 0 or peak == 0:
        raise RuntimeError("the job failed, or no switch was seen")
    return peak / 1024


def member_memory(build):
    """What a member needs beyond its tensors, in MB."""
    rows = in_lab(build, [], ours(build, 4_000_000, 5))
    return max(row["resident_kb"] - row["tensor_kb"] for row in rows) / 1024


def many_jobs(build):
    """How many jobs one switch was seen to run at the same time, all of them right on both members."""
    script = ("for j in $(seq 64); do PASSING_JOB=j$j @ all-reduce --elements 20000 --repeat 4 --pause 6 --slots 64"
              " --join-timeout 120 --timeout 120 --json & done;"
              "if [ $PASSING_RANK = 0 ]; then for i in $(seq 40); do @ status $PASSING_CONTROLLER --json; sleep 0.5; done; fi; wait")
    output = subprocess.run([os.path.join(ROOT, build, "passing"), "lab", "run", "--hosts", "2", "--plain", "--", "sh", "-c",
                             script.replace("@", os.path.join(ROOT, build, "passing"))], text=True, stdout=subprocess.PIPE).stdout
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    right = sum(row.get("ok", False) for row in rows) / 2
    running = max(sum(job["state"] == "running" for job in row["jobs"]) for row in rows if "jobs" in row)
    return min(right, running)


# name, what it says, comparison, target, unit, measure
CLAIMS = [
    ("quantise", "scan and quantise 16 MB, against memcpy", ">=", 0.5, "of memcpy", from_micro("quantise")),
    ("dequantise", "dequantise 16 MB, against memcpy", ">=", 0.5, "of memcpy", from_micro("dequantise")),
    ("slot-add", "slot add, against a plain vector add", ">=", 0.7, "of plain add", from_micro("slot-add")),
    ("aggregator", "aggregator beyond the slot add, 352 elements, 256 slots", "<=", 80, "ns per packet",
     from_micro("aggregator")),
    ("clean-clone", "make test from a clean clone, dependencies installed", "<", 10, "minutes", clean_clone),
    ("switch-echo", "4 hosts not shaped, 16 MB: sum against echo", "<=", 2, "x its time", against_echo),
    ("switch-gloo", "4 hosts not shaped, 16 MB: against Gloo", ">=", 1.2, "x its speed", against_gloo),
    ("shaped-1g-16m", "4 hosts at 1 Gbit/s, 16 MB back to back", ">=", 0.98, "of ceiling", of_ceiling("1gbit", 1e9, 4_000_000, 10)),
    ("shaped-1g-1m", "4 hosts at 1 Gbit/s, 1 MB back to back", ">=", 0.95, "of ceiling", of_ceiling("1gbit", 1e9, 250_000, 100)),
    ("shaped-200m-16m", "4 hosts at 200 Mbit/s, 16 MB back to back", ">=", 0.98, "of ceiling",
     of_ceiling("200mbit", 2e8, 4_000_000, 4)),
    ("shaped-200m-1m", "4 hosts at 200 Mbit/s, 1 MB back to back", ">=", 0.95, "of ceiling",
     of_ceiling("200mbit", 2e8, 250_000, 50)),
    ("loss-1", "4 hosts at 200 Mbit/s, 16 MB, 1 % loss", ">=", 0.75, "of ceiling", of_ceiling("200mbit", 2e8, 4_000_000, 3, 1)),
    ("loss-5", "4 hosts at 200 Mbit/s, 16 MB, 5 % loss", ">=", 0.5, "of ceiling", of_ceiling("200mbit", 2e8, 4_000_000, 3, 5)),
    ("loss-1-1g", "4 hosts at 1 Gbit/s, 16 MB, 1 % loss", ">=", 0.75, "of ceiling", of_ceiling("1gbit", 1e9, 4_000_000, 5, 1)),
    ("loss-5-1g", "4 hosts at 1 Gbit/s, 16 MB, 5 % loss", ">=", 0.5, "of ceiling", of_ceiling("1gbit", 1e9, 4_000_000, 5, 5)),
    ("ring-none", "ring, 16 MB, not shaped: against Gloo's and Open MPI's", ">=", 0.95, "of the better", ring_against_others(None, 10)),
    ("ring-1g", "ring, 16 MB, 1 Gbit/s: against Gloo's and Open MPI's", ">=", 0.95, "of the better", ring_against_others("1gbit", 4)),
    ("ring-200m", "ring, 16 MB, 200 Mbit/s: against Gloo's, Open MPI's", ">=", 0.95, "of the better",
     ring_against_others("200mbit", 3)),
    ("in-network-1g-16m", "communicator in_network, 1 Gbit/s, 16 MB", ">=", 0.98, "of ceiling",
     in_network_of_ceiling("1gbit", 1e9, 4_000_000, 10)),
    ("in-network-1g-1m", "communicator in_network, 1 Gbit/s, 1 MB", ">=", 0.95, "of ceiling",
     in_network_of_ceiling("1gbit", 1e9, 250_000, 100)),
    ("in-network-200m-16m", "communicator in_network, 200 Mbit/s, 16 MB", ">=", 0.98, "of ceiling",
     in_network_of_ceiling("200mbit", 2e8, 4_000_000, 4)),
    ("in-network-200m-1m", "communicator in_network, 200 Mbit/s, 1 MB", ">=", 0.95, "of ceiling",
     in_network_of_ceiling("200mbit", 2e8, 250_000, 50)),
    *collectives.claims(),
    *hierarchy.claims(),
    *bench.claims(),
    *dataplanes.claims(),
    *train.claims(),
    *simulate.claims(),
    ("idle-cpu", "an idle communicator: CPU", "<=", 0.5, "% of a core", idle("cpu_percent")),
    ("idle-threads", "threads of a communicator", "<=", 2, "threads", idle("threads")),
    ("switch-memory", "memory of a switch with the default slots", "<", 64, "MB", switch_memory),
    ("member-memory", "memory of a member beyond its tensor", "<", 16, "MB", member_memory),
    ("many-jobs", "64 jobs at once on one switch, all right", ">=", 64, "jobs", many_jobs),
]

COMPARE = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b}


def keep(row, names):
    """Writes it to build/claims.json, beside what was measured before, each with its commit, in the order of CLAIMS."""
    path = os.path.join(ROOT, "build", "claims.json")
    rows = {}
    if os.path.exists(path):
        with open(path) as file:
            rows = {each["name"]: each for each in json.load(file)["results"]}
    rows[row["name"]] = row
    with open(path, "w") as file:
        json.dump({"results": [rows[name] for name in names if name in rows]}, file, indent=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--only", help="a claim, or a group by the first words of its names (broadcast, ring), or several with commas")
    arguments = parser.parse_args()

    names = [claim[0] for claim in CLAIMS]
    wanted = set() if arguments.only else set(names)
    for word in filter(None, (arguments.only or "").split(",")):
        found = {name for name in names if name == word or name.startswith(word + "-")}
        if not found:
            parser.error(f"no such claim: {word}; there are {', '.join(names)}")
        wanted |= found
    commit = subprocess.check_output(["git", "-C", ROOT, "describe", "--always", "--dirty"], text=True).strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    machine = f"{os.cpu_count()} x {cpu}, Linux {platform.release()}"
    print(f"commit {commit}, {machine}\n")
    print(f"| {'claim':<64} | {'target':>8} | {'figure':>8} | {'unit':<13} | verdict |")
    print(f"|{'-' * 66}|{'-' * 10}|{'-' * 10}|{'-' * 15}|---------|", flush=True)
    errors = 0
    for name, text, comparison, target, unit, measure in CLAIMS:
        if name not in wanted:
            continue
        print(f"measuring {name} ...", file=sys.stderr)
        row = {"name": name, "claim": text, "target": f"{comparison} {target}", "unit": unit}
        try:
            figure = measure(arguments.build)
            row |= {"figure": round(figure, 3), "verdict": "pass" if COMPARE[comparison](figure, target) else "miss"}
        except (RuntimeError, OSError, subprocess.CalledProcessError) as problem:
            print(f"{name}: {problem}\n{getattr(problem, 'output', None) or ''}", file=sys.stderr)
            row |= {"figure": "-", "verdict": "error"}
            errors += 1
        print(f"| {row['claim']:<64} | {row['target']:>8} | {row['figure']:>8} | {row['unit']:<13} | {row['verdict']:<7} |", flush=True)
        keep(row | {"commit": commit, "machine": machine}, names)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
