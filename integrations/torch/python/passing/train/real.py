"""Training as people do it: a model in DistributedDataParallel, computed on this machine's processors."""

import copy
import hashlib
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

from . import data


def mlp(*widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convolutional():
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 10))


# What it is, what it learns, and how fast. Names and sizes are in src/cli/train_input.cc as well.
MODELS = {
    "digits": (lambda: mlp(64, 512, 512, 10), data.digits, 0.05),
    "digits_cnn": (convolutional, data.digits, 0.05),
    "mlp5m": (lambda: mlp(512, 1600, 1600, 1000, 10), data.generated, 0.02),
}
COMPUTE_STEPS = 5


class Training:
    """One run: from the seed to the last step."""

    def __init__(self, order, rank, world):
        make, load, rate = MODELS[order["model"]]
        torch.manual_seed(7)
        self.data = data.Data(*load(), rank, world, order["batch"])
        net = make()
        parameters = sum(each.numel() for each in net.parameters())
        if parameters != order["parameters"]:
            raise RuntimeError(f"{order['model']} has {parameters} parameters, not {order['parameters']}: passing and passing.train are of "
                               "different versions; build or install both again")
        self.compute_seconds = self._compute(copy.deepcopy(net), rate)
        self.net = DistributedDataParallel(net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=rate, momentum=0.9)
        self.losses = []

    def _compute(self, net, rate):
        """Seconds of a step without synchronisation, while all ranks compute, as they do in training."""
        optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
        self._step(net, optimizer, 0)
        dist.barrier()
        begin = time.monotonic()
        for step in range(COMPUTE_STEPS):
            self._step(net, optimizer, step)
        return (time.monotonic() - begin) / COMPUTE_STEPS

    def _step(self, net, optimizer, step):
        inputs, labels = self.data.batch_of(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def step(self):
        self.losses.append(self._step(self.net, self.optimizer, len(self.losses)))

    def result(self):
        whole = hashlib.sha256()
        for each in self.net.parameters():
            whole.update(each.detach().numpy().tobytes())
        return {"losses": self.losses, "state": whole.hexdigest()}
