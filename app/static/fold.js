// A folded group of the sidebar.
export function render({model}) {
  const summary = node("summary")
  const root = node("details", {}, summary)
  const fill = () => {
    while (summary.nextSibling) summary.nextSibling.remove()  // the title stays where it is, and keeps the focus
    root.append(...model.get_child("content"))
  }
  const paint = () => {
    summary.textContent = model.title
    root.open = model.open
  }
  root.addEventListener("toggle", () => { if (model.open !== root.open) model.open = root.open })
  model.on(["title", "open"], paint)
  model.on("content", fill)
  fill()
  paint()
  return root
}
