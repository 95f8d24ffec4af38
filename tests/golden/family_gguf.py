"""Writes a state dict as the GGUF file that llama.cpp's convert_hf_to_gguf.py would make of it, and reads it
back. Names are from gguf's own tensor maps; what that script changes in tensors is said beside it here."""

import math

import gguf
import numpy as np
import torch
from gguf.constants import MODEL_ARCH, MODEL_ARCH_NAMES

ARCHITECTURES = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}


def interleaved(rows, num_heads):
    """LlamaModel.permute: rotated halves of a head become neighbouring pairs."""
    dim = rows.shape[0] // num_heads
    return rows.reshape(num_heads, 2, dim // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def deinterleaved(rows, num_heads):
    dim = rows.shape[0] // num_heads
    return rows.reshape(num_heads, dim // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def heads_of(config):
    """Query heads and KV heads."""
    heads = config.num_attention_heads
    if config.model_type == "falcon" and config.multi_query and not config.new_decoder_architecture:
        return heads, 1
    return heads, (getattr(config, "num_key_value_heads", None)
                   or getattr(config, "num_kv_heads", None) or heads)


def ungrouped(rows, heads, kv_heads):
    """GPTNeoXModel and FalconModel: groups of queries, key and value become all queries, keys, values."""
    dim = rows.shape[0] // (heads + 2 * kv_heads)
    groups = rows.reshape(kv_heads, heads // kv_heads + 2, dim, -1)
    parts = (groups[:, :-2], groups[:, -2], groups[:, -1])
    return np.concatenate([p.reshape(-1, groups.shape[-1]) for p in parts]).reshape(rows.shape)


def grouped(rows, heads, kv_heads):
    dim = rows.shape[0] // (heads + 2 * kv_heads)
    q, k, v = np.split(rows.reshape(heads + 2 * kv_heads, dim, -1), [heads, heads + kv_heads])
    q = q.reshape(kv_heads, heads // kv_heads, dim, -1)
    return np.concatenate([q, k[:, None], v[:, None]], axis=1).reshape(rows.shape)


class Layout:
    """What the script does to a tensor of one architecture, and how it is undone."""

    def __init__(self, architecture, config):
        self.architecture = architecture
        self.heads, self.kv_heads = heads_of(config)

    def head_count(self, name):
        """Of the tensors that LlamaModel and those derived from it interleave."""
        if self.architecture in ("llama", "smollm3", "granite"):
            return {"q_proj": self.heads, "k_proj": self.kv_heads}.get(name.split(".")[-2])
        return None

    def is_conv1d(self, name):
        """GPT2Model transposes these."""
        return self.architecture == "gpt2" and name.endswith(
            ("c_attn.weight", "c_proj.weight", "c_fc.weight"))

    def stored(self, name, value):
        if self.head_count(name):
            return interleaved(value, self.head_count(name))
        if self.architecture.startswith("gemma") and "norm" in name:
            return value + 1.0  # Gemma2Model and Gemma3Model
        if "query_key_value" in name:
            return ungrouped(value, self.heads, self.kv_heads)
        return value.T if self.is_conv1d(name) else value

    def canonical(self, name, value):
        if self.head_count(name):
            return deinterleaved(value, self.head_count(name))
        if self.architecture.startswith("gemma") and "norm" in name:
            return value - 1.0
        if "query_key_value" in name:
            return grouped(value, self.heads, self.kv_heads)
        return value.T if self.is_conv1d(name) else value


def first_of(config, *names):
    return next((getattr(config, n) for n in names if getattr(config, n, None)), None)


def add_facts(writer, config):
    heads, kv_heads = heads_of(config)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(
        first_of(config, "intermediate_size", "n_inner", "ffn_hidden_size") or 4 * config.hidden_size)
    writer.add_head_count(heads)
    if config.model_type not in ("gpt2", "gpt_neox"):
        writer.add_head_count_kv(kv_heads)
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(
            first_of(config, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"))
    head_dim = config.hidden_size // heads
    if config.model_type != "falcon" and getattr(config, "head_dim", None):
        head_dim = config.head_dim
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get("full_attention", rope)
    if rope:
        writer.add_rope_freq_base(rope["rope_theta"])
    if rope and rope.get("partial_rotary_factor", 1.0) < 1.0:
        writer.add_rope_dimension_count(int(head_dim * rope["partial_rotary_factor"]))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def add_gemma(writer, config):
    writer.add_sliding_window(config.sliding_window)
    if config.attn_logit_softcapping:
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def add_granite(writer, config):
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


def add_phi3(writer, config):
    """Phi3MiniModel: 0 stands for no window; the frequencies' divisors are tensors."""
    rope = config.rope_parameters
    original = rope["original_max_position_embeddings"]
    stretch = config.max_position_embeddings / original
    writer.add_sliding_window(config.sliding_window or 0)
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_rope_scaling_attn_factors(math.sqrt(1.0 + math.log(stretch) / math.log(original)))
    for which in ("long", "short"):
        writer.add_tensor(f"rope_factors_{which}.weight",
                          np.array(rope[f"{which}_factor"], dtype=np.float32))


def add_window(writer, config):
    """Not written by the script, which leaves these families' window out: a file of another program."""
    if config.sliding_window:
        writer.add_sliding_window(config.sliding_window)


def add_parallel(writer, config):
    writer.add_parallel_residual(config.use_parallel_residual)


FAMILY_FACTS = {"gemma2": add_gemma, "gemma3": add_gemma, "granite": add_granite, "phi3": add_phi3,
                "gptneox": add_parallel, "stablelm": add_parallel, "llama": add_window,
                "starcoder2": add_window}


def stacked(state):
    """StableLMModel._stack_qk_norm: the norms of all heads become one matrix."""
    result = {}
    for name, value in state.items():
        stem, found, _ = name.partition(".norms.")
        if found:
            result.setdefault(f"{stem}.weight", []).append(value)
        else:
            result[name] = value
    return {n: torch.stack(v) if isinstance(v, list) else v for n, v in result.items()}


def unstacked(state):
    result = {}
    for name, value in state.items():
        if name.endswith(("q_layernorm.weight", "k_layernorm.weight")):
            stem = name.removesuffix(".weight")
            result |= {f"{stem}.norms.{head}.weight": row for head, row in enumerate(value)}
        else:
            result[name] = value
    return result


def write(path, case, config, state):
    """Returns the state dict, in float32 and in transformers' order, that the file now holds."""
    architecture = case.gguf
    state = stacked(state)
    writer = gguf.GGUFWriter(path, architecture)
    add_facts(writer, config)
    FAMILY_FACTS.get(architecture, lambda *_: None)(writer, config)
    layout = Layout(architecture, config)
    names = gguf.get_tensor_name_map(ARCHITECTURES[architecture], config.num_hidden_layers)
    stored_names = {n: names.get_name(n, try_suffixes=(".weight", ".bias")) for n in state}
    for name, value in state.items():
        data = layout.stored(name, value.float().numpy())
        is_vector = data.ndim == 1 or "_norm." in stored_names[name]
        kind = gguf.GGMLQuantizationType.F32 if is_vector else gguf.GGMLQuantizationType.BF16
        data = gguf.quants.quantize(np.ascontiguousarray(data), kind)
        writer.add_tensor(stored_names[name], data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return unstacked(read_back(path, layout, stored_names, state))


def read_back(path, layout, stored_names, state):
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    result = {}
    for name, value in state.items():
        tensor = stored[stored_names[name]]
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        rows = layout.canonical(name, rows.reshape(layout.stored(name, value.float().numpy()).shape))
        result[name] = torch.from_numpy(np.array(rows, dtype=np.float32)).reshape(value.shape)
    return result
