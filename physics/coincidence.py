"""Distinct experts of a step given inclusion probabilities: independent tokens, and tokens that share a request.

The picture: expert e is in a token's top k with probability pi_e. Over independent tokens it stays asleep with (1 - pi_e)^T, whatever
the joint law of the k choices. Within a request pi_e is itself drawn once, from a Beta law around its mean, so tokens of one request
wake fewer experts. The beta form is an estimate: on a measured trace it is 2 to 9 % low at 32 to 256 tokens, independence 39 to 17 %
high. On made-up requests whose router weights differ by a lognormal factor and never drift it is 8 to 17 % low at 32 tokens.
Source: design notes section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from physics._numba import formula, kernel

Array = np.ndarray[Any, Any]

_DEGREE = 15
_STIRLING = 10.0
_EULER = 20.0
_LEAST_CONCENTRATION = 1e-12


@dataclass(frozen=True)
class OverlapLaw:
    """Share of their experts that two tokens of one request have in common, against their distance d: limit + amplitude * d^-exponent.

    Carried to another model it keeps its place between chance and identity: (overlap - chance) / (1 - chance).
    limit: overlap of distant tokens of the request [1].
    amplitude: what nearness adds at distance 1 [1].
    exponent: how fast that decays [1].
    chance: overlap of two independent tokens where the law was measured, sum(pi^2)/k, a mean over layers; None: the law holds as it
        stands for any model [1].

    The default was measured on 81,858 decode tokens of gpt-oss-20b (GPT-OSS-MoE-ExpertFingerprinting, Apache-2.0).
    """

    limit: float = 0.318
    amplitude: float = 0.1075
    exponent: float = 0.507
    chance: float | None = 0.1884

    def __post_init__(self) -> None:
        bounds = {"limit": 1.0, "amplitude": 1.0, "exponent": 10.0, "chance": 1.0}
        for name, high in bounds.items():
            value = getattr(self, name)
            if name == "chance" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 <= value <= high:
                raise ValueError(f"overlap.{name}: {value!r} is not a number from 0 to {high:g}")
            object.__setattr__(self, name, float(value))
        if self.limit + self.amplitude > 1.0 + 1e-12:
            raise ValueError(f"overlap: limit + amplitude is {self.limit + self.amplitude:g}, and no two tokens share more than all")
        if self.chance is not None and self.chance >= 1.0:
            raise ValueError("overlap.chance: 1 means that every token chooses the same experts; no law can be carried from there")

    def at_distance(self, distance_tokens: Any) -> Any:
        """Overlap of two tokens of a request that lie this far apart [1].

        distance_tokens: 1 for neighbours [token].

        >>> round(OverlapLaw().at_distance(1), 4)
        0.4255
        """
        return self.limit + self.amplitude * np.asarray(distance_tokens, float) ** -self.exponent

    def window_mean(self, tokens: Any) -> Any:
        """Mean overlap of all pairs of a window of consecutive tokens; NaN below two tokens [1].

        2/(m(m-1)) * sum over d < m of (m-d)*overlap(d), in closed form; real m interpolates.
        tokens: window m [token].

        >>> round(float(OverlapLaw().window_mean(2)), 4)
        0.4255
        """
        window = np.asarray(tokens, float)
        means = _window_means(self.amplitude, self.exponent, np.atleast_1d(window).ravel()).reshape(window.shape)
        return self.limit + means

    def carried(self, overlap: Any, chance: Any) -> Any:
        """An overlap of this law where two independent tokens overlap by `chance` instead [1].

        overlap: overlap as measured [1].
        chance: sum(pi^2)/k where it is carried to [1].

        >>> round(OverlapLaw(chance=0.2).carried(0.6, 0.0), 3)
        0.5
        """
        if self.chance is None:
            return overlap
        return chance + (1.0 - chance) * np.maximum(0.0, overlap - self.chance) / (1.0 - self.chance)


@formula
def _power_sum(count: float, exponent: float) -> float:
    """Sum over d = 1..n of d^-exponent, n real, by Euler-Maclaurin between 20 and n >= 20, and downwards by recurrence."""
    total, n = 0.0, count
    while n < _EULER:
        n += 1.0
        total -= n**-exponent
    for d in range(1, 21):
        total += d**-exponent
    grown = math.log(n / _EULER)
    step = 1.0 - exponent
    total += _EULER**step * (math.expm1(step * grown) / step if step != 0.0 else grown)
    total += 0.5 * (n**-exponent - _EULER**-exponent)
    rising, power = exponent, -exponent - 1.0
    for term in range(4):
        factor = (1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0, -1.0 / 1209600.0)[term]
        total -= factor * rising * (n**power - _EULER**power)
        rising *= power * (power - 1.0)
        power -= 2.0
    return float(total)


@kernel
def _window_means(amplitude: float, exponent: float, tokens: Array) -> Array:
    out = np.empty(tokens.size)
    for i in range(tokens.size):
        m = tokens[i]
        pairs = m * _power_sum(m - 1.0, exponent) - _power_sum(m - 1.0, exponent - 1.0)
        out[i] = amplitude * 2.0 * pairs / (m * (m - 1.0)) if m > 1.0 else np.nan
    return out


def concentration(overlap: Any, chance: Any) -> Any:
    """Beta concentration s of a request's own preferences: (1 - overlap)/(overlap - chance), infinite at chance or below [1].

    overlap: mean overlap of two tokens of a request [1].
    chance: overlap of two independent tokens, sum(pi^2)/k [1].

    >>> float(concentration(0.5, 0.25))
    2.0
    """
    excess = np.asarray(overlap, float) - chance
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess > 1e-15, (1.0 - np.asarray(overlap, float)) / np.where(excess > 1e-15, excess, 1.0), np.inf)


@formula
def _stirling(x: float) -> float:
    """The series part of ln Gamma(x), x >= 10; the next term is under 3e-14."""
    square = 1.0 / (x * x)
    return (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0)))) / x


@formula
def _log1p_excess(x: float) -> float:
    """ln(1+x)/x - 1 for 0 <= x < 0.1, without cancellation."""
    total = 0.0
    for j in range(17, 1, -1):
        total = (1.0 / j - total) * x if j > 2 else -(0.5 - total) * x
    return total


@formula
def log_idle(inclusion: float, concentration: float, tokens: float) -> float:
    """Logarithm of the probability that no token of one request touches an expert [1].

    ln Gamma(s)Gamma(b+m) / (Gamma(b)Gamma(s+m)), b = (1-pi)s, by differences of Stirling's series that never subtract large numbers:
    s may be infinite (independent tokens, m*ln(1-pi)).
    inclusion: mean inclusion probability pi of the expert [1].
    concentration: s [1].
    tokens: tokens m of the request [token].

    >>> round(math.exp(log_idle(0.25, 3.0, 2.0)), 6)
    0.609375
    """
    if inclusion <= 0.0 or tokens <= 0.0:
        return 0.0
    if inclusion >= 1.0:
        return -math.inf
    if tokens == 1.0 or concentration > 1e15:
        return tokens * math.log1p(-inclusion)
    s = max(concentration, _LEAST_CONCENTRATION)
    b, gap = (1.0 - inclusion) * s, inclusion * s
    shifted = 0.0
    if b < _STIRLING:
        shift = math.ceil(_STIRLING - b)
        product = 1.0
        for j in range(shift):
            product *= (b + j) / (s + j) * ((s + tokens + j) / (b + tokens + j))
        shifted, b, s = math.log(product), b + shift, s + shift
    ends = _stirling(b + tokens) - _stirling(b) - _stirling(s + tokens) + _stirling(s)
    halves = 0.5 * (math.log1p(tokens / b) - math.log1p(tokens / s))
    if tokens < 0.1 * b:
        middle = tokens * (_log1p_excess(tokens / b) - _log1p_excess(tokens / s))
    else:
        middle = b * math.log1p(tokens / b) - s * math.log1p(tokens / s)
    return float(shifted + tokens * math.log1p(-gap / (s + tokens)) + middle - halves + ends)


@kernel
def log_idle_each(inclusion: Array, concentrations: Array, tokens: float) -> Array:
    """`log_idle` of each expert, with its own concentration, for one number of tokens."""
    out = np.empty(inclusion.size)
    for e in range(inclusion.size):
        out[e] = log_idle(inclusion[e], concentrations[e], tokens)
    return out


@kernel
def awake(idle: Array, shares: Array, requests: Array) -> Array:
    """Sum over experts of share * (1 - exp(R * idle)) for each R."""
    out = np.empty(requests.size)
    fill_awake(idle, shares, requests, out)
    return out


@kernel
def fill_awake(idle: Array, shares: Array, requests: Array, out: Array) -> None:
    """`awake` into an array that is there; kernels assign no slices, whose code takes seconds to compile."""
    for i in range(requests.size):
        total = 0.0
        for e in range(idle.size):
            total -= shares[e] * np.expm1(requests[i] * idle[e]) if requests[i] > 0.0 else 0.0
        out[i] = total


@kernel
def awake_table(idle: Array, shares: Array, panels: int) -> Array:
    """Chebyshev coefficients of `awake` over ln R, one row for each unit of ln R from 0 on: relative error under 1e-12."""
    n = _DEGREE + 1
    table = np.zeros((panels, n))
    values = np.empty(n)
    for p in range(panels):
        for i in range(n):
            count = np.exp(p + 0.5 + 0.5 * np.cos(np.pi * (i + 0.5) / n))
            total = 0.0
            for e in range(idle.size):
                total -= shares[e] * np.expm1(count * idle[e])
            values[i] = total
        for j in range(n):
            for i in range(n):
                table[p, j] += values[i] * np.cos(np.pi * j * (i + 0.5) / n) * (1.0 if j == 0 else 2.0) / n
    return table


@kernel
def fill_from_table(table: Array, requests: Array, out: Array) -> None:
    """`awake` by Clenshaw's recurrence, for R from 1 to exp(rows of the table)."""
    for i in range(requests.size):
        place = np.log(requests[i])
        p = min(int(place), table.shape[0] - 1)
        x = 2.0 * (place - p) - 1.0
        next1 = next2 = 0.0
        for j in range(_DEGREE, 0, -1):
            next1, next2 = table[p, j] + 2.0 * x * next1 - next2, next1
        out[i] = table[p, 0] + x * next1 - next2


