"""Number words of other languages, from nought to a hundred: German, French, Spanish, Italian, Portuguese, Russian."""

from __future__ import annotations

import itertools


def _german() -> dict[str, int]:
    small = (
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn"
        " achtzehn neunzehn"
    ).split()
    tens = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
    words = dict(zip(small, range(20), strict=True)) | {"hundert": 100, "einhundert": 100}
    for place, ten in enumerate(tens, 2):
        words[ten] = 10 * place
        for unit in range(1, 10):
            words[f"{'ein' if unit == 1 else small[unit]}und{ten}"] = 10 * place + unit
    return words | {word.replace("ß", "ss"): value for word, value in words.items()}


def _french() -> dict[str, int]:
    small = (
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit"
        " dix-neuf"
    ).split()
    words = dict(zip(small, range(20), strict=True)) | {"cent": 100, "quatre-vingts": 80}
    tens = {"vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60, "quatre-vingt": 80}
    for ten, value in tens.items():
        words.setdefault(ten, value)
        for unit in range(1, 20 if value >= 60 else 10):
            joint = " et " if unit in (1, 11) and value < 80 else "-"
            words[f"{ten}{joint}{small[unit]}"] = value + unit
    return words | {word.replace(" et ", "-et-"): value for word, value in words.items()}


def _romance(small: str, tens: str, joint: str) -> dict[str, int]:
    words = dict(zip(small.split(), itertools.count()))
    units = small.split()
    for place, ten in enumerate(tens.split(), 2):
        words[ten] = 10 * place
        words |= {f"{ten}{joint}{units[unit]}": 10 * place + unit for unit in range(1, 10)}
    return words


def _spanish() -> dict[str, int]:
    small = (
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete"
        " dieciocho diecinueve"
    )
    words = _romance(small, "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa", " y ")
    twenties = "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
    return words | dict(zip(twenties.split(), itertools.count(21))) | {"cien": 100}


def _italian() -> dict[str, int]:
    small = (
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici"
        " diciassette diciotto diciannove"
    )
    words = dict(zip(small.split(), itertools.count())) | {"cento": 100}
    tens = "venti trenta quaranta cinquanta sessanta settanta ottanta novanta"
    for place, ten in enumerate(tens.split(), 2):
        words[ten] = 10 * place
        for unit, word in enumerate(small.split()[1:10], 1):
            stem = ten[:-1] if unit in (1, 8) else ten
            words[stem + ("tré" if unit == 3 else word)] = 10 * place + unit
    return words


def _portuguese() -> dict[str, int]:
    small = (
        "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete dezoito"
        " dezenove"
    )
    tens = "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa"
    return _romance(small, tens, " e ") | {"cem": 100, "dezasseis": 16, "dezassete": 17, "dezanove": 19}


def _russian() -> dict[str, int]:
    small = (
        "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать"
        " пятнадцать шестнадцать семнадцать восемнадцать девятнадцать"
    )
    tens = "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто"
    return _romance(small, tens, " ") | {"сто": 100}


FOREIGN_NUMBERS: dict[str, int] = {}
for _language in (_german, _french, _spanish, _italian, _portuguese, _russian):
    for _word, _value in _language().items():
        # "six" is English and French, "once" Spanish and English: a word of two meanings is no number.
        FOREIGN_NUMBERS[_word] = _value if FOREIGN_NUMBERS.get(_word, _value) == _value else -1
FOREIGN_NUMBERS = {
    word: value
    for word, value in FOREIGN_NUMBERS.items()
    if value >= 0
    and word not in ("once", "cent", "cento", "sei", "um", "un", "elf", "acht", "six", "sept", "seize", "null")
}
"""A number word in lower case to its value; words that mean something else in English are left out."""
