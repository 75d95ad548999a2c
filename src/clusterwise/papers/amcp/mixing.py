"""IntraCM and InterCC of AMCP without what is learned of them: encodings, mixtures, f_theta, similarities."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

__all__ = [
    "ABSENT",
    "NEVER",
    "UNASSIGNED",
    "Decoder",
    "Encodings",
    "Mixing",
    "mass_and_means_of",
    "similarity_to_assigned",
]

# Log of "never": finite, so that no gradient is NaN.
NEVER = -1e4
# Columns of points that belong to no cluster.
UNASSIGNED, ABSENT = -1, -2
# Projections nearer to the middle of the cube than rounding tells count as this near.
MIN_SQUARE = 1e-6


class Encodings(NamedTuple):
    """Encodings of P data sets of N points, with what every EM step needs of them."""

    x: Tensor  # (P, N, D)
    extended: Tensor  # (P, N, D + 1), x and a one; zero for absent points
    half_squares: Tensor  # (P, 1, N), |x|^2 / 2
    n_points: Tensor  # (P, 1), of those that are present

    @classmethod
    def of(cls, x: Tensor, mask: Tensor | None = None) -> Encodings:
        """Prepare encodings (P, N, D) of the points that ``mask`` (P, N) marks, or of all."""
        extended = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
        if mask is not None:
            extended = extended * mask.unsqueeze(-1)
        half_squares = 0.5 * x.square().sum(-1).unsqueeze(1)
        return cls(x, extended, half_squares, extended[..., -1].sum(1, keepdim=True))

    def rows(self, which: Tensor) -> Encodings:
        """Those of some data sets, by a mask or by numbers."""
        return Encodings(*(values[which] for values in self))

    def mass_and_means(self, plan: Tensor) -> tuple[Tensor, Tensor]:
        """Mass (P, J) of each component under a plan (P, J, N), and the mean of its encodings (P, J, D)."""
        sums = plan @ self.extended
        return sums[..., -1], sums[..., :-1] / (sums[..., -1:] + 1e-6)


class Mixing(NamedTuple):
    """A mixture over the encodings of P data sets; the last of the J components is the rest."""

    references: Tensor  # phi, (P, J, D)
    log_proportions: Tensor  # log pi, (P, J)
    log_plan: Tensor  # log q, (P, J, N), sums to one over the components


class Decoder(nn.Module):
    """f_theta: from references phi (P, J, D) to centres in (0, 1)^D, and the M-step that goes with it."""

    def __init__(self, kind: Literal["linear", "mlp"], n_coordinates: int, n_hidden: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "mlp":
            self.inner = nn.Linear(n_coordinates, n_hidden)
            self.outer = nn.Linear(n_hidden, n_coordinates)
            self.log_step = nn.Parameter(torch.tensor(1.0))  # log eta

    def start(self, centres: Tensor) -> Tensor:
        """References to begin with, for clusters whose encodings have these means."""
        return centres if self.kind == "linear" else torch.logit(centres, eps=1e-4)

    def forward(self, references: Tensor) -> Tensor:
        """f_theta(phi), (P, J, D)."""
        if self.kind == "linear":
            return references
        return torch.sigmoid(self.outer(torch.tanh(self.inner(torch.sigmoid(references)))))

    def m_step(self, references: Tensor, means: Tensor) -> Tensor:
        """Eq 7 with the mean error of each component: ``means`` - f(phi), all (P, J, D)."""
        if self.kind == "linear":
            return means
        squashed = torch.sigmoid(references)
        hidden = torch.tanh(self.inner(squashed))
        centres = torch.sigmoid(self.outer(hidden))
        # The gradient of f, transposed, times the error, layer by layer.
        back = (means - centres) * centres * (1 - centres)
        back = (back @ self.outer.weight) * (1 - hidden.square())
        back = (back @ self.inner.weight) * squashed * (1 - squashed)
        return references + torch.exp(self.log_step) * back


def mass_and_means_of(points: Encodings, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Mass (P, k + 2) and mean encodings (P, k + 2, D) of k clusters, a new one, empty, and the rest."""
    codes = torch.arange(k + 2, device=columns.device)
    codes[-1] = UNASSIGNED
    members = (columns.unsqueeze(1) == codes.unsqueeze(1)).to(points.x.dtype)  # (P, k + 2, N)
    sums = members @ points.extended
    return sums[..., -1], sums[..., :-1] / sums[..., -1:].clamp(min=1)


def similarity_to_assigned(plan: Tensor, centres: Tensor, assigned: Tensor) -> Tensor:
    """Column means of M (Eq 9) for every point, (P, N), without M.

    ``plan`` is (P, J, N), ``centres`` (P, J, D), ``assigned`` (P, N). With r_i the normalized barycentric
    projection sum_j q_ij centre_j, the mean over assigned a of r_a . r_i is one product with the mean of
    the r_a. All of them are combinations of the J centres, so that the products of those are enough.
    """
    centred = centres - 0.5
    projected = (centred @ centred.transpose(1, 2)) @ plan  # (P, J, N)
    inverse_norms = (projected * plan).sum(1).clamp(min=MIN_SQUARE).rsqrt()  # (P, N)
    sums = plan @ (assigned * inverse_norms).unsqueeze(2)  # of the r_a, in terms of the centres, (P, J, 1)
    similarity = (projected * sums).sum(1) * inverse_norms
    return similarity / assigned.sum(1, keepdim=True).clamp(min=1)
