"""Multi30k: where its files are, and what they must contain.

Descriptions of 31,014 images in English and German (29,000 to train on, 1,014 for validation, 1,000 in test 2016).
For research and education only.

Reference:
    Elliott et al., 2016, "Multi30K: Multilingual English-German Image Descriptions".
"""

from pathlib import Path

from zoo.tasks.download import cache_directory, fetch

_SOURCE = "https://raw.githubusercontent.com/multi30k/dataset"

#: Path at the source, with the commit it is pinned to -> SHA-256 of the text.
_FILES = {
    "c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw": {
        "train.en.gz": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "train.de.gz": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "val.en.gz": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "val.de.gz": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "test_2016_flickr.en.gz": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "test_2016_flickr.de.gz": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    },
    "7bee46bc74186b4b6254603143610f730d40bf66/data/task1/tok": {
        "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
        "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
        "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
        "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
        "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
        "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    },
}


def download(stem: str, languages: tuple[str, str]) -> Path:
    """Fetches ``stem.language`` of both languages where Multi30k has them, and gives the folder they lie in.

    Raises:
        InputError: a download fails; the message says where to put a copy.
    """
    folder = cache_directory() / "multi30k"
    for where, files in _FILES.items():
        for name, checksum in files.items():
            if name.removesuffix(".gz") in (f"{stem}.{language}" for language in languages):
                fetch(f"{_SOURCE}/{where}/{name}", checksum, folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
