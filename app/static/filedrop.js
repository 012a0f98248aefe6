// Files of the user: chosen or dropped, refused here where too large to send, sent in pieces that a websocket takes.
const PIECE = 1 << 20

export function render({model}) {
  const input = node("input", {type: "file", hidden: true, tabindex: "-1", multiple: model.multiple, accept: model.accept, "aria-label": model.label})
  const button = node("button", {type: "button", class: "action", "aria-describedby": "hint"}, model.label)
  const hint = node("span", {class: "hint", id: "hint"}, model.hint)
  const status = node("p", {class: "said", role: "status"})
  const root = node("div", {class: "filedrop"}, node("div", {class: "ask"}, button, hint), input, status)
  let busy = false

  const paint = () => {
    rich(status, model.problem)
    status.className = model.problem ? "said bad" : "said"
  }
  const say = (text) => {
    status.textContent = text
    status.className = "said bad"
  }

  const send = async (files) => {
    if (busy || files.length === 0) return
    const size = files.reduce((sum, {file}) => sum + file.size, 0)
    if (size > model.limit_bytes) {
      return say(`${files.map(({name}) => name).slice(0, 3).join(", ")}: ${Math.round(size / 2 ** 20)} MiB, and at most ` +
        `${Math.round(model.limit_bytes / 2 ** 20)} MiB are read: is this the right file?`)
    }
    busy = true
    status.textContent = "Reading …"
    status.className = "said"
    try {
      const texts = await Promise.all(files.map(async ({file}) => new Uint8Array(await file.arrayBuffer())))
      model.send_msg({begin: files.map(({name}, i) => [name.slice(0, 300), texts[i].length])})
      for (const [i, bytes] of texts.entries()) {
        for (let at = 0; at < bytes.length; at += PIECE) model.send_msg({file: i, piece: base64(bytes.subarray(at, at + PIECE))})
      }
      model.send_msg({end: true})
    } catch {
      say("The browser could not read this file: choose it again")
    } finally {
      busy = false
    }
    return null
  }

  // A dropped folder: only the files whose names are wanted, so that weights are never read.
  const within = async (entry) => {
    const reader = entry.createReader()
    const found = []
    for (;;) {
      const some = await new Promise((done, fail) => reader.readEntries(done, fail))
      if (some.length === 0 || found.length > 2000) break
      found.push(...some)
    }
    const wanted = found.filter((inner) => inner.isFile && model.wanted.includes(inner.name))
    return Promise.all(wanted.map((inner) => new Promise((done, fail) =>
      inner.file((file) => done({name: `${entry.name}/${file.name}`, file}), fail))))
  }
  const dropped = async (transfer) => {
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean)
    const files = [...transfer.files]
    const folder = entries.find((entry) => entry.isDirectory)
    if (!folder) return files.map((file) => ({name: file.name, file}))
    const found = await within(folder)
    if (found.length === 0) say(`This folder holds none of ${model.wanted.join(", ")}: drop the folder of one model`)
    return found
  }

  button.addEventListener("click", () => input.click())
  input.addEventListener("change", () => {
    send([...input.files].map((file) => ({name: file.name, file})))
    input.value = ""
  })
  root.addEventListener("dragover", (event) => { event.preventDefault(); root.classList.add("over") })
  root.addEventListener("dragleave", () => root.classList.remove("over"))
  root.addEventListener("drop", async (event) => {
    event.preventDefault()
    root.classList.remove("over")
    try {
      send(await dropped(event.dataTransfer))
    } catch {
      say("The browser could not read what was dropped: use the button")
    }
  })
  model.on("problem", paint)
  model.on("msg:custom", (message) => { if (message.done) paint() })
  paint()
  return root
}

function base64(bytes) {
  let text = ""
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(text)
}
