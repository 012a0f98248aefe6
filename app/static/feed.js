// Puts columns into the Bokeh sources of the page, each source repainted once.
export function render({model, view}) {
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
