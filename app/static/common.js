// Shared by the components of app/shell.py; Python puts it before each of them.

function node(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value != null && value !== false && value !== "") element.setAttribute(name, value)
  }
  element.append(...children)
  return element
}

// Text with **bold** parts; never markup, so no text from a user's file can become code.
function rich(element, text) {
  const parts = (text || "").split("**")
  element.replaceChildren(...parts.map((part, i) => (i % 2 ? node("b", {}, part) : part)))
}

function chip(kind) {
  return node("span", {class: `chip ${kind}`}, kind)
}

function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}))
  const link = node("a", {href: url, download: name})
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10000)
}

// navigator.clipboard exists on https and localhost only; a colleague's server on the network is neither.
async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text)
  const area = node("textarea", {style: "position:fixed;opacity:0"})
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand("copy")
  area.remove()
  if (!done) throw new Error("copy refused")
}

async function downloadImage(figureName, name, kind) {
  const figure = Bokeh.documents.map((document) => document.get_model_by_name(figureName)).find((model) => model != null)
  const view = figure == null ? null : Bokeh.index.find_one(figure)
  if (view == null) throw new Error("not drawn")
  const blob = await view.export(kind).to_blob()
  download(`${name}.${kind}`, blob)
}
