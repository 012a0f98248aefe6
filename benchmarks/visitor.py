"""A visitor without a browser: opens the app over its websocket, moves a slider, and waits for the pictures that follow.

It speaks Bokeh's protocol as the browser does: the page, then the whole document, then one patch per slider step. Painting is
not part of it, so its times are the server's and the network's.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

STEP_S = 1 / 15
"""Between two steps of a drag: as often as a browser repaints [s]."""
PATIENCE_S = 180.0


class Visitor:
    """One open page. `open` it, `drag` a slider, `close` it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.document: dict[str, Any] = {}
        self._steps = 0
        self._socket: WebSocketClientConnection | None = None

    async def open(self, query: str = "") -> None:
        """Load the page and its document, as a browser does."""
        page = await AsyncHTTPClient().fetch(self.url + query, request_timeout=PATIENCE_S)
        found = re.search(r'"token":"([^"]+)"', page.body.decode())
        if found is None:
            raise RuntimeError(f"{self.url} served no session")
        request = HTTPRequest(self.url.replace("http", "ws", 1) + "/ws", request_timeout=PATIENCE_S)
        self._socket = await websocket_connect(request, subprotocols=["bokeh", found[1]], max_message_size=1 << 28)
        assert self._socket.protocol is not None  # it is connected
        self._socket.protocol.set_nodelay(True)  # as browsers do; else small messages wait 40 ms for one another
        await self._frame()
        await self._send("PULL-DOC-REQ", {})
        while True:
            header, content = await self._frame()
            if header["msgtype"] == "PULL-DOC-REPLY":
                self.document = content["doc"]
                break
        ready = {"type": "event", "name": "document_ready", "values": {"type": "map"}}
        await self._send("PATCH-DOC", {"events": [{"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": ready}]})

    def slider(self, label: str) -> tuple[str, list[float], float]:
        """(id, stops, value) of the slider with this label."""
        for model in _objects(self.document):
            values = model["attributes"]
            if values.get("label") == label and "stops" in values:
                return model["id"], [float(stop) for stop in values["stops"]], float(values["value"])
        raise RuntimeError(f"no slider {label!r} on the page")

    async def set(self, model_id: str, attribute: str, value: float) -> float:
        """Set a property, and wait until a picture was patched; the time it took [s]."""
        start = time.perf_counter()
        event = {"kind": "ModelChanged", "model": {"id": model_id}, "attr": attribute, "new": value}
        await self._send("PATCH-DOC", {"events": [event]})
        while True:
            header, content = await self._frame()
            kinds = {event["kind"] for event in content.get("events", ())} if header["msgtype"] == "PATCH-DOC" else set()
            if "MessageSent" in kinds:
                return time.perf_counter() - start

    async def drag(self, label: str, steps: int) -> list[float]:
        """Seconds from slider to pictures for each step, at most one in STEP_S, back and forth over the stops below the first one."""
        model_id, stops, value = self.slider(label)
        below = [stop for stop in stops if stop <= value][-8:]
        there_and_back = [*below[-2::-1], *below[1:]]
        took: list[float] = []
        for _ in range(steps):
            await asyncio.sleep(max(0.0, STEP_S - (took[-1] if took else 0.0)))
            # Where the last drag ended: a value that is there already moves nothing, and no picture would come.
            took.append(await self.set(model_id, "value", there_and_back[self._steps % len(there_and_back)]))
            self._steps += 1
        return took

    async def close(self) -> None:
        """Leave the page."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.document = {}

    async def _send(self, kind: str, content: dict[str, Any]) -> None:
        assert self._socket is not None  # open() was called
        for part in ({"msgid": uuid.uuid4().hex, "msgtype": kind}, {}, content):
            await self._socket.write_message(json.dumps(part))

    async def _frame(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header, _, content = [json.loads(await self._message()) for _ in range(3)]
        for _ in range(2 * header.get("num_buffers", 0)):
            await self._message()
        return header, content

    async def _message(self) -> str | bytes:
        assert self._socket is not None  # open() was called
        message = await asyncio.wait_for(self._socket.read_message(), PATIENCE_S)
        if message is None:
            raise RuntimeError("the server closed the session")
        return message


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every serialised model in a document."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if item.get("type") == "object" and isinstance(item.get("attributes"), dict):
                yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
