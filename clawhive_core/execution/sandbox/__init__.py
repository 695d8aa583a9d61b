"""Programs in a sandbox engine: which, in which directory, and what came of them."""
