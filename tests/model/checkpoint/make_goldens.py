"""Makes the golden files of the checkpoint tests.

    ATEN_CPU_CAPABILITY=default python make_goldens.py tests/data/checkpoint

dequantize.gguf: for every stored type a tensor of random blocks named after the type, and beside it the
values that the gguf package gives for them ("Q4_K.expected", F32).

rope.json: for each case a part of a config.json, and the inverse frequencies (float32 bits) and the
attention factor that transformers computes for it. torch's vectorised pow differs from the correctly
rounded one in the last bit here and there, its plain path does not: hence ATEN_CPU_CAPABILITY.

permutation.json: row numbers of a head in the order in which transformers' Llama converter leaves them.

Needs numpy, gguf, torch and transformers.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

# Where blocks have half-precision scales: random bytes there would be infinities and NaNs.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
}
ROWS = 3


def random_blocks(random, name):
    kind = gguf.GGMLQuantizationType[name]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, size=(ROWS * 512 // values, size), dtype=np.uint8)
    for at in HALVES[name]:
        scales = (random.standard_normal(len(blocks)) * 0.02).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return kind, blocks.reshape(ROWS, -1)


def write_dequantize(path):
    random = np.random.default_rng(20240607)
    writer = gguf.GGUFWriter(path, "golden")
    for name in HALVES:
        kind, rows = random_blocks(random, name)
        writer.add_tensor(name, rows, raw_dtype=kind)
        writer.add_tensor(f"{name}.expected", gguf.dequantize(rows, kind))
    plain = (random.standard_normal((ROWS, 64)) * 3).astype(np.float32)
    plain[0, :4] = [0.0, -0.0, np.inf, -np.inf]
    for name in ("F32", "F16", "BF16"):
        kind = gguf.GGMLQuantizationType[name]
        stored = gguf.quantize(plain, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        writer.add_tensor(f"{name}.expected", gguf.dequantize(stored, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rope_configs():
    shape = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}
    wide = {"hidden_size": 512, "num_attention_heads": 4, "max_position_embeddings": 131072}
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    yarn = {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 8192}
    return {
        "default theta": shape,
        "theta outside": shape | {"rope_theta": 100000.0},
        "theta inside": shape | {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        "theta inside wins": shape
        | {"rope_theta": 20000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        "null scaling": shape | {"rope_theta": 10000, "rope_scaling": None},
        "empty scaling": shape
        | {"rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 2}},
        "linear, old key": shape | {"rope_scaling": {"type": "linear", "factor": 4.0}},
        "linear, odd factor": shape | {"rope_scaling": {"rope_type": "linear", "factor": 2.7}},
        "both names": shape | {"rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 3}},
        "scaling wins": shape
        | {
            "rope_scaling": {"type": "linear", "factor": 4.0},
            "rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
        },
        "llama3": wide | {"rope_theta": 500000.0, "rope_scaling": llama3},
        "llama3, factor 32": wide | {"rope_theta": 500000.0, "rope_scaling": llama3 | {"factor": 32.0}},
        "llama3, new keys": wide | {"rope_parameters": llama3 | {"rope_theta": 500000.0}},
        "llama3, small head": shape
        | {"rope_theta": 500000.0, "rope_scaling": llama3 | {"original_max_position_embeddings": 4096}},
        "llama3, context outside": wide
        | {
            "rope_theta": 500000.0,
            "original_max_position_embeddings": 4096,
            "rope_scaling": llama3,
        },
        "yarn": wide | {"rope_theta": 10000.0, "rope_scaling": yarn},
        "yarn, theta 1e6": wide | {"rope_theta": 1000000.0, "rope_scaling": yarn},
        "yarn, default context": wide | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        "yarn, null factor": wide | {"rope_scaling": yarn | {"factor": None}},
        "yarn, betas": wide | {"rope_scaling": yarn | {"beta_fast": 24.0, "beta_slow": 2.0}},
        "yarn, zero betas": wide | {"rope_scaling": yarn | {"beta_fast": 0, "beta_slow": 0}},
        "yarn, not truncated": wide | {"rope_scaling": yarn | {"truncate": False}},
        "yarn, attention factor": wide | {"rope_scaling": yarn | {"attention_factor": 1.25}},
        "yarn, mscale": wide | {"rope_scaling": yarn | {"mscale": 0.707, "mscale_all_dim": 1.0}},
        "yarn, mscale alone": wide | {"rope_scaling": yarn | {"mscale": 0.707}},
        "yarn, factor below one": wide | {"rope_scaling": yarn | {"factor": 0.5}},
        "yarn, odd head": {"hidden_size": 320, "num_attention_heads": 4, "max_position_embeddings": 65536}
        | {"rope_scaling": yarn | {"original_max_position_embeddings": 2048}},
        "yarn, equal bounds": shape
        | {"rope_scaling": yarn | {"original_max_position_embeddings": 6, "beta_slow": 1.0}},
    }


def rope_case(name, config):
    made = LlamaConfig(**json.loads(json.dumps(config)))
    rope = LlamaRotaryEmbedding(made)
    bits = rope.inv_freq.numpy().view(np.uint32).tolist()
    return {
        "name": name,
        "config": config,
        "inverse_frequencies": bits,
        "attention_factor": float(rope.attention_scaling),
    }


def interleaved_rows(num_heads, head_dim):
    rows = np.arange(num_heads * head_dim)
    return rows.reshape(num_heads, 2, head_dim // 2).swapaxes(1, 2).reshape(-1).tolist()


def main():
    directory = pathlib.Path(sys.argv[1])
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        sys.exit("set ATEN_CPU_CAPABILITY=default")
    write_dequantize(directory / "dequantize.gguf")
    cases = [rope_case(name, config) for name, config in rope_configs().items()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (directory / "rope.json").write_text(f'{{"cases": [\n{lines}\n]}}\n')
    permutation = {"num_heads": 3, "head_dim": 8, "rows": interleaved_rows(3, 8)}
    (directory / "permutation.json").write_text(json.dumps(permutation) + "\n")


if __name__ == "__main__":
    main()
