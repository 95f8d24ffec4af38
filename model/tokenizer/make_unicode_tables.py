#!/usr/bin/env python3
"""Writes unicode_tables.inc: the character properties that the tokenizers library computes with.

Its parts carry tables of different Unicode versions (the regular expressions, Rust's own characters,
the normalizers), so each table is measured on the library itself, once, and pinned: ids must not
depend on the version of a system library.

usage: make_unicode_tables.py OUTPUT    (needs the tokenizers package, libutf8proc.so.2
and a Python whose unicodedata is 14.0)
"""
import ctypes
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf "
              "Cs Co").split()
CHARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(CHARS)
ALL = set(range(0x110000)) - set(range(0xD800, 0xE000))


def regex_set(pattern):
    kept = normalizers.Replace(Regex(pattern), "").normalize_str(TEXT)
    return ALL - set(map(ord, kept))


def ranges(codes):
    runs = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return runs


def category_runs():
    category = [0] * 0x110000
    for code in range(0xD800, 0xE000):
        category[code] = CATEGORIES.index("Cs")
    for index, name in enumerate(CATEGORIES):
        if name in ("Cn", "Cs"):
            continue
        for code in regex_set(r"\p{%s}" % name):
            category[code] = index
    runs = []
    for code, index in enumerate(category):
        if not runs or runs[-1][1] != index:
            runs.append((code, index))
    return category, runs


def group(category, letter):
    return {c for c in ALL if CATEGORIES[category[c]].startswith(letter)}


def rust_numeric():
    pieces = pre_tokenizers.Digits(True).pre_tokenize_str("".join("aa" + c for c in CHARS if c != "a"))
    return {ord(text) for text, _ in pieces if len(text) == 1}


def removed(pre_tokenizer):
    kept = set()
    for text, _ in pre_tokenizer.pre_tokenize_str(TEXT):
        kept.update(map(ord, text))
    return ALL - kept


def lowercase_runs():
    """(first, last, stride, delta): c -> c + delta for every stride-th c of [first, last]."""
    lower = normalizers.Lowercase()
    pairs = []
    for c in CHARS:
        mapped = lower.normalize_str(c)
        if mapped != c and ord(c) != 0x130:  # U+0130 alone becomes two characters; the code knows it
            assert len(mapped) == 1
            pairs.append((ord(c), ord(mapped) - ord(c)))
    runs = []
    for code, delta in pairs:
        if runs and runs[-1][3] == delta:
            first, last, stride, _ = runs[-1]
            step = code - last
            if step == stride or (first == last and step <= 2):
                runs[-1] = (first, code, step, delta)
                continue
        runs.append((code, code, 1, delta))
    return runs


def normalization_inert(category, new_marks):
    """Characters that a current Unicode reorders, decomposes or composes and the library leaves alone."""
    utf8proc = ctypes.CDLL("libutf8proc.so.2")

    class Property(ctypes.Structure):
        _fields_ = [("category", ctypes.c_short), ("combining_class", ctypes.c_short),
                    ("bidi_class", ctypes.c_short), ("decomp_type", ctypes.c_short),
                    ("decomp_seqindex", ctypes.c_uint16)]

    utf8proc.utf8proc_get_property.restype = ctypes.POINTER(Property)
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    inert = set()
    for c in CHARS:
        code = ord(c)
        if 0xAC00 <= code <= 0xD7A3:
            continue
        entry = utf8proc.utf8proc_get_property(code).contents
        ccc = entry.combining_class
        if ccc > 1 and nfd.normalize_str("a" + c + "\u0334") == "a" + c + "\u0334":
            inert.add(code)
        if ccc == 1 and nfd.normalize_str("a\u0316" + c) == "a\u0316" + c:
            inert.add(code)
        if entry.decomp_seqindex != 0xFFFF and nfkd.normalize_str(c) == c:
            inert.add(code)
    # A pair must not compose into one of them, and nothing newer than utf8proc may act at all.
    for code in sorted(inert):
        parts = (ctypes.c_int32 * 64)()
        count = utf8proc.utf8proc_decompose_char(code, parts, 64, 1 << 4, None)
        if count == 2 and code > 0x10000:
            inert.update(parts[:count])
    newer = {c for c in ALL if category[c] and not utf8proc.utf8proc_get_property(c).contents.category}
    return inert | new_marks | newer


