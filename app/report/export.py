"""The Export button's report: made in a fresh process, so that no session waits for it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import replace

from app.report.apart import COMMAND, answered, environment, message
from app.report.page import html
from app.state import Snapshot

_ONE_AT_A_TIME = asyncio.Semaphore(1)
"""A report takes both cores of a small server for some seconds; the next one waits."""


async def exported(snapshot: Snapshot) -> str:
    """The report of a snapshot; RuntimeError where its process fails."""
    bare = replace(snapshot, trail=(), pinned=replace(snapshot.pinned) if snapshot.pinned else None)  # without what was worked out already
    async with _ONE_AT_A_TIME:
        process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment())
        reply, _ = await process.communicate(message(html, [bare]))
    return str(answered(reply))
