import re

import pytest

from shoal.api.oauth.style import STYLE

PAIRS = [
    ("ink", "paper"), ("ink", "ground"), ("soft", "paper"), ("sea", "paper"), ("sea", "ground"), ("on-sea", "sea"),
    ("warn", "warn-ground"), ("bad", "paper"),
]  # fmt: skip
LIGHT, DARK = (dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})", block)) for block in STYLE.split("@media", 2)[:2])


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_stands_out_from_its_ground(colours: dict[str, str], text: str, ground: str):
    darker, lighter = sorted((luminance(colours[text]), luminance(colours[ground])))
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_the_sheet_loads_nothing():
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    assert "<" not in STYLE
