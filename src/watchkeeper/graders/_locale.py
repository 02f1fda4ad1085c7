"""Numbers as people of a place write them: ``1.500`` is one thousand five hundred in es-AR.

Source: Unicode CLDR, the standard decimal format of each locale (compared with Babel 2.19).
Locales whose usage is split (fr-CH, de-AT, en-ZA, es-CR) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from watchkeeper.graders._wording import quoted

_LONGEST = 60
_MINUS_SIGNS = ("-", "\u2212")
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Convention:
    """The signs between groups of digits (any one of them), the decimal sign, and the groups."""

    groups: str
    decimal: str
    grouped: re.Pattern[str]


_THREES = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_LAKHS = re.compile(r"[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}")
_POINT_COMMA = Convention(".", ",", _THREES)
_COMMA_POINT = Convention(",", ".", _THREES)
_SPACE_COMMA = Convention(" \u00a0\u202f", ",", _THREES)
_APOSTROPHE_POINT = Convention("'\u2019", ".", _THREES)
_INDIAN = Convention(",", ".", _LAKHS)

LOCALES: Mapping[str, Convention] = {
    **dict.fromkeys(
        (
            *("da-DK", "de-DE", "es-AR", "es-BO", "es-CL", "es-CO", "es-EC", "es-ES", "es-PY"),
            *("es-UY", "es-VE", "id-ID", "it-IT", "nl-BE", "nl-NL", "pt-BR", "tr-TR", "vi-VN"),
        ),
        _POINT_COMMA,
    ),
    **dict.fromkeys(
        (
            *("en-AU", "en-CA", "en-GB", "en-IE", "en-NZ", "en-US", "es-MX", "es-PE", "es-US"),
            *("ja-JP", "ko-KR", "zh-CN", "zh-TW"),
        ),
        _COMMA_POINT,
    ),
    **dict.fromkeys(
        (
            *("cs-CZ", "fi-FI", "fr-BE", "fr-CA", "fr-FR", "hu-HU", "nb-NO", "pl-PL", "pt-PT"),
            *("ru-RU", "sv-SE", "uk-UA"),
        ),
        _SPACE_COMMA,
    ),
    **dict.fromkeys(("de-CH", "it-CH"), _APOSTROPHE_POINT),
    **dict.fromkeys(("en-IN", "hi-IN"), _INDIAN),
}


class NotANumber(ValueError):
    """The text is not a number of the locale; the message says why."""


def number_in(text: str, locale: str) -> Decimal:
    """The number that a text is, read by the convention of a known locale.

    An optional minus, then digits either all ungrouped or correctly grouped throughout, then
    optionally the decimal sign and at least one digit. Nothing else: no blanks, currency, percent.

    Raises:
        NotANumber: It is anything else; a badly grouped number is never guessed at.
    """
    convention = LOCALES[locale]
    refused = f"{quoted(text)} is not a number in {locale}"
    if len(text) > _LONGEST:
        raise NotANumber(refused)
    is_negative = text.startswith(_MINUS_SIGNS)
    whole, decimal_sign, fraction = text[is_negative:].partition(convention.decimal)
    if decimal_sign and not _DIGITS.fullmatch(fraction):
        raise NotANumber(f"{refused}: only digits may follow its decimal sign")
    if not _DIGITS.fullmatch(whole):
        used = {one for one in whole if one in convention.groups}
        if not used or not _DIGITS.fullmatch(_replaced(whole, used, "")):
            raise NotANumber(refused)
        if len(used) > 1 or not convention.grouped.fullmatch(_replaced(whole, used, ",")):
            raise NotANumber(f"{refused}: its digits are not grouped as they are there")
        whole = _replaced(whole, used, "")
    return Decimal(f"{'-' if is_negative else ''}{whole}.{fraction or '0'}")


def _replaced(text: str, signs: set[str], by: str) -> str:
    for sign in signs:
        text = text.replace(sign, by)
    return text
