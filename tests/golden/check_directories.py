#!/usr/bin/env python3
"""Checks by hand that transformers computes the expected log-probabilities from the directories that
`headrace convert --to safetensors` writes of every golden model, by way of an .h5 file.

Usage: check_directories.py HEADRACE        from the root of the tree; needs torch, transformers, safetensors"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

TOLERANCE = 1e-4
HEADS = {"lm_head.weight", "embed_out.weight"}  # missing where they are tied


def written(headrace, golden, work):
    source = golden / "model.gguf" if (golden / "model.gguf").exists() else golden
    # Of quantised blocks only float32 keeps all bits.
    dtype = ["--dtype", "float32"] if source != golden else []
    for command in (["--model", source, "--output", work / "model.h5", *dtype],
                    ["--model", work / "model.h5", "--to", "safetensors", "--output", work / "model"]):
        subprocess.run([headrace, "convert", *command], check=True, capture_output=True)
    return work / "model"


def worst_difference(model, prompts):
    worst = 0.0
    for prompt in prompts:
        ids = prompt["ids"]
        with torch.no_grad():
            after = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], dim=-1)
        for i in range(1, len(ids)):
            worst = max(worst, abs(after[i - 1, ids[i]].item() - prompt["log_probs"][i]))
    return worst


def check(headrace, golden):
    with tempfile.TemporaryDirectory() as work:
        model, info = AutoModelForCausalLM.from_pretrained(
            written(headrace, golden, Path(work)), dtype=torch.float32, attn_implementation="eager",
            output_loading_info=True)
    expected = json.loads((golden / "expected.json").read_text(encoding="utf-8"))
    worst = worst_difference(model.eval(), expected["prompts"])
    sound = worst < TOLERANCE and set(info["missing_keys"]) <= HEADS and not info["unexpected_keys"]
    print(f"{golden.name}: {worst:.2g}{'' if sound else ', FAILED: ' + str(info)}")
    return sound


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    goldens = [g for folder in ("golden", "golden_families")
               for g in sorted(Path("tests/data", folder).iterdir())]
    results = [check(sys.argv[1], golden) for golden in goldens]
    sys.exit(0 if all(results) else 1)
