"""Models broken on purpose: what the proof, and the page that shows it, must find out."""

import math

import torch


def scaled_by_the_width(q, k, hidden):
    """sqrt(d_model) for sqrt(d_head): 2 heads here."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(2 * q.shape[-1])
    return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)


def unmasked(q, k, hidden):
    """Neither padding nor what comes later is hidden."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def looking_ahead(key_padding_mask, **_):
    """The triangle is forgotten, padding is not."""
    return None if key_padding_mask is None else key_padding_mask[:, None, None, :]


def by_sample_std(x, gamma, beta, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=1) + eps).sqrt() * gamma + beta
