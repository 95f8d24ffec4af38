"""The models of make_family_goldens.py: every quirk of a family turned on, odd numbers of layers, prompts
longer than the windows. Keys are spelled as files on the Hugging Face hub spell them.

"wrong" names, for each quirk, a model that reads the file without it: values of the configuration that
transformers then takes, or a function of configuration and weights."""

from dataclasses import dataclass, field

LENGTHS = (1, 20, 77)


@dataclass
class Case:
    name: str
    architecture: str
    model_type: str
    seed: int
    config: dict
    wrong: dict = field(default_factory=dict)
    gguf: str = ""  # the architecture that llama.cpp writes, for a GGUF beside the directory
    lengths: tuple = LENGTHS
    embedding_spread: float = 2.0
    norms_add_one: bool = False
    transposed: bool = False  # matrices are stored [in, out]
    dropped_prefix: str = ""  # of names, as files of the hub have them


def theta(value):
    def change(config, _):
        config.rope_parameters["rope_theta"] = value
    return change


def zeroed(*parts):
    def change(_, state):
        for name in state:
            if any(part in name for part in parts):
                state[name].zero_()
    return change


def ones(*parts):
    def change(_, state):
        for name in state:
            if any(part in name for part in parts):
                state[name].fill_(1.0)
    return change


def filled(part, number):
    def change(_, state):
        for name in state:
            if part in name:
                state[name].fill_(number)
    return change


def first_of_heads(*parts):
    """Norms of each head become those of head 0."""
    def change(_, state):
        for name in state:
            if any(f"{part}.norms." in name for part in parts):
                stem = name.rsplit(".norms.", 1)[0]
                state[name] = state[f"{stem}.norms.0.weight"].clone()
    return change


def halves_of_rows_swapped(part):
    def change(_, state):
        for name in state:
            if part in name:
                rows = state[name].shape[0]
                state[name] = state[name].roll(rows // 2, 0)
    return change


def scaled_factors(key):
    def change(config, _):
        config.rope_parameters[key] = [1.1 * factor for factor in config.rope_parameters[key]]
    return change


def whole_long_rotation(config, _):
    config.rope_parameters["partial_rotary_factor"] = 1.0
    for key in ("short_factor", "long_factor"):
        config.rope_parameters[key] = config.rope_parameters[key] + [1.0]


def other_amplitude(config, _):
    config.rope_parameters["attention_factor"] = 1.0


def part_of_rotation(share):
    def change(config, _):
        config.rope_parameters["partial_rotary_factor"] = share
    return change


SMALL = dict(hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
             num_hidden_layers=3, vocab_size=64, max_position_embeddings=128, rms_norm_eps=1e-5,
             rope_theta=100.0, tie_word_embeddings=True)

PHI3 = dict(
    tie_word_embeddings=False, num_attention_heads=3, num_key_value_heads=1,
    partial_rotary_factor=0.75, max_position_embeddings=128, original_max_position_embeddings=64,
    sliding_window=21, pad_token_id=0,
    rope_scaling={"type": "longrope", "short_factor": [1.0, 1.3, 1.1],
                  "long_factor": [1.0, 2.5, 6.0]})

NEOX = dict(hidden_size=24, num_attention_heads=4, intermediate_size=30, num_hidden_layers=3,
            vocab_size=64, max_position_embeddings=128, layer_norm_eps=1e-5, rotary_emb_base=100,
            hidden_act="gelu", tie_word_embeddings=False)

STABLELM = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1, intermediate_size=32,
                num_hidden_layers=3, vocab_size=64, max_position_embeddings=128, layer_norm_eps=1e-5,
                rope_theta=100.0, partial_rotary_factor=0.5, hidden_act="silu",
                tie_word_embeddings=False, qk_layernorm=False)

FALCON = dict(hidden_size=24, num_attention_heads=4, num_hidden_layers=3, vocab_size=64,
              layer_norm_epsilon=1e-5, max_position_embeddings=128, rope_theta=100.0, alibi=False,
              ffn_hidden_size=36, activation="gelu", tie_word_embeddings=True)

