"""Models broken on purpose: what the proof, and the page that shows it, must find out."""

import math

import torch


def scaled_by_the_width(q, k, mask):
    """sqrt(d_model) for sqrt(d_head): 2 heads here."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(2 * q.shape[-1])
    return scores if mask is None else scores.masked_fill(mask[:, None, None, :], -torch.inf)


def unmasked(q, k, mask):
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def by_sample_std(x, gamma, beta, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=1) + eps).sqrt() * gamma + beta
