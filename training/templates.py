"""Everyday sentences, made from frames and words: what people type, which no old book holds.

Some words are kept for testing: no training sentence has one of them, each held-out sentence has at least one.
"""

import re
from typing import Final

import numpy as np

FRAMES: Final = (
    "The {noun} didn't {action} the {thing} because it was too {adjective}.",
    "The {noun} could not {action} the {thing}, since the {thing2} was {adjective}.",
    "The {thing} doesn't fit into the {thing2} because it is too {adjective}.",
    "{name} went to the {place} to buy a {thing}.",
    "{name} went to the {place} {time}, but it was closed.",
    "I saw a {adjective} {noun} near the {place} {time}.",
    "My {person} said that the {thing} was {adjective}.",
    "Where is the {place}?",
    "Where did you put my {thing}, {name}?",
    "Can you tell me how to get to the {place}?",
    "Please bring the {thing} to the {place} {time}.",
    "Don't forget to call your {person} {time}!",
    "{name} and {name2} were at the {place} when the {thing} broke.",
    "The {person} asked the {person2} whether she had seen the {noun}.",
    "When the {noun} saw the {noun2}, it ran away.",
    "If it rains {time}, we will stay at the {place}.",
    "I think {name} is {adjective}, but {name2} is not.",
    "She gave him a {thing}, and he thanked her for it.",
    "He has never been to a {place} before.",
    "The {adjective} {noun} slept on the {thing} all day.",
    "How much does this {thing} cost?",
    "It costs {number} dollars.",
    "There are {number} {noun}s in the {place}.",
    "The meeting with the {person} starts at {number} o'clock.",
    "We ordered {number} {thing}s online and got only one.",
    "This is the best {thing} I have ever had.",
    "This {thing} is terrible; I want my money back.",
    "The film about the {noun} was {adjective} and far too long.",
    "I love my {noun}, even when it is {adjective}.",
    "What a {adjective} day!",
    "Yes, I'd like a {thing}, please.",
    "No, the {person} isn't here.",
    "Thank you for the {thing}!",
    "{name}'s {person} works as a {person2} in the {place}.",
    "Why was the {person} so {adjective} {time}?",
    "The {noun} that the {person} saw at the {place} was {adjective}.",
    "The {thing} that {name} bought {time} was made of {material}.",
    "{material} is heavier than {material2}.",
    "You can make a {thing} from {material}.",
    "The {person} took the {thing} out of the {thing2} and gave it to the {noun}.",
    "Not every {noun} is {adjective}.",
    "Nobody told {name} that the {place} had moved.",
    "The old {place} in {city} was sold for {number} million euros.",
    "{city} is {adjective} in summer and cold in winter.",
    "The train from {city} to {city2} was {number} minutes late.",
    "Dear {name}, I hope you are well. The {thing} arrived {time}.",
    "Hi {name}, are you free {time}?",
    "Open the {thing}, press the {colour} button and wait {number} seconds.",
    "The {colour} {thing} belongs to {name}, the {colour2} one to {name2}.",
    "Her {person} painted the {place} {colour}.",
    "The model reads each {thing} as a vector of {number} numbers.",
    "A computer can {action} a {thing} faster than a {person}.",
    "The program stopped because the {thing} was {adjective}.",
    "Scientists in {city} found a new way to {action} {material}.",
    "The team from {city} won {number} to {number2}.",
    "Version {number}.{number2} of the app fixes a problem with the {thing}.",
    "{name} can {action} a {thing}, can't she?",
    "Although the {noun} was {adjective}, the {person} did not {action} it.",
    "The doctor told the {person} to {action} less and to sleep more.",
    "Both the {noun} and the {noun2} live near the {place}.",
)


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


WORDS: Final[dict[str, tuple[str, ...]]] = {
    "noun": _words(
        "dog cat horse bird mouse cow sheep goat fox wolf bear rabbit duck chicken spider snake frog fish monkey lion "
        "elephant robot child baby kitten puppy pig bee turtle whale"
    ),
    "thing": _words(
        "book phone key car bicycle table chair cup bottle bag letter picture door window lamp computer camera cake "
        "sandwich pizza apple coffee ticket umbrella coat shirt shoe ball box suitcase trophy guitar knife clock "
        "newspaper keyboard battery sentence word message file boat river wall fence"
    ),
    "place": _words(
        "market school station library hospital bank museum park beach office kitchen garden airport hotel restaurant "
        "church theatre supermarket village forest bridge factory farm university pharmacy playground"
    ),
    "person": _words(
        "mother father sister brother friend neighbour teacher doctor nurse lawyer driver student boss uncle aunt cook "
        "farmer engineer waiter singer pilot manager grandmother lady man woman girl boy"
    ),
    "adjective": _words(
        "small big heavy old new hungry thirsty slow fast happy sad angry beautiful ugly expensive cheap warm cold wet "
        "dry dirty clean strange loud quiet dangerous easy hard empty full bright dark long short busy sick clever "
        "boring tired wide deep strong weak"
    ),
    "action": _words(
        "open carry find watch read write paint cut clean wash drop throw sell buy follow push pull lift break repair "
        "touch reach cross climb build move"
    ),
    "name": _words("Anna Ben Maria John Li Ahmed Sofia Tom Emma Peter Yuki David Laura Omar Nina Carlos Ivan"),
    "city": _words("Paris London Berlin Tokyo Rome Madrid Cairo Chicago Boston Vienna Sydney Delhi Oslo"),
    "material": _words("wood gold water paper iron glass plastic cotton stone sugar silver leather"),
    "colour": _words("red blue green yellow black white brown grey"),
    "number": _words("two three four five six seven eight nine ten 12 15 20 48 100 250 3,000"),
    "time": (
        *("today", "yesterday", "tomorrow", "last night", "this morning", "on Monday", "on Sunday", "in the evening"),
        *("after work", "at noon", "last week", "next year", "every day", "in May"),
    ),
}

HELD_OUT_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "noun": ("animal", "tiger", "penguin", "donkey", "pigeon"),
    "thing": ("street", "piano", "violin", "pencil", "blanket", "mirror", "map"),
    "place": ("bakery", "harbour", "castle", "cinema"),
    "person": ("dentist", "gardener", "cousin", "judge"),
    "name": ("Clara", "Hiroshi", "Miguel"),
    "city": ("Lisbon", "Toronto", "Nairobi"),
}

_SLOT = re.compile(r"\{([a-z]+)2?\}")


def everyday_sentence(rng: np.random.Generator, *, held_out: bool = False) -> str:
    """One sentence. A held-out one has a word that no training sentence has; no two slots hold the same word."""
    frame = FRAMES[rng.integers(len(FRAMES))]
    while held_out and not any(slot in HELD_OUT_WORDS for slot in _SLOT.findall(frame)):
        frame = FRAMES[rng.integers(len(FRAMES))]
    used: set[str] = set()

    def word(slot: re.Match[str]) -> str:
        words = HELD_OUT_WORDS.get(slot[1], WORDS[slot[1]]) if held_out else WORDS[slot[1]]
        free = [word for word in words if word not in used]
        chosen = free[rng.integers(len(free))]
        used.add(chosen)
        return chosen

    sentence = _SLOT.sub(word, frame)
    return sentence[0].upper() + sentence[1:]


def is_held_out_sentence(text: str) -> bool:
    """Whether the text has a word that is kept for testing, or its plural."""
    words = set(re.findall(r"\w+", text.lower()))
    kept = {word.lower() for group in HELD_OUT_WORDS.values() for word in group}
    return bool(words & (kept | {f"{word}s" for word in kept}))
