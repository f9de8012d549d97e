"""One rank. Orders come line by line out of a pipe with a name, answers go to standard output; both are JSON.

`run` begins a training with a strategy and is answered by `ready`, or `error`; `go` by `done`. The process lives on
from one to the next, since importing torch takes seconds.
"""

import gc
import json
import os
import sys
import time

MARK = "@train "
PROGRESS_SECONDS = 0.2


def say(event, **values):
    # In one piece: libraries print, too.
    sys.stdout.write(f"{MARK}{json.dumps({'event': event, **values})}\n")
    sys.stdout.flush()


def load():
    """What is slow to import; a sentence if it is not there."""
    try:
        import torch
        import torch.distributed
    except ImportError as problem:
        raise RuntimeError(f"torch cannot be imported by {sys.executable} ({problem}): install python3-torch") from None
    try:
        import passing.torch  # noqa: F401 (registers the backend)
    except ImportError as problem:
        raise RuntimeError(f"passing.torch cannot be imported ({problem}): build or install all of PASSING") from None
    torch.set_num_threads(1)


def begin(order, rank, world):
    import torch.distributed as dist

    from . import real, replay

    peer = order["strategy"] == "gloo"
    if not peer:
        os.environ["PASSING_STRATEGY"] = order["strategy"]
    dist.init_process_group("gloo" if peer else "passing", init_method="file://" + order["store"], rank=rank, world_size=world)
    return (real.Training if order["mode"] == "real" else replay.Replay)(order, rank, world)


def run(order, orders, rank, world):
    import torch.distributed as dist

    training = begin(order, rank, world)
    for _ in range(order["warm_up"]):
        training.step()
    dist.barrier()
    say("ready", compute_seconds=training.compute_seconds)
    if orders.readline().strip() != "go":
        raise RuntimeError("the order after run must be go")
    ends = []
    start = shown = time.monotonic()
    for step in range(order["steps"]):
        training.step()
        now = time.monotonic()
        ends.append(now - start)
        if rank == 0 and now - shown > PROGRESS_SECONDS:
            shown = now
            say("step", step=step + 1)
    say("done", ends=ends, **training.result())
    dist.barrier()  # who ends first does not take the others' connections away
    # The communicator goes when nobody holds the group any more.
    del training
    dist.destroy_process_group()
    gc.collect()


def main():
    rank, world = int(os.environ["PASSING_RANK"]), int(os.environ["PASSING_SIZE"])
    try:
        load()
        # Line by line: nothing that is for later may be read ahead.
        with open(sys.argv[1], buffering=1) as orders:
            say("here")
            while True:
                line = orders.readline().strip()
                if line in ("", "end"):
                    return 0
                run(json.loads(line), orders, rank, world)
    except Exception as problem:  # whatever it is, the coordinator must hear of it
        sentence = " ".join(str(problem).split()) or type(problem).__name__
        say("error", sentence=sentence)
        return 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads of a broken group must not hold it up
