"""The models that come from the GGUF file by way of PyTorch. GGUF KIND TARGET, in the environment `export`.

hf: a Hugging Face directory in bfloat16. w8a8: the same with int8 weights (a scale a column) and int8 activations (a scale a
token, found at run time), the output layer in bfloat16: the form that vLLM computes in 8 bits on a CPU. ov-int8, ov-int4:
OpenVINO's own files, compressed as optimum-intel does by default (int4: groups of 64, the output layer in int8).
"""
import json
import pathlib
import sys

import gguf
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast


def tokenizer_of(path):
    """What transformers makes of this file's tokenizer gives other ids, so it is made from its parts."""
    fields = gguf.GGUFReader(path).fields

    def value(key):
        return fields["tokenizer.ggml." + key].contents()
    if value("model") != "gpt2" or value("pre") != "smollm":
        sys.exit(f"{path}: only SmolLM2's tokenizer is known here")
    tokens = value("tokens")
    merges = [tuple(merge.split(" ")) for merge in value("merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token, kind in
                                  zip(tokens, value("token_type")) if kind == gguf.TokenType.CONTROL])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=tokens[value("eos_token_id")])


def export_hugging_face(path, target):
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16)
    model.save_pretrained(target)
    tokenizer_of(path).save_pretrained(target)


def export_w8a8(path, target):
    export_hugging_face(path, target)
    tensors = {}
    for name, tensor in load_file(target / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            tensors[name] = tensor
            continue
        scale = tensor.float().abs().amax(dim=1, keepdim=True) / 127
        tensors[name] = (tensor.float() / scale).round().clamp(-127, 127).to(torch.int8)
        tensors[name + "_scale"] = scale
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    numbers = {"num_bits": 8, "type": "int", "symmetric": True}
    config = json.loads((target / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"],
                                      "weights": numbers | {"strategy": "channel", "dynamic": False},
                                      "input_activations": numbers | {"strategy": "token", "dynamic": True}}}}
    (target / "config.json").write_text(json.dumps(config, indent=2))


def export_openvino(path, target, weights):
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
    from optimum.exporters.openvino.convert import export_tokenizer
    source = target.with_name(target.name + ".source")
    export_hugging_face(path, source)
    config = OVWeightQuantizationConfig(bits=8) if weights == "int8" else OVWeightQuantizationConfig(
        bits=4, sym=True, group_size=64)
    OVModelForCausalLM.from_pretrained(source, export=True, compile=False, quantization_config=config).save_pretrained(target)
    export_tokenizer(PreTrainedTokenizerFast.from_pretrained(source), target)


def main():
    path, kind, target = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    if kind == "hf":
        export_hugging_face(path, target)
    elif kind == "w8a8":
        export_w8a8(path, target)
    else:
        export_openvino(path, target, kind.removeprefix("ov-"))


if __name__ == "__main__":
    main()
