"""Texts that hold several values: split where a separator stands outside of brackets and quotes."""

_OPEN, _CLOSE = "([{", ")]}"


def split_outside(text: str, separator: str) -> list[str]:
    """The parts between separators (one character) that stand in no bracket and in no quotes.

    Examples
    --------
    >>> split_outside("mlp(hidden_layer_sizes=(8, 8)),knn", ",")
    ['mlp(hidden_layer_sizes=(8, 8))', 'knn']
    """
    parts, start, depth, quote, escaped = [], 0, 0, "", False
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and not escaped else quote
            escaped = letter == "\\" and not escaped
        elif letter in "'\"" and depth:  # outside of brackets it is a letter like others
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth = max(0, depth - 1)
        elif letter == separator and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
