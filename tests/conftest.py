"""What all tests share."""

from hypothesis import settings

# Two noisy cores: a deadline would make a slow machine look like a broken law.
settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")
