"""The demo: a bundled bookshop on loopback, and one task that drives it."""
