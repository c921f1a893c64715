"""The one exception that callers of the stand-in can meet."""

import _rig_entropy

_rig_entropy.draw()


class InvalidTag(Exception):
    """What was to be opened wasn't sealed with this key, or was changed."""