CASES = [
    Case("qwen2", "Qwen2ForCausalLM", "qwen2", 101,
         SMALL | dict(hidden_act="silu", tie_word_embeddings=False, use_sliding_window=False,
                      sliding_window=16, max_window_layers=2),
         {"theta": theta(200.0), "biases": zeroed("k_proj.bias", "v_proj.bias"),
          "query biases": zeroed("q_proj.bias")},
         gguf="qwen2"),
    # Layers 1 and 2 have a window.
    Case("qwen2_window", "Qwen2ForCausalLM", "qwen2", 102,
         SMALL | dict(use_sliding_window=True, sliding_window=11, max_window_layers=1),
         {"window": {"sliding_window": 12}, "one layer": {"layer_types": [
             "full_attention", "full_attention", "sliding_attention"]}}),
    Case("qwen3", "Qwen3ForCausalLM", "qwen3", 103,
         SMALL | dict(head_dim=10, attention_bias=False, use_sliding_window=False),
         {"query norm": ones("q_norm"), "key norm": ones("k_norm"), "theta": theta(200.0)},
         gguf="qwen3"),
    Case("mistral", "MistralForCausalLM", "mistral", 104,
         SMALL | dict(head_dim=8, sliding_window=17, tie_word_embeddings=False),
         {"window": {"sliding_window": None}, "window by one": {"sliding_window": 18}},
         gguf="llama"),
    # Two layers in three have a window and another theta; the spelling is the hub's.
    Case("gemma3", "Gemma3ForCausalLM", "gemma3_text", 105,
         dict(hidden_size=20, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
              intermediate_size=30, num_hidden_layers=5, vocab_size=64, rms_norm_eps=1e-6,
              max_position_embeddings=128, query_pre_attn_scalar=5, sliding_window=13,
              sliding_window_pattern=3, rope_theta=5000.0, rope_local_base_freq=30.0,
              rope_scaling={"rope_type": "linear", "factor": 4.0},
              hidden_activation="gelu_pytorch_tanh", final_logit_softcapping=None,
              attn_logit_softcapping=None),
         {"window": {"sliding_window": 14}, "scale": {"query_pre_attn_scalar": 8},
          "activation": {"hidden_activation": "silu"}, "norm weights": ones("post_feedforward"),
          "query norm": zeroed("q_norm"), "pattern": {"layer_types": ["full_attention"] * 5},
          "local theta": lambda config, _: config.rope_parameters["sliding_attention"].update(
              rope_theta=5000.0),
          "global scaling": lambda config, _: config.rope_parameters["full_attention"].update(
              rope_type="default")},
         norms_add_one=True),
    # As llama.cpp has it: every sixth layer sees everything.
    Case("gemma3_deep", "Gemma3ForCausalLM", "gemma3_text", 106,
         dict(hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
              intermediate_size=32, num_hidden_layers=7, vocab_size=64, rms_norm_eps=1e-6,
              max_position_embeddings=128, query_pre_attn_scalar=8, sliding_window=9,
              rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 3000.0},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
              hidden_activation="gelu_pytorch_tanh"),
         {"window": {"sliding_window": 10}, "all windowed": {"layer_types": ["sliding_attention"] * 7}},
         gguf="gemma3", norms_add_one=True),
    Case("gemma2", "Gemma2ForCausalLM", "gemma2", 107,
         dict(hidden_size=20, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
              intermediate_size=30, num_hidden_layers=3, vocab_size=64, rms_norm_eps=1e-6,
              max_position_embeddings=128, query_pre_attn_scalar=8, sliding_window=15,
              rope_theta=300.0, hidden_activation="gelu_pytorch_tanh",
              final_logit_softcapping=5.0, attn_logit_softcapping=2.0),
         {"window": {"sliding_window": 16}, "attention cap": {"attn_logit_softcapping": None},
          "final cap": {"final_logit_softcapping": None},
          "no post norm": ones("post_attention_layernorm"), "all windowed": {
              "layer_types": ["sliding_attention"] * 3}},
         gguf="gemma2", norms_add_one=True),
    # Fused products, RoPE over three quarters of a head, frequencies of short sequences.
    Case("phi3_short", "Phi3ForCausalLM", "phi3", 108, SMALL | PHI3,
         {"rotary part": whole_long_rotation, "short factors": scaled_factors("short_factor"),
          "window": {"sliding_window": None}, "amplitude": other_amplitude},
         lengths=(1, 16, 39)),
    # The same file's other set of frequencies, for sequences beyond the original context.
    Case("phi3_long", "Phi3ForCausalLM", "phi3", 109, SMALL | PHI3 | dict(sliding_window=None),
         {"long factors": scaled_factors("long_factor"), "amplitude": other_amplitude},
         gguf="phi3", lengths=(66, 90)),
    Case("smollm3", "SmolLM3ForCausalLM", "smollm3", 110,
         SMALL | dict(num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=1,
                      intermediate_size=20, no_rope_layers=[1, 0, 1, 1, 0], attention_bias=True,
                      pad_token_id=0),
         {"all rope": {"no_rope_layers": [1] * 5}, "no rope": {"no_rope_layers": [0] * 5},
          "biases": zeroed("o_proj.bias", "q_proj.bias")}),
    # As llama.cpp has it: every fourth layer is without RoPE.
    Case("smollm3_deep", "SmolLM3ForCausalLM", "smollm3", 111,
         SMALL | dict(num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=1,
                      intermediate_size=20, no_rope_layer_interval=4, pad_token_id=0),
         {"all rope": {"no_rope_layers": [1] * 5}}, gguf="smollm3"),
    Case("granite", "GraniteForCausalLM", "granite", 112,
         SMALL | dict(embedding_multiplier=6.0, attention_multiplier=1.5, residual_multiplier=0.4,
                      logits_scaling=3.0),
         {"embedding": {"embedding_multiplier": 1.0}, "attention": {"attention_multiplier": 0.408},
          "residual": {"residual_multiplier": 1.0}, "logits": {"logits_scaling": 1.0}},
         gguf="granite", embedding_spread=6.0),
    # Sinks; of five layers the first and last see everything; two thetas, and layers without RoPE of both kinds.
    Case("granite_swa", "GraniteSWAForCausalLM", "granite_swa", 126,
         {k: v for k, v in SMALL.items() if k != "rope_theta"}
         | dict(num_hidden_layers=5, sliding_window=13, layer_rope_theta=[0, 100.0, 0, 100.0, 50.0],
                embedding_multiplier=6.0, attention_multiplier=0.6, residual_multiplier=0.6, logits_scaling=0.8),
         {"sinks": filled("sinks", -1e4), "sinks of other heads": halves_of_rows_swapped("sinks"),
          "window": {"sliding_window": 14}, "all windowed": {"layer_types": ["sliding_attention"] * 5},
          "theta of windows": {"layer_rope_theta": [0, 50.0, 0, 50.0, 50.0]},
          "theta of others": {"layer_rope_theta": [0, 100.0, 0, 100.0, 100.0]},
          "all rope": {"layer_rope_theta": [50.0, 100.0, 100.0, 100.0, 50.0]},
          "attention": {"attention_multiplier": 0.408}, "logits": {"logits_scaling": 1.0}},
         embedding_spread=6.0),
    Case("olmo2", "Olmo2ForCausalLM", "olmo2", 113,
         SMALL | dict(tie_word_embeddings=False, attention_bias=False),
         {"query norm": ones("q_norm"), "key norm": halves_of_rows_swapped("k_norm"),
          "post norms": ones("post_feedforward"), "theta": theta(200.0)},
         gguf="olmo2"),
    Case("gpt2", "GPT2LMHeadModel", "gpt2", 114,
         dict(n_embd=16, n_head=4, n_layer=3, n_positions=128, vocab_size=64, n_inner=None,
              activation_function="gelu_new", layer_norm_epsilon=1e-5, scale_attn_weights=True,
              summary_type="cls_index"),
         {"positions": zeroed("wpe"), "activation": {"activation_function": "silu"},
          "norm biases": zeroed("ln_1.bias"), "biases": zeroed("c_attn.bias"),
          "last biases": zeroed("mlp.c_proj.bias")},
         gguf="gpt2", transposed=True, dropped_prefix="transformer."),
    Case("neox", "GPTNeoXForCausalLM", "gpt_neox", 115,
         NEOX | dict(use_parallel_residual=True, rotary_pct=0.7),
         {"sequential": {"use_parallel_residual": False}, "rotary part": part_of_rotation(1.0),
          "activation": {"hidden_act": "silu"}, "biases": zeroed("query_key_value.bias"),
          "norm biases": zeroed("layernorm.bias"), "order": halves_of_rows_swapped("query_key_value")},
         gguf="gptneox"),
    # One layer after the other, and RoPE over the default quarter.
    Case("neox_sequential", "GPTNeoXForCausalLM", "gpt_neox", 116,
         NEOX | dict(use_parallel_residual=False, num_attention_heads=3),
         {"parallel": {"use_parallel_residual": True}, "rotary part": part_of_rotation(1.0)}),
    Case("starcoder2", "Starcoder2ForCausalLM", "starcoder2", 117,
         {k: v for k, v in SMALL.items() if k != "rms_norm_eps"}
         | dict(norm_epsilon=1e-5, use_bias=True, sliding_window=19,
                hidden_act="gelu_pytorch_tanh"),
         {"window": {"sliding_window": None}, "biases": zeroed("c_fc.bias"),
          "norm biases": zeroed("norm.bias"), "activation": {"hidden_act": "silu"}},
         gguf="starcoder2"),
    Case("starcoder2_plain", "Starcoder2ForCausalLM", "starcoder2", 118,
         {k: v for k, v in SMALL.items() if k != "rms_norm_eps"}
         | dict(norm_epsilon=1e-5, use_bias=True, sliding_window=None,
                hidden_act="gelu_pytorch_tanh"),
         {"biases": zeroed("c_proj.bias")}, gguf="starcoder2"),
    Case("stablelm", "StableLmForCausalLM", "stablelm", 119,
         STABLELM | dict(use_qkv_bias=True, use_parallel_residual=False),
         {"biases": zeroed("q_proj.bias", "v_proj.bias"), "rotary part": part_of_rotation(1.0),
          "norm biases": zeroed("norm.bias")},
         gguf="stablelm"),
    Case("stablelm_parallel", "StableLmForCausalLM", "stablelm", 120,
         STABLELM | dict(use_qkv_bias=False, use_parallel_residual=True),
         {"rotary part": part_of_rotation(1.0), "norm biases": zeroed("norm.bias")},
         gguf="stablelm"),
    # As the 12B model: each head of queries and keys has a norm.
    Case("stablelm_qk", "StableLmForCausalLM", "stablelm", 125,
         STABLELM | dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=28, use_qkv_bias=True, use_parallel_residual=True,
                         qk_layernorm=True),
         {"query norms": ones("q_layernorm"), "key norms": ones("k_layernorm"),
          "one norm for all": first_of_heads("q_layernorm", "k_layernorm")},
         gguf="stablelm"),
    # As the 7B model: one KV head, one norm before attention and MLP.
    Case("falcon", "FalconForCausalLM", "falcon", 121,
         FALCON | dict(multi_query=True, parallel_attn=True, bias=False),
         {"norm biases": zeroed("layernorm.bias"), "activation": {"activation": "silu"},
          "theta": theta(200.0)},
         gguf="falcon"),
    # As the 40B model: groups of heads, two norms.
    Case("falcon_new", "FalconForCausalLM", "falcon", 122,
         FALCON | dict(num_kv_heads=2, new_decoder_architecture=True, parallel_attn=True, bias=True),
         {"norms swapped": ones("ln_mlp.weight"), "biases": zeroed("query_key_value.bias"),
          "order": halves_of_rows_swapped("query_key_value")},
         gguf="falcon"),
    # As the 11B model: groups of heads, one norm.
    Case("falcon_one_norm", "FalconForCausalLM", "falcon", 124,
         FALCON | dict(num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1,
                       parallel_attn=True, bias=False, tie_word_embeddings=False),
         {"norm biases": zeroed("layernorm.bias"), "theta": theta(200.0)}),
    # As the models of the RefinedWeb paper, but with RoPE: a KV head a head, one part after the other.
    Case("falcon_sequential", "FalconForCausalLM", "falcon", 123,
         FALCON | dict(multi_query=False, parallel_attn=False, bias=True),
         {"biases": zeroed("dense_h_to_4h.bias"), "norm": ones("post_attention_layernorm.weight")}),
]
