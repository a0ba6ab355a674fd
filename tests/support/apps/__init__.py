"""Real web applications that nobody here wrote, started as processes of their own on loopback, for the live tests."""
