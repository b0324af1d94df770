"""Text of strangers for a terminal: names of groups, clients and topics, reasons of members."""


def printable(text: str) -> str:
    """Return the text with every character that a terminal would obey, or that cannot be seen, as an escape.

    Examples are escape sequences, line ends, and characters that change the direction of writing.
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """Return the same for a text whose line ends and tabs are meant."""
    return "".join(each if each in "\n\t" else printable(each) for each in text)
