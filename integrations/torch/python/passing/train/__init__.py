"""The processes of `passing train`: one per rank, all strategies one after the other. See docs/train.md."""
