"""The edge: drivers for D1, Vectorize and Workers AI, and the Worker's entry, which serves the same faces."""
