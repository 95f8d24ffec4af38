#!/usr/bin/env python3
"""What transformers computes in float32 from the quickstart's model, SmolLM2-135M-Instruct in GGUF, in the
format of the golden checkpoints. The weights are too large to be committed beside it.

Usage: make_smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf OUT/expected.json
"""

import sys
from pathlib import Path

import gguf
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

import make_goldens
import tiny_tokenizer

CONTROL = 3  # token type of GGUF


def tokenizer_of(path):
    """Built from the file's own lists with the pre-tokenizer that "smollm" means."""
    fields = {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    if (fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise ValueError(f"{path}: not the tokenizer of SmolLM2")
    bpe = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = tiny_tokenizer.pre_tokenizer("smollm")
    bpe.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    bpe.add_special_tokens([t for t, kind in zip(tokens, types) if kind == CONTROL])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=tokens[fields["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[fields["tokenizer.ggml.eos_token_id"]],
        chat_template=fields["tokenizer.chat_template"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    tokenizer = tokenizer_of(path)
    texts, chats = make_goldens.text_records(tokenizer)
    model = LlamaForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    long = tokenizer.encode(" ".join(tiny_tokenizer.CORPUS.split()))[:150]
    prompts = [r["ids"] for r in texts + chats] + [long]
    make_goldens.write_expected(out, {"model": path.name, "tie": make_goldens.TIE}, texts, chats,
                                [make_goldens.prompt_record(model, ids) for ids in prompts])
    for ids in prompts:
        print(repr(tokenizer.decode(model.generate(
            torch.tensor([ids]), do_sample=False, max_new_tokens=12)[0])))


if __name__ == "__main__":
    main()