@kernel
def awake_correlated(
    inclusion: Array, shares: Array, layers: Array, concentrations: Array, windows: Array, starts: Array, requests: Array
) -> Array:
    """`awake` of requests sorted by the window they share: those from starts[i] to starts[i+1] bring windows[i] tokens each.

    Where many requests share a window they are read from a table over ln R, otherwise summed expert by expert.
    """
    out = np.empty(requests.size)
    idle = np.empty(inclusion.size)
    for i in range(windows.size):
        for e in range(inclusion.size):
            idle[e] = log_idle(inclusion[e], concentrations[i, layers[e]], windows[i])
        chosen, filled = requests[starts[i] : starts[i + 1]], out[starts[i] : starts[i + 1]]
        most, least = 1.0, np.inf
        for count in chosen:
            most, least = max(most, count), min(least, count)
        panels = int(np.log(most)) + 1
        if chosen.size > 2 * (_DEGREE + 1) * panels and least >= 1.0:
            fill_from_table(awake_table(idle, shares, panels), chosen, filled)
        else:
            fill_awake(idle, shares, chosen, filled)
    return out


def distinct_experts_mean(inclusion: Any, tokens: Any) -> Any:
    """Expected distinct experts that independent tokens touch, exact for any joint law of the k choices [expert].

    Sum over experts of 1 - (1 - pi)^T. Also exact for one token from each of T requests whose own pi differ, with the mean pi.
    inclusion: probability of each expert to be chosen by a token [1].
    tokens: independent tokens T [token].

    >>> distinct_experts_mean([0.5, 0.5, 1.0], 2)
    2.5
    """
    chances, counts = np.asarray(inclusion, float), np.asarray(tokens, float)
    with np.errstate(divide="ignore"):
        idle = np.log1p(-chances)
    return awake(idle, np.ones_like(chances), np.atleast_1d(counts).ravel()).reshape(counts.shape)[()]


