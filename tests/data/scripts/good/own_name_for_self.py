# finds: 1 model, 1 call
import torch


class Pipeline:
    def __init__(this):  # noqa: N805 it is what is tested
        this.model = torch.nn.Linear(2, 3)

    def run(this, x):  # noqa: N805
        return this.model(x)


pipeline = Pipeline()
pipeline.run(torch.ones(1, 2))
