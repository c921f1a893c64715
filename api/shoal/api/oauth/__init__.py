"""OAuth 2.1 for the edge: who may call, found out once by asking the owner, and checked with every request.

Each module holds one concern, over the tables of migration 0003; `face.py` puts them behind HTTP, `gate.py` in front of
everything else. None of them reads a clock, draws chance or reaches out except through the `Authority`.
"""
