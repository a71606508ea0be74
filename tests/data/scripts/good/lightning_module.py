# finds: 3 models, 4 calls
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(28 * 28, 16), nn.ReLU(), nn.Linear(16, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 28 * 28))

    def forward(self, x):
        return self.encoder(x)

    def training_step(self, batch, batch_idx):
        x = batch[0].view(batch[0].size(0), -1)
        return nn.functional.mse_loss(self.decoder(self.encoder(x)), x)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


images = TensorDataset(torch.rand(8, 1, 28, 28))
autoencoder = AutoEncoder()
trainer = L.Trainer(
    accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False
)
trainer.fit(autoencoder, DataLoader(images, batch_size=4))
autoencoder.eval()
autoencoder(torch.rand(1, 28 * 28))
