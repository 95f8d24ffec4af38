#!/usr/bin/env python3
"""Makes the golden checkpoints of the families beside Llama: tiny random models as Hugging Face directories
and as GGUF files, and what transformers computes from them in float32. They have no tokenizer; prompts are ids.

Usage: make_family_goldens.py OUT [NAME ...]        OUT is tests/data/golden_families; NAME limits to some cases

Needs torch, transformers, accelerate, safetensors and gguf. Everything is seeded: the same versions of these
packages write the same bytes. Each golden is checked to be worth having: float64 gives the same numbers, and
for every trait of the family a model read without it gives others.
"""

import copy
import json
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

import family_gguf
from family_cases import CASES
from make_goldens import CONTINUATION, FLOAT64_TOLERANCE, TIE, log_probs, make_all, prompt_record

WRONG_BY = 0.3  # at least this much, in log-probability, where a trait is read wrongly


def random_weights(case, model):
    """A state dict of bfloat16 values. The spreads make attention sharp and logits well apart."""
    generator = torch.Generator().manual_seed(case.seed)
    hidden = model.config.hidden_size
    state = {}
    tied = model.config.tie_word_embeddings
    for name, value in model.state_dict().items():
        if tied and name in ("lm_head.weight", "embed_out.weight"):
            continue
        noise = torch.randn(value.shape, generator=generator)
        is_norm = any(part in name for part in ("norm", "ln_", ".ln"))
        fan_in = value.shape[0] if case.transposed and value.dim() == 2 else value.shape[-1]
        if is_norm and name.endswith("weight"):
            # Gemma's norms multiply by 1 + weight.
            value = (0.0 if case.norms_add_one else 1.0) + 0.3 * noise.clamp(-2, 2)
        elif name.endswith("bias"):
            value = 0.4 * noise
        elif name.endswith("sinks"):
            value = 1.0 + 1.5 * noise
        elif any(part in name for part in ("embed", "wte", "wpe", "lm_head")):
            value = noise * case.embedding_spread / hidden**0.5
        else:
            value = noise * 1.1 / fan_in**0.5
        state[name] = value.to(torch.bfloat16)
    return state


def stored_config(case):
    return {
        "architectures": [case.architecture],
        "model_type": case.model_type,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
        **case.config,
    }


def write_directory(case, folder, state):
    text = json.dumps(stored_config(case), indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    names = {name: name.removeprefix(case.dropped_prefix) for name in state}
    save_file({names[n]: t.contiguous() for n, t in state.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def build(config, state):
    model = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager")
    missing, unexpected = model.load_state_dict(state, strict=False)
    heads = {"lm_head.weight", "embed_out.weight"}
    if unexpected or not set(missing) <= heads:
        raise ValueError(f"missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.eval()


def wrong_models(case, model):
    """Models as plausible mistakes would build them from the same file."""
    state = {k: v.clone() for k, v in model.state_dict().items()}
    for what, changes in case.wrong.items():
        config = copy.deepcopy(model.config)
        changed = {k: v.clone() for k, v in state.items()}
        if callable(changes):
            changes(config, changed)
        else:
            for key, value in changes.items():
                setattr(config, key, value)
        wrong = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="eager").eval()
        wrong.load_state_dict({k: v for k, v in changed.items() if k in wrong.state_dict()},
                              strict=False)
        yield what, wrong


def spot_check(case, model, prompts):
    longest = max(prompts, key=len)
    after = log_probs(model, longest)
    double = log_probs(copy.deepcopy(model).double(), longest)
    facts = {"float64": (after - double).abs().max().item(),
             "spread": after.std(dim=-1).mean().item()}
    if facts["float64"] > FLOAT64_TOLERANCE or facts["spread"] < 0.5:
        raise ValueError(f"{case.name}: not a good golden: {facts}")
    for what, wrong in wrong_models(case, model):
        facts[what] = (log_probs(wrong, longest) - after).abs().max().item()
        if facts[what] < WRONG_BY:
            raise ValueError(f"{case.name}: {what} changes log-probabilities by {facts[what]} only")
    return facts


def shorter(prompt):
    """Without the five best at each position: that of the next id depends on all of them."""
    return {key: prompt[key] for key in ("ids", "log_probs", "greedy")}


def write_expected(path, head, prompts):
    lines = ",\n".join("  " + json.dumps(p, separators=(",", ":")) for p in prompts)
    path.write_text(json.dumps(head)[:-1] + ',\n "prompts":[\n' + lines + "\n ]\n}\n", encoding="utf-8")


def fresh_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def record(case, folder, model):
    generator = torch.Generator().manual_seed(1000 + case.seed)
    prompts = [torch.randint(0, case.config["vocab_size"], (n,), generator=generator).tolist()
               for n in case.lengths]
    facts = spot_check(case, model, prompts)
    write_expected(folder / "expected.json",
                   {"seed": case.seed, "tie": TIE, "continuation": CONTINUATION},
                   [shorter(prompt_record(model, ids)) for ids in prompts])
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder.name}: {size} bytes, " + ", ".join(f"{k} {v:.2g}" for k, v in facts.items()))


def make(case, out):
    folder = fresh_folder(out / case.name)
    (folder / "config.json").write_text(json.dumps(stored_config(case)), encoding="utf-8")
    config = AutoConfig.from_pretrained(folder)
    state = random_weights(case, AutoModelForCausalLM.from_config(config))
    write_directory(case, folder, state)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    for name, value in state.items():
        if not torch.equal(model.state_dict()[name], value.float()):
            raise ValueError(f"{case.name}: transformers reads {name} otherwise")
    record(case, folder, model)
    if case.gguf:
        folder = fresh_folder(out / f"{case.name}_gguf")
        stored = family_gguf.write(folder / "model.gguf", case, config, state)
        record(case, folder, build(config, stored))


if __name__ == "__main__":
    make_all(CASES, make, __doc__)
