// Preset and actions in the title bar; the server is told what was asked for and answers with a file or a sentence.
const OWN = "own state"

export function render({model, view}) {
  const select = node("select", {"aria-label": "Preset", title: "Preset"})
  const status = node("span", {class: "status", role: "status"})
  const actions = node("div", {class: "actions"})
  const heading = node("h1", {class: "unseen"}, "Midfill: computation and data movement in LLM inference")
  const root = node("div", {class: "topbar"}, heading, select, status, actions)
  let timer = null

  const say = (text, stay = false, seconds = 4) => {
    status.textContent = text
    clearTimeout(timer)
    if (!stay) timer = setTimeout(() => { status.textContent = "" }, 1000 * seconds)
  }

  const presets = () => {
    const own = node("option", {value: OWN}, model.own_state)
    select.replaceChildren(own, ...model.presets.map((name) => node("option", {value: name}, name)))
    select.value = model.presets.includes(model.preset) ? model.preset : OWN
    own.hidden = select.value !== OWN
  }
  select.addEventListener("change", () => { if (select.value !== OWN) model.send_msg({preset: select.value}) })

  const copy = async () => {
    try {
      await copyText(window.location.href)
      say(model.link_note || "Link copied", false, model.link_note ? 12 : 4)
    } catch {
      say("The browser refused to copy: the address bar holds the link")
    }
  }

  const buttons = () => {
    actions.replaceChildren(...JSON.parse(model.actions).map(({key, label, hint, pressed}) => {
      const button = node("button", {type: "button", class: "action", title: hint, "aria-pressed": pressed == null ? null : String(pressed)}, label)
      button.addEventListener("click", () => {
        if (key === "copy") return copy()
        if (key === "export") say("Exporting …", true)
        return model.send_msg({action: key})
      })
      return button
    }))
  }

  const narrow = window.matchMedia("(max-width: 900px)")
  const report = () => model.send_msg({narrow: narrow.matches})
  narrow.addEventListener("change", report)
  model.on("remove", () => narrow.removeEventListener("change", report))

  model.on(["presets", "preset", "own_state"], presets)
  model.on("actions", buttons)
  model.on("msg:custom", (message) => {
    if (message.file) download(message.file, message.content, message.type)
    if (message.say != null) say(message.say)
    if (message.address != null && message.address !== window.location.search) window.history.pushState(null, "", message.address)
  })
  const went = () => model.send_msg({went: window.location.search})
  window.addEventListener("popstate", went)
  model.on("remove", () => window.removeEventListener("popstate", went))
  view.model.document.on_event("connection_lost", () =>
    say("Connection lost: reload the page. Your settings are in the address; files must be loaded again", true))
  presets()
  buttons()
  // Said again until the session answers: one that is still being set up does not hear the first time.
  if (narrow.matches) {
    report()
    const again = setInterval(() => (model.narrow ? clearInterval(again) : report()), 400)
    model.on("remove", () => clearInterval(again))
  }
  return root
}
