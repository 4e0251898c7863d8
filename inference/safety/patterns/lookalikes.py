"""Letters that look like Latin ones: what is written with them is compared as if it were Latin.

Only what NFKD leaves (it undoes full-width, circled and mathematical letters). The table works on case-folded
letters, both cases of a letter become the same one; where they look unlike, the letter that is more alike decides.
"""

# ruff: noqa: RUF001 - to be ambiguous is their point

from __future__ import annotations

_GROUPS = {
    "a": "аɑαᴀⱥ",
    "b": "вβʙƀɓ",
    "c": "сᴄƈↄ",
    "d": "ԁđɗᴅ",
    "e": "еεєᴇɛəҽ",
    "f": "ꜰƒẝ",
    "g": "ɡɢԍǥɠ",
    "h": "һнηћհħʜ",
    "i": "іιıɩɪӏɨ",
    "j": "јϳᴊɉ",
    "k": "кκᴋƙ",
    "l": "ʟłƚǀ",
    "m": "мμᴍ",
    "n": "ոɴŋƞ",
    "o": "оοօσᴏøɔө",
    "p": "рρᴘƥ",
    "q": "ԛզ",
    "r": "гʀɍ",
    "s": "ѕꜱʂƨ",
    "t": "тτᴛŧƭ",
    "u": "υսᴜʉ",
    "v": "νѵᴠ",
    "w": "ԝωᴡѡ",
    "x": "хχ",
    "y": "уүγʏɏ",
    "z": "ζᴢƶȥ",
}
_RUNS = (0x1F150, 0x1F170)  # negative circled, negative squared: each A to Z. No regional indicators: they are flags

LOOKALIKES: dict[str, str] = {alike: latin for latin, letters in _GROUPS.items() for alike in letters} | {
    chr(first + n): chr(ord("a") + n) for first in _RUNS for n in range(26)
}
