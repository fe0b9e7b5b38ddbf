"""Words of messages."""


def counted(count: int, noun: str) -> str:
    """A number and a noun, in the plural unless there is one.

    >>> counted(1, "class"), counted(2, "class"), counted(0, "random split")
    ('1 class', '2 classes', '0 random splits')
    """
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count} {noun}{ending}"
