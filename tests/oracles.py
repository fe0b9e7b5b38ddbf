"""Literal, slow transcriptions of the formulas in the paper: loops over views, samples and neighbours, dense matrices.

Rows are samples, as everywhere in the package: ``X A X'`` in the paper is ``X' A X`` here.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg


def neighbours(distances, y, candidates, k, same, count):
    """Nearest samples of the class of sample k (or of other classes), by distance, then by index."""
    fit = [q for q in candidates if q != k and (y[q] == y[k]) == same]
    return sorted(fit, key=lambda q: (distances[k][q], q))[:count]


def squared_distances(X):
    """All squared distances, computed coordinate by coordinate."""
    return [[float(((a - b) ** 2).sum()) for b in X] for a in X]


def class_neighbours(X, y, n_within, n_between):
    """Tables of the nearest samples of the same class and of other classes, padded with -1."""
    d = squared_distances(X)

    def table(same, count):
        rows = [neighbours(d, y, range(len(y)), k, same, count) for k in range(len(y))]
        return np.array([row + [-1] * (count - len(row)) for row in rows], dtype=int).reshape(len(y), count)

    return table(True, n_within), table(False, n_between)


def patches(arrays, y, mask, n_within, n_between, distances=None):
    """(within, between) neighbour lists of each sample in each view; None where the sample is missing."""
    result = []
    for v, X in enumerate(arrays):
        d = squared_distances(X) if distances is None else distances[v]
        seen = np.flatnonzero(mask[:, v])
        result.append(
            [
                (neighbours(d, y, seen, k, True, n_within), neighbours(d, y, seen, k, False, n_between))
                if mask[k, v]
                else None
                for k in range(len(y))
            ]
        )
    return result


def objective(latents, mask, found, paired, intra, inter, beta):
    """The objective of MvHE as printed in the paper, a sum over views, samples and neighbours."""
    m, n = mask.shape

    def gap(i, k, j, q):
        return float(((latents[i][k] - latents[j][q]) ** 2).sum())

    total = 0.0
    for i in range(n):
        for k in range(m):
            if not mask[k, i]:
                continue
            for j in range(n):
                if j != i and mask[k, j]:
                    total += paired * gap(i, k, j, k)
                if mask[k, j]:
                    weight = intra if i == j else inter
                    within, between = found[j][k]
                    total += weight * sum(gap(i, k, j, q) for q in within)
                    total -= weight * beta * sum(gap(i, k, j, q) for q in between)
    return total


def matrix_j(m, n):
    """J of LE-paired, from its block permutations."""
    J = np.zeros((n * m, n * m))
    for i in range(2, n + 1):
        J_i = np.zeros_like(J)
        J_i[: (i - 1) * m, (n - i + 1) * m :] = np.eye((i - 1) * m)
        J_i[(i - 1) * m :, : (n - i + 1) * m] = np.eye((n - i + 1) * m)
        difference = np.eye(n * m) - J_i
        J += difference @ difference.T
    return J


def smallest_in_span(S, arrays):
    """Eigenpairs of S, ascending, restricted to the span of the samples of each view.

    Used for data without full rank, where a literal eigenproblem also finds directions in which no sample varies, with
    an eigenvalue of zero.
    """
    bases = []
    for X in arrays:
        _, singular, Vt = np.linalg.svd(X)
        bases.append(Vt[: np.sum(singular > max(X.shape) * np.finfo(float).eps * singular[0])].T)
    B = scipy.linalg.block_diag(*bases)
    values, U = np.linalg.eigh(B.T @ S @ B)
    return values, B @ U


def _patch_matrix(m, n, centre, members, theta):
    """S L S' of one patch, with its explicit selection matrix."""
    p = len(theta)
    S = np.zeros((n * m, p + 1))
    for column, node in enumerate([centre, *members]):
        S[node, column] = 1.0
    E = np.vstack([-np.ones((1, p)), np.eye(p)])
    L = E @ np.diag(theta) @ E.T
    return S @ L @ S.T


