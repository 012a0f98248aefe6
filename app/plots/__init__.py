"""One picture per question: pure functions of a snapshot, drawn once and then patched (see `app.live`)."""
