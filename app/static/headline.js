// The strip of tiles: one number each with its label and unit.
export function render({model}) {
  const list = node("div", {class: "tiles", role: "group", "aria-label": "Headline numbers"})
  const root = node("div", {class: "headline"}, list)
  let parts = []

  const build = (tiles) => {
    parts = tiles.map((tile) => {
      const ui = {label: node("span", {class: "label"}), number: node("span", {class: "number"}), unit: node("span", {class: "unit"}),
        kind: node("span"), note: node("div", {class: "note"})}
      const value = node("div", {class: "value"}, ui.number, ui.unit)
      ui.root = node("button", {type: "button", class: "tile"}, node("div", {class: "top"}, ui.label, ui.kind), value, ui.note)
      ui.root.addEventListener("click", () => model.send_msg({clicked: tile.key}))
      return ui
    })
    list.replaceChildren(...parts.map((ui) => ui.root))
  }

  const put = (element, text) => { if (element.textContent !== text) element.textContent = text }

  const paint = () => {
    const tiles = JSON.parse(model.tiles)
    if (parts.length !== tiles.length) build(tiles)
    tiles.forEach((tile, i) => {
      const ui = parts[i]
      put(ui.label, tile.label)
      put(ui.number, tile.number)
      put(ui.unit, tile.unit)
      put(ui.note, tile.note)
      put(ui.kind, tile.kind)
      ui.kind.className = `chip ${tile.kind}`
      ui.root.className = `tile ${tile.tone}`
      ui.root.title = tile.hint
    })
  }
  model.on("tiles", paint)
  paint()
  return root
}
