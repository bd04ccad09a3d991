"""The colours of every figure and page: one name, one light and one dark value, safe for the colour-blind."""

# The hues are Okabe and Ito's; the dark values are their lighter neighbours with the same order of lightness.
LIGHT: dict[str, str] = {
    "paper": "#fdfcfa",
    "ink": "#1c2024",
    "muted": "#5b6168",
    "faint": "#888e95",
    "rule": "#dcd8d0",
    "blue": "#0067a8",
    "vermilion": "#c24a00",
    "green": "#00795a",
    "purple": "#9b4a7e",
    "amber": "#8f6200",
    "sky": "#4a96c9",
    "red": "#b3161b",
}
DARK: dict[str, str] = {
    "paper": "#14171a",
    "ink": "#e9e6e0",
    "muted": "#a7adb3",
    "faint": "#7b8289",
    "rule": "#343a40",
    "blue": "#6cb8ee",
    "vermilion": "#ff9157",
    "green": "#4fcaa2",
    "purple": "#e29bc6",
    "amber": "#e8b74a",
    "sky": "#2f6f9c",
    "red": "#ff7b78",
}
# The order in which groups take colours, each with a marker of its own so that colour is never the only cue.
SERIES: tuple[tuple[str, str], ...] = (
    ("blue", "o"),
    ("vermilion", "s"),
    ("green", "^"),
    ("purple", "D"),
    ("amber", "v"),
    ("faint", "P"),
)
# The markers as characters, for tables beside the plots.
MARKS: dict[str, str] = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
