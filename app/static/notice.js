export function render({model}) {
  const root = node("div", {role: "note"})
  const paint = () => {
    rich(root, model.text)
    root.className = `sentence-box ${model.tone}`  // Panel gives the host the class "notice"
    root.style.display = model.text ? "" : "none"
  }
  model.on(["text", "tone"], paint)
  paint()
  return root
}
