// Brings a report to the state its sliders ask for. Every number and text was computed when the file was written: this script
// looks rows up in tables and puts them where they belong. It knows no formula.
(async () => {
  "use strict"
  const KINDS = {f4: Float32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array}
  const status = document.getElementById("status")

  // ------------------------------------------------------------------------------------------------ tables
  async function unpack(text) {
    const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0))
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer())
    const decode = (from, to) => new TextDecoder().decode(bytes.subarray(from, to))
    const start = 8 + Number(decode(0, 8))
    const arrays = new Map()
    // Bytes of equal weight lie together: the first bytes of all numbers, then the second ones …
    const array = ([kind, offset, length]) => {
      const key = kind + offset
      if (!arrays.has(key)) {
        const size = KINDS[kind].BYTES_PER_ELEMENT
        const whole = new Uint8Array(length * size)
        for (let b = 0; b < size; b++) {
          const from = start + offset + b * length
          for (let i = 0; i < length; i++) whole[i * size + b] = bytes[from + i]
        }
        arrays.set(key, new KINDS[kind](whole.buffer))
      }
      return arrays.get(key)
    }
    const manifest = JSON.parse(decode(8, start))
    const tables = [
      ...Object.values(manifest.figures).flat(), ...Object.values(manifest.texts).flatMap(({pattern, bold}) => [pattern, ...bold]),
      ...Object.values(manifest.cells).flatMap((cell) => Object.values(cell)),
    ]
    for (const table of tables) table.array = array
    return manifest
  }

  // A state's tables come in several parts, worked out side by side.
  async function manifestOf(i) {
    const parts = await Promise.all([...document.querySelectorAll(`.tables-${i}`)].map((element) => unpack(element.textContent)))
    const whole = {present: parts[0].present, figures: {}, texts: {}, cells: {}}
    for (const {figures, texts, cells} of parts) {
      Object.assign(whole.texts, texts)
      Object.assign(whole.cells, cells)
      for (const [key, entries] of Object.entries(figures)) whole.figures[key] = [...whole.figures[key] ?? [], ...entries]
    }
    return whole
  }

  function rowOf(table, at) {
    let place = 0
    table.over.forEach((slider, i) => { place = place * table.lengths[i] + at[slider] })
    return table.index ? table.array(table.index)[place] : place
  }

  function valuesOf(table, row) {
    if (!table.rows) return [table.words[row]]
    const values = table.array(table.rows).slice(row * table.width, (row + 1) * table.width)
    return table.words ? Array.from(values, (code) => table.words[code]) : values
  }

  const wordOf = (table, at) => table.words[rowOf(table, at)]

  function sentenceOf(table, at) {
    const parts = wordOf(table.pattern, at).split("**")
    return parts.map((part, i) => (i % 2 ? wordOf(table.bold[(i - 1) / 2], at) : part))
  }

  // ------------------------------------------------------------------------------------------------- texts
  function put(node, text) {
    if (node.data !== text) node.data = text
  }

  // Text nodes stay and only their characters change, unless another pattern of sentence needs other ones.
  function say(entry, parts) {
    if (entry.nodes?.length !== parts.length) {
      entry.nodes = parts.map((part) => document.createTextNode(part))
      entry.element.replaceChildren(...entry.nodes.map((node, i) => {
        if (i % 2 === 0) return node
        const bold = document.createElement("b")
        bold.append(node)
        return bold
      }))
    }
    parts.forEach((part, i) => put(entry.nodes[i], part))
  }

  function showTexts(state) {
    for (const entry of state.texts) {
      const parts = sentenceOf(entry.table, state.at)
      say(entry, parts)
    }
    for (const {element, table} of state.tones) element.classList.toggle("bad", sentenceOf(table, state.at)[0] === "bad")
    for (const {element, node, cell} of state.cells) {
      put(node, wordOf(cell.text, state.at))
      if (cell.number) element.dataset.value = valuesOf(cell.number, rowOf(cell.number, state.at))[0]
    }
  }

  // ----------------------------------------------------------------------------------------------- figures
  function showFigure(state, figure) {
    const changes = new Map()
    for (const entry of figure.entries) {
      const row = rowOf(entry.table, state.at)
      if (row === entry.shown) continue
      entry.shown = row
      const values = valuesOf(entry.table, row)
      if (entry.element === "axes") figure.limits = values
      else if (!changes.has(entry.element)) changes.set(entry.element, {[entry.column]: values})
      else changes.get(entry.element)[entry.column] = values
    }
    for (const [element, columns] of changes) {
      const source = figure.sources[element]
      if (source) source.data = Object.assign({}, source.data, columns)
      else for (const [name, values] of Object.entries(columns)) figure.marks[element][name] = values[0]
    }
    figure.stale = false
  }

  const keys = () => new Set(states.flatMap((state) => Object.keys(state.figures)))

  // Axes move when the hand lets go, to where all compared states can be seen, unless somebody zoomed.
  function fit(key, force = false) {
    const group = states.map((state) => state.figures[key]).filter((figure) => figure)
    if (group.some((figure) => !figure.limits)) return
    const side = (i, pick) => pick(...group.map((figure) => figure.limits[i]))
    const box = [side(0, Math.min), side(1, Math.max), side(2, Math.min), side(3, Math.max)]
    for (const figure of group) {
      const {x_range: x, y_range: y} = figure.model
      const shown = [x.start, x.end, y.start, y.end]
      const zoomed = figure.fitted && shown.some((value, i) => Math.abs(value - figure.fitted[i]) > 1e-6 * Math.abs(figure.fitted[i]))
      for (const [range, start, end] of [[x, box[0], box[1]], [y, box[2], box[3]]]) {
        range.setv({reset_start: start, reset_end: end})
        if (force || !zoomed) range.setv({start, end})
      }
      if (force || !zoomed) figure.fitted = box
    }
  }

  const settled = (yes) => { document.documentElement.dataset.settled = yes }
  let later = null

  // What is in view follows at once; the rest when the hand rests.
  function show(state) {
    settled(false)
    showTexts(state)
    for (const figure of Object.values(state.figures)) {
      figure.stale = true
      if (figure.visible) showFigure(state, figure)
    }
    clearTimeout(later)
    later = setTimeout(flush, 120)
  }

  function flush() {
    clearTimeout(later)
    for (const state of states) for (const figure of Object.values(state.figures)) if (figure.stale) showFigure(state, figure)
    settled(true)
  }

  function settle() {
    flush()
    for (const key of keys()) fit(key)
  }

  // ----------------------------------------------------------------------------------------------- sliders
  function move(state, slider, stop) {
    if (state.at[slider] === stop) return false
    state.at[slider] = stop
    const {input, output} = state.controls[slider]
    const text = state.sliders[slider].texts[stop]
    input.value = stop
    input.setAttribute("aria-valuetext", text)
    output.textContent = text
    return true
  }

  function nearest(stops, value) {
    const gaps = stops.map((stop) => Math.abs(Math.log(stop / value)))
    return gaps.indexOf(Math.min(...gaps))
  }

  function moved(state, slider, stop) {
    const value = state.sliders[slider].stops[stop]
    const together = document.getElementById("together")
    const others = together && together.checked ? states.filter((other) => other !== state) : []
    if (move(state, slider, stop)) show(state)
    for (const other of others) {
      const {stops} = other.sliders[slider]
      if (stops.length > 1 && move(other, slider, nearest(stops, value))) show(other)
    }
  }

  function reset() {
    for (const state of states) {
      state.manifest.present.forEach((stop, slider) => move(state, slider, stop))
      show(state)
    }
    settle()
    for (const key of keys()) fit(key, true)
  }

  function csv(state) {
    const rows = new Map()
    for (const {element, key} of state.cells) {
      const [regime, column] = key.split(" ")
      if (!rows.has(regime)) rows.set(regime, {})
      rows.get(regime)[column] = element.dataset.value ?? element.textContent.trim()
    }
    const columns = Object.keys(rows.values().next().value)
    const known = state.sliders.map((slider, i) => [slider.name, slider.stops[state.at[i]]])
    const lines = [["regime", ...known.map(([name]) => name), ...columns]]
    for (const [regime, cells] of rows) lines.push([regime, ...known.map(([, value]) => value), ...columns.map((name) => cells[name])])
    const url = URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\n") + "\n"], {type: "text/csv"}))
    const link = Object.assign(document.createElement("a"), {href: url, download: "regimes.csv"})
    link.click()
    setTimeout(() => URL.revokeObjectURL(url), 10000)
  }

  // ------------------------------------------------------------------------------------------ themes, paper
  const dark = window.matchMedia("(prefers-color-scheme: dark)")

  function paint(isDark) {
    for (const state of states) for (const figure of Object.values(state.figures)) {
      for (const [model, name, light, night] of figure.colors) {
        const colors = isDark ? night : light
        if (Array.isArray(colors)) model.data = {...model.data, [name]: colors}
        else model[name] = colors
      }
    }
  }

  // Paper is white and has no slider: each picture becomes an image of the present state in the light theme.
  function toPaper() {
    settle()
    paint(false)
    for (const state of states) for (const figure of Object.values(state.figures)) {
      const view = Bokeh.index.find_one_by_id(figure.model.id)
      if (!view) continue
      view.paint()
      const box = figure.holder.parentElement.parentElement
      const image = box.querySelector("img.print") ?? box.appendChild(Object.assign(new Image(), {className: "print", alt: ""}))
      image.src = view.export("png").canvas.toDataURL()
    }
  }

  // ------------------------------------------------------------------------------------------------- start
  async function opened(wiring, i, doc) {
    const state = {manifest: await manifestOf(i), sliders: wiring.sliders, figures: {}}
    state.at = [...state.manifest.present]
    state.controls = wiring.sliders.map(({name}) => ({
      input: document.getElementById(`slider-${i}-${name}`), output: document.getElementById(`value-${i}-${name}`),
    }))
    const marked = (name) => [...document.querySelectorAll(`[data-${name}^="${i}|"]`)].map((element) => [element, element.dataset[name].slice(2)])
    state.texts = marked("text").map(([element, key]) => ({element, table: state.manifest.texts[key]}))
    state.tones = marked("tone").map(([element, key]) => ({element, table: state.manifest.texts[key]}))
    state.cells = marked("cell").map(([element, key]) => ({element, key, node: element.firstChild ?? element.appendChild(document.createTextNode("")), cell: state.manifest.cells[key]}))
    const byId = (id) => doc.get_model_by_id(id)
    const models = (ids) => Object.fromEntries(Object.entries(ids).map(([label, id]) => [label, byId(id)]))
    for (const [key, parts] of Object.entries(wiring.figures)) {
      const entries = state.manifest.figures[key].map((table) => ({element: table.element, column: table.column, table, shown: rowOf(table, state.at)}))
      const axes = entries.find(({element}) => element === "axes")
      state.figures[key] = {
        model: byId(parts.id), sources: models(parts.sources), marks: models(parts.marks), entries, visible: true, stale: false,
        colors: parts.colors.map(([id, ...rest]) => [byId(id), ...rest]).filter(([model]) => model),
        limits: axes ? valuesOf(axes.table, axes.shown) : null, holder: document.querySelector(`[data-root-id="${parts.id}"]`),
      }
    }
    return state
  }

  function watchView() {
    const figures = new Map(states.flatMap((state) => Object.values(state.figures).map((figure) => [figure.holder.parentElement, [state, figure]])))
    const observer = new IntersectionObserver((seen) => seen.forEach(({target, isIntersecting}) => {
      const [state, figure] = figures.get(target)
      figure.visible = isIntersecting
      if (isIntersecting && figure.stale) showFigure(state, figure)
    }))
    for (const element of figures.keys()) observer.observe(element)
  }

  function listen() {
    for (const state of states) state.controls.forEach(({input}, slider) => {
      input.addEventListener("input", () => moved(state, slider, Number(input.value)))
      input.addEventListener("change", settle)
      input.addEventListener("dblclick", () => { moved(state, slider, state.manifest.present[slider]); settle() })
    })
    document.getElementById("reset").addEventListener("click", reset)
    for (const button of document.querySelectorAll("button.csv")) button.addEventListener("click", () => csv(states[button.dataset.state]))
    dark.addEventListener("change", () => paint(dark.matches))
    window.addEventListener("beforeprint", toPaper)
    window.addEventListener("afterprint", () => paint(dark.matches))
  }

  const parsed = (id) => JSON.parse(document.getElementById(id).textContent)
  const states = []
  try {
    if (!window.DecompressionStream) throw new Error("this browser cannot unpack them")
    const {docs, items} = parsed("figures")
    await Bokeh.embed.embed_items(docs, items)
    for (const [i, wiring] of parsed("wiring").entries()) states.push(await opened(wiring, i, Bokeh.documents[0]))
    for (const key of keys()) fit(key, true)
    states.forEach(showTexts)
    if (dark.matches) paint(true)
    watchView()
    listen()
    settled(true)
  } catch (problem) {
    for (const input of document.querySelectorAll(".slider input")) input.disabled = true
    status.textContent = `The tables of this report cannot be read (${problem.message}): the page shows the state it was written for. Open it in a current browser.`
    console.error(problem)
  }
})()
