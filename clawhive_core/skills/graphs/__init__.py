"""The graph of imports: drawn, and asked for one skill or tool."""
