"""The MCP server: `supervisor mcp`, a host process of its own on the official SDK (`mcp`), through the thin client.

    MCP client ──stdio | http──► server.py ──► host.py ──thin client──► supervisor

Invariants: what goes out is what the thin client gave (one bounded result a call) or one of our error sentences; nothing
else is written to standard output; one session of the supervisor an MCP connection; whatever this process started ends
with it. It imports the protocol package only, never the rest of the supervisor.
"""
