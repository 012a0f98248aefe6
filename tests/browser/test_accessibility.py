"""The app for keyboard and screen reader: axe's rules on every page in light and dark, and every control on the way of Tab."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from app.state import PAGES

from .settled import Opened

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]

ALLOWED = {("aria-prohibited-attr", 'sx="[object Object]"')}
"""(rule, what marks the element): the template library draws the sign that opens a select's description as a span with a label,
which screen readers may skip. The description is the glossary's; the control itself has its name from its own label."""

CONTROLS = """() => {
  const KINDS = "button, input:not([type=hidden]):not([type=file]), select, textarea, summary, a[href], [role=combobox], [tabindex]"
  const found = []
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) walk(element.shadowRoot)
      if (!element.matches(KINDS)) continue
      const box = element.getBoundingClientRect()
      const style = getComputedStyle(element)
      const shown = box.width > 0 && box.height > 0 && style.visibility == "visible" && !element.closest("[aria-hidden=true]")
      if (!shown || element.disabled || element.tabIndex < 0) continue
      if (!element.dataset.place) element.dataset.place = String(window.places = (window.places || 0) + 1)
      found.push([element.dataset.place, element.outerHTML.slice(0, 160)])
    }
  }
  walk(document)
  return found
}"""
FOCUSED = """() => {
  let element = document.activeElement
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement
  return element?.dataset?.place ?? ""
}"""


def unfold(page: Page) -> None:
    """Open every folded group of the sidebar."""
    for fold in page.locator("summary").all():
        if fold.is_visible() and not fold.evaluate("summary => summary.parentElement.open"):
            fold.click()
            expect(fold.locator("xpath=following-sibling::*").first).to_be_attached()


def assert_sound(page: Page) -> None:
    """No serious or critical violation; each would be a line. Looked at once, perhaps while colours fade."""
    found: Any = Axe().run(page, options={"resultTypes": ["violations"], "runOnly": {"type": "tag", "values": TAGS}})
    broken = [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]} {[check['message'] for check in node['any']][:1]}"
        for rule in found.response["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
        if not any(rule["id"] == allowed and mark in node["html"] for allowed, mark in ALLOWED)
    ]
    assert broken == []


@pytest.mark.parametrize("key", PAGES)
def test_no_page_breaks_a_rule_in_light_or_dark(opened: Opened, key: str) -> None:
    """Nor does one scroll sideways on a laptop."""
    opened.open(f"page={key}", height=900)
    opened.fits_width()
    unfold(opened.page)
    opened.until(lambda: assert_sound(opened.page))
    opened.darken()
    opened.until(lambda: assert_sound(opened.page))


def test_every_control_is_on_the_way_of_tab(opened: Opened) -> None:
    opened.open(height=900)
    unfold(opened.page)
    opened.page.evaluate("document.activeElement.blur()")
    controls = dict(opened.page.evaluate(CONTROLS))
    assert len(controls) > 60
    reached: set[str] = set()
    for _ in range(2 * len(controls) + 20):
        opened.page.keyboard.press("Tab")
        reached.add(opened.page.evaluate(FOCUSED))
        if reached >= controls.keys():
            break
    assert [html for place, html in controls.items() if place not in reached] == []
