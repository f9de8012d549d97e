"""PASSING: gradient synchronisation with in-host and in-network aggregation.

`import passing.torch` adds the backend "passing" to torch.distributed.
"""
