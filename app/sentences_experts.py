"""The answers of the page Experts in words, **bold** where a number changes."""

from __future__ import annotations

import math

import physics
from app import expert_bank as b
from app.plots.routing_file import overlap_lines, within_request
from app.quantities import format_exact, format_quantity
from app.sentences import bold, share_text
from app.state import Snapshot

EMPTY = (
    "**{model} has no routed experts**: every token uses every weight, so there is nothing to share or to wake. Choose a "
    "mixture-of-experts model at the left, for example DeepSeek-V3."
)


def _number(value: float) -> str:
    return format_quantity(value, "")


def _whole(value: float) -> str:
    """A mean number of experts: whole above ten, as a person would say it."""
    return f"{value:,.0f}" if value >= 9.95 else _number(value)


def empty(s: Snapshot) -> str:
    """What is said in place of the page for a model without experts."""
    return EMPTY.format(model=s.scenario.model.name)


def _source(s: Snapshot) -> str:
    """Where the overlap within a request is from."""
    if s.choices.request_overlap == "constant":
        return f"two of its tokens sharing {share_text(s.choices.request_overlap_frac)} of their experts"
    own = s.choices.routing == "loaded" and s.choices.request_overlap == "measured"
    return "overlapping as in your trace" if own else "overlapping as measured on gpt-oss-20b"


def _skew_words(s: Snapshot) -> str:
    compared = b.laws(s)
    return {"loaded": "as skewed as your file", "zipf": f"with Zipf {s.choices.routing_zipf:g}"}.get(
        "" if compared.supposed else s.choices.routing, f"with σ {s.choices.routing_sigma:g}"
    )


def distinct(s: Snapshot) -> str:
    """How many experts the decode batch wakes: independent, skewed, and from one request."""
    held, compared, tokens = b.bank(s), b.laws(s), s.scenario.batch
    uniform = b.distinct_at(physics.Routing.uniform(), held, tokens, 1)
    skew, within = b.distinct_at(compared.skew, held, tokens, 1), b.distinct_at(compared.within, held, 1, tokens)
    wake = f"{bold(format_exact(tokens, 'tokens'))} {'wakes' if tokens == 1 else 'wake'}"
    if tokens == 1:
        return f"{wake} {bold(str(held.top_k))} of {held.n_experts} experts, whatever the routing: nothing is shared yet."
    lead = f"{wake} {bold(_whole(uniform))} of {held.n_experts} experts when requests are independent and experts alike"
    middle = f"{bold(_whole(skew))} {_skew_words(s)}"
    tail = f"about {bold(_whole(within))} when they come from one request, {_source(s)}"
    return f"{lead}, {middle}, {tail}."


def shared(s: Snapshot) -> str:
    """What an expert's read serves in a decode step."""
    held, step = b.bank(s), b.steps(s)["decode_experts"]
    even = held.top_k * step.tokens / held.n_experts
    share = f"One read of an expert serves {bold(_number(step.shared))} tokens of this decode step"
    if step.shared < 1.005:
        return f"{share}: no two of its tokens meet. An even share of all experts would be {bold(_number(even))}."
    return (
        f"{share}; spread evenly over all {held.n_experts} experts it would be {bold(_number(even))}, and a touched one never serves fewer."
    )


def traffic(s: Snapshot) -> str:
    """From which batch on sharing pays."""
    held, (tenth, half) = b.bank(s), b.pays_from(s)
    step = b.steps(s)["decode_experts"]
    paid = step.distinct / step.tokens
    reads = "expert" if held.top_k == 1 else "experts"
    batches = [bold(format_exact(math.ceil(batch), "requests")) for batch in (tenth, half)]
    first = (
        f"One request reads {held.top_k} {reads} a layer per token; sharing saves a tenth from {batches[0]} on and half from {batches[1]}"
    )
    now = f"at {bold(format_exact(s.scenario.batch, 'requests'))} a token pays for {bold(_number(paid))}"
    tail = " A smaller batch only spreads the shared weights." if s.scenario.batch < tenth else ""
    return f"{first}; {now}.{tail}"


def intensity(s: Snapshot) -> str:
    """Both flattenings, and where the decode queue stands."""
    held, queue = b.bank(s), b.steps(s)["decode_experts"].shared
    at_ridge, at_half = b.flattenings(held)
    name = f"{held.arithmetic.upper()} ridge of {bold(_number(held.ridge))} FLOP/B"
    half = f"half of its own ceiling of {bold(_number(b.ceiling(held)))} at {bold(format_quantity(at_half, 'tokens'))}"
    if not math.isfinite(at_ridge):
        return (
            f"An expert never reaches the {name}: what goes in and out of it keeps it under {bold(_number(b.ceiling(held)))} "
            f"however long its queue; it reaches {half}."
        )
    now = (
        f"a decode step queues {bold(_number(queue))} on a touched expert, {share_text(min(queue / at_ridge, 1.0))} of what the ridge takes"
    )
    return f"An expert reaches the {name} with {bold(format_quantity(at_ridge, 'tokens'))} and {half}; {now}."


