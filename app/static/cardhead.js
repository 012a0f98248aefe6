// Title, answer sentence and tools of one picture.
const ICONS = {
  csv: ["CSV", "Download the numbers of this picture as CSV"],
  png: ["PNG", "Download this picture as PNG"],
  svg: ["SVG", "Download this picture as SVG"],
  code: ["Code", "Python lines that reproduce this picture"],
  fit: ["Fit", "Fit the axes to the present values"],
}

export function render({model}) {
  const title = node("h3", {"aria-level": "2"})
  const tools = node("div", {class: "tools", role: "group"})
  const sentence = node("p", {class: "sentence"})
  const status = node("span", {class: "status", role: "status"})
  const root = node("div", {class: "cardhead"}, node("div", {class: "top"}, title, status, tools), sentence)

  const ask = async (tool) => {
    status.textContent = ""
    if (tool !== "png" && tool !== "svg") return model.send_msg({tool})
    try {
      await downloadImage(model.figure_name, model.file_stem, tool)
    } catch {
      status.textContent = "This picture is not drawn yet"
    }
    return null
  }

  const layout = () => {
    title.textContent = model.title
    tools.setAttribute("aria-label", model.title)
    tools.replaceChildren(...model.tools.map((tool) => {
      const [text, hint] = ICONS[tool]
      const button = node("button", {type: "button", title: hint, "aria-label": `${hint}: ${model.title}`}, text)
      button.addEventListener("click", () => ask(tool))
      return button
    }))
  }
  const say = () => {
    rich(sentence, model.sentence)
    sentence.className = `sentence ${model.tone}`
  }
  const watchers = []
  const watch = (margin, tell) => {
    const told = (entries) => tell(entries[entries.length - 1].isIntersecting)
    watchers.push(new IntersectionObserver(told, {rootMargin: margin, scrollMargin: margin}))
  }
  // Painting is what a slider step costs: pictures scrolled out of view wait until the hand lets go.
  watch("200px", (seen) => { if (model.on_screen !== seen) model.on_screen = seen })
  // Drawing is what opening a page costs: pictures a screen away and further are not there yet.
  if (!model.near) watch("100%", (seen) => { if (seen && !model.near) model.near = true })
  setTimeout(() => {
    const card = root.getRootNode().host?.getRootNode().host ?? root
    if (root.isConnected) watchers.forEach((watcher) => watcher.observe(card))
  }, 0)
  model.on("remove", () => watchers.forEach((watcher) => watcher.disconnect()))

  model.on(["title", "tools"], layout)
  model.on(["sentence", "tone"], say)
  model.on("msg:custom", (message) => { if (message.file) download(message.file, message.content, message.type) })
  layout()
  say()
  return root
}
