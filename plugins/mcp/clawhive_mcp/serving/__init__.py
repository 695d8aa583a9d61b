"""The server side: a project's tools for MCP clients, each call decided, asked about, recorded."""
