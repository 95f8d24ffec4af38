#!/usr/bin/env python3
"""Trains small tokenizers of many kinds with Hugging Face's tokenizers and writes what they encode and
decode, for tokenizer_golden_test.

usage: make_goldens.py OUTPUT_DIRECTORY    (needs tokenizers, transformers, sentencepiece, protobuf, gguf)

OUTPUT_DIRECTORY gets texts.json and for each tokenizer NAME a folder with tokenizer.json and
expected.json; NAME.gguf where the same tokenizer also exists as GGUF.

expected.json, "texts", one entry a text: its ids with special tokens around them; [a, b] where without
them a ids are missing in front and b at the end; what the ids without them decode to (null: the text);
what the ids decode to with skip_special_tokens (null: the same). Of long lists of ids and long texts
there is [count, FNV-1a hash]. "sequences": random ids, decoded with and without special tokens.
"""
import json
import pathlib
import random
import sys
import tempfile

import gguf
import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

from golden_texts import CORPUS, TEXTS

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
LEAD = r"[^\r\n\p{L}\p{N}]?"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = f"{LEAD}{UPPER}*{LOWER}+{SHORT}|{LEAD}{UPPER}+{LOWER}*{SHORT}" + r"|\p{N}{1,3}" + TAIL
TEKKEN = f"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*" + r"|\p{N}" + TAIL
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
          r"\s++$|\s*[\r\n]|\s+(?!\S)|\s")
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
               r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| "
               r"?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def template(tokenizer, single):
    names = [piece for piece in single.split() if piece != "$A"]
    return processors.TemplateProcessing(
        single=single, pair=f"{single} $B", special_tokens=[(n, tokenizer.token_to_id(n)) for n in names])


def train_bpe(tokenizer, special=(), size=430, alphabet=None, **options):
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet is None else alphabet, **options)
    tokenizer.train_from_iterator(CORPUS, trainer)


