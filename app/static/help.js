// The question mark beside a control: its help, on hover and on focus, so that the keyboard reaches it.
export function render({model}) {
  const button = node("button", {type: "button", class: "help", "aria-describedby": "tip"}, "?")
  const tip = node("span", {class: "tip", id: "tip", role: "tooltip"})
  const paint = () => {
    button.setAttribute("aria-label", `Help: ${model.label}`)
    tip.textContent = model.text
  }
  model.on(["label", "text"], paint)
  paint()
  return node("div", {class: "helpmark"}, button, tip)
}
