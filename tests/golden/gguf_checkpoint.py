"""Writes a Llama state dict as a GGUF file the way llama.cpp's converter lays it out."""

import json

import gguf
import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from transformers import LlamaForCausalLM

import tiny_tokenizer

TOKEN_NORMAL, TOKEN_CONTROL = 1, 3
LAYER_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, *middle, kind = name.split(".")
    return f"blk.{layer}.{LAYER_NAMES['.'.join(middle)]}.{kind}"


def permuted(rows, num_heads):
    """Rotated halves of a head become neighbouring pairs, the order that ggml's rope wants."""
    head_dim = rows.shape[0] // num_heads
    return rows.reshape(num_heads, 2, head_dim // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def unpermuted(rows, num_heads):
    head_dim = rows.shape[0] // num_heads
    return rows.reshape(num_heads, head_dim // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def heads_of(name, config):
    if "q_proj" in name:
        return config["num_attention_heads"]
    if "k_proj" in name:
        return config["num_key_value_heads"]
    return None


def stored_type(name, types):
    short = name.removesuffix(".weight").split(".")[-1]
    if short.endswith("norm"):
        return GGMLQuantizationType.F32
    return GGMLQuantizationType[types.get(short, types[""])]


def add_facts(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    if config.get("rope_scaling", {}).get("type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])


def llama3_divisors(config):
    """What the converter stores as rope_freqs.weight: by how much each frequency is divided."""
    rope = config["rope_scaling"]
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    frequencies = config["rope_theta"] ** -(np.arange(0, head_dim, 2, dtype=np.float32) / head_dim)
    waves_in_context = rope["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = np.clip((waves_in_context - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - kept) / rope["factor"] + kept)).astype(np.float32)


def add_tokenizer(writer, bpe, family, add_bos):
    model = json.loads(bpe.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(family)
    writer.add_token_list(tokens)
    writer.add_token_types([TOKEN_CONTROL if t in tiny_tokenizer.SPECIALS else TOKEN_NORMAL
                            for t in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(3)
    writer.add_add_bos_token(add_bos)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(tiny_tokenizer.CHAT_TEMPLATE)


def write(path, config, bpe, family, add_bos, state, types):
    """Returns the state dict, in float32 and in transformers' order, that the file now holds."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(path.parent.name)
    add_facts(writer, config)
    add_tokenizer(writer, bpe, family, add_bos)
    for name, value in state.items():
        rows = value.float().numpy()
        if heads_of(name, config):
            rows = permuted(rows, heads_of(name, config))
        kind = stored_type(gguf_name(name), types)
        data = gguf.quants.quantize(np.ascontiguousarray(rows), kind)
        writer.add_tensor(gguf_name(name), data, raw_dtype=kind)
    if config.get("rope_scaling", {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_back(path, config, state)


def read_back(path, config, state):
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    result = {}
    for name, value in state.items():
        tensor = stored[gguf_name(name)]
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(value.shape)
        if heads_of(name, config):
            rows = unpermuted(rows, heads_of(name, config))
        result[name] = torch.from_numpy(np.array(rows, dtype=np.float32))
    return result


def check_against_transformers(folder, model):
    """transformers has a GGUF reader of its own; both must build the same model."""
    other = LlamaForCausalLM.from_pretrained(folder, gguf_file="model.gguf", dtype=torch.float32)
    for name, value in model.state_dict().items():
        if not torch.equal(value, other.state_dict()[name]):
            raise ValueError(f"{folder}: transformers reads {name} differently")