def distinct_experts_correlated(inclusion: Any, requests: Any, tokens_per_request: Any, overlap: Any) -> Any:
    """Expected distinct experts of R requests with m tokens each that overlap within a request, an estimate [expert].

    Sum of 1 - [Gamma(s)Gamma(b+m) / (Gamma(b)Gamma(s+m))]^R, b = (1-pi)s, s = (1-w)/(w-w0), w0 = sum(pi^2)/k.
    inclusion: pi of each expert [1].
    requests: R [1].
    tokens_per_request: m [token].
    overlap: window mean w of the overlap of two tokens of a request; at w0 or below tokens are independent [1].

    >>> round(distinct_experts_correlated([0.5, 0.5], 1, 2, 1.0), 9)
    1.0
    """
    chances = np.asarray(inclusion, float)
    chance = float((chances**2).sum() / chances.sum())
    count, window, share = np.broadcast_arrays(np.asarray(requests, float), tokens_per_request, overlap)
    out = np.empty(count.shape)
    for place in np.ndindex(count.shape):
        s = np.full(chances.size, float(concentration(share[place], chance)))
        idle = log_idle_each(chances, s, float(window[place]))
        out[place] = awake(idle, np.ones_like(chances), np.array([count[place]]))[0]
    return out[()]


def _spread(chances: Array, q: Array, draws: Any) -> Any:
    """Standard deviation of the experts awake, q asleep by expert, the tokens worth `draws` independent ones."""
    spread = chances * (1.0 - chances)
    apart = spread.sum() ** 2 - (spread**2).sum()
    c = spread.sum() / apart if apart > 0.0 else 0.0
    touched = q * chances
    variance = (q * (1.0 - q)).sum(-1) - c * draws * (touched.sum(-1) ** 2 - (touched**2).sum(-1))
    return np.sqrt(np.maximum(variance, 0.0))[()]


