"""The texts that the twin is judged by. They lie beside this file; `python -m training.held_out` made them.

Lines, pairs and long texts come from documents that training does not read; no sentence of theirs stands in one that
it does. Everyday sentences have words that no training sentence has. The others were written for this list.
"""

import json
from pathlib import Path
from typing import Final

import numpy as np

import explorer
from explorer.text import Tokenizer, make_batch
from training.sources import CACHE, Document, documents, fetch
from training.templates import everyday_sentence
from training.texts import Corpus

FILE: Final = Path(__file__).parent / "held_out.json"
SEED: Final = 2026
COUNTS: Final = {"lines": 160, "pairs": 20, "long": 12}
TOKENS: Final = {"lines": (16, 64), "pairs": (16, 64), "long": (310, 500)}
N_EVERYDAY: Final = 60
LONG: Final = 300
"""A text above this many tokens is a long one."""

UNKNOWN: Final = ("ꙮꙮꙮ", "𓀀 𓀁 𓀂 𓀃", "🍕 😀 🚀", "ᚠᚢᚦᚨᚱᚲ ᚷᚹ", "🦊🐢 🌍 🎲 🧩 🎯")
OTHER: Final = (
    "The quick brown fox jumps over the lazy dog.",
    "Transformers process all tokens of a sequence in parallel.",
    "def add(a, b): return a + b",
    "SELECT name, age FROM users WHERE age > 30 ORDER BY name;",
    "Preheat the oven to 180 °C, mix flour, butter and sugar, then bake the dough for 25 minutes.",
    "Breaking: stocks fall sharply after central bank raises interest rates",
    "Re: Invoice #4711 – please find the corrected PDF attached. Best regards, Sven",
    "lol that was so funny, can't stop laughing",
    "E = mc^2 says that mass and energy are equivalent.",
    "The mitochondrion produces most of the cell's supply of adenosine triphosphate.",
    "Les enfants jouent dans le jardin avec leur petit chien.",
    "Der Zug nach München fährt heute von Gleis sieben ab.",
    "Terms and conditions apply. See website for details.",
    "She sells seashells by the seashore.",
    "What is the capital of Australia, and how many people live there?",
    "The bank raised its fees, so he sat down on the bank of the river and thought about money.",
    "Time flies like an arrow; fruit flies like a banana.",
    "The trophy doesn't fit in the brown suitcase because it's too big.",
    "Turn left at the roundabout, drive 2 km, and park behind the stadium.",
    "Patients who received the vaccine had fewer symptoms than those in the placebo group.",
    "In 1969, Neil Armstrong became the first person to walk on the Moon.",
    "I can't believe it's already Friday!!!",
    "GPU memory usage peaked at 11.4 GB during the second epoch.",
    "No refunds.",
    "Roses are red, violets are blue, sugar is sweet, and so are you.",
    "The defendant shall pay damages in the amount of $25,000 within thirty days of this judgment.",
    "Why did the chicken cross the road? To get to the other side.",
    "Goalkeeper saves penalty in the 93rd minute as underdogs reach the final",
    "To be, or not to be, that is the question.",
    "Water boils at a lower temperature on a high mountain than at sea level.",
)


def read_held_out(path: Path = FILE) -> dict[str, list[str]]:
    """The lists by name: lines, everyday, other, pairs, long, unknown."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: [row["text"] for row in rows] for name, rows in content.items()}


def make_held_out(found: list[Document], tokenizer: Tokenizer) -> dict[str, list[dict[str, str]]]:
    """The lists, with the document that each text is from."""
    rng = np.random.default_rng(SEED)
    trained_on = {sentence for document in Corpus.split(found, held_out=False).prose for sentence in document.sentences}
    prose = [
        Document(document.name, tuple(sentence for sentence in document.sentences if sentence not in trained_on))
        for document in Corpus.split(found, held_out=True).prose
    ]
    result: dict[str, list[dict[str, str]]] = {}
    for name, count in COUNTS.items():
        rows: list[dict[str, str]] = []
        while len(rows) < count:
            document = prose[rng.integers(len(prose))]
            text = _passage(rng, document, TOKENS[name], tokenizer, paired=name == "pairs")
            if text and all(text != row["text"] for row in rows):
                rows.append({"text": text, "document": document.name})
        result[name] = rows
    everyday: set[str] = set()
    while len(everyday) < N_EVERYDAY:
        everyday.add(everyday_sentence(rng, held_out=True))
    written = {"everyday": sorted(everyday), "other": list(OTHER), "unknown": list(UNKNOWN)}
    return result | {name: [{"text": text} for text in texts] for name, texts in written.items()}


def _passage(
    rng: np.random.Generator, document: Document, bounds: tuple[int, int], tokenizer: Tokenizer, *, paired: bool
) -> str:
    """Consecutive sentences with a number of tokens within the bounds; empty where none are found here."""
    start = int(rng.integers(len(document.sentences)))
    wanted = rng.integers(*bounds)
    for stop in range(start + 1 + paired, len(document.sentences) + 1):
        sentences = document.sentences[start:stop]
        text = f"{' '.join(sentences[:-1])} [SEP] {sentences[-1]}" if paired else " ".join(sentences)
        n_tokens = make_batch([text], tokenizer, max_len=10_000).token_ids.shape[1]
        if n_tokens > bounds[1]:
            return ""
        if n_tokens >= wanted:
            return text
    return ""


if __name__ == "__main__":
    lists = make_held_out(documents(fetch(CACHE)), explorer.load("minilm").tokenizer)
    FILE.write_text(json.dumps(lists, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