def matrix_u(found, beta):
    """U of LDE-intra: the sum of all intra-view patches."""
    n, m = len(found), len(found[0])
    U = np.zeros((n * m, n * m))
    for i in range(n):
        for k in range(m):
            within, between = found[i][k]
            theta = np.array([1.0] * len(within) + [-beta] * len(between))
            members = [i * m + q for q in within + between]
            U += _patch_matrix(m, n, i * m + k, members, theta)
    return U


def matrix_v(found, beta):
    """V of LDE-inter: the sum of all inter-view patches."""
    n, m = len(found), len(found[0])
    V = np.zeros((n * m, n * m))
    for i in range(n):
        for k in range(m):
            for j in range(n):
                if j != i:
                    within, between = found[j][k]
                    theta = np.array([1.0] * len(within) + [-beta] * len(between))
                    members = [j * m + q for q in within + between]
                    V += _patch_matrix(m, n, i * m + k, members, theta)
    return V


def laplacian(found, mask, paired, intra, inter, beta):
    """Matrix of the objective over (view, sample) nodes, edge by edge; samples may be missing."""
    m, n = mask.shape
    L = np.zeros((n * m, n * m))

    def edge(i, k, j, q, weight):
        a, b = i * m + k, j * m + q
        L[a, a] += weight
        L[b, b] += weight
        L[a, b] -= weight
        L[b, a] -= weight

    for i in range(n):
        for k in range(m):
            if not mask[k, i]:
                continue
            for j in range(n):
                if not mask[k, j]:
                    continue
                if j != i:
                    edge(i, k, j, k, paired)
                weight = intra if i == j else inter
                within, between = found[j][k]
                for q in within:
                    edge(i, k, j, q, weight)
                for q in between:
                    edge(i, k, j, q, -beta * weight)
    return L


def seen_by_several(mask):
    """Mask without the samples that only one view has."""
    left = np.zeros_like(mask)
    for k, row in enumerate(mask):
        for v, seen in enumerate(row):
            left[k, v] = seen and sum(row) > 1
    return left


def pair_weights(mask):
    """Number of pairs of each sample in each view, relative to complete views."""
    m, n = mask.shape
    weights = np.zeros((m, n))
    for k in range(m):
        for v in range(n):
            for other in range(n):
                if other != v and mask[k, v] and mask[k, other]:
                    weights[k, v] += 1 / (n - 1)
    return weights


def pair_centred(arrays, mask):
    """Views minus their means over all pairs of samples, zero where a sample is missing."""
    m, n = mask.shape
    result = []
    for v, X in enumerate(arrays):
        ends = [X[k] for k in range(m) for j in range(n) if j != v and mask[k, v] and mask[k, j]]
        result.append(np.array([X[k] - np.mean(ends, axis=0) if mask[k, v] else 0.0 * X[0] for k in range(m)]))
    return result


def pair_products(arrays, mask):
    """Σ x_i x_j' over all pairs of views of a sample, and Σ x x' / (n - 1) over those of each view. Centred views."""
    m, n = mask.shape
    pairs = [[np.zeros((A.shape[1], B.shape[1])) for B in arrays] for A in arrays]
    own = [np.zeros((A.shape[1], A.shape[1])) for A in arrays]
    for i in range(n):
        for j in range(n):
            for k in range(m):
                if i != j and mask[k, i] and mask[k, j]:
                    pairs[i][j] += np.outer(arrays[i][k], arrays[j][k])
                    own[i] += np.outer(arrays[i][k], arrays[i][k]) / (n - 1)
    return np.block(pairs), own


def weighted_mean(rows):
    """Mean of (weight, row) pairs, and their total weight."""
    size = sum(weight for weight, _ in rows)
    return sum(weight * row for weight, row in rows) / size, size