def sharing(s: Snapshot) -> str:
    """Tokens per touched expert in each regime, and what independence would claim."""
    found = b.steps(s)
    decode, midfill, prefill = (found[name] for name in b.STEPS)
    gain = midfill.shared / midfill.uniform
    more = f", {bold(_number(gain))} times what independent, even routing gives" if gain > 1.005 else ""
    return (
        f"A touched expert serves {bold(format_quantity(decode.shared, 'tokens'))} in decode, "
        f"{bold(format_quantity(midfill.shared, 'tokens'))} in a midfill{more}, "
        f"and {bold(format_quantity(prefill.shared, 'tokens'))} in a prefill."
    )


def loads(s: Snapshot) -> str:
    """The busiest GPU of a decode step, before and after replicas."""
    held, gpus = b.bank(s), s.scenario.gpus_per_stage
    if gpus == 1:
        return "One GPU holds all experts of its stage: nobody waits for another. Give the stage more GPUs to see the load spread."
    found, extra = b.stragglers(s, s.scenario.batch), b.redundant(s)
    asked = s.choices.redundant_slots
    cut = f" (more than {extra} would put an expert on one GPU twice)" if asked is not None and asked > extra else ""
    supposed = "If experts were skewed " if b.laws(s).supposed else "Experts skewed "
    lead = f"{supposed}{_skew_words(s).removeprefix('as skewed ')}: the busiest of {bold(format_exact(gpus, 'GPUs'))} gets"
    slots = f"{bold(str(held.n_experts + extra))} slots{cut}"
    return (
        f"{lead} {bold(f'{found.before / found.even:.2f}')} times its share of {bold(format_exact(s.scenario.batch, 'tokens'))}, "
        f"{bold(f'{found.after / found.even:.2f}')} with {slots}; equal experts would still give {bold(f'{found.equal / found.even:.2f}')}."
    )


def straggler(s: Snapshot) -> str:
    """What replicas do to compute and to bandwidth."""
    if s.scenario.gpus_per_stage == 1:
        return "With one GPU there is no straggler."
    found = b.stragglers(s, s.scenario.batch)
    noise = share_text(min(1.0, (found.equal - found.even) / max(found.before - found.even, 1e-9)))
    more = found.reads_after - found.reads_before
    reads = f"reads {bold(_number(found.reads_after))} experts instead of {bold(_number(found.reads_before))}"
    change = f"{reads}, so replicas cost bandwidth" if more > 0.005 else f"{reads}, at no cost in bandwidth"
    return f"At this batch {bold(noise)} of the excess is chance, which no replica removes; with replicas the fullest GPU {change}."


def popularity(s: Snapshot) -> str:
    """The file's skew, or what to load."""
    seen = s.observed
    if seen is None:
        return "Load counts or a trace of your own router to lay its popularity over the routing in force."
    skew = seen.skew()
    effective, largest = float(skew.effective_experts.median()), float(skew.max_over_mean.median())
    words = [f"Gini **{skew.gini.median():.2f}**", f"{bold(_whole(effective))} effective of {seen.n_experts} experts"]
    words.append(f"the most popular carries {bold(_number(largest))} times the mean")
    return f"{seen.name}: {', '.join(words)} (medians over {format_exact(seen.n_layers, 'layers')})."


def overlap(s: Snapshot) -> str:
    """How tokens of one request overlap, in force and in the file."""
    lines = overlap_lines(s)
    used = "In force" if b.routing_of(s).overlap is not None else "If it overlapped as measured on gpt-oss-20b"
    near, far, chance = (share_text(float(value)) for value in (lines["used"][0], lines["used"][-1], lines["chance"][0]))
    text = f"{used}: neighbours share {bold(near)} of their experts, tokens 512 apart {bold(far)}; chance alone {bold(chance)}."
    law = s.observed.law if s.observed is not None else None
    if s.observed is not None and law is None:
        return f"{text} Your counts tell nothing about overlap: a trace would."
    fitted = "" if law is None else f" Your trace: {law.limit:.3g} + {law.amplitude:.3g}·d^−{law.exponent:.3g}."
    return text + fitted


def proof(s: Snapshot) -> str:
    """How far each form is from the longest measured window of a trace."""
    if s.observed is None or not len(frame := within_request(s.observed).dropna()):
        return "No request of the trace has two tokens."
    last = frame.iloc[-1]
    off = [f"{bold(f'{100.0 * (last[name] / last.measured - 1.0):+.0f} %'.replace('-', '−'))}" for name in ("beta_measured", "independent")]
    return (
        f"{bold(format_exact(last.tokens, 'tokens'))} of one request wake {bold(_number(last.measured))} of {s.observed.n_experts} experts "
        f"as measured. The beta form is off by {off[0]}, independent tokens by {off[1]}."
    )
