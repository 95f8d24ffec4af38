#!/usr/bin/env python3
"""Makes the golden checkpoints: tiny random Llama models in the forms that users have them in, and
what Hugging Face transformers computes from them in float32. README.md describes the files.

Usage: make_goldens.py OUT [NAME ...]        OUT is tests/data/golden; NAME limits to some cases

Needs torch, transformers, accelerate, tokenizers, safetensors and gguf. Everything is seeded: the same versions
of these packages write the same bytes. Each golden is checked to be worth having before it is
written: float64 gives the same numbers, and a model read wrongly gives others.
"""

import copy
import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

import gguf_checkpoint
import tiny_tokenizer

CONTINUATION = 24  # greedy tokens after each prompt
TIE = 1e-3  # two best logits closer than this: a greedy step says nothing
PROMPT_LENGTHS = (1, 2, 16, 17, 65, 90)  # around block sizes and the 64-key chunks of attention
TEXTS = (
    "The river carries 5678 small stones.",
    " It's late:\n\n  we'll go 12 miles\tto the Küste, où 海 is… 🙂",
)
CHATS = (
    [{"role": "user", "content": "Which of them arrives first?"}],
    [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "  The sea? "},
        {"role": "assistant", "content": "La mer."},
        {"role": "user", "content": "Und das Meer?"},
    ],
)
FLOAT64_TOLERANCE = 3e-5  # float32 against float64, in log-probability
WRONG_BY = 1.0  # at least this much, in log-probability, where the model is read wrongly


@dataclass
class Case:
    name: str
    seed: int
    config: dict
    tokenizer: str = "smollm"
    tokens: int = 379  # of the tokenizer; config["vocab_size"] may be larger
    add_bos: bool = False
    merges_as_strings: bool = False
    template_file: bool = False
    dtype: torch.dtype = torch.bfloat16
    norm_dtype: torch.dtype | None = None
    shards: int = 1
    gguf_types: dict = field(default_factory=dict)  # non-empty: a .gguf file instead of a directory
    lengths: tuple = PROMPT_LENGTHS


