"""The core's own tools: artifacts, kept values, the texts of skills."""
