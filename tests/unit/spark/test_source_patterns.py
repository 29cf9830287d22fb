r"""Expressions that mean the same in Java and Python are taken, and all others refused in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.spark.source.patterns import PatternRefused, compiled

NAMES = ("orders", "orders-1", "Orders.eu_2", "o", "oo", "a-b", "7")


def matched(pattern: str) -> list[str]:
    found = compiled(pattern)
    return [name for name in NAMES if found.fullmatch(name)]


SAME = [
    (r"orders.*", ["orders", "orders-1"]),
    (r"orders", ["orders"]),
    (r"^orders$", ["orders"]),
    (r"\Aorders", ["orders"]),
    (r"(?i)ORDERS.*", ["orders", "orders-1", "Orders.eu_2"]),
    (r"(?i:o)rders\.\w+", ["Orders.eu_2"]),
    (r"(?ms-i:orders)", ["orders"]),
    (r"(?-i:orders)", ["orders"]),
    (r"(?:orders|a)-[\d\w]", ["orders-1", "a-b"]),
    (r"(o)\1", ["oo"]),
    (r"(?!orders)[a-z\-]+", ["o", "oo", "a-b"]),
    (r".*(?<=-)1", ["orders-1"]),
    (r".*(?<!1)", ["orders", "Orders.eu_2", "o", "oo", "a-b", "7"]),
    (r"o{2}", ["oo"]),
    (r"o{1,}?", ["o", "oo"]),
    (r"o{0,2}", ["o", "oo"]),
    (r"o++", ["o", "oo"]),
    (r"o*+o", []),
    (r"(?>o|oo)", ["o"]),
    (r"[^-_.A-Z]+", ["orders", "o", "oo", "7"]),
    (r"\x6f\u006f", ["oo"]),
    (r"\D+\d", ["orders-1", "Orders.eu_2"]),
    (r"[a&b|c~d]-\S", ["a-b"]),
    (r"a\-b|\bo\b", ["o", "a-b"]),
    (r"[\[\]]|\{7\}|7", ["7"]),
    (r"}|]|o", ["o"]),
]


@pytest.mark.parametrize(("pattern", "names"), SAME)
def test_what_means_the_same_is_taken(pattern: str, names: list[str]) -> None:
    assert matched(pattern) == names


REFUSED = [
    (r"\p{Alpha}+", r"has \\p at 0, which is not the same in Java and Python: name the characters"),
    (r"a\P{L}", r"has \\P at 1"),
    (r"\Qa.b\E", r"has \\Q at 0.*put a backslash before each special character"),
    (r"orders\z", r"has \\z at 6.*the whole name has to match in any case"),
    (r"orders\Z", r"has \\Z at 6"),
    (r"\h*", "nothing of the kind"),
    (r"a\R", "nothing of the kind"),
    (r"\X", "nothing of the kind"),
    (r"\v", "nothing of the kind"),
    (r"\Ga", "nothing of the kind"),
    (r"[\b]", "name the characters"),
    (r"\ca", "name the characters"),
    (r"\N{DIGIT ONE}", "nothing of the kind"),
    (r"(?<year>\d+)", r"has \(\?<y at 0.*names of groups are written differently"),
    (r"(?P<year>\d+)", "names of groups are written differently"),
    (r"(?P<a>o)(?P=a)", "names of groups are written differently"),
    (r"(?<a>o)\k<a>", "names of groups are written differently"),
    (r"(o)\k<a>", "by its number"),
    (r"[a-z&&[^b]]", r"has && at 4"),
    (r"[a[b]]", "brackets in brackets"),
    (r"[[:alpha:]]", "brackets in brackets"),
    (r"[a--b]", "has -- at 2"),
    (r"[]a]", r"backslash before it: \\\]"),
    (r"[^]a]", r"backslash before it"),
    (r"[abc", "it is not closed"),
    (r"o(?i)r", "of flags i, m and s are the same"),
    (r"(?x)o r", "of flags"),
    (r"(?u)o", "of flags"),
    (r"(?U)o", "of flags"),
    (r"(?a:o)", "of flags"),
    (r"(?L)o", "of flags"),
    (r"o(?-i)r", "of flags"),
    (r"(?#all)o", "no such comments"),
    (r"(o)?(?(1)o|a)", "no conditions"),
    (r"o{,2}", r"has \{, at 1.*repeat as"),
    (r"{o}", "repeat as"),
    (r"o{1, 2}", "repeat as"),
    (r"(o)\10", "is a group, from"),
    (r"\07", "is a group, from"),
    (r"[\1]", "is a group, from"),
    (r"\x{6f}", "give 2 hexadecimal digits"),
    (r"\u6f", "give 4 hexadecimal digits"),
    (r"(", "is no regular expression"),
    (r"*o", "is no regular expression"),
    (r"o" + "\\", "is no regular expression"),
    (r"[\w-.]", "is no regular expression"),
    (r"(?<=o*)r", "is no regular expression"),
    (r"\1", "is no regular expression"),
]


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_what_does_not_is_refused_in_one_line(pattern: str, reason: str) -> None:
    with pytest.raises(PatternRefused, match=reason) as refused:
        compiled(pattern)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("option 'subscribePattern' ")


def test_letters_and_digits_are_those_of_ascii() -> None:
    assert compiled(r"\w").fullmatch("é") is None
    assert compiled(r"\d").fullmatch("٣") is None
    assert compiled("(?i)k").fullmatch("\N{KELVIN SIGN}") is None


@given(st.text(r"ao.-\[]()?{}<>:=!P&^$|*+1,dipQzZ\n", max_size=12))
def test_any_text_is_an_expression_or_refused_in_one_line(text: str) -> None:
    reason = ""
    try:
        compiled(text)
    except PatternRefused as refused:
        reason = str(refused)
    assert "\n" not in reason
