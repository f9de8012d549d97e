"""DDP through PASSING. To a script that trained with gloo, two lines are new, and a third where another launcher than
torchrun starts it; they say so.

    /usr/bin/torchrun -r 1 -t 1 --nproc_per_node 2 ddp.py
    srun -n 2 /usr/bin/python3 ddp.py
    mpirun -n 2 /usr/bin/python3 ddp.py                  (on several hosts: -x MASTER_ADDR=HOST)
    mpiexec.mpich -n 2 /usr/bin/python3 ddp.py           (on several hosts: -genv MASTER_ADDR HOST)

Use the interpreter that has torch; these are Debian 12's. Its torchrun crashes without -r 1 -t 1.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import passing.torch  # new: adds the backend


def main():
    passing.torch.rendezvous_from_environment()  # new, but for torchrun
    dist.init_process_group("passing")  # new: was "gloo"
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    right = (net(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean()
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, {100 * right:.1f} % right; {passing.torch.explain(10_000_000)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
