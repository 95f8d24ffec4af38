"""What takes part: each engine in each precision, with its best settings and those that a search tries.

The settings here are where a search begins: room for all requests at once, whole prompts or large pieces of them, all
threads, no prefix cache (no two prompts share one). `peers.sh --search` tries the values listed beside them on this
machine and writes the winners to HOME/settings.json, which go before these.
"""
import dataclasses

BF16, QUANTISED = "bf16", "8- or 4-bit"


@dataclasses.dataclass(frozen=True)
class Variant:
    engine: str
    name: str
    arithmetic: str  # who is compared with whom
    model: str       # one of models.py
    settings: dict
    search: dict = dataclasses.field(default_factory=dict)  # setting -> what is tried, one setting after the other

    @property
    def title(self):
        return f"{self.engine}-{self.name}"


LLAMA = {"parallel": 128, "batch": 512, "ubatch": 512, "flash_attention": True, "kv": "f16", "kv_unified": False}
LLAMA_SEARCH = {"parallel": (32, 64, 128), "ubatch": (128, 512), "flash_attention": (True, False),
                "kv_unified": (True, False)}
OPENVINO = {"cache_gb": 2, "max_num_seqs": 256, "max_num_batched_tokens": 512, "dynamic_split_fuse": True,
            "precision": "bf16", "KV_CACHE_PRECISION": None, "DYNAMIC_QUANTIZATION_GROUP_SIZE": None}
OPENVINO_SEARCH = {"max_num_batched_tokens": (256, 512, 2048), "max_num_seqs": (64, 128, 256),
                   "dynamic_split_fuse": (True, False), "KV_CACHE_PRECISION": (None, "bf16", "u8")}
DYNAMIC = {"precision": ("bf16", "f32"), "DYNAMIC_QUANTIZATION_GROUP_SIZE": (None, 0, 32, 64, 2 ** 64 - 1)}
VLLM = {"cache_gb": 2, "max_num_seqs": 256, "max_num_batched_tokens": 512, "enforce_eager": True, "own_process": False}
VLLM_SEARCH = {"enforce_eager": (True, False), "max_num_batched_tokens": (512, 2048), "max_num_seqs": (64, 128, 256),
               "own_process": (True, False)}

# bf16 arithmetic from weights that are stored in fewer bits counts as bf16; so does llama.cpp's and OpenVINO's float32.
VARIANTS = [
    Variant("headrace", "bf16", BF16, "gguf", {"ranks": 1, "options": []}),
    Variant("headrace", "bf16-2-stages", BF16, "gguf", {"ranks": 2, "options": ["-pp", "2"]}),
    Variant("headrace", "int8", QUANTISED, "gguf", {"ranks": 1, "options": ["--quantization", "int8"]}),
    Variant("headrace", "int8-kv-int8", QUANTISED, "gguf",
            {"ranks": 1, "options": ["--quantization", "int8", "--kv-cache-dtype", "int8"]}),
    Variant("llama", "bf16", BF16, "bf16", LLAMA, LLAMA_SEARCH),
    Variant("llama", "q8_0", QUANTISED, "q8_0", LLAMA, LLAMA_SEARCH),
    Variant("llama", "q4_0", QUANTISED, "q4_0", LLAMA, LLAMA_SEARCH),
    Variant("openvino", "f16-weights", BF16, "f16", OPENVINO | {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}, OPENVINO_SEARCH),
    Variant("openvino", "q8_0", QUANTISED, "q8_0", OPENVINO, OPENVINO_SEARCH | DYNAMIC),
    Variant("openvino", "q4_0", QUANTISED, "q4_0", OPENVINO, OPENVINO_SEARCH | DYNAMIC),
    Variant("openvino", "int8", QUANTISED, "ov-int8", OPENVINO, OPENVINO_SEARCH | DYNAMIC),
    Variant("openvino", "int4", QUANTISED, "ov-int4", OPENVINO, OPENVINO_SEARCH | DYNAMIC),
    Variant("vllm", "bf16", BF16, "hf", VLLM, VLLM_SEARCH),
    Variant("vllm", "w8a8", QUANTISED, "w8a8", VLLM, VLLM_SEARCH),
]


def headrace_variant(text):
    """`int8=--quantization int8`: Headrace with these options of generate. `-pp`, `-tp` and `-dp` sizes make the ranks."""
    name, _, options = text.partition("=")
    words = options.split()
    ranks = 1
    for flag in ("-pp", "-tp", "-dp"):
        if flag in words:
            ranks *= int(words[words.index(flag) + 1])
    quantised = "--quantization" in words
    return Variant("headrace", name, QUANTISED if quantised else BF16, "gguf", {"ranks": ranks, "options": words})
