"""Names of hash functions."""


class SHA256:
    """SHA-256, as an argument."""

    name = "sha256"
    digest_size = 32
