// Tabs as the keyboard expects them: arrows move, the chosen one is the only tab stop.
export function render({model}) {
  const root = node("div", {class: "tabbar", role: "tablist", "aria-label": "Pages"})
  const paint = () => {
    const focused = root.contains(root.getRootNode().activeElement)
    root.replaceChildren(...model.names.map((name, i) => {
      const chosen = name === model.chosen
      const tab = node("button", {type: "button", role: "tab", "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1",
        title: model.questions[i]}, name)
      tab.addEventListener("click", () => { model.chosen = name })
      return tab
    }))
    if (focused) root.querySelector("[aria-selected=true]")?.focus()
  }
  root.addEventListener("keydown", (event) => {
    const move = {ArrowRight: 1, ArrowLeft: -1, Home: -1e6, End: 1e6}[event.key]
    if (!move) return
    event.preventDefault()
    const last = model.names.length - 1
    model.chosen = model.names[Math.min(last, Math.max(0, model.names.indexOf(model.chosen) + move))]
  })
  model.on(["names", "chosen", "questions"], paint)
  paint()
  return root
}
