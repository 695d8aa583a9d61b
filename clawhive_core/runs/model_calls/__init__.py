"""The one way to a model: rights, budget, retries, record."""
