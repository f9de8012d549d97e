"""What people do with DDP, each as a small training: run by every rank, with any backend.

Each returns losses, and what must be the same on all ranks; scenarios_test.py compares backends, ranks and runs.
"""

import hashlib
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 12


def model(width=64):
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 10))


class Data:
    """The rank's own batches."""

    def __init__(self, rank):
        self.source = torch.Generator().manual_seed(100 + rank)
        self.truth = torch.randn(20, 10, generator=torch.Generator().manual_seed(5))

    def batch(self, size=8):
        x = torch.randn(size, 20, generator=self.source)
        return x, (x @ self.truth).argmax(1)


def digest(tensors):
    whole = hashlib.sha256()
    for each in tensors:
        whole.update(each.detach().contiguous().numpy().tobytes())
    return whole.hexdigest()


def state(module, optimizer=None):
    tensors = list(module.state_dict().values())
    for entry in (optimizer.state.values() if optimizer else ()):
        tensors += [value for value in entry.values() if torch.is_tensor(value)]
    return digest(tensors)


def mean_loss(loss):
    """Over all ranks: one curve per run."""
    total = loss.detach().double().clone()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).item()


def train(net, optimizer, data, steps=STEPS):
    losses = []
    for _ in range(steps):
        x, y = data.batch()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(mean_loss(loss))
    return losses


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def ddp(rank):
    net = DDP(model(), bucket_cap_mb=0.01)  # several buckets
    losses = train(net, sgd(net), Data(rank))
    return losses, state(net)


def larger(rank):
    net = DDP(model(512))
    losses = train(net, torch.optim.Adam(net.parameters(), lr=1e-3), Data(rank))
    return losses, state(net)


def join(rank):
    """Ranks with fewer batches shadow the others' collectives."""
    net = DDP(model())
    optimizer = sgd(net)
    data = Data(rank)
    own = []
    with net.join():
        for _ in range(4 + 2 * rank):
            x, y = data.batch()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            own.append(loss.item())
    last = torch.tensor(own[:4], dtype=torch.float64)
    dist.all_reduce(last)
    return (last / dist.get_world_size()).tolist(), state(net)


def accumulation(rank):
    net = DDP(model())
    optimizer = sgd(net)
    data = Data(rank)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with net.no_sync():
            x, y = data.batch()
            nn.functional.cross_entropy(net(x), y).backward()
        x, y = data.batch()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(mean_loss(loss))
    return losses, state(net)


def fp16_hook(rank):
    net = DDP(model(), bucket_cap_mb=0.01)
    net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return train(net, sgd(net), Data(rank)), state(net)


def bf16_hook(rank):
    """gloo has no bfloat16: there the gradients go as they are, and the curve is near."""
    net = DDP(model(), bucket_cap_mb=0.01)
    if dist.get_backend() != "gloo":
        # By its own name torch 1.13 asks for CUDA.
        net.register_comm_hook(None, lambda state, bucket: default_hooks.bf16_compress_hook(state, bucket))
    return train(net, sgd(net), Data(rank)), state(net)


def scaler(rank):
    """As GradScaler does it: a step in which any rank's gradient overflows is skipped by all, and the scale halved."""
    net = DDP(model())
    optimizer = sgd(net)
    data = Data(rank)
    scale, losses, skipped = 2.0 ** 16, [], []
    for step in range(STEPS):
        x, y = data.batch()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        # Only one rank overflows.
        overflow = float("inf") if step in (3, 7) and rank == step % dist.get_world_size() else 1.0
        (loss * scale * overflow).backward()
        finite = all(torch.isfinite(each.grad).all() for each in net.parameters())
        if finite:
            for each in net.parameters():
                each.grad /= scale
            optimizer.step()
        else:
            scale /= 2
            skipped.append(step)
        losses.append(mean_loss(loss))
    assert skipped == [3, 7], f"rank {rank} skipped {skipped}"
    return losses, state(net)


def zero(rank):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    net = DDP(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
    return train(net, optimizer, Data(rank)), state(net)


def checkpoint(rank):
    """Saved by rank 0, loaded by all into another model, and trained on: as if nothing had happened."""
    data = Data(rank)
    net = DDP(model())
    optimizer = sgd(net)
    losses = train(net, optimizer, data, STEPS // 2)
    name = [os.path.join(tempfile.mkdtemp(prefix="passing-test-"), "checkpoint.pt") if rank == 0 else None]
    dist.broadcast_object_list(name)
    if rank == 0:
        torch.save({"net": net.module.state_dict(), "optimizer": optimizer.state_dict()}, name[0])
    dist.barrier()
    saved = torch.load(name[0])
    other = model()
    other.load_state_dict(saved["net"])
    other = DDP(other)
    fresh = sgd(other)
    fresh.load_state_dict(saved["optimizer"])
    dist.barrier()
    if rank == 0:
        os.remove(name[0])
        os.rmdir(os.path.dirname(name[0]))
    return losses + train(other, fresh, data, STEPS - STEPS // 2), state(other)


def local_sgd(rank):
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer
    net = DDP(model())
    pairs = [dist.new_group([first, first + 1]) for first in range(0, dist.get_world_size(), 2)]
    subgroup = pairs[rank // 2]
    net.register_comm_hook(post_localSGD_hook.PostLocalSGDState(None, subgroup, 4), post_localSGD_hook.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(sgd(net), PeriodicModelAverager(period=2, warmup_steps=4))
    losses = train(net, optimizer, Data(rank), STEPS + 1)  # ends with an average
    return losses, state(net)


ALL = (ddp, larger, join, accumulation, fp16_hook, bf16_hook, scaler, zero, checkpoint, local_sgd)


def main():
    """scenarios.py BACKEND DIRECTORY: every scenario, in a group of its own; the results as a file per rank."""
    import json
    backend, directory = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if backend == "passing":
        import passing.torch  # noqa: F401
    results = {}
    for each in ALL:
        dist.init_process_group(backend, init_method=f"file://{directory}/{each.__name__}", rank=rank, world_size=size)
        losses, same = each(rank)
        results[each.__name__] = {"losses": losses, "state": same}
        dist.barrier()
        dist.destroy_process_group()
    with open(f"{directory}/result.{rank}", "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