def byte_level_bpe(pre, special=("<|endoftext|>",), normalizer=None, **model_options):
    tokenizer = Tokenizer(models.BPE(**model_options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    train_bpe(tokenizer, special)
    return tokenizer


def gpt2():
    return byte_level_bpe(byte_level(use_regex=True))


def roberta():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = byte_level_bpe(byte_level(use_regex=True, prefix=True), special)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def smollm():
    return byte_level_bpe(sequence(pre_tokenizers.Digits(individual_digits=True), byte_level(use_regex=True)),
                          ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def llama3():
    tokenizer = byte_level_bpe(sequence(split(LLAMA3), byte_level()), special=())
    tokenizer.add_special_tokens(["<s>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), template(tokenizer, "<s> $A")])
    # A token that no merge makes: only ignore_merges reaches it.
    parts = json.loads(tokenizer.to_str())
    parts["model"]["ignore_merges"] = True
    vocab = parts["model"]["vocab"]
    renamed = sorted(vocab, key=vocab.get)[-3]
    vocab["Ġcamel"] = vocab.pop(renamed)
    merges = parts["model"]["merges"]
    parts["model"]["merges"] = [m for m in merges if renamed not in (m[0], m[1], m[0] + m[1])]
    return Tokenizer.from_str(json.dumps(parts))


def qwen2():
    tokenizer = byte_level_bpe(sequence(split(QWEN2), byte_level()), special=(), normalizer=normalizers.NFC())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<mask>", normalized=False)])
    return tokenizer


def qwen35():
    return byte_level_bpe(sequence(split(QWEN35), byte_level()), normalizer=normalizers.NFC())


def o200k():
    tokenizer = byte_level_bpe(sequence(split(O200K), byte_level()))
    tokenizer.post_processor = template(tokenizer, "$A <|endoftext|>")
    return tokenizer


def tekken():
    return byte_level_bpe(sequence(split(TEKKEN), byte_level()), ["<unk>", "<s>", "</s>"], ignore_merges=True)


def cl100k():
    return byte_level_bpe(sequence(split(CL100K, "removed", True), byte_level()))


def deepseek_v3():
    return byte_level_bpe(sequence(*[split(p) for p in DEEPSEEK_V3], byte_level()))


def deepseek_coder():
    return byte_level_bpe(sequence(*[split(p) for p in DEEPSEEK_CODER], byte_level()))


def falcon():
    # ByteLevel is not the last step: the later ones see the respelled bytes.
    return byte_level_bpe(sequence(pre_tokenizers.Punctuation("contiguous"), byte_level(use_regex=True),
                                   pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")))


SENTENCEPIECE_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def sentencepiece_bpe(normalizer, pre, decoder, special=("<unk>", "<s>", "</s>"), bytes_too=True, **options):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=bytes_too, fuse_unk=True, **options))
    if normalizer:
        tokenizer.normalizer = normalizer
    # Trained on words; the model itself sees whole texts.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    fallback = [f"<0x{byte:02X}>" for byte in range(256)] if bytes_too else []
    train_bpe(tokenizer, [*special, *fallback], size=len(fallback) + 420, alphabet=[], limit_alphabet=90)
    if pre:
        tokenizer.pre_tokenizer = pre
    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = [t for t in parts["added_tokens"] if t["content"] not in fallback]
    if not pre:
        parts["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.decoder = decoder
    return tokenizer


def llama2():
    tokenizer = sentencepiece_bpe(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
        decoders.Sequence(SENTENCEPIECE_DECODER + [decoders.Strip(" ", 1, 0)]))
    tokenizer.post_processor = template(tokenizer, "<s> $A")
    return tokenizer


def mistral():
    tokenizer = sentencepiece_bpe(
        None, pre_tokenizers.Metaspace("▁", "first", split=False),
        decoders.Sequence(SENTENCEPIECE_DECODER + [decoders.Strip(" ", 1, 0)]))
    tokenizer.post_processor = template(tokenizer, "<s> $A </s>")
    return tokenizer


def gemma():
    tokenizer = sentencepiece_bpe(
        normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
        decoders.Sequence(SENTENCEPIECE_DECODER))
    tokenizer.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 6)] +
                         [AddedToken("▁" * n, normalized=False) for n in range(2, 5)] +
                         [AddedToken("<mask>", normalized=True, lstrip=True)])
    return tokenizer


def metaspace_split():
    return sentencepiece_bpe(normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                                   normalizers.Replace(Regex(" {2,}"), " ")]),
                             pre_tokenizers.Metaspace(), decoders.Metaspace(), bytes_too=False)


def never_prefix():
    return sentencepiece_bpe(None, pre_tokenizers.Metaspace("_", "never", split=True),
                             decoders.Sequence([decoders.Metaspace("_", "never", True),
                                                decoders.Strip("x", 2, 0)]), bytes_too=False)


def unigram_charsmap():
    """The character map of a SentencePiece model with a few rules of its own."""
    rules = [("41", "61"), ("42", "62"), ("C4", "61 65"), ("E9", "65"), ("65 301", "65"), ("FF21", "41"),
             ("3000", "20"), ("9", "20"), ("A", "20"), ("D", "20"), ("FB01", "66 69"), ("200B", ""),
             ("1F600", "3A 29"), ("304B 3099", "304C"), ("2026", "2E 2E 2E")]
    with tempfile.TemporaryDirectory() as folder:
        tsv, corpus = pathlib.Path(folder, "rules.tsv"), pathlib.Path(folder, "corpus.txt")
        tsv.write_text("".join(f"{a}\t{b}\n" for a, b in rules))
        corpus.write_text("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{folder}/m", vocab_size=400, model_type="unigram",
            normalization_rule_tsv=str(tsv), hard_vocab_limit=False, minloglevel=2, character_coverage=0.98)
        from sentencepiece import sentencepiece_model_pb2 as pb
        proto = pb.ModelProto()
        proto.ParseFromString(pathlib.Path(folder, "m.model").read_bytes())
        return bytes(proto.normalizer_spec.precompiled_charsmap)


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = sequence(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(unigram_charsmap()),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    trainer = trainers.UnigramTrainer(vocab_size=420, special_tokens=["<pad>", "</s>", "<unk>", "<s>"],
                                      unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = template(tokenizer, "$A </s>")
    return tokenizer


def unigram_bytes():
    source = json.loads(unigram().to_str())["model"]["vocab"]
    pieces = [("<unk>", 0.0), ("<s>", 0.0)] + [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    pieces += [tuple(p) for p in source if not p[0].startswith("<") and p[0] != "</s>" and len(p[0]) < 6]
    # The same score again and again: ties must fall the same way.
    pieces += [("ab", -3.0), ("ba", -3.0), ("aba", -6.0), ("bab", -6.0), ("zz", -4.0), ("zzz", -6.0)]
    seen, vocab = set(), []
    for piece, score in pieces:
        if piece not in seen:
            seen.add(piece)
            vocab.append((piece, score))
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first", split=False)
    tokenizer.add_special_tokens(["<s>", "<unk>"])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", "first", False)])
    return tokenizer


def flags():
    """Added tokens with every flag, over normalizers that change them."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(),
                                                 normalizers.StripAccents(), normalizers.Strip(True, False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    train_bpe(tokenizer, ["[UNK]", "<s>", "</s>"], size=330, alphabet=[], limit_alphabet=70)
    tokenizer.add_tokens([
        AddedToken("word", single_word=True), AddedToken("[both]", lstrip=True, rstrip=True),
        AddedToken("[left]", lstrip=True, normalized=False), AddedToken("[right]", rstrip=True, normalized=False),
        AddedToken("Norm"), AddedToken("MiXeD", normalized=False), AddedToken("ödé t"), AddedToken("z\n"),
        AddedToken("naïve", single_word=True, lstrip=True)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=True),
                                  AddedToken("<|endoftext|>", special=True), AddedToken("<|im_start|>")])
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def behaviors():
    """Every behaviour of a split, with matches that are empty, adjacent, at the ends."""
    tokenizer = byte_level_bpe(sequence(
        pre_tokenizers.Split("the", "merged_with_next"), pre_tokenizers.Split(Regex("[aeiou]"), "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[a-z]\d?"), "contiguous", invert=True), pre_tokenizers.Split(Regex(r"x*"), "merged_with_next"),
        pre_tokenizers.Split("!", "removed"), pre_tokenizers.Punctuation("merged_with_next"),
        pre_tokenizers.Split(Regex(r"\bqu|k\b|\h{2}+|[^\S\n]\w"), "isolated"),
        pre_tokenizers.Split(Regex(r"(?m:r.c)|^.|o$|\p{Han}|\p{^Latin}|\P{Ll}{,2}a"), "merged_with_previous", invert=True),
        byte_level()))
    return tokenizer


def bert():
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train_bpe(tokenizer, ["[UNK]", "[CLS]", "[SEP]"], size=500, alphabet=[], limit_alphabet=90,
              continuing_subword_prefix="##", end_of_word_suffix="</w>")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer   # no decoder: tokens are joined by spaces


def byte_normalizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(True, True), normalizers.ByteLevel()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("Ġ", "merged_with_next")
    tokenizer.decoder = decoders.ByteLevel()
    train_bpe(tokenizer, ["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("<mask>"), AddedToken("Ünï", normalized=True)])
    return tokenizer


TOKENIZERS = [gpt2, roberta, smollm, llama3, qwen2, qwen35, o200k, tekken, cl100k, deepseek_v3, deepseek_coder,
              falcon, llama2, mistral, gemma, metaspace_split, never_prefix, unigram, unigram_bytes, flags,
              behaviors, bert, byte_normalizer]

GGUF = {"smollm": "smollm", "llama3": "llama-bpe", "qwen2": "qwen2", "deepseek_v3": "deepseek-v3",
        "deepseek_coder": "deepseek-coder", "o200k": "gpt-4o", "tekken": "tekken", "gpt2": "gpt-2"}


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def short_ids(ids):
    if len(ids) <= 40:
        return ids
    return [len(ids), fnv(b"".join(i.to_bytes(4, "little") for i in ids))]


def short_text(text):
    data = text.encode()
    return text if len(data) <= 80 else [len(data), fnv(data)]


def expected(tokenizer, seed):
    # A fresh instance: what a file says, not what this process did to the object.
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    entries = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        front = next(i for i in range(len(ids) + 1) if ids[i:i + len(plain)] == plain)
        decoded = tokenizer.decode(plain, skip_special_tokens=False)
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        entries.append([short_ids(ids), [front, len(ids) - len(plain) - front],
                        None if decoded == text else short_text(decoded),
                        None if skipped == decoded else short_text(skipped)])
    random.seed(seed)
    sequences = []
    for length in [0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 30]:
        ids = [random.randrange(tokenizer.get_vocab_size()) for _ in range(length)]
        sequences.append([ids, tokenizer.decode(ids, skip_special_tokens=False),
                          tokenizer.decode(ids, skip_special_tokens=True)])
    return {"texts": entries, "sequences": sequences}


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def write_gguf(path, tokenizer, pre):
    parts = json.loads(tokenizer.to_str())
    added = {t["id"]: t for t in parts["added_tokens"]}
    by_id = {i: t for t, i in tokenizer.get_vocab(with_added_tokens=True).items()}
    kinds = {None: gguf.TokenType.NORMAL, True: gguf.TokenType.CONTROL, False: gguf.TokenType.USER_DEFINED}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([by_id[i] for i in range(len(by_id))])
    writer.add_token_types([kinds[added[i]["special"] if i in added else None] for i in range(len(by_id))])
    writer.add_token_merges([" ".join(m) for m in parts["model"]["merges"]])
    first = parts["post_processor"] and tokenizer.encode("").ids
    writer.add_add_bos_token(bool(first) and pre == "llama-bpe")
    writer.add_add_eos_token(bool(first) and pre == "gpt-4o")
    if first:
        writer.add_bos_token_id(first[0])
        writer.add_eos_token_id(first[0])
    writer.add_chat_template([{"name": "default", "template": "{{ 1 }}"}, {"name": "tool_use", "template": "{{ 2 }}"}])
    close(writer)


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def sentencepiece_gguf(path, seed):
    """A SentencePiece BPE model as GGUF; expected is what transformers' conversion of it encodes."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    from transformers.convert_slow_tokenizer import generate_merges
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder, "corpus.txt")
        corpus.write_text("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{folder}/m", vocab_size=700, model_type="bpe", byte_fallback=True,
            hard_vocab_limit=False, minloglevel=2, character_coverage=0.98, normalization_rule_name="identity",
            remove_extra_whitespaces=False, user_defined_symbols=["<mask>"])
        proto = pb.ModelProto()
        proto.ParseFromString(pathlib.Path(folder, "m.model").read_bytes())
    pieces = [(p.piece, p.score) for p in proto.pieces]
    vocab = {piece: i for i, (piece, _) in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=generate_merges(vocab, dict(pieces)), unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(SENTENCEPIECE_DECODER + [decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([AddedToken("<mask>", normalized=False)])
    tokenizer.post_processor = template(tokenizer, "<s> $A")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece for piece, _ in pieces])
    writer.add_token_scores([score for _, score in pieces])
    writer.add_token_types([p.type for p in proto.pieces])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    close(writer)
    return expected(tokenizer, seed)


def main():
    output = pathlib.Path(sys.argv[1])
    output.mkdir(parents=True, exist_ok=True)
    dump(output / "texts.json", TEXTS)
    for seed, make in enumerate(TOKENIZERS):
        tokenizer = make()
        folder = output / make.__name__
        folder.mkdir(exist_ok=True)
        parts = json.loads(tokenizer.to_str())
        if make is gpt2:   # one file keeps the older spelling of merges
            parts["model"]["merges"] = ["#version: 0.2"] + [" ".join(m) for m in parts["model"]["merges"]]
        dump(folder / "tokenizer.json", parts)
        dump(folder / "expected.json", expected(Tokenizer.from_str(json.dumps(parts)), seed))
        if make.__name__ in GGUF:
            write_gguf(output / f"{make.__name__}.gguf", tokenizer, GGUF[make.__name__])
    folder = output / "sentencepiece"
    folder.mkdir(exist_ok=True)
    dump(folder / "expected.json", sentencepiece_gguf(output / "sentencepiece.gguf", 100))


if __name__ == "__main__":
    main()
