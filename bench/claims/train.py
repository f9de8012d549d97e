"""Claims about training, each group from one run of `passing train`, whose JSON stays in build/bench/. And a map: train.py --map."""

import functools
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True

from lab import ROOT, program

MODELS = ("alexnet", "vgg16", "resnet50", "bert_base", "gpt2_small")
REAL = ("digits", "digits_cnn", "mlp5m")
RATES = (10, 25, 100)
PUBLISHED = 1.6525  # what the publication gained over a parameter server

# Each is one run. Strategies that links keep far from being the best (docs/benchmarks.md, limits) are left out where it is about the best.
RUNS = {
    "replay-ps": f"--mode replay --ranks 4 --model {','.join(MODELS)} --equivalent 10gbit --strategies ps,passing --steps 2 --rounds 3",
    "replay-rates": f"--mode replay --ranks 4 --model {','.join(MODELS)} --equivalent 10gbit,25gbit,100gbit "
                    "--strategies ring_hierarchical,ring,halving_doubling,gloo,passing --steps 3 --rounds 3",
    "mlp5m": "--model mlp5m --batch 4 --strategies gloo,passing --steps 50 --rounds 3",
    "mlp5m-ps": "--model mlp5m --batch 4 --strategies ps,passing --steps 3 --rounds 3",
    "one-host": "--hosts 1 --rate none --model all --strategies gloo,passing --steps 200 --rounds 7",
}


@functools.lru_cache
def run(build, name):
    """Its rows, by model, Gbit/s that links stand for (0: themselves) and strategy."""
    return measured(build, "train-" + name, RUNS[name])


def measured(build, name, arguments):
    directory = os.path.join(ROOT, "build", "bench")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name + ".json")
    subprocess.run([program(build, "passing"), "train", *arguments.split(), "--json", path], check=True, stdout=sys.stderr)
    with open(path) as file:
        return {(row["model"], row.get("equivalent_bps", 0) / 1e9, row["strategy"]): row for row in json.load(file)["results"]}


def over(name, model, rate, others):
    """The least of the ratios of steps per second."""
    return lambda build: min(run(build, name)[model, rate, "passing"]["speedup_over"][other] for other in others)


def loss_distance(build):
    """The largest relative distance of a loss from gloo's, over the first 50 steps."""
    rows = run(build, "mlp5m")
    pairs = zip(rows["mlp5m", 0, "passing"]["losses"][:50], rows["mlp5m", 0, "gloo"]["losses"][:50], strict=True)
    return 1e4 * max(abs(ours - theirs) / abs(theirs) for ours, theirs in pairs)


def claims():
    found = []

    def claim(name, text, target, unit, measure, comparison=">="):
        found.append(("train-" + name, text, comparison, target, unit, measure))

    for model in MODELS:
        claim(f"replay-{model.replace('_', '-')}-ps", f"replay {model}, 4 x 4, as 10 Gbit/s: over ps", PUBLISHED, "x its speed",
              over("replay-ps", model, 10, ("ps",)))
    claim("replay-vgg16-ring", "replay vgg16, 4 x 4, as 10 Gbit/s: over ring_hierarchical", 1.25, "x its speed",
          over("replay-rates", "vgg16", 10, ("ring_hierarchical",)))
    for model in MODELS:
        for rate in RATES:
            claim(f"replay-{model.replace('_', '-')}-{rate}g-best", f"replay {model}, 4 x 4, as {rate} Gbit/s: over the best other", 0.97, "x its speed",
                  over("replay-rates", model, rate, ("ring_hierarchical", "ring", "halving_doubling", "gloo")))
    claim("mlp5m-gloo", "mlp5m, batch 4, 4 x 2, 200 Mbit/s: over gloo", 1.4, "x its speed", over("mlp5m", "mlp5m", 0, ("gloo",)))
    claim("mlp5m-ps", "mlp5m, batch 4, 4 x 2, 200 Mbit/s: over ps", 3, "x its speed", over("mlp5m-ps", "mlp5m", 0, ("ps",)))
    claim("mlp5m-loss", "mlp5m: its loss from gloo's, 50 steps, at most", 1, "in 10,000", loss_distance, "<=")
    for model in REAL:
        claim(f"one-host-{model.replace('_', '-')}", f"{model}, 1 host x 2 ranks: over gloo", 0.97, "x its speed", over("one-host", model, 0, ("gloo",)))
    return found


def server_map(build, models=("vgg16", "resnet50"), servers=(1, 2, 4, 8), rates=(10, 25, 50, 100, 200, 400)):
    """What passing gains over ps, by servers and rate: where is it what was published?"""
    for count in servers:
        rows = measured(build, f"train-map-{count}", f"--mode replay --ranks 4 --model {','.join(models)} --servers {count} --steps 3 --rounds 3 "
                        f"--equivalent {','.join(f'{rate}gbit' for rate in rates)} --strategies ps,passing")
        if count == servers[0]:
            print("| model | servers | " + " | ".join(f"{rate} Gbit/s" for rate in rates) + " |\n|---|---|" + "---|" * len(rates))
        for model in models:
            gains = [rows[model, rate, "passing"]["speedup_over_ps"] for rate in rates]
            print(f"| {model} | {count} | " + " | ".join(f"{100 * (gain - 1):+.0f} %" for gain in gains) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--map"]:
        sys.exit("train.py --map [BUILD]: what passing gains over ps, by servers and rate. Its claims: claims.py --only train")
    server_map(sys.argv[2] if len(sys.argv) > 2 else "build/release")
