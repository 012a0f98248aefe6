"""What makes our own components cheap to change: a slider step changes a dozen of their texts, and the picture waits for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent


class _Sheet(param.List):  # type: ignore[misc]  # param carries no types here
    """Of a plain list Bokeh would visit every word three times at each change."""


def tell(part: Any, **values: Any) -> bool:
    """Set those parameters of a component or widget that differ; whether any did."""
    changed = {name: value for name, value in values.items() if getattr(part, name) != value}
    if len(changed) == 1:
        setattr(part, *changed.popitem())  # `param.update` looks at every parameter first
        return True
    if changed:
        part.param.update(**changed)
    return bool(changed)


def once_loaded(callback: Callable[[], Any]) -> None:
    """Now, or once the browser has built the page: what is sent while it builds would be lost."""
    pn.state.onload(callback)


def sheet(doc: str) -> Any:
    """A parameter for a list of plain dictionaries, which reach the browser as one JSON text."""
    return _Sheet(doc=doc)


class QuietComponent(JSComponent):  # type: ignore[misc]  # panel carries no types
    """A component whose own parameters go straight to its model."""

    __abstract = True

    def _get_properties(self, doc: Any) -> dict[str, Any]:
        """Written for browsers as it is: said to be bundled, it is not compiled there, 2 ms for every component of a page."""
        properties: dict[str, Any] = super()._get_properties(doc)
        return properties | {"bundle": self._fingerprint()}

    @classmethod
    @cache
    def _fingerprint(cls) -> str:
        """By this the browser knows a source that it has already."""
        return sha256(str(cls._esm).encode()).hexdigest()

    def _process_param_change(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._as_sent(super()._process_param_change(params))

    def _as_sent(self, params: dict[str, Any]) -> dict[str, Any]:
        return {name: json.dumps(value) if isinstance(self.param[name], _Sheet) else value for name, value in params.items()}

    def _param_change(self, *events: Any) -> None:
        """Panel asks the design at every change for the style of the whole component; what this one says has none."""
        if any(event.name in JSComponent.param for event in events):
            super()._param_change(*events)
            return
        named = {event.name: event for event in events}
        sent = self._as_sent({name: event.new for name, event in named.items()})
        for ref, (model, _) in self._models.copy().items():
            self._apply_update(named, dict(sent), model, ref)
