"""The guarded HTTP client: the only way of the core to an address that a tool names.

It needs `httpx2`, which the extra `http` brings; nothing imports it before the first request.
"""
