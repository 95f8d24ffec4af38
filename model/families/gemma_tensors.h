// The names of Gemma 2 and 3. Their norms multiply by 1 + weight; llama.cpp's converter writes the
// sum (Gemma2Model.modify_tensors in its convert_hf_to_gguf.py), so that only directories have the
// weights one less.
#pragma once

#include <array>

#include "model/families/family.h"

namespace headrace {

inline constexpr StoredLayout kGemmaNorm{.form = StoredForm::kOneLess};

inline constexpr std::array kGemmaTensors{
    TensorName{"model.norm", "model.norm", kGemmaNorm},
    TensorName{"model.layers.#.input_layernorm", "model.layers.#.input_layernorm", kGemmaNorm},
    TensorName{"model.layers.#.self_attn.q_norm", "model.layers.#.self_attn.q_norm", kGemmaNorm},
    TensorName{"model.layers.#.self_attn.k_norm", "model.layers.#.self_attn.k_norm", kGemmaNorm},
    TensorName{"model.layers.#.post_attention_layernorm", "model.layers.#.self_attn.post_norm",
               kGemmaNorm},
    TensorName{"model.layers.#.pre_feedforward_layernorm",
               "model.layers.#.post_attention_layernorm", kGemmaNorm},
    TensorName{"model.layers.#.post_feedforward_layernorm", "model.layers.#.mlp.post_norm",
               kGemmaNorm},
};

/// What both add to config.json: scale, caps, windows.
void add_gemma_traits(const ModelConfig& model, nlohmann::ordered_json& config);

}  // namespace headrace
