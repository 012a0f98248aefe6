"""The app for keyboard and screen reader: axe's rules on every page in light and dark, and every control on the way of Tab."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

START_MS = 120_000
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


def opened(page: Page, url: str) -> None:
    page.set_default_timeout(START_MS)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(url, timeout=START_MS)
    expect(page.get_by_role("table").first).to_be_visible(timeout=START_MS)
    page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=START_MS)


def broken(page: Page, where: str) -> list[str]:
    """Serious and critical violations, a line each."""
    found: Any = Axe().run(page, options={"resultTypes": ["violations"], "runOnly": {"type": "tag", "values": TAGS}})
    return [
        f"{where}: {rule['id']} ({rule['impact']}): {node['html'][:200]} {[check['message'] for check in node['any']][:1]}"
        for rule in found.response["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
        if not any(rule["id"] == allowed and mark in node["html"] for allowed, mark in ALLOWED)
    ]


def test_no_page_breaks_a_rule_in_light_or_dark(page: Page, app_url: str) -> None:
    opened(page, app_url)
    names = page.get_by_role("tab").all_inner_texts()
    for fold in page.locator("summary").all():
        if fold.is_visible() and not fold.evaluate("summary => summary.parentElement.open"):
            fold.click()
    problems = []
    for theme in ("light", "dark"):
        for name in names:
            page.get_by_role("tab", name=name, exact=True).click()
            expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")
            page.wait_for_function("() => Bokeh.documents[0].is_idle", timeout=START_MS)
            page.wait_for_timeout(1500)
            problems += broken(page, f"{name}, {theme}")
        page.locator('button[aria-label*="theme" i]').first.click()
        page.wait_for_timeout(1000)
    assert problems == []


def test_every_control_is_on_the_way_of_tab(page: Page, app_url: str) -> None:
    opened(page, app_url)
    for fold in page.locator("summary").all():
        if fold.is_visible() and not fold.evaluate("summary => summary.parentElement.open"):
            fold.click()
    page.evaluate("document.activeElement.blur()")
    controls = dict(page.evaluate(CONTROLS))
    assert len(controls) > 60
    reached = set()
    for _ in range(2 * len(controls) + 20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED))
    missed = [html for place, html in controls.items() if place not in reached]
    assert missed == []
