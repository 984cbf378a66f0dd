"""The words that questions are written with in text."""

from collections.abc import Sequence
from itertools import product

_SYLLABLES = [consonant + vowel for consonant, vowel in product("bdfghjklmnprstvwyz", "aeiou")]
_FIRST = """
Adam Alice Amy Anna Arthur Ben Carl Carol Clara Daniel David Diana Edward Ella Emma Eric Eva Frank Fred George Grace Harry
Helen Henry Hugo Ian Ida Jack James Jane John Julia Karen Kate Laura Leo Liam Lily Louis Lucy Mark Martin Mary Max Mia Nina
Noah Nora Olivia Oscar Paul Peter Ralph Rosa Ruth Sam Sara Simon Sophie Theo Thomas Tim Vera Walter
"""
_LAST = """
Adler Allen Baker Barnes Bell Bennett Brooks Brown Butler Carter Clark Cole Collins Cook Cooper Cox Davis Dixon Evans Fisher
Foster Fox Gibson Gray Green Hall Harris Hill Howard Hughes Hunt Jones Kelly King Lane Lewis Long Marsh Mason Miller Moore
Morgan Morris Murphy Nelson Owen Palmer Parker Perry Porter Powell Price Reed Rice Ross Scott Shaw Stone Taylor Turner Walker
Ward Watson Wood
"""
LEXICON: dict[str, Sequence[str | int]] = {
    "word": [first + second for first, second in product(_SYLLABLES, repeat=2)],
    "first": _FIRST.split(),
    "last": _LAST.split(),
    "digit": list("0123456789"),
    "number": range(1_000_000, 10_000_000),
    "group": [f"{number:04x}" for number in range(2**16)],
}
"""The words of each kind. Plain words are two syllables without a meaning."""
