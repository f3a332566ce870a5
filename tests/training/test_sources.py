"""The packages of text: fetched once, checked, cut into documents. No test needs a network."""

import dataclasses
import io
import json
import tarfile

import pytest

from training import sources
from training.sources import BIBLE, PACKAGES, Document, SourceError, fetch, read_bible, read_stdlib, read_wordnet


def write(name):
    """A command that leaves a file of this name."""
    return ("python3", "-c", f"open({name!r}, 'w').write('text')")


TEXT = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
"""SHA-256 of the four letters `text`."""


@pytest.fixture
def package(monkeypatch):
    """The only package, which is made on the spot."""
    package = dataclasses.replace(BIBLE, file="a.deb", command=write("a.deb"), sha256=TEXT)
    monkeypatch.setattr(sources, "PACKAGES", (package,))
    return package


def only(monkeypatch, package, **changes):
    monkeypatch.setattr(sources, "PACKAGES", (dataclasses.replace(package, **changes),))


def test_a_package_is_fetched_once(tmp_path, package, monkeypatch):
    assert fetch(tmp_path / "new") == {package: tmp_path / "new" / "a.deb"}
    only(monkeypatch, package, command=("false",))
    assert list(fetch(tmp_path / "new").values()) == [tmp_path / "new" / "a.deb"]


@pytest.mark.parametrize("command", [("false",), ("no-such-command-here",), ("true",)])
def test_a_package_that_cannot_be_had_is_named_with_its_address(tmp_path, package, monkeypatch, command):
    only(monkeypatch, package, command=command)
    with pytest.raises(SourceError, match=rf"{command[0]}.*get it from http://deb\.debian\.org/.* put it at .*a\.deb"):
        fetch(tmp_path)


def test_another_file_than_the_pinned_one_is_refused(tmp_path, package, monkeypatch):
    (tmp_path / "a.deb").write_text("changed")
    with pytest.raises(SourceError, match=r"a\.deb is not the pinned file: delete it"):
        fetch(tmp_path)


def test_every_package_is_pinned():
    for package in PACKAGES:
        assert len(package.sha256) == 64
        assert any("0.4.0" in part or "=" in part for part in package.command)
        assert package.licence


def test_addresses_and_chapters(tmp_path):
    path = tmp_path / "datasets.tgz"
    contents = {
        "package/sotu/data/1790_x.json": {"year": 1790, "text": "Fellow-Citizens:  I am glad. Are you?"},
        "package/moby-dick/data/chapter_1.json": {"title": "Loomings", "text": "Call me Ishmael. Some years ago; so."},
        "package/sotu/data/1790_x.txt": {},
        "package/sotu/data/names.json": ["no", "text"],
        "package/emoji/data/data.json": {"text": "no prose"},
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(json.dumps(content))
            archive.addfile(member, io.BytesIO(json.dumps(content).encode()))
    assert list(read_stdlib(path)) == [
        Document("sotu/1790_x", ("Fellow-Citizens: I am glad.", "Are you?")),
        Document("moby-dick/chapter_1", ("Call me Ishmael.", "Some years ago;", "so.")),
    ]


def compressed(text):
    """In the format of `compress`, without its magic number: up to 255 letters are 9 bits each, low bits first."""
    assert len(text) < 255
    bits = sum(ord(letter) << (9 * at) for at, letter in enumerate(text))
    return bits.to_bytes((9 * len(text) + 7) // 8, "little")


def test_books_of_verses(monkeypatch, tmp_path):
    blocks = [
        compressed("Holy Bible, a title\nGe1:1 In the beginning. And\nGe1:2 the ear"),
        compressed("th.\n2Jn1:1 The elder\n"),
    ]
    start = 0x5C + 4 * len(blocks)
    offsets = [start, start + len(blocks[0])]
    data = b"EC02".ljust(0x58, b"\0") + b"".join(n.to_bytes(4) for n in (len(blocks), *offsets)) + b"".join(blocks)
    monkeypatch.setattr(sources, "_from_deb", lambda path, names: {names[0]: data})
    assert list(read_bible(tmp_path)) == [
        Document("bible/Ge", ("In the beginning. And", "the earth.")),
        Document("bible/2Jn", ("The elder",)),
    ]


def test_entries_of_the_dictionary(monkeypatch, tmp_path):
    lines = [
        "  1 This software and database is being provided | to you",
        "00002684 03 n 02 physical_object 0 object 0 001 @ 00001740 n 0000 | a tangible entity; that casts a shadow; "
        '"it was full of balls"; "too short"  ',
        "00001740 03 n 01 entity 0 000 | that which is  ",
    ]
    files = {"./usr/share/wordnet/data.noun": "\n".join(lines).encode()}
    monkeypatch.setattr(sources, "_from_deb", lambda path, names: files)
    assert list(read_wordnet(tmp_path)) == [
        Document(
            "wordnet/noun.00002684", ("physical object: a tangible entity; that casts a shadow", "it was full of balls")
        ),
        Document("wordnet/noun.00001740", ("entity: that which is",)),
    ]
