export function render({model}) {
  const root = node("div", {role: "note"})
  const paint = () => {
    rich(root, model.text)
    root.className = `notice ${model.tone}`
    root.style.display = model.text ? "" : "none"
  }
  model.on(["text", "tone"], paint)
  paint()
  return root
}