def distinct_experts_sd_skewed(inclusion: Any, tokens: Any) -> Any:
    """Standard deviation of the distinct experts that independent tokens touch [expert].

    Sum of q(1-q), q = (1-pi)^T, is exact. The covariances depend on the joint law, which pi leaves open: they are taken as -c*a_e*a_f
    per token, a = pi(1-pi) (Hajek's approximation of a draw without replacement), to first order, with the c that makes one token
    touch exactly k. Monte Carlo of router weights agrees within 3 %.
    inclusion: pi of each expert [1].
    tokens: independent tokens T [token].

    >>> round(distinct_experts_sd_skewed([8 / 256] * 256, 128), 2)
    2.0
    """
    chances, counts = np.asarray(inclusion, float), np.asarray(tokens, float)
    with np.errstate(divide="ignore"):
        return _spread(chances, np.exp(counts[..., None] * np.log1p(-chances)), counts)


def distinct_experts_sd_correlated(inclusion: Any, requests: Any, tokens_per_request: Any, overlap: Any) -> Any:
    """Standard deviation of the distinct experts when tokens of a request overlap, a rough estimate [expert].

    As for independent tokens, with the q of the beta form and each request worth m(s+1)/(s+m) independent tokens, as a beta-binomial
    count is. On a measured trace of gpt-oss-20b it is 3 to 32 % low, where independence is 30 to 70 % low.
    inclusion: pi of each expert [1].
    requests: R [1].
    tokens_per_request: m [token].
    overlap: window mean of the overlap of two tokens of a request [1].

    >>> distinct_experts_sd_correlated([0.5, 0.5], 1, 1, 0.9)
    0.0
    """
    chances = np.asarray(inclusion, float)
    chance = float((chances**2).sum() / chances.sum())
    count, window, share = np.broadcast_arrays(np.asarray(requests, float), np.asarray(tokens_per_request, float), overlap)
    out = np.empty(count.shape)
    for place in np.ndindex(count.shape):
        s, m = min(float(concentration(share[place], chance)), 1e15), float(window[place])
        q = np.exp(count[place] * log_idle_each(chances, np.full(chances.size, s), m))
        out[place] = _spread(chances, q, count[place] * m * (s + 1.0) / (s + m))
    return out[()]
