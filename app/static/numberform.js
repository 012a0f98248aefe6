// Numbers with units that a person types: one labelled field each, and the sentence about one that could not be read.
export function render({model}) {
  const root = node("div", {class: "numberform", role: "group", "aria-label": model.label})
  let parts = new Map()
  let shape = ""

  const build = () => {
    parts = new Map(model.fields.map((field) => {
      const id = `field-${field.key}`
      const input = node("input", {type: "text", id, spellcheck: "false", autocomplete: "off", title: field.hint, "aria-describedby": `${id}-said`})
      const said = node("p", {class: "said bad", id: `${id}-said`, role: "alert"})
      const row = node("div", {class: "field"}, node("label", {for: id, title: field.hint}, field.label), input, said)
      input.addEventListener("change", () => model.send_msg({key: field.key, typed: input.value}))
      input.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return
        event.preventDefault()
        input.value = model.fields.find((other) => other.key === field.key).text
      })
      return [field.key, {row, input, said}]
    }))
    root.replaceChildren(...[...parts.values()].map(({row}) => row))
  }

  const paint = () => {
    const now = JSON.stringify(model.fields.map(({key, label}) => [key, label]))
    if (now !== shape) { build(); shape = now }
    for (const field of model.fields) {
      const {input, said} = parts.get(field.key)
      if (!field.error) input.value = field.text
      input.placeholder = field.placeholder
      input.classList.toggle("own", field.own)
      input.setAttribute("aria-invalid", field.error ? "true" : "false")
      said.textContent = field.error
    }
  }
  model.on("fields", paint)
  paint()
  return root
}