CASES = [
    # GQA with three queries a group as in SmolLM2, tied; nothing is a power of two.
    Case("gqa_tied", 1, dict(
        hidden_size=36, num_attention_heads=9, num_key_value_heads=3, num_hidden_layers=5,
        intermediate_size=68, vocab_size=379, tie_word_embeddings=True, rope_theta=1000.0,
        rms_norm_eps=1e-5)),
    # Every bias there is; more embedding rows than tokens; no num_key_value_heads: one a head.
    Case("mha_biases", 2, dict(
        hidden_size=30, num_attention_heads=5, num_hidden_layers=3, intermediate_size=52,
        vocab_size=331, tie_word_embeddings=False, attention_bias=True, mlp_bias=True,
        rope_theta=10000.0, rms_norm_eps=1e-6),
        tokenizer="gpt-2", tokens=325, merges_as_strings=True),
    # Three shards of float16.
    Case("f16_sharded", 3, dict(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
        intermediate_size=60, vocab_size=307, tie_word_embeddings=False, rope_theta=500.0,
        rms_norm_eps=1e-5),
        tokenizer="llama-bpe", tokens=307, add_bos=True, dtype=torch.float16, shards=3),
    # "type" is the oldest spelling of rope_type; one KV head; norms stored in float32.
    Case("rope_linear", 4, dict(
        hidden_size=36, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2,
        intermediate_size=76, vocab_size=311, tie_word_embeddings=True, rope_theta=10000.0,
        rope_scaling={"type": "linear", "factor": 2.5}, rms_norm_eps=1e-5),
        tokens=311, norm_dtype=torch.float32, template_file=True),
    # Ten frequencies: some waves shorter than 32/4, some longer than 32/1, some between.
    Case("rope_llama3", 5, dict(
        hidden_size=40, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2,
        intermediate_size=72, vocab_size=317, tie_word_embeddings=True, rope_theta=300.0,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
        rms_norm_eps=1e-5),
        tokenizer="llama-bpe", tokens=317, add_bos=True, lengths=(1, 2, 33, 65, 130)),
    # yarn as older checkpoints write it, all but the factor and the length left to defaults.
    Case("rope_yarn_old_keys", 6, dict(
        hidden_size=36, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=2,
        intermediate_size=64, vocab_size=313, tie_word_embeddings=True, rope_theta=200.0,
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        rms_norm_eps=1e-5),
        tokens=313, lengths=(1, 2, 17, 65, 130)),
    # yarn as transformers 5 writes it, with every knob turned.
    Case("rope_yarn_new_keys", 7, dict(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=3,
        intermediate_size=68, vocab_size=309, tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "rope_theta": 2000.0, "factor": 8.0,
                         "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 0.5,
                         "mscale": 1.0, "mscale_all_dim": 0.4, "truncate": False},
        rms_norm_eps=1e-5),
        tokenizer="gpt-2", tokens=309, template_file=True, lengths=(1, 2, 17, 65, 130)),
    # heads * head_dim is larger than hidden_size; float32 file; an epsilon that shows.
    Case("wide_heads_f32", 8, dict(
        hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
        num_hidden_layers=3, intermediate_size=44, vocab_size=301, tie_word_embeddings=True,
        rope_theta=10000.0, rms_norm_eps=0.05),
        tokens=301, dtype=torch.float32),
    # GGUF: rows are multiples of the 32-weight blocks.
    Case("gguf_q4_0", 9, dict(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
        intermediate_size=96, vocab_size=315, tie_word_embeddings=True, rope_theta=10000.0,
        rms_norm_eps=1e-5),
        tokens=315,
        gguf_types={"token_embd": "Q8_0", "attn_v": "Q8_0", "ffn_down": "F16", "": "Q4_0"}),
    Case("gguf_q4_1", 10, dict(
        hidden_size=64, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=3,
        intermediate_size=64, vocab_size=319, tie_word_embeddings=False, rope_theta=5000.0,
        rope_scaling={"type": "linear", "factor": 2.0}, rms_norm_eps=1e-5),
        tokenizer="llama-bpe", tokens=319, add_bos=True,
        gguf_types={"token_embd": "F16", "output": "Q8_0", "attn_k": "Q4_0", "": "Q4_1"}),
    # The llama3 scaling is in a GGUF as the tensor rope_freqs.weight, not as metadata.
    Case("gguf_llama3", 11, dict(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=2,
        intermediate_size=96, vocab_size=303, tie_word_embeddings=True, rope_theta=1000.0,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
        rms_norm_eps=1e-5),
        tokenizer="llama-bpe", tokens=303, add_bos=True, lengths=(1, 2, 33, 65, 130),
        gguf_types={"token_embd": "BF16", "attn_q": "Q5_1", "": "Q5_0"}),
]


def full_config(case):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "max_position_embeddings": 256,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 3,
        "torch_dtype": str(case.dtype).removeprefix("torch."),
        **case.config,
    }


def random_weights(case, config):
    """A state dict of the case's dtype. The spreads make attention sharp and logits well apart, so
    that a wrong rotation, mapping of heads or order of dimensions changes the answer visibly."""
    generator = torch.Generator().manual_seed(case.seed)
    shapes = {name: p.shape for name, p in LlamaForCausalLM(config).state_dict().items()}
    hidden = config.hidden_size
    state = {}
    for name, shape in shapes.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        noise = torch.randn(shape, generator=generator)
        if name.endswith("norm.weight"):
            value = 1.0 + 0.3 * noise.clamp(-2, 2)
        elif name.endswith(".bias"):
            value = 0.5 * noise
        elif "q_proj" in name or "k_proj" in name:
            value = noise * 1.1 / shape[1] ** 0.5
        elif "embed_tokens" in name and config.tie_word_embeddings:
            value = noise * 2.0 / hidden**0.5
        elif "embed_tokens" in name:
            value = noise * 0.5
        elif "lm_head" in name:
            value = noise * 2.0 / hidden**0.5
            value[case.tokens:] = 0.0  # rows without a token, as padded vocabularies have them
        else:
            value = noise * 1.1 / shape[1] ** 0.5
        norm_dtype = case.norm_dtype or case.dtype
        # The norms' values stay bfloat16's also where the file stores them wider.
        if name.endswith("norm.weight") and case.dtype == torch.bfloat16:
            value = value.to(torch.bfloat16)
        state[name] = value.to(norm_dtype if name.endswith("norm.weight") else case.dtype)
    return state


