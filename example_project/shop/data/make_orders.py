"""Make ``orders.json``: the orders of the demo, with the awkward things of real orders and the end each must have.

The same file comes out of every run: ``python -m example_project.shop.data.make_orders``. Each expected end holds in
any order of execution, because an item either has plenty for all of them or too little for any.
"""

import json
import unicodedata
from pathlib import Path
from random import Random
from typing import Any

ORDERS = 600
FILE = Path(__file__).with_name("orders.json")
GOOD_CARDS = ["tok_visa", "tok_mastercard", "tok_amex", "tok_girocard"]
BAD_CARDS = ["tok_declined", "tok_stolen", "tok_insufficient_funds"]

NAMES = [
    "Anna Schmidt", "Siobhán O'Brien", "José Ñandú", "Zoë Müller-Lüdenscheidt", "Łukasz Żółć", "Nguyễn Thị Ánh",
    "İbrahim Işık", "Þórdís Æsa Guðmundsdóttir", "Keʻalohilani Kahananui", "D’Angelo “Dee” Núñez", "Jean-François Lœuf",
    "Αλέξανδρος Παπαδόπουλος", "Екатерина Щёголева", "Ґалаґан Їжакевич", "გიორგი ბერიძე", "Արմեն Պետրոսյան",
    "محمد عبد الرحمن", "فاطمة الزهراء", "دانیال پ‌هلوان", "שרה בת־שבע", "מֹשֶׁה כֹּהֵן",
    "अनिता शर्मा", "সুমিত্রা সেন", "சுப்பிரமணியன்", "ស៊ុន សុភា", "สมชาย ใจดี", "ཚེ་རིང་", "አበበ በቂላ",
    "王小明", "𠮷野家 太郎", "渡邉 さくら", "김철수", "ᄀᆞᆷ나라", "Ƥʼoo Tʼáá",
    "Z̸͎̈a̷̛͜l̶̰͋g̴̻͝o", "👩‍👩‍👧‍👦 Family", "Nurse 🧑🏽‍⚕️ Kim", "🏳️‍🌈 Sam", "☃",
    "Robert'); DROP TABLE orders;--", "<b>Bold</b> & Söhne", "\"Quoted\" \\Backslash\\", "{{ customer }} %s {0}",
    "Null", "X", "  two  blanks  ", "\u200fright\u200f-to-left \u202emarks\u202c", "ﬁ ligature", "Ａｆｕｌｌｗｉｄｔｈ",
    "Hubert Blaine " + "Wolfeschlegelsteinhausenbergerdorff" * 4,
]  # fmt: skip

PLENTY = [
    ("BOOK-1", "A book", 1999), ("TEA-1", "緑茶 100 g", 850), ("MUG-Ü", "Becher „Süßes Glück“", 1290),
    ("FREE-1", "A sticker, free of charge", 0), ("CENT-1", "A nail", 1), ("PEN-1", "קולמוס", 333),
    ("ODD-1", "O'Reilly's \"odd\" lamp \\ 50 % <off>", 4995), ("YACHT-1", "A yacht ⛵", 249_999_999),
]  # fmt: skip
TOO_FEW = [("GONE-1", "Sold out since spring", 500, 0), ("GONE-2", "نفد من المخزون", 12_500, 0),
           ("PAIR-1", "The last pair", 7_900, 2)]  # fmt: skip


def make() -> dict[str, Any]:
    """Return the items and the orders."""
    dice = Random(20240229)
    plenty = [{"sku": sku, "name": name, "price_cents": price, "on_hand": 10**9} for sku, name, price in PLENTY]
    few = [{"sku": sku, "name": name, "price_cents": price, "on_hand": left} for sku, name, price, left in TOO_FEW]
    return {"items": plenty + few, "orders": [_order(number, dice) for number in range(1, ORDERS + 1)]}


def _order(number: int, dice: Random) -> dict[str, Any]:
    who = _pick(_customers(), dice)
    is_short, is_declined, is_empty, is_big = (dice.random() < share for share in (0.12, 0.12, 0.05, 0.08))
    item = _pick(TOO_FEW if is_short else PLENTY, dice)
    quantity = 0 if is_empty else _quantity(is_short, is_big, dice)
    return {
        "number": f"{number:04}",
        **who,
        "sku": item[0],
        "quantity": quantity,
        "card": _pick(BAD_CARDS if is_declined else GOOD_CARDS, dice),
        "expected": _expected(is_empty, is_short, is_declined),
    }


def _quantity(is_short: bool, is_big: bool, dice: Random) -> int:
    if is_short:
        return 3 + int(dice.random() * 5)  # more than the fullest of TOO_FEW has
    return 1000 + int(dice.random() * 9000) if is_big else 1 + int(dice.random() * 4)


def _expected(is_empty: bool, is_short: bool, is_declined: bool) -> str:
    """Return the end of an order; the first step that objects decides."""
    if is_empty:
        return "invalid"
    if is_short:
        return "out_of_stock"
    return "declined" if is_declined else "paid"


def _customers() -> list[dict[str, str]]:
    """Return each name twice, as composed and as combining characters: to a computer, two different names."""
    forms = [unicodedata.normalize(form, name) for name in NAMES for form in ("NFC", "NFD")]
    return [{"customer": name, "email": f"customer+{place}@shop.example"} for place, name in enumerate(forms)]


def _pick(choices: list[Any], dice: Random) -> Any:
    return choices[int(dice.random() * len(choices))]  # random() alone is promised to be alike in all Pythons


if __name__ == "__main__":
    FILE.write_text(json.dumps(make(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
