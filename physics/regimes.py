"""Scenario to the regimes' results: the columns, the experts a step touches, and the call of the compiled step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from physics import kernels as k
from physics.efficiency import PARTS
from physics.efficiency import REGIMES as REGIMES
from physics.scenario import Scenario
from physics.workload import base_point, hardware, second_per_byte, workload

DECODE = REGIMES[2:]
BOUNDS = ("compute", "memory", "network")
LINKS = [k.WORK_UP, k.WORK_OUT]

_INDEX = {
    "flops": k.OUT_FLOPS,
    "core_flops": k.OUT_CORE_FLOPS,
    "bytes": k.OUT_BYTES,
    "weight_bytes": k.OUT_WEIGHT_BYTES,
    "kv_bytes": k.OUT_KV_BYTES,
    "kv_read_bytes": k.OUT_KV_READ_BYTES,
    "kv_write_bytes": k.OUT_KV_WRITE_BYTES,
    "activation_bytes": k.OUT_ACTIVATION_BYTES,
    "network_bytes": k.OUT_NETWORK_BYTES,
    "intensity_flops_per_byte": k.OUT_INTENSITY,
    "ridge_flops_per_byte": k.OUT_RIDGE,
    "compute_frac": k.OUT_COMPUTE_FRAC,
    "memory_frac": k.OUT_MEMORY_FRAC,
    "network_frac": k.OUT_NETWORK_FRAC,
    "compute_s": k.OUT_COMPUTE_S,
    "memory_s": k.OUT_MEMORY_S,
    "network_s": k.OUT_NETWORK_S,
    "hop_s": k.OUT_HOP_S,
    "roofline_s": k.OUT_ROOFLINE_S,
    "estimate_s": k.OUT_ESTIMATE_S,
    "estimate_low_s": k.OUT_ESTIMATE_LOW_S,
    "estimate_high_s": k.OUT_ESTIMATE_HIGH_S,
    "energy_j": k.OUT_ENERGY_J,
    "energy_weights_j": k.OUT_WEIGHTS_J,
    "energy_kv_j": k.OUT_KV_J,
    "energy_activation_j": k.OUT_ACTIVATION_J,
    "energy_network_j": k.OUT_NETWORK_J,
    "energy_flop_j": k.OUT_FLOP_J,
    "energy_idle_j": k.OUT_IDLE_J,
}
COLUMNS = tuple(_INDEX)
"""Every numeric column of `regimes`, in order; `bound` and `fits` come with them."""
CONTRACT_COLUMNS = tuple(name for name, index in _INDEX.items() if index < k.OUT_CONTRACT)
"""The numeric columns of the public contract, cheaper than the others."""


@dataclass(frozen=True)
class Grid:
    """Axes of a sweep as the kernel walks them: see `kernels.evaluate`. Without axes it is one point."""

    axes: np.ndarray
    values: np.ndarray
    distinct: np.ndarray
    tables: np.ndarray
    size: int


def distinct_experts(s: Scenario, batch: Any, tokens: Any) -> np.ndarray:
    """Distinct experts per layer that a step touches, for each bank of equal experts: [..., bank].

    batch: requests in the group. tokens: tokens each of them brings; both broadcast.
    """
    banks = workload(s).experts
    if not banks:
        return np.zeros((*np.broadcast(batch, tokens).shape, 0))
    touched = [s.routing.distinct_experts(experts, top_k, batch, tokens) for experts, top_k in banks]  # type: ignore[union-attr]
    return np.stack([np.asarray(one, float) for one in touched], axis=-1)


def single_point(s: Scenario) -> Grid:
    """The grid of a single scenario."""
    tokens = np.array([s.prefill_tokens, s.new_tokens, 1.0])
    return Grid(np.zeros((0, k.GRID_WIDTH), np.int64), np.zeros(0), distinct_experts(s, float(s.batch), tokens), np.arange(3), 1)


class Results:
    """Room for the results of several scenarios over one grid: values[scenario, column, point, regime]."""

    def __init__(self, columns: tuple[str, ...], scenarios: int, points: int) -> None:
        self.columns = columns
        self.values = np.empty((scenarios, len(columns), points, k.N_REGIMES))
        self.bound, self.fits = np.empty((scenarios, points, k.N_REGIMES), np.int8), np.empty((scenarios, points), np.bool_)

    def arrays(self, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Results by name, each of the shape of the axes and the five regimes; views, not copies."""
        full = (*shape, k.N_REGIMES)
        result: dict[str, np.ndarray] = {name: self.values[:, i].reshape(full) for i, name in enumerate(self.columns)}
        result["bound_index"] = self.bound.reshape(full)
        result["fits"] = np.broadcast_to(self.fits.reshape(shape)[..., None], full)
        return result


class Evaluation:
    """One scenario over a grid, filled into its place of the results part by part; several threads may fill at once."""

    def __init__(self, s: Scenario, grid: Grid, results: Results, place: int = 0) -> None:
        work = workload(s)
        self.grid, self._base = grid, base_point(s)
        self._out = results.values[place], results.bound[place], results.fits[place]
        wanted = np.array([_INDEX[name] for name in results.columns], np.int64)
        details = bool(np.any(wanted >= k.OUT_CONTRACT))
        tables = (grid.axes, grid.values, grid.distinct, grid.tables)
        self._inputs = (work.scans, work.banks, work.totals, hardware(s), *tables, wanted, details)

    def fill(self, start: int, stop: int) -> None:
        """Evaluate points start..stop of the grid."""
        grid = self.grid
        point, place, work = self._base.copy(), np.zeros(len(grid.axes), np.int64), np.zeros((3, k.WORK_WIDTH))
        links, row = np.empty(k.LINK_REACHED + grid.distinct.shape[1]), np.empty(k.OUT_WIDTH)
        with np.errstate(all="ignore"):  # nothing divided by nothing is NaN, silently, also where the kernels run as plain Python
            k.evaluate(*self._inputs, start, stop, point, place, work, links, row, *self._out)


