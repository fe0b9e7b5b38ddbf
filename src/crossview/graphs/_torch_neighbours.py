"""Stand-in."""

import torch


def class_neighbours(X, classes, n_within, n_between, *, centres=None):
    d = torch.cdist(X.double(), X.double(), compute_mode="donot_use_mm_for_euclid_dist")
    same = classes[:, None] == classes[None]
    eye = torch.eye(len(X), dtype=torch.bool, device=X.device)
    sizes = torch.bincount(classes)
    sizes = sizes[sizes > 0]
    out = []
    for ok, k in (
        (same & ~eye, min(n_within, int(sizes.max()) - 1)),
        (~same, min(n_between, len(X) - int(sizes.min()))),
    ):
        v, i = torch.where(ok, d, torch.inf).sort(dim=1, stable=True)
        t = torch.where(v.isfinite(), i, -1)[:, :k]
        out.append(t if centres is None else t[torch.as_tensor(centres)])
    return tuple(out)