def write_directory(case, folder, state):
    tiny_tokenizer.write_json(folder / "config.json", full_config(case))
    tiny_tokenizer.write_json(folder / "generation_config.json", {
        "bos_token_id": 0, "eos_token_id": [2, 0], "pad_token_id": 3, "do_sample": True,
        "temperature": 0.7, "top_p": 0.9, "top_k": 40})
    if case.shards == 1:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return
    # Dealt round robin, so that a layer's tensors lie in different files.
    names = sorted(state)
    weight_map = {}
    for shard in range(case.shards):
        file = f"model-{shard + 1:05d}-of-{case.shards:05d}.safetensors"
        part = {name: state[name] for name in names[shard :: case.shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map |= {name: file for name in part}
    total = sum(t.numel() * t.element_size() for t in state.values())
    tiny_tokenizer.write_json(folder / "model.safetensors.index.json", {
        "metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})


def load_reference(case, folder, state):
    """The model as transformers reads it from the files (a GGUF: from its dequantised weights)."""
    if not case.gguf_types:
        return LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    config = LlamaConfig(**full_config(case), attn_implementation="eager")
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or missing not in ([], ["lm_head.weight"]):
        raise ValueError(f"{case.name}: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.float().eval()


@torch.no_grad()
def log_probs(model, ids):
    """[len(ids), vocab]: row i is the distribution after ids[0..i]."""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    return torch.log_softmax(logits, dim=-1)


def rounded(value):
    return round(float(value), 6)


def prompt_record(model, ids):
    after = log_probs(model, ids)
    top = after.topk(5, dim=-1)
    record = {
        "ids": ids,
        "log_probs": [None] + [rounded(after[i - 1, ids[i]]) for i in range(1, len(ids))],
        "top5_ids": top.indices.tolist(),
        "top5_log_probs": [[rounded(v) for v in row] for row in top.values],
    }
    sequence, greedy = list(ids), {"ids": [], "log_probs": [], "tie_at": None}
    for step in range(CONTINUATION):
        best = log_probs(model, sequence)[-1].topk(2)
        if best.values[0] - best.values[1] < TIE:
            greedy["tie_at"] = step
            break
        greedy["ids"].append(int(best.indices[0]))
        greedy["log_probs"].append(rounded(best.values[0]))
        sequence.append(int(best.indices[0]))
    return record | {"greedy": greedy}


def spot_check(case, model, prompts):
    """Refuses a golden that cannot tell a right reader from a wrong one."""
    longest = max(prompts, key=len)
    after = log_probs(model, longest)
    double = log_probs(copy.deepcopy(model).double(), longest)
    error = (after - double).abs().max().item()
    spread = after.std(dim=-1).mean().item()
    facts = {"float64_distance": error, "logit_std": spread}
    for name, wrong in wrong_readings(case, model):
        facts[name] = (log_probs(wrong, longest) - after).abs().max().item()
        if facts[name] < WRONG_BY:
            raise ValueError(f"{case.name}: {name} changes log-probabilities by {facts[name]} only")
    if error > FLOAT64_TOLERANCE or spread < 1.0:
        raise ValueError(f"{case.name}: not a good golden: {facts}")
    return facts


def wrong_readings(case, model):
    """Models as plausible mistakes would build them from the same file."""
    def rebuilt(change_config=None, change_state=None):
        config = copy.deepcopy(model.config)
        if change_config:
            change_config(config)
        wrong = LlamaForCausalLM(config).eval()
        state = {k: v.clone() for k, v in model.state_dict().items()}
        if change_state:
            change_state(state)
        wrong.load_state_dict(state)
        return wrong

    def no_scaling(config):
        theta = config.rope_parameters["rope_theta"]
        config.rope_parameters = {"rope_type": "default", "rope_theta": theta}

    def other_theta(config):
        config.rope_parameters["rope_theta"] *= 1.5

    def flip_truncate(config):
        config.rope_parameters["truncate"] = not config.rope_parameters.get("truncate", True)

    def zero(pattern):
        def change(state):
            for name in state:
                if name.endswith(pattern):
                    state[name].zero_()
        return change

    def interleave_pairs(state):  # rotation of neighbours instead of halves
        dim = model.config.head_dim
        order = torch.arange(dim).reshape(2, dim // 2).T.reshape(-1)
        for name in state:
            if "q_proj" in name or "k_proj" in name:
                rows = state[name]
                state[name] = rows.reshape(-1, dim, *rows.shape[1:])[:, order].reshape(rows.shape)

    def reverse_kv_heads(state):
        dim = model.config.head_dim
        for name in state:
            if "k_proj" in name or "v_proj" in name:
                rows = state[name]
                state[name] = rows.reshape(-1, dim, *rows.shape[1:]).flip(0).reshape(rows.shape)

    def set_eps(config):
        config.rms_norm_eps = 1e-6

    yield "theta changed", rebuilt(other_theta)
    yield "q and k permuted", rebuilt(change_state=interleave_pairs)
    if model.config.rope_parameters["rope_type"] != "default":
        yield "rope scaling ignored", rebuilt(no_scaling)
    if model.config.rope_parameters["rope_type"] == "yarn":
        unscaled = rebuilt()
        unscaled.model.rotary_emb.attention_scaling = 1.0
        yield "attention factor ignored", unscaled
        yield "rounding of the correction range", rebuilt(flip_truncate)
    if model.config.num_key_value_heads > 1:
        yield "KV heads reversed", rebuilt(change_state=reverse_kv_heads)
    if model.config.attention_bias:
        for part in ("q_proj.bias", "v_proj.bias", "o_proj.bias", "gate_proj.bias", "down_proj.bias"):
            yield f"{part} ignored", rebuilt(change_state=zero(part))
    if model.config.rms_norm_eps > 1e-3:
        yield "epsilon ignored", rebuilt(set_eps)


def text_records(tokenizer):
    texts = [{"text": text, "ids": tokenizer.encode(text)} for text in TEXTS]
    chats = []
    for messages in CHATS:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        chats.append({"messages": messages, "text": text,
                      "ids": tokenizer.encode(text, add_special_tokens=False)})
    return texts, chats


def write_expected(path, head, texts, chats, prompts):
    def lines(records):
        return ",\n".join("  " + json.dumps(r, ensure_ascii=False, separators=(",", ":"))
                          for r in records)

    body = json.dumps(head, indent=1)[1:-2].rstrip()
    path.write_text(
        "{" + body + ',\n "texts":[\n' + lines(texts) + '\n ],\n "chats":[\n' + lines(chats)
        + '\n ],\n "prompts":[\n' + lines(prompts) + "\n ]\n}\n", encoding="utf-8")


def make(case, out):
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bpe = tiny_tokenizer.train(case.tokenizer, case.tokens, case.add_bos)
    tiny_tokenizer.save(bpe, folder, case.merges_as_strings, case.template_file)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts, chats = text_records(tokenizer)

    config = LlamaConfig(**full_config(case))
    state = random_weights(case, config)
    if case.gguf_types:
        shutil.rmtree(folder)
        folder.mkdir()
        state = gguf_checkpoint.write(folder / "model.gguf", full_config(case), bpe, case.tokenizer,
                                      case.add_bos, state, case.gguf_types)
    else:
        write_directory(case, folder, state)
    model = load_reference(case, folder, state)
    if case.gguf_types and "rope_scaling" not in case.config:
        gguf_checkpoint.check_against_transformers(folder, model)

    generator = torch.Generator().manual_seed(1000 + case.seed)
    prompts = [r["ids"] for r in texts[:1] + chats[:1]]
    prompts += [torch.randint(0, case.tokens, (n,), generator=generator).tolist()
                for n in case.lengths]  # the longest is the last
    facts = spot_check(case, model, prompts)
    write_expected(folder / "expected.json", {"seed": case.seed, "tie": TIE}, texts, chats,
                   [prompt_record(model, ids) for ids in prompts])
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{case.name}: {size} bytes, " + ", ".join(f"{k} {v:.2g}" for k, v in facts.items()))


def make_all(cases, make, usage):
    """make(case, folder) for the cases that the command line names: a folder, then names, all without any."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    out, names = Path(sys.argv[1]), sys.argv[2:]
    unknown = set(names) - {case.name for case in cases}
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}")
    for case in cases:
        if not names or case.name in names:
            make(case, out)


if __name__ == "__main__":
    make_all(CASES, make, __doc__)