def _one(s: Scenario) -> Results:
    results = Results(COLUMNS, 1, 1)
    Evaluation(s, single_point(s), results).fill(0, 1)
    return results


def regime_arrays(s: Scenario) -> dict[str, np.ndarray]:
    """The regimes' results as arrays of five: the fast path under `regimes` [see `regimes` for the columns]."""
    return _one(s).arrays(())


def part_seconds(s: Scenario) -> np.ndarray:
    """What each part of a step asks of each resource, at its peak: [phase, part, (compute, memory, network, one token)] [s].

    Phases and parts in the order of `physics.efficiency`; "one token" is the arithmetic that one more token costs in every
    expert or matrix the part touches. Calibration compares these with measured steps; `estimate_s` is made of the same.
    """
    work, hw, point, grid = workload(s), hardware(s), base_point(s), single_point(s)
    links, each, out = np.empty(k.LINK_REACHED + grid.distinct.shape[1]), 1.0 / s.gpus_per_stage, np.zeros((3, 3, 4))
    k.set_links(work.banks, hw, point[k.POINT_GPUS], links)
    steps = ((s.prefill_tokens, 0.0), (s.new_tokens, s.context_tokens), (1.0, s.context_tokens))
    for phase, (new, prefix) in enumerate(steps):
        done = np.zeros((3, k.WORK_WIDTH))
        k.step(work.scans, work.banks, work.totals, hw, links, grid.distinct, phase, point, float(new), float(prefix), done)
        size = done[:, [k.WORK_WEIGHTS, k.WORK_KV_READ, k.WORK_KV_WRITE, k.WORK_ACTIVATION]].sum(axis=1)
        sent = done[:, LINKS]
        network = np.where(sent > 0.0, sent * hw[[k.HW_UP_S, k.HW_OUT_S]], 0.0).max(axis=1)
        one = done[:, k.WORK_WEIGHTS] * [second_per_byte(work, part) for part in PARTS]
        out[phase] = each * np.stack([done[:, k.WORK_FLOP_S], size * hw[k.HW_MEMORY_S], network, one], axis=1)
    return out


def regimes(scenario: Scenario) -> pd.DataFrame:
    """Work, traffic, bound and joules of the four regimes, and of the weights decode shares between requests.

    One row per regime: prefill, midfill, decode_attention, decode_experts, decode_shared; the three decode lines add up
    to the decode step. Totals of one step of one group over the whole model; `roofline_s` is that step's latency bound.
    Columns (units in `data/quantities.csv`): flops and its attention core, bytes and its parts, network_bytes, intensity
    and ridge, seconds of each resource, roofline_s (a bound), estimate_s (NaN without efficiencies), bound, the share of
    the bound each resource is busy, energy_j and its parts, fits. Seconds are NaN where the scenario does not fit.

    scenario: frozen inputs, validated.
    """
    one = _one(scenario)
    frame = pd.DataFrame(one.values[0, :, 0].T, index=_ROWS, columns=_NUMBERS)
    frame.insert(COLUMNS.index("roofline_s") + 1, "bound", [BOUNDS[i] for i in one.bound[0, 0]])
    frame["fits"] = bool(one.fits[0, 0])
    return frame


_ROWS, _NUMBERS = pd.Index(REGIMES, name="regime"), pd.Index(COLUMNS)


def steps_at(s: Scenario, batch: float, new_tokens: Any, prefix_tokens: Any, split: bool = False) -> dict[str, np.ndarray]:
    """Results of many different steps: groups of `batch` requests that append `new_tokens` each to `prefix_tokens` cached ones.

    One array a column of `regimes`, over the steps; with `split` over (part, step), the parts being attention's core, the routed experts
    and the rest, as the three lines of decode. A prefix of 0 is a prefill. Whether a step's context fits the memory is not asked.

    s: what stays fixed; its context, prompt, batch and new tokens are not used.
    batch: requests in the group [1].
    new_tokens, prefix_tokens: of each request, one number per step [token].
    """
    model, parts = workload(s), 3 if split else 1
    new, prefix = (np.array(one, float).ravel() for one in np.broadcast_arrays(new_tokens, prefix_tokens))
    counts, rows = np.unique(new, return_inverse=True)
    distinct, point, out = distinct_experts(s, batch, counts), base_point(s), np.empty((parts, new.size, k.OUT_WIDTH))
    point[k.POINT_BATCH] = batch
    room = (np.zeros((3, k.WORK_WIDTH)), np.empty(k.LINK_REACHED + distinct.shape[1]), np.empty(k.OUT_WIDTH))
    k.steps_at(model.scans, model.banks, model.totals, hardware(s), distinct, rows, new, prefix, parts, point, *room, out)
    values = out if split else out[0]
    return {name: values[..., index] for name, index in _INDEX.items()}
