// A derivation, code or help beside the pictures: blocks of text, formulas, numbers put in, and code.
function block(part) {
  if (part.kind === "formula") return node("pre", {class: "formula", title: part.full}, part.text)
  if (part.kind === "heading") return node("h4", {}, part.text)
  if (part.kind === "code") return codeBlock(part.text)
  if (part.kind === "terms") {
    return node("dl", {}, ...part.rows.flatMap(([symbol, value, meaning, source, full]) => [
      node("dt", {}, node("code", {}, symbol), node("span", {class: "number", title: full}, value)),
      node("dd", {}, meaning, source ? node("span", {class: "source"}, source) : ""),
    ]))
  }
  const paragraph = node("p", {title: part.full})
  rich(paragraph, part.text)
  return paragraph
}

function codeBlock(text) {
  const button = node("button", {type: "button", class: "action"}, "Copy")
  button.addEventListener("click", async () => {
    try { await copyText(text); button.textContent = "Copied" } catch { button.textContent = "Select the text to copy it" }
  })
  return node("div", {class: "code"}, button, node("pre", {tabindex: "0"}, text))
}

// What has the focus, inside shadow roots too.
function focused() {
  let element = document.activeElement
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement
  return element
}

export function render({model}) {
  const title = node("h3", {"aria-level": "2"})
  const close = node("button", {type: "button", class: "close", "aria-label": "Close", title: "Close (Escape)"}, "×")
  const content = node("div", {class: "content"})
  const root = node("aside", {class: "sidepanel", "aria-label": "Explanation", "aria-live": "polite"}, node("div", {class: "top"}, title, close), content)
  let opener = null
  const leave = () => {
    model.send_msg({close: true})
    if (opener?.isConnected) opener.focus()
  }
  // A field or a list that is being edited takes its Escape for itself, and says so by preventing the default.
  const onKey = (event) => { if (event.key === "Escape" && model.shown && !event.defaultPrevented) leave() }
  close.addEventListener("click", leave)
  document.addEventListener("keydown", onKey)
  model.on("remove", () => document.removeEventListener("keydown", onKey))
  const paint = () => {
    if (!root.contains(focused())) opener = focused()
    title.textContent = model.title
    title.hidden = !model.title
    content.replaceChildren(...JSON.parse(model.blocks).map(block))
  }
  model.on(["title", "blocks"], paint)
  paint()
  return root
}
