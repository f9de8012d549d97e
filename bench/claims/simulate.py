"""Claims about simulations: against closed forms, between levels, against the lab, and what they cost. JSON stays in build/bench/."""

import functools
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from lab import ROOT, program

STRATEGIES = ("ps", "ps_hierarchical", "ps_sharded", "halving_doubling", "ring", "ring_hierarchical", "in_network", "passing", "passing:rack")


def directory():
    path = os.path.join(ROOT, "build", "bench")
    os.makedirs(path, exist_ok=True)
    return path


def simulate(build, name, *arguments):
    path = os.path.join(directory(), f"simulate-{name}.json")
    subprocess.run([program(build, "passing"), "simulate", *arguments, "--json", path], check=True, stdout=subprocess.DEVNULL)
    with open(path) as file:
        return json.load(file)


def model_file(name, buckets):
    """Buckets of 25 MB each."""
    path = os.path.join(directory(), name + ".json")
    layers = [{"name": str(i), "parameters": 25 * 2**20 // 4, "forward_seconds": 0.001, "backward_seconds": 0.002} for i in range(buckets)]
    with open(path, "w") as file:
        json.dump({"format": "passing-model", "version": 1, "model": name, "gpu": "none", "batch": 1, "samples_per_second": 1, "source": "made up",
                   "layers": layers}, file)
    return path


def closed_forms(build):
    """The largest relative error of all that the tests compare, in millionths: they fail above 1."""
    output = subprocess.run([program(build, "simulate_tests"), "--gtest_filter=ClosedForm.*:Loads.*", "--gtest_color=no"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return max(float(line.split()[-1]) for line in output.splitlines() if line.startswith("largest error in millionths:"))


@functools.lru_cache
def levels(build, level):
    rows = simulate(build, "level-" + level, "--cluster", "gpus1024", "--model", "all", "--sweep", "gpus=64..1024", "--level", level)["results"]
    return {(row["model"], row["gpus"], row["strategy"], row["local_domain"]): row["iteration_seconds"] for row in rows}


def level_error(build):
    """The largest distance of the two, in percent."""
    one, other = levels(build, "explicit"), levels(build, "folded")
    return 100 * max(abs(one[key] / other[key] - 1) for key in one)


def measured(build, name, arguments, strategies=STRATEGIES, samples=1):
    """A run of `passing bench` on links of 300 Mbit/s."""
    path = os.path.join(directory(), f"simulate-{name}.json")
    subprocess.run([program(build, "passing"), "bench", *arguments.split(), "--rate", "300mbit", "--strategies", ",".join(strategies), "--peers", "none",
                    "--samples", str(samples), "--servers", "1", "--json", path], check=True, stdout=sys.stderr)
    return path


# There is nothing to sum in a single rack that the switch does not.
ONE_RACK = tuple(each for each in STRATEGIES if not each.endswith(":rack"))


@functools.lru_cache
def lab(build):
    return measured(build, "lab", "--hosts 2,4 --ranks 1,2 --sizes 1M,4M", ONE_RACK)


@functools.lru_cache
def against_lab(build):
    """Calibrated on one cluster and size of it: 4 x 2 ranks, 4 MB."""
    return simulate(build, "against-lab", "--cluster", "lab", "--against", lab(build))["validation"]


@functools.lru_cache
def against_lab_by_one(build):
    """Calibrated on one figure: the ring among 4 x 2 ranks, 4 MB."""
    with open(lab(build)) as file:
        content = json.load(file)
    one = [row for row in content["results"] if (row["strategy"], row["hosts"], row["ranks_per_host"], row["bytes"]) == ("ring", 4, 2, 4_000_000)]
    rest = [row for row in content["results"] if row not in one]
    paths = {}
    for name, rows in (("one", one), ("rest", rest)):
        paths[name] = os.path.join(directory(), f"simulate-lab-{name}.json")
        with open(paths[name], "w") as file:
            json.dump({**content, "results": rows}, file)
    return simulate(build, "against-lab-by-one", "--cluster", "lab", "--calibrate", paths["one"], "--against", paths["rest"])["validation"]


@functools.lru_cache
def against_racks(build):
    """4 hosts in 2 racks whose uplinks are as fast as one host's link, by a simulation that was calibrated without racks."""
    one = measured(build, "racks-one", "--hosts 4 --ranks 2 --sizes 4M", ONE_RACK, samples=3)
    path = measured(build, "racks", "--hosts 4 --racks 2 --ranks 1,2 --spine-rate 300mbit --sizes 4M", samples=3)
    return simulate(build, "against-racks", "--cluster", "lab", "--calibrate", one, "--against", path)["validation"]


def error(validate, field):
    return lambda build: 100 * validate(build)[field]


@functools.lru_cache
def full_size(build):
    """The slowest and the largest strategy with 65,536 GPUs and 256 buckets: seconds, and MB."""
    model = model_file("buckets256", 256)
    figures = []
    for strategy in STRATEGIES:
        begin = time.monotonic()
        command = subprocess.Popen([program(build, "passing"), "simulate", "--cluster", "gpus65536", "--model", model, "--strategies", strategy],
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
        if command.returncode != 0:
            raise RuntimeError(f"{strategy} failed")
        # Of the larger of two processes, the command and its simulation: at most twice that.
        figures.append((time.monotonic() - begin, 2 * usage.ru_maxrss / 1024))
    return max(seconds for seconds, _ in figures), max(memory for _, memory in figures)


def full_sweep(build):
    """Seconds for all strategies from 8 to 65,536 GPUs: the slowest of three models."""
    def seconds(model):
        begin = time.monotonic()
        simulate(build, "sweep", "--cluster", "gpus65536", "--model", model, "--strategies", "all", "--sweep", "gpus=8..65536")
        return time.monotonic() - begin
    return max(map(seconds, ("vgg16", "resnet50", "gpt2_xl")))


def claims():
    found = []

    def claim(name, text, target, unit, measure, comparison="<="):
        found.append(("simulate-" + name, text, comparison, target, unit, measure))

    claim("closed-forms", "simulation, every strategy and level: from closed forms", 1, "millionths", closed_forms)
    claim("levels", "simulation, 64 to 1,024 GPUs: explicit from folded", 1, "%", level_error)
    claim("lab-cases", "simulation against the lab: cases", 12, "cases", lambda build: against_lab(build)["cases"], ">=")
    claim("lab-median", "simulation against the lab: median error", 7, "%", error(against_lab, "median_error"))
    claim("lab-worst", "simulation against the lab: worst error", 15, "%", error(against_lab, "worst_error"))
    claim("lab-one-median", "the same, calibrated on one row: median error", 7, "%", error(against_lab_by_one, "median_error"))
    claim("lab-one-worst", "the same, calibrated on one row: worst error", 15, "%", error(against_lab_by_one, "worst_error"))
    claim("lab-racks-median", "4 hosts in 2 racks, calibrated without: median error", 7, "%", error(against_racks, "median_error"))
    claim("lab-racks-worst", "4 hosts in 2 racks, calibrated without: worst error", 15, "%", error(against_racks, "worst_error"))
    claim("full-size-time", "65,536 GPUs, 256 buckets, the slowest strategy", 5, "s", lambda build: full_size(build)[0])
    claim("full-size-memory", "65,536 GPUs, 256 buckets: memory", 300, "MB", lambda build: full_size(build)[1])
    claim("full-sweep", "all strategies, 8 to 65,536 GPUs, the slowest model", 60, "s", full_sweep)
    return found
