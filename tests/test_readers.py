"""A user's routing files: what comes out of good ones, what is said about bad ones, and the forms against a measured trace."""

from __future__ import annotations

import contextlib
import io
import itertools
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import physics
from physics import OverlapLaw, Routing, UnreadableFileError, read_routing
from physics import readers as r
from physics.coincidence import distinct_experts_mean
from physics.kernel_affinity import kernel_affinity
from physics.observed import ObservedRouting, effective_experts, fitted_law, fitted_sigma, gini
from physics.sampling import sampled_experts

MEASURED = Path(__file__).resolve().parents[2] / "shared" / "measured"


def measured(name: str) -> Path:
    path = MEASURED / name
    if not path.exists():
        pytest.skip(f"../shared/measured/{name} is not here: it is read for validation only and not part of the project")
    return path


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def synthetic(
    n_experts: int, top_k: int, layers: int, requests: int, length: int, own: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Trace whose requests each have their own router weights: common lognormal ones times a lognormal factor."""
    rng = np.random.default_rng(seed)
    common = [np.exp(0.7 * rng.standard_normal(n_experts)) for _ in range(layers)]
    blocks = []
    for q in range(requests):
        columns = [
            sampled_experts(w * np.exp(own * rng.standard_normal(n_experts)), top_k, length, q * 1000 + i) for i, w in enumerate(common)
        ]
        blocks.append(np.stack(columns, axis=1))
    return np.concatenate(blocks), np.arange(requests + 1) * length


# --- good files ---


@pytest.mark.parametrize("dtype", ["uint8", "int16", ">i4", "int64", "uint64"])
def test_npz_trace_of_any_whole_number_type(dtype: str) -> None:
    experts, offsets = synthetic(24, 3, 2, 5, 40, 0.8)
    observed = read_routing(npz(experts=experts.astype(dtype), offsets=offsets.astype(dtype)), "mine.npz")
    assert (observed.name, observed.n_layers, observed.n_experts, observed.top_k, observed.n_requests) == ("mine.npz", 2, 24, 3, 5)
    assert observed.counts[1].tolist() == np.bincount(experts[:, 1].ravel(), minlength=24).tolist()
    assert observed.inclusion().sum(axis=1) == pytest.approx([3, 3])


def test_npz_of_one_layer_without_offsets_and_column_order() -> None:
    experts = np.asfortranarray(sampled_experts(np.ones(8), 2, 30))
    observed = read_routing(npz(choices=experts))
    assert (observed.n_layers, observed.n_requests, observed.top_k) == (1, 1, 2)
    assert observed.counts.sum() == 60


def test_both_csv_forms_of_a_trace_equal_the_npz(tmp_path: Path) -> None:
    experts, offsets = synthetic(12, 2, 3, 4, 6, 0.5)
    request = np.repeat(np.arange(4), 6)
    rows = [(f"r{request[t]}", t, layer, *experts[t, layer]) for t in range(24) for layer in range(3)]
    wide = pd.DataFrame(rows, columns=["Request", "Token", "Layer", "Expert_1", "Expert_2"])
    long = wide.melt(["Request", "Token", "Layer"], value_name="Expert").drop(columns="variable").sample(frac=1, random_state=1)
    plain = read_routing(npz(experts=experts, offsets=offsets))
    for name, frame in (("wide.csv", wide), ("long.csv", long.sort_values("Request", kind="stable"))):
        frame.to_csv(tmp_path / name, index=False)
        observed = read_routing(tmp_path / name)
        assert observed.name == name
        assert (observed.counts == plain.counts).all()
        assert (observed.top_k, observed.n_requests) == (2, 4)
        assert observed.overlap["overlap_frac"].to_numpy() == pytest.approx(plain.overlap["overlap_frac"].to_numpy())


def test_counts_of_a_chosen_model_are_summed_over_domains() -> None:
    text = b"model,domain,layer,expert,assignments\nA,x,4,0,10\nA,y,4,0,5\nA,x,4,2,5\nA,x,9,1,7\nB,x,0,0,1\n"
    with pytest.raises(UnreadableFileError, match="several models; say which; it holds A, B"):
        read_routing(text)
    observed = read_routing(text, model="a", n_experts=4)
    assert observed.counts.tolist() == [[15, 0, 5, 0], [0, 7, 0, 0]]
    with pytest.raises(ValueError, match="give top_k"):
        observed.sigma()
    assert observed.inclusion(1)[0] == pytest.approx([0.75, 0, 0.25, 0])
    with pytest.raises(ValueError, match="counts tell nothing about tokens of one request"):
        observed.within_request()
    assert observed.law is None


def test_skew_of_a_layer_by_hand() -> None:
    observed = ObservedRouting("x", np.array([[6.0, 2.0, 0.0, 0.0]]))
    skew = observed.skew().iloc[0]
    assert skew["gini"] == pytest.approx(0.625)  # (3*6 + 1*2)/(4*8)
    assert skew["effective_experts"] == pytest.approx(4**0.75 / 3**0.75 * 4**0.25)
    assert skew["max_over_mean"] == pytest.approx(3.0)
    assert observed.popularity()["rank"].tolist() == [1, 2, 3, 4]
    assert gini(np.ones(7)) == pytest.approx(0.0)
    assert effective_experts(np.ones(7)) == pytest.approx(7.0)


@pytest.mark.parametrize(("n_experts", "top_k", "sigma"), [(64, 8, 0.5), (128, 8, 0.75), (32, 4, 1.3)])
def test_sigma_that_made_the_draws_is_found_again(n_experts: int, top_k: int, sigma: float) -> None:
    chosen = sampled_experts(physics.inclusion.lognormal_weights(n_experts, sigma), top_k, 20_000, seed=2)
    assert read_routing(npz(experts=chosen)).sigma() == pytest.approx(sigma, abs=0.02)
    # Few tokens scatter but are not biased upwards by their noise.
    few = [read_routing(npz(experts=chosen[i : i + 200]), n_experts=n_experts).sigma() for i in range(0, 20_000, 1000)]
    assert np.mean(few) == pytest.approx(sigma, abs=0.05)


def test_law_that_made_the_overlaps_is_found_again() -> None:
    distance = np.array([1, 2, 3, 5, 9, 17, 40, 100, 300])
    law = OverlapLaw(0.25, 0.2, 0.7, chance=0.1)
    found = fitted_law(distance, law.at_distance(distance), np.ones(9), 0.1)
    assert (found.limit, found.amplitude, found.exponent) == pytest.approx((0.25, 0.2, 0.7), abs=0.01)
    assert fitted_law([1, 2, 3], [0.4, 0.4, 0.4], [1, 1, 1], 0.1).window_mean(50) == pytest.approx(0.4)
    assert fitted_sigma(64, 8, 8 / 64) == 0.0


def test_overlap_by_distance_by_hand() -> None:
    experts = np.array([[[0, 1]], [[1, 2]], [[0, 1]], [[5, 6]], [[5, 6]]])
    overlap = read_routing(npz(experts=experts, offsets=np.array([0, 3, 5]))).overlap.set_index("distance_tokens")
    assert overlap.loc[1].tolist() == pytest.approx([(0.5 + 0.5 + 1.0) / 3, 3])
    assert overlap.loc[2].tolist() == pytest.approx([1.0, 1])


def test_pipeline_on_synthetic_requests() -> None:
    """Other sizes than any measured file. Each request's preferences are lognormal and never drift, which is kinder to small windows
    than the beta law: the measured counts lie between the two forms, nearer to the beta form while windows are short."""
    experts, offsets = synthetic(96, 6, 2, 60, 160, 1.2, seed=5)
    observed = read_routing(npz(experts=experts, offsets=offsets))
    frame = observed.within_request([2, 8, 32, 128]).set_index("tokens")
    above, below = frame["independent"] / frame["measured"] - 1, 1 - frame["beta_measured"] / frame["measured"]
    assert above.min() > 0.03
    assert above.loc[32] > 0.3
    assert below.min() > -1e-9
    assert below.loc[2] < 1e-9
    assert below.loc[8] < 0.06
    assert below.loc[32] < 0.6 * above.loc[32]
    routing = observed.routing()
    assert routing.overlap == observed.law
    assert routing.distinct_experts(96, 6, 1, 32) == pytest.approx(frame["beta_law"][32])
    assert observed.routing(overlap=False).overlap is None
    # Tokens of one request at any distance overlap alike here, so the law is flat.
    assert observed.law.at_distance(1) == pytest.approx(observed.law.at_distance(150), abs=0.02)  # type: ignore[union-attr]


# --- bad files: one sentence, never another exception ---


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a pickle was loaded",))


def pickled() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, experts=np.array([[Bomb()]], dtype=object))
    return stream.getvalue()


def archive(member: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(member, content)
    return stream.getvalue()


def header_only(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return archive("experts.npy", stream.getvalue())


def zip_bomb() -> bytes:
    return archive("experts.npy", bytes(r.MAX_UNPACKED_BYTES + 1))


GOOD = npz(experts=np.array([[[0, 1]], [[1, 2]]]), offsets=np.array([0, 2]))
BAD = {
    "pickle": (pickled, "not whole numbers"),
    "shape beyond its bytes": (lambda: header_only((10**9, 24, 4)), "cut off or damaged"),
    "no tokens": (lambda: header_only((0, 24, 4)), "must be \\(tokens, layers, choices\\)"),
    "not an array": (lambda: archive("experts.npy", b"hello"), "not a sound .npz"),
    "no arrays": (lambda: archive("readme.txt", b"hello"), "no array named experts"),
    "wrong names": (lambda: npz(a=np.ones(2, int), b=np.ones(2, int)), "no array named experts; it holds a, b"),
    "cut off": (lambda: GOOD[:-30], "not a sound .npz"),
    "floats": (lambda: npz(experts=np.ones((2, 1, 2))), "holds float64, not whole numbers"),
    "dimensions": (lambda: npz(experts=np.ones(4, int)), "it must be \\(tokens, layers, choices\\)"),
    "negative": (lambda: npz(experts=np.array([[[-1, 2]]])), "go from -1 to 2"),
    "huge number": (lambda: npz(experts=np.array([[[2**40, 2]]])), "allowed are 0 to 16,383"),
    "twice": (lambda: npz(experts=np.array([[[0, 1]], [[2, 2]]])), "token 1, layer 0 names one expert twice"),
    "offsets": (lambda: npz(experts=np.array([[[0, 1]]]), offsets=np.array([0, 5])), "offsets must rise from 0 to the 1 tokens"),
    "falling offsets": (lambda: npz(experts=np.array([[[0, 1]]] * 4), offsets=np.array([0, 3, 2, 4], "uint8")), "offsets must rise"),
    "empty": (lambda: b"", "is empty"),
    "binary": (lambda: bytes(range(256)) * 4, "neither a CSV nor an .npz"),
    "latin": (lambda: "layer,expert,assignments\n0,0,é\n".encode("latin-1"), "not a sound CSV"),
    "no rows": (lambda: b"layer,expert,assignments\n", "no rows"),
    "columns": (lambda: b"a,b\n1,2\n", "no column expert; it needs layer, expert, assignments"),
    "text": (lambda: b"layer,expert,assignments\n0,0,5\n0,one,5\n", "row 3, column expert: 'one' is not a whole number"),
    "fraction": (lambda: b"layer,expert,assignments\n0,0,5.5\n", "column assignments: '5.5'"),
    "infinite": (lambda: b"layer,expert,assignments\n0,0,inf\n", "column assignments: 'inf'"),
    "gap": (lambda: b"layer,expert,assignments\n0,0,\n", "column assignments: 'nan'"),
    "all zero": (lambda: b"layer,expert,assignments\n0,0,0\n", "only 0 experts with assignments"),
    "more fields": (lambda: b"layer,expert,assignments\n0,0,5,9\n0,1,5,9\n", "do not fit its header"),
    "ragged": (lambda: b"layer,expert,assignments\n0,0,5\n0,1,5,9,9\n", "not a sound CSV"),
    "uneven trace": (lambda: b"request,token,layer,expert\n0,0,0,1\n0,0,0,2\n0,1,0,1\n", "not every token has the same number"),
    "one long line": (lambda: b"a," * 100_000, "no header"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_a_sentence(name: str) -> None:
    make, said = BAD[name]
    with pytest.raises(UnreadableFileError, match=said) as caught:
        read_routing(make(), "bad.file")
    assert str(caught.value).startswith("bad.file")
    assert "\n" not in str(caught.value)


def test_zip_bomb_is_refused_unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r, "MAX_UNPACKED_BYTES", 2**20)
    bomb = zip_bomb()
    assert len(bomb) < 2**13
    monkeypatch.setattr(r, "_unpacked", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(UnreadableFileError, match="MiB unpacked"):
        read_routing(bomb)


def test_large_and_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r, "MAX_FILE_BYTES", 100)
    (tmp_path / "big.csv").write_bytes(b"x" * 101)
    with pytest.raises(UnreadableFileError, match=r"big\.csv: 0 MiB, and at most"):
        read_routing(tmp_path / "big.csv")
    with pytest.raises(UnreadableFileError, match="at most"):
        read_routing(b"x" * 101)
    for missing in (tmp_path / "none.csv", "nul\0byte.csv"):
        with pytest.raises(UnreadableFileError, match="no such file"):
            read_routing(missing)
    monkeypatch.setattr(r, "MAX_FILE_BYTES", 2**20)
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        read_routing(tmp_path)


def test_experts_beyond_the_model_are_named() -> None:
    with pytest.raises(UnreadableFileError, match="names expert 2, and the model has 2 experts"):
        read_routing(GOOD, n_experts=2)


@settings(max_examples=150)
@given(
    st.one_of(
        st.binary(max_size=200), st.text(max_size=120).map(lambda s: s.encode()), st.binary(max_size=80).map(lambda b: b"PK\x03\x04" + b)
    )
)
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    with contextlib.suppress(UnreadableFileError):
        read_routing(content)


@settings(max_examples=150)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_no_damaged_byte_raises_anything_else(place: int, value: int) -> None:
    damaged = bytearray(GOOD)
    damaged[place] = value
    with contextlib.suppress(UnreadableFileError):
        read_routing(bytes(damaged))


# --- measured data ---


@pytest.fixture(scope="module")
def trace() -> ObservedRouting:
    return read_routing(measured("gptoss20b_decode_routing.npz"))


def test_trace_of_gptoss20b(trace: ObservedRouting) -> None:
    assert (trace.n_requests, len(trace.chosen), trace.n_layers, trace.top_k, trace.n_experts) == (200, 81_858, 24, 4, 32)  # type: ignore[arg-type]
    # The default law and its chance level are this trace's, as printed in the design notes.
    assert trace.chance_overlap() == pytest.approx(OverlapLaw().chance, abs=5e-4)
    kept = trace.overlap[trace.overlap["distance_tokens"] <= 128]
    assert OverlapLaw().at_distance(kept["distance_tokens"]) == pytest.approx(kept["overlap_frac"].to_numpy(), abs=0.02)


@pytest.mark.parametrize("tokens", [2, 4, 8, 16, 32, 64, 128])
def test_one_token_from_each_of_independent_requests(trace: ObservedRouting, tokens: int) -> None:
    """Exact even though pi differs per request: within 1.5 % in each layer."""
    chosen, offsets = trace.chosen, trace.offsets
    assert chosen is not None
    assert offsets is not None
    rng, draws = np.random.default_rng(7), max(1500, 12_000 // tokens)
    hit = np.zeros((len(chosen), 24, 32), bool)
    np.put_along_axis(hit, chosen.astype(np.int64), True, axis=2)
    mean = np.mean([hit[a:b].mean(axis=0) for a, b in itertools.pairwise(offsets)], axis=0)
    seen = np.zeros(24)
    for _ in range(draws):
        requests = rng.choice(200, tokens, replace=False)
        seen += hit[rng.integers(offsets[requests], offsets[requests + 1])].any(axis=0).sum(axis=1)
    expected = [distinct_experts_mean(row, tokens) for row in mean]
    assert expected == pytest.approx(seen / draws, rel=0.015)


def test_tokens_of_one_request(trace: ObservedRouting) -> None:
    frame = trace.within_request().set_index("tokens")
    off = frame[["independent", "beta_measured", "beta_law"]].div(frame["measured"], axis=0) - 1
    assert off["beta_measured"].loc[:32].abs().max() < 0.03
    assert off["beta_measured"].loc[256] == pytest.approx(-0.08, abs=0.01)
    assert off["independent"].loc[32] == pytest.approx(0.39, abs=0.01)
    assert off["independent"].loc[256] == pytest.approx(0.17, abs=0.01)
    assert off["beta_law"].loc[32] == pytest.approx(-0.04, abs=0.01)
    assert off["beta_law"].loc[256] == pytest.approx(-0.09, abs=0.01)


def test_spread_within_one_request(trace: ObservedRouting) -> None:
    """A rough estimate: the correlated spread is within 35 % of the measured, the independent one is not."""
    windows = np.concatenate([np.arange(a, b - 31, 32) for a, b in itertools.pairwise(trace.offsets)])  # type: ignore[arg-type]
    seen = [[len(np.unique(trace.chosen[w : w + 32, layer])) for w in windows[::5]] for layer in range(0, 24, 4)]  # type: ignore[index]
    sd = np.std(seen, axis=1).mean()
    correlated = trace.routing().distinct_experts_sd(32, 4, 1, 32)
    assert correlated == pytest.approx(sd, rel=0.35)
    assert trace.routing(overlap=False).distinct_experts_sd(32, 4, 1, 32) < 0.6 * sd


@pytest.mark.parametrize(("model", "top_k", "n_experts"), [("OLMoE-1B-7B", 8, 64), ("mixtral-8x7b", 2, 8)])
def test_measured_counts_become_a_routing(model: str, top_k: int, n_experts: int) -> None:
    observed = read_routing(measured("expert_counts.csv"), model=model, top_k=top_k)
    assert observed.n_experts == n_experts
    distinct = observed.routing().distinct_experts(n_experts, top_k, 16, 1)
    assert distinct < physics.expected_distinct_experts(n_experts, top_k, 16)
    # The fitted sigma stands for the counts: close in distinct experts too.
    assert Routing.skewed(sigma=observed.sigma()).distinct_experts(n_experts, top_k, 16, 1) == pytest.approx(distinct, rel=0.02)


def test_what_kernel_times_follow() -> None:
    """Skewed routing: expected distinct experts, not min(kT, E) and not E. Balanced routing: min(kT, E)."""
    fits = kernel_affinity(pd.read_csv(measured("expert_kernels.csv.gz")))
    median = fits.groupby("distribution")[["r2_expected", "r2_round_robin", "r2_all"]].median()
    for skewed in ("power_law_1.01", "power_law_1.2"):
        assert median.loc[skewed, "r2_expected"] > 0.99
        assert median.loc[skewed, "r2_round_robin"] < 0.95
        assert (fits.loc[fits["distribution"] == skewed, "follows"] == "expected").mean() > 0.95
    assert median.loc["balanced", "r2_round_robin"] > 0.99 > median.loc["balanced", "r2_expected"]
    assert (fits.loc[fits["distribution"] == "balanced", "follows"] == "round_robin").mean() > 0.8
    assert (median["r2_all"] == 0).all()


def test_kernel_affinity_on_a_made_up_kernel() -> None:
    """Time that is affine in one count by construction is found to follow it."""
    tokens = np.array([1, 2, 4, 8, 16, 32, 64, 128])
    base = dict.fromkeys(("system", "kernel_source", "moe_dtype"), "x") | {
        "hidden_size": 1,
        "inter_size": 1,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
    }
    base |= {"topk": 4, "num_experts": 64, "distribution": "balanced"}
    for count, name in ((64 * (1 - (15 / 16) ** tokens), "expected"), (np.minimum(4 * tokens, 64), "round_robin")):
        fits = kernel_affinity(pd.DataFrame({**base, "num_tokens": tokens, "latency_ms": 0.1 + 0.02 * count}))
        assert fits["follows"].tolist() == [name]
        assert fits["points"].tolist() == [8]
    assert kernel_affinity(pd.DataFrame({**base, "num_tokens": tokens, "latency_ms": 1.0}).iloc[:2]).empty
