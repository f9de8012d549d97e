"""What the models learn, and how ranks share it out."""

import importlib.util
import os

import numpy
import torch


class Data:
    """A set for classification, from which every rank takes its part of every batch; the same in every run."""

    def __init__(self, inputs, labels, rank, world, batch):
        self.inputs, self.labels = inputs, labels
        self.order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
        self.rank, self.world, self.batch = rank, world, batch

    def batch_of(self, step):
        first = (step * self.world + self.rank) * self.batch
        chosen = self.order[torch.arange(first, first + self.batch) % len(self.order)]
        return self.inputs[chosen], self.labels[chosen]


def digits():
    """Scikit-learn's 1797 images of 8 x 8, read without importing all of it: that takes every rank seconds."""
    package = importlib.util.find_spec("sklearn")
    if package is None:
        raise RuntimeError("scikit-learn is not installed, and the digits come with it: install python3-sklearn")
    rows = numpy.loadtxt(os.path.join(os.path.dirname(package.origin), "datasets", "data", "digits.csv.gz"), delimiter=",", dtype=numpy.float32)
    return torch.from_numpy(rows[:, :64]) / 16, torch.from_numpy(rows[:, 64]).long()


def generated(samples=8192, features=512, classes=10):
    """Points around a centre per class, far more than noise apart in some directions only."""
    source = torch.Generator().manual_seed(2)
    labels = torch.randint(classes, (samples,), generator=source)
    centres = torch.randn(classes, features, generator=source)
    return 0.35 * centres[labels] + torch.randn(samples, features, generator=source), labels
