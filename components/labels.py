"""How a token is written on screen: every character seen, no character obeyed.

A token is drawn in four languages that each give some characters a meaning: Plotly text (a little
HTML, `%{...}` and `$mathematics$`), Markdown, spreadsheets and Unicode itself (invisible and
direction-changing characters). One function for each.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import pandas as pd
import regex

EMPTY = "⟨empty⟩"
ELLIPSIS = "…"
MAX_GRAPHEMES = 14
MAX_REMEMBERED = 32

_STAND_INS = {" ": "␣", "\t": "⇥", "\n": "↵", "\r": "↵", "\r\n": "↵"}
# Characters without a shape of their own: control, format, unassigned, private, surrogates, spaces other than
# the ordinary one, fillers that render as nothing, and the blank Braille cell.
_NO_SHAPE = regex.compile(
    r"[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800--[ \p{Prepended_Concatenation_Mark}]]", regex.V1
)
_MARK = regex.compile(r"\p{M}")
# Joiners and variation selectors choose the shape of an emoji, of a keycap, of an ideograph and of letters in
# joining scripts (Arabic, Indic ...). After any other character they are only hidden.
_JOINS = regex.compile(
    r"[\p{Extended_Pictographic}\p{Ideographic}]|[\p{L}\p{M}--[\p{Latin}\p{Greek}\p{Cyrillic}\p{Inherited}]]", regex.V1
)
_KEYCAP = regex.compile(r"[0-9#*]\ufe0f?\u20e3")
_PLOTLY = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%": "&#37;"})
_MARKDOWN = regex.compile(r"[!-/:-@\[-`{-~]")
# Streamlit rewrites these after the escapes are gone: arrows and dashes, its own logo, bare addresses.
_REWRITTEN = regex.compile(r"(?<=[-<>=~])(?=[-<>=~])|(?<=:)(?=streamlit:)|(?<=://)|(?<=\bwww)(?=\.)|(?<=@)", regex.I)
_WORD_JOINER = "\u2060"
_WIDE = regex.compile(r"[\p{East_Asian_Width=W}\p{East_Asian_Width=F}]")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def visible(token: str) -> str:
    """The token with a stand-in for each character that would not be seen.

    A zero-width space becomes ⟨U+200B⟩, a tab ⇥, a space at either end ␣, and a combining mark that has
    nothing to sit on gets a dotted circle. Joiners inside emoji and inside Arabic or Indic words, which
    shape what is drawn, stay as they are.
    """
    return _visible_word(token) if len(token) <= MAX_REMEMBERED else "".join(_units(token))


@lru_cache(maxsize=2**14)
def _visible_word(token: str) -> str:
    """Texts are of few words, and each is drawn in several places at every click."""
    return "".join(_units(token))


def shorten(token: str, max_graphemes: int = MAX_GRAPHEMES) -> str:
    """At most `max_graphemes` graphemes; a longer token loses its end to "…", never half a grapheme."""
    graphemes = regex.findall(r"\X", token)
    return _fit(graphemes, [1] * len(graphemes), max_graphemes)


def plotly_escape(text: str) -> str:
    """Text that Plotly draws as typed, in ticks, hover, titles and annotations.

    Plotly reads tags, decodes entities after that, fills in `%{...}` and hands `$...$` to MathJax; the
    entities of these five characters come out as the characters themselves.
    """
    return text.translate(_PLOTLY)


def axis_labels(tokens: Sequence[str], max_columns: int = MAX_GRAPHEMES) -> list[str]:
    """One Plotly label for each token: visible, shortened and escaped. Equal tokens give equal labels.

    Room is counted in columns: an emoji or a Chinese character takes two, a stand-in such as ⟨U+200B⟩ eight.
    """
    return [_label(token, max_columns) for token in tokens]


def as_sentence(message: str) -> str:
    """The message of an error as a sentence: with a capital and a full stop."""
    return message[:1].upper() + message[1:] + ("" if message.endswith(".") else ".")


def markdown_escape(text: str) -> str:
    """Text that `st.markdown`, captions and option labels show as typed: no colour, emoji, formula, link or tag.

    A backslash stands before each punctuation mark. What Streamlit rewrites later (`->`, `--`, `www.`) is parted by
    a word joiner, which has no width but comes along when the text is copied from the page.
    """
    return _MARKDOWN.sub(r"\\\g<0>", _REWRITTEN.sub(_WORD_JOINER, text))


def csv_safe(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy for export in which no text cell, header or index entry starts a spreadsheet formula.

    Text that begins with = + - @, tab or a line break gets a leading apostrophe. Numbers are not touched:
    −0.5 as a number stays a number.
    """
    safe = frame.map(_not_a_formula)
    safe.columns = frame.columns.map(_not_a_formula)
    safe.index = frame.index.map(_not_a_formula)
    return safe


def _not_a_formula(cell: object) -> object:
    return "'" + cell if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _label(token: str, max_columns: int) -> str:
    if not token:
        return EMPTY
    graphemes = _units(token)
    return plotly_escape(_fit(graphemes, [_columns(g) for g in graphemes], max_columns))


def _columns(grapheme: str) -> int:
    return len(grapheme) if "⟨U+" in grapheme else 2 if _WIDE.match(grapheme) else 1


def _fit(graphemes: Sequence[str], sizes: Sequence[int], limit: int) -> str:
    """The graphemes joined; where they need more than `limit`, whole ones are dropped and "…" ends the text.

    The first is kept even where it is wider than the limit: a label is never the ellipsis alone.
    """
    if limit < 1:
        raise ValueError(f"a label needs room for at least 1 grapheme, not {limit}")
    if sum(sizes) <= limit or len(graphemes) == 1:
        return "".join(graphemes)
    ends = accumulate(sizes)
    fitting = sum(end <= limit - 1 for end in ends)
    return "".join(graphemes[: max(1, fitting)]) + ELLIPSIS


def _units(token: str) -> list[str]:
    """The graphemes of a token, each with what would be hidden in it made visible."""
    graphemes = regex.findall(r"\X", token)
    last = len(graphemes) - 1
    return [_shown(g, at_end=i in (0, last)) for i, g in enumerate(graphemes)]


def _shown(grapheme: str, *, at_end: bool) -> str:
    if grapheme in _STAND_INS and (grapheme != " " or at_end):
        return _STAND_INS[grapheme]
    if _MARK.match(grapheme) and not _NO_SHAPE.match(grapheme):
        grapheme = "◌" + grapheme
    shaped = _JOINS.match(grapheme) or _KEYCAP.fullmatch(grapheme)
    first, rest = grapheme[0], grapheme[1:]
    return _named(first) + "".join(c if shaped else _named(c) for c in rest)


def _named(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩" if _NO_SHAPE.match(character) else character
