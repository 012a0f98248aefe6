// Before the page: counts what comes over the websocket, and notes when each figure was painted and which event it showed.
(() => {
  const received = []
  const Plain = window.WebSocket
  window.WebSocket = class extends Plain {
    constructor(...inputs) {
      super(...inputs)
      this.addEventListener("message", ({data}) => received.push([performance.now(), data.length ?? data.byteLength]))
    }
  }

  const figures = () => [...window.Bokeh?.documents?.[0]?._all_models?.values() ?? []].filter((model) => model.type == "Figure")
  const views = () => figures().map(({id}) => window.Bokeh.index.find_one_by_id(id)).filter((view) => view != null)
  const inView = (view) => {
    const {top, bottom} = view.el.getBoundingClientRect()
    return top < window.innerHeight && bottom > 0
  }
  const between = (from, to) => received.filter(([time]) => time >= from && time < to)
  const size = (messages) => messages.reduce((sum, [, length]) => sum + length, 0)

  // Time until all pictures in the window are painted, and all that are drawn, once no figure is new for `quiet_ms`.
  const opened = (quiet_ms) => new Promise((resolve) => {
    const known = new Map()  // view by id of its figure: to look for it costs as much as to paint
    const first = new Map()
    const look = () => {
      const now = performance.now()
      for (const {id} of figures()) {
        const view = known.has(id) ? null : window.Bokeh.index.find_one_by_id(id)
        if (view != null) known.set(id, view)
      }
      for (const [id, view] of known) if (view._render_count > 0 && !first.has(id)) first.set(id, now)
      const last = Math.max(...first.values())
      if (first.size && now - last > quiet_ms) {
        const shown = [...first].filter(([id]) => inView(known.get(id))).map(([, time]) => time)
        resolve({ms: Math.max(...shown), figures: shown.length, all_ms: last, all_figures: first.size, bytes: size(between(0, last + quiet_ms))})
      } else requestAnimationFrame(look)
    }
    look()
  })

  const slider = (label) => {
    for (const model of window.Bokeh.documents[0]._all_models.values()) {
      if (model.stop_texts != null && model.label == label) return model
    }
    throw new Error(`no slider ${label}`)
  }

  // Which event a figure shows: the number of the value that stands at the probe's place.
  const probed = ({figure, renderer, column, place, values}) => {
    const numbers = new Map(values.map((value, event) => [Math.fround(value), event]))
    const view = views().find((found) => found.model.tags.includes(figure))
    const source = () => view.model.renderers[renderer].data_source
    return {view, event: () => numbers.get(Math.fround(source().get(column)[place])) ?? -1}
  }

  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

  // One drag: `values` in turn, `hz` a second; what was late is dropped, as a browser does with a hand's moves.
  const drag = async ({label, values, probes, hz, patience_ms}) => {
    const handle = slider(label)
    // Others are not drawn yet, or wait until the slider is released.
    const watched = probes.map(probed).filter(({view}) => view != null && inView(view))
    const painted = watched.map(() => [])
    const paints = []
    const undo = watched.map(({view, event}, i) => {
      const note = () => {
        const now = performance.now()
        painted[i].push([now, event()])
        paints.push(now)
      }
      view.repainted.connect(note)
      return () => view.repainted.disconnect(note)
    })
    const models = () => window.Bokeh.documents[0]._all_models.size
    const models_before = models()
    const sent = []
    const start = performance.now()
    while (sent.length == 0 || sent.at(-1)[1] < values.length - 1) {
      const due = Math.min(values.length - 1, Math.floor((performance.now() - start) * hz / 1000))
      if (sent.length == 0 || due > sent.at(-1)[1]) {
        sent.push([performance.now(), due])
        handle.value = values[due]
      }
      await sleep(Math.max(1, start + (due + 1) * 1000 / hz - performance.now()))
    }
    const released = performance.now()
    handle.value_throttled = values.at(-1)
    const end = released + patience_ms
    const settled = () => painted.every((list) => list.length > 0 && list.at(-1)[1] == values.length - 1)
    while (performance.now() < end && !(settled() && performance.now() - paints.at(-1) > 700)) await sleep(50)
    undo.forEach((stop) => stop())
    const messages = between(start, performance.now())
    return {sent, painted, released, end: performance.now(), last_paint: Math.max(...paints), bytes: size(messages), models_before, models_after: models()}
  }

  window.bench = {opened, drag}
})()
