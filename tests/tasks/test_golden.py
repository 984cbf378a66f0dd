"""Hashes of the rows of every task. If one of these changes, so has every past run of that task: raise the task's `version`."""

import hashlib

import pytest

from recollect.tasks import TASKS, as_task

MIXED = ["mqar", {"kind": "mqar", "length": 128}]
GOLDEN: dict[str, tuple[dict, str]] = {
    "ar": ({"kind": "ar"}, "bb28db45badbfa21"),
    "compositional": ({"kind": "compositional"}, "a8ede03f3699c4ff"),
    "copy": ({"kind": "copy"}, "d939d00720874482"),
    "duplicates": ({"kind": "duplicates"}, "db6248f599119be4"),
    "fuzzy": ({"kind": "fuzzy"}, "8b3d8da4afa88569"),
    "induction": ({"kind": "induction"}, "01112c5021835d1c"),
    "mqar": ({"kind": "mqar"}, "ac405193538b491e"),
    "ngram": ({"kind": "ngram"}, "232dfbbc1287c027"),
    "noisy": ({"kind": "noisy"}, "f27edb9bf3877cd4"),
    "position": ({"kind": "position"}, "f08929c4df34b0ca"),
    "selective_copy": ({"kind": "selective_copy"}, "fec930213b37937d"),
    "updating": ({"kind": "updating"}, "2c5e9e1a82d54436"),
    "mixture": ({"kind": "mixture", "parts": MIXED}, "3e858ec0256ebe92"),
    "mixture, weighted": ({"kind": "mixture", "parts": MIXED, "weights": [3, 1]}, "88daa83fae7ac525"),
    "mqar, zoology": ({"kind": "mqar", "variant": "zoology"}, "a16fb3805a5a032b"),
    "mqar, shared": ({"kind": "mqar", "roles": "shared"}, "6c17ae3109c7d763"),
    "copy, packed": ({"kind": "copy", "packed": True}, "7d4d392db3c48626"),
    "ngram, jelassi": ({"kind": "ngram", "variant": "jelassi"}, "9a28f446658522cb"),
    "ngram, jelassi, packed": ({"kind": "ngram", "variant": "jelassi", "packed": True}, "8d634301caf793bd"),
    "duplicates, released": ({"kind": "duplicates", "variant": "released"}, "67495b1f2f14975f"),
    "position, sampled": ({"kind": "position", "variant": "sampled"}, "82e0998b0fd5258b"),
    "compositional, 8 of 16": ({"kind": "compositional", "pairs": 8}, "573acdf565aeacca"),
    "copy, reversed": ({"kind": "copy", "reverse": True}, "15914705d13b998c"),
    "words": ({"kind": "words"}, "0d8f2dceee8f864d"),
    "words, a5": ({"kind": "words", "group": "a5"}, "a30dfad92a32df62"),
    "parity": ({"kind": "parity"}, "35db404fce0df0f8"),
    "modular": ({"kind": "modular"}, "7a9b8c6927899c4b"),
    "modular, brackets": ({"kind": "modular", "brackets": True}, "7fcd3dadaa268d6b"),
    "stacks": ({"kind": "stacks"}, "25664b8046148133"),
    "hops": ({"kind": "hops"}, "2f62b21f079013b6"),
    "mad_recall": ({"kind": "mad_recall"}, "c996f9b8ed92a6b8"),
    "mad_noisy": ({"kind": "mad_noisy"}, "d6891b5d3b4aeedd"),
    "mad_fuzzy": ({"kind": "mad_fuzzy"}, "f766bac498d2892a"),
    "mad_fuzzy, tested": ({"kind": "mad_fuzzy", "largest_keys": True}, "f3a6c585073ea40b"),
    "mad_memorization": ({"kind": "mad_memorization"}, "ec19b08413050712"),
    "mad_compression": ({"kind": "mad_compression"}, "5e360cbe3eee386e"),
    "mad_selective_copy": ({"kind": "mad_selective_copy"}, "7433024cc0ee5ee1"),
    "updating, zoology": ({"kind": "updating", "variant": "zoology"}, "69015d50debe5290"),
}


def rows_hash(fields: dict) -> str:
    batch = as_task(fields).batch(42, "train", 64)
    hashed = hashlib.sha256()
    for tensor in (batch.tokens, batch.positions, batch.answers, batch.trained):
        hashed.update(tensor.contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rows_have_not_changed(name):
    fields, expected = GOLDEN[name]
    assert rows_hash(fields) == expected


def test_every_task_has_a_hash():
    assert {fields["kind"] for fields, _ in GOLDEN.values()} == set(TASKS)
