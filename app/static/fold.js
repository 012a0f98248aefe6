// A folded group of the sidebar.
export function render({model}) {
  const summary = node("summary")
  const root = node("details", {}, summary, ...model.get_child("content"))
  const paint = () => {
    summary.textContent = model.title
    root.open = model.open
  }
  root.addEventListener("toggle", () => { if (model.open !== root.open) model.open = root.open })
  model.on(["title", "open"], paint)
  paint()
  return root
}
