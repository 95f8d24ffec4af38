#!/usr/bin/env python3
"""Trains small SentencePiece models and writes what transformers' AutoTokenizer makes of directories that
have only tokenizer.model, and of a Gemma GGUF file, for tokenizer_golden_test.

usage: make_sentencepiece_goldens.py OUTPUT_DIRECTORY     (needs what make_goldens.py needs)

Each folder spm_* gets tokenizer.model, the files beside it that decide ids, and expected.json as
make_goldens.py describes it.
"""
import json
import pathlib
import sys
import tempfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Tokenizer
from transformers import AutoTokenizer
from transformers.integrations.gguf import gguf_tokenizer_mapping

from golden_texts import CORPUS
from make_goldens import close, dump, expected, template

RULES = [("41", "61"), ("C4", "61 65"), ("65 301", "65"), ("FF21", "41"), ("3000", "20"), ("9", "20"),
         ("FB01", "66 69"), ("200B", ""), ("304B 3099", "304C"), ("2026", "2E 2E 2E")]


def train(**options):
    with tempfile.TemporaryDirectory() as folder:
        corpus, rules = pathlib.Path(folder, "corpus.txt"), pathlib.Path(folder, "rules.tsv")
        corpus.write_text("\n".join(CORPUS))
        rules.write_text("".join(f"{a}\t{b}\n" for a, b in RULES))
        if options.pop("rules", False):
            options["normalization_rule_tsv"] = str(rules)
        else:
            options["normalization_rule_name"] = "identity"
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{folder}/m", hard_vocab_limit=False, minloglevel=2,
            character_coverage=0.98, **options)
        proto = pb.ModelProto()
        proto.ParseFromString(pathlib.Path(folder, "m.model").read_bytes())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    for field in ("input", "model_prefix"):
        proto.trainer_spec.ClearField(field)
    return proto.SerializeToString()


def added(content, special, normalized=False, **flags):
    return {"content": content, "special": special, "normalized": normalized, "lstrip": False, "rstrip": False,
            "single_word": False, **flags}


def size_of(model):
    return len(pb.ModelProto.FromString(model).pieces)


LLAMA_MODEL = dict(model_type="bpe", vocab_size=680, byte_fallback=True, remove_extra_whitespaces=False,
                   split_digits=True)


def spm_llama():
    model = train(**LLAMA_MODEL, user_defined_symbols=["<mask>"])
    size = size_of(model)
    config = {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, "add_eos_token": False,
              "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
              "added_tokens_decoder": {"0": added("<unk>", True), "1": added("<s>", True), "2": added("</s>", True),
                                       str(size): added("<|im_start|>", True),
                                       str(size + 1): added("<|im_end|>", True, rstrip=True),
                                       str(size + 2): added("word", False, True)}}
    return model, {"tokenizer_config.json": config}


def spm_llama_legacy():
    model = train(**LLAMA_MODEL)
    size = size_of(model)
    role = {"__type": "AddedToken", **added("<s>", True, True)}
    config = {"tokenizer_class": "LlamaTokenizerFast", "legacy": True, "add_bos_token": True, "add_eos_token": True,
              "bos_token": role, "eos_token": "</s>", "unk_token": "<unk>"}
    return model, {"tokenizer_config.json": config,
                   "added_tokens.json": {"<|im_end|>": size + 1, "<|im_start|>": size, "<mask>": size + 2}}


def spm_llama_plain():
    """No class: by the model's own settings, which are Llama's."""
    return train(**LLAMA_MODEL), {"tokenizer_config.json": {"add_bos_token": True}}


def spm_llama_no_prefix():
    config = {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "add_bos_token": False}
    return train(**LLAMA_MODEL), {"tokenizer_config.json": config}


def spm_gemma():
    model = train(**LLAMA_MODEL, pad_id=0, eos_id=1, bos_id=2, unk_id=3, bos_piece="<bos>", eos_piece="<eos>",
                  add_dummy_prefix=False, user_defined_symbols=["<mask>", "<start_of_turn>", "\n\n", "▁▁", "<|im_start|>"])
    return model, {"tokenizer_config.json": {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True},
                   "config.json": {"model_type": "gemma"}}


def spm_own_bpe():
    """By the model's own settings: character map, extra spaces removed, pieces of the user's."""
    model = train(model_type="bpe", vocab_size=400, rules=True,
                  user_defined_symbols=["<|im_start|>", "a+b", "the", "there"], control_symbols=["<|im_end|>"])
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True}
    return model, {"tokenizer_config.json": config, "config.json": {"model_type": "none"}}


def spm_own_unigram():
    model = train(model_type="unigram", vocab_size=620, rules=True, byte_fallback=True, remove_extra_whitespaces=True)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "legacy": False, "add_bos_token": False,
              "add_eos_token": True,
              "added_tokens_decoder": {str(size_of(model)): added("<|im_start|>", True)}}
    return model, {"tokenizer_config.json": config, "config.json": {"model_type": "none"}}


def gemma_gguf(path, seed):
    """The same as GGUF: tokens of spaces have real spaces there, and the scores do not rank."""
    model, _ = spm_gemma()
    pieces = pb.ModelProto.FromString(model).pieces
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.piece.replace("▁", " ") if not p.piece.strip("▁") else p.piece for p in pieces])
    writer.add_token_scores([-1000.0 if p.type != 1 else -float(i * 7919 % 101) for i, p in enumerate(pieces)])
    writer.add_token_types([p.type for p in pieces])
    for add, token_id in ((writer.add_pad_token_id, 0), (writer.add_eos_token_id, 1), (writer.add_bos_token_id, 2),
                          (writer.add_unk_token_id, 3)):
        add(token_id)
    writer.add_add_space_prefix(False)
    close(writer)
    architecture, parts, _ = gguf_tokenizer_mapping.get_gguf_tokenizer(str(path))
    tokenizer, _ = gguf_tokenizer_mapping.convert_gguf_tokenizer(architecture, parts)
    tokenizer.post_processor = template(tokenizer, "<bos> $A")
    return expected(tokenizer, seed)


def main():
    output = pathlib.Path(sys.argv[1])
    cases = [spm_llama, spm_llama_legacy, spm_llama_plain, spm_llama_no_prefix, spm_gemma, spm_own_bpe, spm_own_unigram]
    for seed, make in enumerate(cases):
        folder = output / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        model, files = make()
        (folder / "tokenizer.model").write_bytes(model)
        for name, content in {"config.json": {"model_type": "llama"}, **files}.items():
            dump(folder / name, content)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        backend = tokenizer.backend_tokenizer.to_str()
        dump(folder / "expected.json", expected(Tokenizer.from_str(backend), 200 + seed))
        print(make.__name__, type(tokenizer).__name__, size_of(model))
    folder = output / "gemma_gguf"
    folder.mkdir(exist_ok=True)
    dump(folder / "expected.json", gemma_gguf(output / "gemma.gguf", 300))


if __name__ == "__main__":
    main()