def wrap(items):
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) + 2 > 99:
            lines.append(line)
            line = ""
        line += (" " if line else "") + item + ","
    return "\n".join(lines + [line])


def table(name, comment, kind, items):
    return f"\n// {comment}\nconstexpr {kind} {name}[] = {{\n{wrap(items)}\n}};\n"


def range_items(codes):
    return ["{0x%X,0x%X}" % tuple(run) for run in ranges(codes)]


def main():
    assert unicodedata.unidata_version == "14.0.0"
    category, runs = category_runs()
    punctuation, marks = group(category, "P"), group(category, "M")
    rust_punctuation = removed(pre_tokenizers.Punctuation("removed"))
    ascii_signs = {c for c in range(128) if chr(c) in "$+<=>^`|~"}
    stripped = ALL - set(map(ord, normalizers.StripAccents().normalize_str(TEXT)))
    word = regex_set(r"\w")
    plain_word = {c for c in ALL if CATEGORIES[category[c]][0] in "LM" or
                  CATEGORIES[category[c]] in ("Nd", "Nl", "Pc")}
    rust_pieces = pre_tokenizers.Whitespace().pre_tokenize_str(" ".join("!" + c for c in CHARS))
    rust_word = {ord(text) for text, _ in rust_pieces if len(text) == 1 and text != "!"}
    space = regex_set(r"\s")
    assert space == removed(pre_tokenizers.WhitespaceSplit())
    assert space == {c for c in ALL if CATEGORIES[category[c]][0] == "Z"} | {*range(9, 14), 0x85}
    out = ("// Written by make_unicode_tables.py; do not edit.\n"
           "// clang-format off\n")
    out += "\n// General categories; their index is what kCategoryRuns holds: " + " ".join(CATEGORIES) + "\n"
    out += table("kCategoryRuns", "first code point << 5 | category; a run ends where the next begins.",
                 "std::uint32_t", ["0x%X" % (c << 5 | i) for c, i in runs])
    for name, comment, codes in (
        ("kNewerThanPcre", "Assigned after Unicode 14, the oldest that PCRE2 may bring.",
         {c for c in ALL if category[c] and unicodedata.category(chr(c)) == "Cn"}),
        ("kRegexWordExtra", "In the regular expressions' \\w beside L, M, Nd, Nl, Pc.", word - plain_word),
        ("kRegexWordMissing", "Not in the regular expressions' \\w.", plain_word - word),
        ("kRustWordExtra", "In \\w of the whitespace pre-tokenizer beside L, M, Nd, Nl, Pc.",
         rust_word - plain_word),
        ("kRustWordMissing", "Not in that \\w.", plain_word - rust_word),
        ("kRustNumericExtra", "Numeric for the digits pre-tokenizer beside N.",
         rust_numeric() - group(category, "N")),
        ("kPunctuationExtra", "Punctuation for the pre-tokenizers beside P (and ASCII signs).",
         rust_punctuation - punctuation - ascii_signs),
        ("kPunctuationMissing", "P, but newer than those pre-tokenizers.", punctuation - rust_punctuation),
        ("kStrippedExtra", "Removed by StripAccents beside M.", stripped - marks),
        ("kStrippedMissing", "M, but newer than StripAccents.", marks - stripped),
        ("kNormalizationInert", "Neither decomposed nor reordered by the normalizers.",
         normalization_inert(category, marks - stripped)),
    ):
        out += table(name, comment, "CodeRange", range_items(codes) or ["{1,0}"])
    out += table("kLowercaseRuns", "first, last, stride, what to add.", "CaseRun",
                 ["{0x%X,0x%X,%d,%d}" % run for run in lowercase_runs()])
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(out)


if __name__ == "__main__":
    main()
