// A table whose cells are buttons; only texts change while a slider moves.
export function render({model}) {
  const head = node("thead")
  const body = node("tbody")
  // A table without buttons must still be reachable to be scrolled by keyboard.
  const scroller = model.clickable ? {class: "tablewrap"} : {class: "tablewrap", tabindex: "0", role: "region", "aria-label": "Table"}
  const root = node("div", scroller, node("table", {}, head, body))
  let columns = []
  let rows = []
  let cells = []
  let shape = ""

  const build = () => {
    head.replaceChildren(node("tr", {}, ...columns.map((column) => {
      const heading = node("th", {scope: "col", title: column.hint, class: column.align}, column.label)
      if (column.unit) heading.append(node("span", {class: "unit"}, ` ${column.unit}`))
      return heading
    })))
    cells = rows.map((row, i) => columns.map((column, j) => {
      const cell = node(j ? "td" : "th", {class: column.align, scope: j ? null : "row"})
      const content = node(j && model.clickable ? "button" : "span", j && model.clickable ? {type: "button"} : {})
      if (j && model.clickable) content.addEventListener("click", () => model.send_msg({row: rows[i].key, column: column.key}))
      cell.append(content)
      return {cell, content}
    }))
    body.replaceChildren(...cells.map((row) => node("tr", {}, ...row.map((entry) => entry.cell))))
  }

  const paint = () => {
    columns = JSON.parse(model.columns)
    rows = JSON.parse(model.rows)
    if (rows.some((row) => row.cells.length !== columns.length)) return  // the other half of the change is on its way
    const now = model.columns + model.clickable + JSON.stringify(rows.map((row) => row.key))
    if (now !== shape) { build(); shape = now }
    rows.forEach((row, i) => row.cells.forEach((text, j) => {
      const {cell, content} = cells[i][j]
      if (content.dataset.text !== text) { rich(content, text); content.dataset.text = text }
      if (j === 0) cell.style.setProperty("--swatch", row.color ? `var(--midfill-${row.color})` : "transparent")
    }))
  }
  model.on(["columns", "rows", "clickable"], paint)
  paint()
  return root
}
