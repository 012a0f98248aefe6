"""Lists of module names in quantisation configs: plain names, prefixes with a star, wildcards and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

from physics.huggingface.readers import shown
from physics.layers import UnsupportedModelError

ROOTS = re.compile(r"^(?:(?:model|language_model|backbone|transformer|text_model|llm|thinker|decoder)\.)+")
PREFIXES = ("model.", "model.language_model.", "language_model.model.", "backbone.", "")
# A pattern made of literals, dots, `.*`, classes, digits and alternatives matches in time linear in the name; nested
# repetition does not, so it is refused rather than run.
SAFE = re.compile(r"^\^?(?:\\[.dw]\+?|\.[*+]|\[[\w\-.]+\][*+]?|\((?:\?:)?[\w|.*\\]+\)\??|[\w\-:|]|\.)*\$?$")
MAX_WILDCARDS = 500
MAX_STARS = 4


class Modules:
    """A set of modules named by patterns; `in` asks for a path below the model, as `layers.3.mlp.gate`.

    A plain name matches the module itself, what is below it, and any module with that run of names in its path.
    """

    def __init__(self, patterns: Iterable[object], field: str) -> None:
        self.names: set[str] = set()
        self.starts: set[str] = set()
        self.wild: list[re.Pattern[str]] = []
        self.expressions: list[re.Pattern[str]] = []
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise UnsupportedModelError(f"{field}: {shown(pattern)} is not a module name")
            self._add(pattern, field)
        if len(self.wild) + len(self.expressions) > MAX_WILDCARDS:
            raise UnsupportedModelError(f"{field}: more than {MAX_WILDCARDS} wildcards; name the modules instead")
        self._known: dict[str, bool] = {}

    def _add(self, pattern: str, field: str) -> None:
        if pattern.startswith("re:"):
            self.expressions.append(_expression(pattern[3:], field))
            return
        name = ROOTS.sub("", pattern)
        if name.endswith("*") and not set("*?[") & set(name[:-1]):
            self.starts.add(name[:-1])
        elif set("*?[") & set(name):
            if name.count("*") > MAX_STARS or len(name) > 200:
                raise UnsupportedModelError(f"{field}: {shown(name)} has too many wildcards; name the modules instead")
            self.wild.append(re.compile(translate(name)))
        else:
            self.names.add(name)

    def __bool__(self) -> bool:
        return bool(self.names or self.starts or self.wild or self.expressions)

    def __contains__(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = self._matches(path)
        return self._known[path]

    def _matches(self, path: str) -> bool:
        parts = path.split(".")
        runs = {".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}
        if runs & self.names or any(path[:k] in self.starts for k in range(len(path) + 1)):
            return True
        above = [".".join(parts[:j]) for j in range(1, len(parts) + 1)]
        if any(wild.match(name) for wild in self.wild for name in above):
            return True
        return any(expression.match(prefix + path) for expression in self.expressions for prefix in PREFIXES)


def _expression(text: str, field: str) -> re.Pattern[str]:
    """A regular expression of a kind that cannot run long; refused otherwise."""
    too_long = len(text) > 200 or text.count("*") + text.count("+") > MAX_STARS
    if too_long or not SAFE.match(text) or re.search(r"\)[*+]", text):
        raise UnsupportedModelError(f"{field}: the expression {shown(text)} is not of a kind that is read; name the modules instead")
    try:
        return re.compile(text)
    except re.error as error:
        raise UnsupportedModelError(f"{field}: {shown(text)} is not a regular expression ({error})") from None
