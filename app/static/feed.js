// Puts columns into the Bokeh sources of the page, each source repainted once.

// At every repaint Bokeh writes the style sheet of every axis and legend anew, and each time the browser works out the styles of the
// page once more: a quarter of a repaint. Most say what they said before.
function keepStyleSheets() {
  const sheets = Bokeh.require?.("core/dom")?.InlineStyleSheet?.prototype
  if (sheets?._update == null) return
  sheets._update = function (text) {
    if (this.el.textContent !== text) this.el.textContent = text
  }
}

export function render({model, view}) {
  keepStyleSheets()
  const root = node("div", {hidden: true})
  model.on("msg:custom", ({where, numbers, texts}) => {
    const document = view.model.document
    const touched = new Set()
    const put = (id, column, values) => {
      const source = document.get_model_by_id(id)
      if (source == null) return
      source.data[column] = values
      touched.add(source)
    }
    const bytes = Uint8Array.from(atob(numbers), (letter) => letter.charCodeAt(0))
    let at = 0
    for (const [id, column, length] of where) {
      put(id, column, new Float32Array(bytes.buffer, at, length))
      at += 4 * length
    }
    for (const [id, column, values] of texts) put(id, column, values)
    for (const source of touched) source.change.emit()
  })
  return root
}
