"""The same function with other weights: a Llama GGUF as a Hugging Face directory in bfloat16, columns and rows of its
matrices multiplied by factors between 2^-0.5 and 2^0.5 that cancel out (norm against projection, values against
output, up against down). Its weights no longer lie on the grid of the blocks that the GGUF stores, so that
tests/bench/quality.sh --model OUTPUT shows what quantising costs a model that was never quantised.

    python off_grid_model.py MODEL.gguf OUTPUT      (torch, transformers, gguf)
"""
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

directory, name = os.path.split(os.path.abspath(sys.argv[1]))
output = sys.argv[2]
source = AutoModelForCausalLM.from_pretrained(directory, gguf_file=name, torch_dtype=torch.float32)
config = source.config
generator = torch.Generator().manual_seed(1)


def factors(count):
    return torch.exp2(torch.rand(count, generator=generator) - 0.5)


with torch.no_grad():
    for layer in source.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for norm, readers in (
            (layer.input_layernorm, (attention.q_proj, attention.k_proj, attention.v_proj)),
            (layer.post_attention_layernorm, (mlp.gate_proj, mlp.up_proj)),
        ):
            by = factors(config.hidden_size)
            norm.weight /= by
            for reader in readers:
                reader.weight *= by[None]
        by = factors(attention.v_proj.weight.shape[0])
        attention.v_proj.weight *= by[:, None]
        kv_heads = config.num_key_value_heads
        per_group = config.num_attention_heads // kv_heads
        by_query = by.view(kv_heads, 1, -1).expand(kv_heads, per_group, -1).reshape(-1)
        attention.o_proj.weight /= by_query[None]
        by = factors(config.intermediate_size)
        mlp.up_proj.weight *= by[:, None]
        mlp.down_proj.weight /= by[None]

if hasattr(config, "quantization_config"):
    del config.quantization_config
model = LlamaForCausalLM(config).to(torch.bfloat16)
model.load_state_dict(source.to(torch.bfloat16).state_dict())
model.save_pretrained(output)
AutoTokenizer.from_pretrained(directory, gguf_file=name).save_pretrained(output)
