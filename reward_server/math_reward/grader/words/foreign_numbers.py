"""Number words of other languages, from nought to a hundred: German, French, Spanish, Italian, Portuguese, Russian."""

from __future__ import annotations

import itertools
from collections.abc import Callable

_GERMAN = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn"
    " achtzehn neunzehn",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
)
_FRENCH = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit"
    " dix-neuf",
    "vingt trente quarante cinquante soixante soixante-dix quatre-vingt quatre-vingt-dix",
)
_SPANISH = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete"
    " dieciocho diecinueve",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
)
_TWENTIES = "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
_ITALIAN = (
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici"
    " diciassette diciotto diciannove",
    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
)
_PORTUGUESE = (
    "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete"
    " dezoito dezenove",
    "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
)
_RUSSIAN = (
    "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать"
    " пятнадцать шестнадцать семнадцать восемнадцать девятнадцать",
    "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
)


def _composed(language: tuple[str, str], joined: Callable[[str, str, int], str]) -> dict[str, int]:
    """The words up to 99; ``joined`` makes one of a ten, a unit's word and the unit."""
    small, tens = (words.split() for words in language)
    words = dict(zip(small, itertools.count()))
    for value, ten in zip(range(20, 100, 10), tens, strict=True):
        words[ten] = value
        words |= {joined(ten, small[unit], unit): value + unit for unit in range(1, 10)}
    return words


def _in_german(ten: str, word: str, unit: int) -> str:
    return f"{'ein' if unit == 1 else word}und{ten}"


def _in_french(ten: str, word: str, unit: int) -> str:
    if ten.endswith("-dix"):  # soixante-dix is seventy, soixante-douze seventy-two
        ten, word = ten.removesuffix("-dix"), _FRENCH[0].split()[10 + unit]
    return f"{ten} et {word}" if unit == 1 and "quatre" not in ten else f"{ten}-{word}"


def _in_italian(ten: str, word: str, unit: int) -> str:
    return (ten[:-1] if unit in (1, 8) else ten) + ("tré" if unit == 3 else word)


FOREIGN_NUMBERS: dict[str, int] = {}
"""A number word in lower case to its value; words that mean something else in English are left out."""
for _words in (
    _composed(_GERMAN, _in_german) | {"hundert": 100, "einhundert": 100},
    _composed(_FRENCH, _in_french) | {"quatre-vingts": 80, "vingt-et-un": 21},
    _composed(_SPANISH, lambda ten, word, unit: f"{ten} y {word}")
    | dict(zip(_TWENTIES.split(), itertools.count(21)))
    | {"cien": 100},
    _composed(_ITALIAN, _in_italian),
    _composed(_PORTUGUESE, lambda ten, word, unit: f"{ten} e {word}") | {"cem": 100},
    _composed(_RUSSIAN, lambda ten, word, unit: f"{ten} {word}") | {"сто": 100},
):
    FOREIGN_NUMBERS |= {word.replace("ß", "ss"): value for word, value in _words.items()} | _words
for _word in ("once", "six", "sept", "seize", "null", "elf", "acht", "un", "um", "sei", "seis", "zero"):
    FOREIGN_NUMBERS.pop(_word, None)
