// A derivation, code or help beside the pictures: blocks of text, formulas, numbers put in, and code.
function block(part) {
  if (part.kind === "formula") return node("pre", {class: "formula"}, part.text)
  if (part.kind === "heading") return node("h4", {}, part.text)
  if (part.kind === "code") return codeBlock(part.text)
  if (part.kind === "terms") {
    return node("dl", {}, ...part.rows.flatMap(([symbol, value, meaning, source]) => [
      node("dt", {}, node("code", {}, symbol), node("span", {class: "number"}, value)),
      node("dd", {}, meaning, source ? node("span", {class: "source"}, source) : ""),
    ]))
  }
  const paragraph = node("p")
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

export function render({model}) {
  const title = node("h3", {"aria-level": "2"})
  const close = node("button", {type: "button", class: "close", "aria-label": "Close", title: "Close (Escape)"}, "×")
  const content = node("div", {class: "content"})
  const root = node("aside", {class: "sidepanel", "aria-label": "Explanation", "aria-live": "polite"}, node("div", {class: "top"}, title, close), content)
  close.addEventListener("click", () => model.send_msg({close: true}))
  const onKey = (event) => { if (event.key === "Escape") model.send_msg({close: true}) }
  root.addEventListener("keydown", onKey)
  const paint = () => {
    title.textContent = model.title
    title.hidden = !model.title
    content.replaceChildren(...model.blocks.map(block))
  }
  model.on(["title", "blocks"], paint)
  paint()
  return root
}
