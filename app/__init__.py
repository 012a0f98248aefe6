"""The dashboard: choices, figures, pages, and the command line around `physics`."""
