"""A density of the images of a cluster, given its context: DAC's mixture of neural statisticians (App. E).

    z ~ p(z; theta),  x ~ Bernoulli(pixels of Decoder(z, theta)),
    log p(x; theta) >= E_{q(z | x, theta)} [ log p(x | z, theta) + log p(z; theta) - log q(z | x, theta) ]

(Eqs 17 and 18, after Edwards & Storkey 2017). theta says what the images of the cluster have in common, z how
one of them differs from the others. p(z; theta) is an autoregressive flow, q a Gaussian.

Where this departs from the appendix. (1) q looks at the image, not at its encoding: encodings are trained to
forget what tells images of a class apart, which is what z has to hold. (2) The prior of z depends on theta,
as it does in Edwards & Storkey's model. (3) Grey pixels are not drawn black or white; they count by the mean
of the log-likelihood over such draws.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.nn.flows import MaskedAutoregressiveFlow

__all__ = ["NeuralStatistician"]

# Blocks of the flow that the prior of z is; their width is that of the other layers.
FLOW_BLOCKS = 2
# The spread of q is between exp of minus this and exp of this.
LARGEST_LOG_SD = 4.0
# The mean image of the training table is kept this far from black and white: its logits start the decoder.
LEAST_INK = 0.01


class NeuralStatistician(nn.Module):
    """theta = rFF(H_theta), and images given theta; pixels are in the units of the training table."""

    low: Tensor
    high: Tensor

    def __init__(self, width: int, n_pixels: int, n_context: int, n_latent: int, n_hidden: int) -> None:
        """``width`` is that of H_theta, ``n_hidden`` that of encoder, decoder and prior of z."""
        super().__init__()
        self.n_pixels, self.n_latent = n_pixels, n_latent
        self.register_buffer("low", torch.zeros(()))  # darkest and lightest pixel
        self.register_buffer("high", torch.ones(()))
        self.to_context = _layers(width, width, n_context)
        self.recognize = _layers(n_pixels + n_context, n_hidden, 2 * n_latent)
        self.prior = MaskedAutoregressiveFlow(n_latent, n_context, FLOW_BLOCKS, n_hidden)
        self.decode = _layers(n_latent + n_context, n_hidden, n_pixels)

    @torch.no_grad()
    def start(self, rows: Tensor) -> None:
        """Learn the range of the pixels of images (n, D), and begin with the mean image."""
        self.low.copy_(rows.min())
        self.high.copy_(torch.where(rows.max() > rows.min(), rows.max(), rows.min() + 1))
        mean = self.ink(rows).mean(0).clamp(LEAST_INK, 1 - LEAST_INK)
        last = self.decode[-1]
        assert isinstance(last, nn.Linear)
        last.weight.mul_(0.1)
        last.bias.copy_(torch.logit(mean))

    def ink(self, rows: Tensor) -> Tensor:
        """Pixels of rows (..., D) as shares of their range, in [0, 1]."""
        return ((rows - self.low) / (self.high - self.low)).clamp(0, 1)

    def context(self, h_theta: Tensor) -> Tensor:
        """Map (..., width) to contexts (..., c)."""
        context: Tensor = self.to_context(h_theta)
        return context

    def log_density(self, rows: Tensor, context: Tensor, noise: Tensor) -> Tensor:
        """A lower bound of log p(x; theta), (..., N), of images (..., N, D), given a context (..., c).

        ``noise`` (L, ..., N, n_latent) is standard normal: L draws of z each. With one draw its mean is
        Eq 18; with more the bound is tighter (importance weights, Burda et al. 2016).
        """
        ink = self.ink(rows)
        of_each = context.unsqueeze(-2).expand(*rows.shape[:-1], context.shape[-1])
        mean, raw = self.recognize(torch.cat([ink, of_each], dim=-1)).chunk(2, dim=-1)
        log_sd = LARGEST_LOG_SD * torch.tanh(raw / LARGEST_LOG_SD)
        z = mean + torch.exp(log_sd) * noise
        log_q = -(0.5 * noise.square() + log_sd).sum(-1) - 0.5 * self.n_latent * math.log(2 * math.pi)
        logits = self.decode(torch.cat([z, of_each.expand(*z.shape[:-1], -1)], dim=-1))
        log_likelihood = (ink * logits - functional.softplus(logits)).sum(-1)
        log_weights = log_likelihood + self.prior.log_density(z, context) - log_q
        return torch.logsumexp(log_weights, dim=0) - math.log(len(noise))

    def draw(self, context: Tensor, noise: Tensor) -> Tensor:
        """Images (..., N, D) of clusters with contexts (..., c); ``noise`` (..., N, n_latent) is normal.

        Pixels have the mean of p(x | z, theta), not black or white.
        """
        z = self.prior.inverse(noise, context)
        of_each = context.unsqueeze(-2).expand(*z.shape[:-1], context.shape[-1])
        ink = torch.sigmoid(self.decode(torch.cat([z, of_each], dim=-1)))
        return self.low + (self.high - self.low) * ink


def _layers(n_in: int, n_hidden: int, n_out: int) -> nn.Sequential:
    """Three layers, as in the appendix."""
    first, second = nn.Linear(n_in, n_hidden), nn.Linear(n_hidden, n_hidden)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(n_hidden, n_out))
