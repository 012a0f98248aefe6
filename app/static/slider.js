// A slider over stops with a text field: see app/widgets.py. Python owns the value and reads what is typed;
// the browser only turns positions into stops, so a drag needs no answer from the server.

const COMMIT_AFTER_KEYS_MS = 300

function node(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

function build(model) {
  const label = node("label", {for: "text"})
  const help = node("button", {class: "help", type: "button", "aria-label": "What is this?", "aria-describedby": "tip"}, "?")
  const tip = node("span", {class: "tip", id: "tip", role: "tooltip"})
  const note = node("p", {class: "origin"})
  const reset = node("button", {class: "reset", type: "button"}, "↺")
  const text = node("input", {type: "text", id: "text", spellcheck: "false", autocomplete: "off", "aria-describedby": "error"})
  const range = node("input", {type: "range", min: 0, max: 1, step: "any"})
  const beyond = node("div", {class: "beyond"})
  const marks = node("div", {class: "marks"})
  const error = node("p", {class: "problem", id: "error", role: "alert"})
  const limit = node("p", {class: "caution"})
  const legend = node("p", {class: "legend"})
  const head = node("div", {class: "head"}, label, help, tip, reset, text)
  const root = node("div", {class: "slider"}, head, node("div", {class: "track"}, beyond, range), legend, marks, note, error, limit)
  return {root, label, help, tip, note, reset, text, range, beyond, legend, marks, error, limit}
}

export function render({model}) {
  const ui = build(model)
  let dragging = false
  let editing = false
  let timer = null
  let longest = 9

  const position = (value) => model.scale === "log"
    ? Math.log(value / model.start) / Math.log(model.end / model.start)
    : (value - model.start) / (model.end - model.start)

  const nearest = (where) => {
    let best = 0
    model.stops.forEach((stop, i) => {
      if (Math.abs(position(stop) - where) < Math.abs(position(model.stops[best]) - where)) best = i
    })
    return best
  }

  const shown = (value) => {
    const i = model.stops.findIndex((stop) => Math.abs(stop - value) <= 1e-9 * Math.abs(stop))
    return i >= 0 ? model.stop_texts[i] : model.text
  }

  const paint = () => {
    const value = model.value
    ui.range.value = position(value)
    ui.range.style.setProperty("--filled", `${100 * position(value)}%`)
    ui.range.setAttribute("aria-valuetext", shown(value))
    if (!editing) ui.text.value = shown(value)
    const moved = model.default != null && Math.abs(value - model.default) > 1e-9 * Math.abs(model.default)
    ui.reset.style.visibility = moved ? "visible" : "hidden"
    ui.note.style.visibility = moved ? "hidden" : "visible"
    ui.text.style.setProperty("--field", `calc(${Math.max(longest, shown(value).length)} * 0.55em + 14px)`)
    const over = model.limit != null && value > model.limit
    ui.limit.textContent = over ? model.limit_note : ""
    ui.legend.style.display = over || ui.beyond.style.display === "none" ? "none" : ""
    ui.root.classList.toggle("over", over)
  }

  const paintError = () => {
    ui.error.textContent = model.error
    ui.text.setAttribute("aria-invalid", model.error ? "true" : "false")
  }

  const layout = () => {
    ui.label.textContent = model.label
    ui.tip.textContent = [model.description, model.limit != null ? model.limit_label : ""].join(" ").trim()
    ui.legend.textContent = model.limit_label
    ui.help.style.display = model.description ? "" : "none"
    ui.reset.title = `Reset ${model.label}`
    ui.reset.setAttribute("aria-label", `Reset ${model.label}`)
    ui.range.setAttribute("aria-label", model.unit ? `${model.label}, ${model.unit}` : model.label)
    longest = Math.max(9, ...model.stop_texts.map((text) => text.length))
    ui.note.textContent = model.default_note
    ui.label.title = model.label
    ui.text.disabled = ui.range.disabled = model.disabled
    const from = model.limit == null ? 1 : Math.min(1, Math.max(0, position(model.limit)))
    ui.beyond.style.left = `calc(8px + ${from} * (100% - 16px))`
    ui.beyond.style.display = from < 1 ? "" : "none"
    ui.marks.replaceChildren(...model.marks.map(([value, text]) => {
      const mark = node("button", {type: "button", tabindex: "-1", title: `${model.label}: ${text}`}, text)
      mark.style.left = `calc(8px + ${position(value)} * (100% - 16px))`
      mark.addEventListener("click", () => { set(value); commit() })
      return mark
    }))
    ui.marks.style.display = model.marks.length ? "" : "none"
    paint()
  }

  const set = (value) => {
    if (model.error) { model.error = ""; paintError() }
    if (value !== model.value) model.value = value
    paint()
  }

  const commit = () => {
    clearTimeout(timer)
    if (model.value_throttled !== model.value) model.value_throttled = model.value
    else if (dragging) model.send_msg({released: true})  // back where it was, but not for whoever followed
    dragging = false
  }

  const step = (count) => {
    const tolerance = 1e-9 * Math.abs(model.value)
    const above = model.stops.findIndex((stop) => stop > model.value + tolerance)
    const first = above < 0 ? model.stops.length : above
    const on = first > 0 && Math.abs(model.stops[first - 1] - model.value) <= tolerance
    const target = count > 0 ? first + count - 1 : first - (on ? 1 : 0) + count
    set(model.stops[Math.min(model.stops.length - 1, Math.max(0, target))])
    clearTimeout(timer)
    timer = setTimeout(commit, COMMIT_AFTER_KEYS_MS)
  }

  const KEYS = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 8, PageDown: -8, Home: -1e6, End: 1e6}
  ui.range.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || model.disabled) return
    event.preventDefault()
    step(KEYS[event.key])
  })
  ui.range.addEventListener("input", () => {
    dragging = true
    set(model.stops[nearest(Number(ui.range.value))])
  })
  ui.range.addEventListener("change", commit)

  const reset = () => { if (model.default != null) model.send_msg({reset: true}) }
  ui.range.addEventListener("dblclick", reset)
  ui.label.addEventListener("dblclick", reset)
  ui.reset.addEventListener("click", reset)

  const submit = () => {
    if (!editing) return
    editing = false
    if (ui.text.value !== shown(model.value)) model.send_msg({typed: ui.text.value})
  }
  ui.text.addEventListener("focus", () => ui.text.select())
  ui.text.addEventListener("input", () => { editing = true })
  ui.text.addEventListener("change", submit)
  ui.text.addEventListener("blur", submit)
  ui.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter") submit()
    if (event.key === "Escape" && editing) { event.preventDefault(); editing = false; set(model.value) }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault()
      editing = false
      step(event.key === "ArrowUp" ? 1 : -1)
    }
  })

  model.on(["value", "text"], () => { if (!dragging) paint() })
  model.on(["default", "default_note", "stops", "stop_texts", "start", "end", "scale", "label", "description", "marks",
    "limit", "limit_label", "limit_note", "unit", "disabled"], layout)
  model.on("error", paintError)
  // Read or refused, the field shows the value in force; the sentence about refused text stays beside it.
  model.on("msg:custom", (message) => { if (message.answered) { editing = false; paint() } })
  layout()
  paintError()
  return ui.root
}