def view_scatters(arrays, weights, y):
    """Between- and within-class scatter of each view, class by class and sample by sample."""
    between, within = [], []
    for v, X in enumerate(arrays):
        A, B = np.zeros((2, X.shape[1], X.shape[1]))
        everyone = [(weights[k, v], X[k]) for k in range(len(y)) if weights[k, v] > 0]
        mean, _ = weighted_mean(everyone)
        for c in np.unique(y):
            members = [(weights[k, v], X[k]) for k in range(len(y)) if weights[k, v] > 0 and y[k] == c]
            if members:
                centre, size = weighted_mean(members)
                A += size * np.outer(centre - mean, centre - mean)
                B += sum(weight * np.outer(x - centre, x - centre) for weight, x in members)
        between.append(A)
        within.append(B)
    return between, within


def joint_scatters(arrays, weights, y):
    """Between- and within-class scatter of the nodes (view, sample), each in the columns of its view."""
    m, n = weights.shape
    edges = np.cumsum([0, *(X.shape[1] for X in arrays)])
    nodes = []
    for v in range(n):
        for k in range(m):
            if weights[k, v] > 0:
                x = np.zeros(edges[-1])
                x[edges[v] : edges[v + 1]] = arrays[v][k]
                nodes.append((weights[k, v], x, y[k]))
    mean, _ = weighted_mean([(weight, x) for weight, x, _ in nodes])
    between, within = np.zeros((2, edges[-1], edges[-1]))
    for c in np.unique(y):
        members = [(weight, x) for weight, x, label in nodes if label == c]
        if members:
            centre, size = weighted_mean(members)
            between += size * np.outer(centre - mean, centre - mean)
            within += sum(weight * np.outer(x - centre, x - centre) for weight, x in members)
    return between, within


def centred(arrays, mask):
    """Views minus the mean of the samples present, zero elsewhere."""
    result = []
    for v, X in enumerate(arrays):
        seen = mask[:, v]
        Y = np.zeros_like(X)
        Y[seen] = X[seen] - X[seen].mean(axis=0)
        result.append(Y)
    return result


def scatter(arrays, L):
    """X' L X with X block-diagonal."""
    X = scipy.linalg.block_diag(*arrays)
    return X.T @ L @ X


def literal_mvhe(arrays, y, *, d, intra, inter, beta, n_within, n_between, paired=1.0):
    """MvHE as in the paper, for complete views without centring: eigenvalues and the stacked W."""
    m, n = len(y), len(arrays)
    found = patches(arrays, y, np.ones((m, n), dtype=bool), n_within, n_between)
    L = paired * matrix_j(m, n) + intra * matrix_u(found, beta) + inter * matrix_v(found, beta)
    values, vectors = np.linalg.eigh(scatter(arrays, L))
    return values[:d], np.sqrt(n) * vectors[:, :d]


def literal_kmvhe(kernels, L, d):
    """The generalised problem K L K A = μ K A, A'KA = nI, solved densely on the range of K."""
    K = scipy.linalg.block_diag(*kernels)
    size, basis = np.linalg.eigh(K)
    keep = size > len(K) * np.finfo(float).eps * size.max()
    whiten = basis[:, keep] / np.sqrt(size[keep])
    values, vectors = np.linalg.eigh(whiten.T @ K @ L @ K @ whiten)
    return values[:d], np.sqrt(len(kernels)) * whiten @ vectors[:, :d]


def supervised_contrastive_loss(latents, classes, temperature):
    """The loss of Khosla et al. (2020) with the sum over positives outside the logarithm, anchor by anchor."""
    losses = []
    for i, anchor in enumerate(latents):
        others = [a for a in range(len(latents)) if a != i]
        positives = [p for p in others if classes[p] == classes[i]]
        denominator = sum(np.exp(anchor @ latents[a] / temperature) for a in others)
        terms = [np.log(np.exp(anchor @ latents[p] / temperature) / denominator) for p in positives]
        if positives:
            losses.append(-sum(terms) / len(positives))
    return sum(losses) / len(losses)
