// How the Llama page maps config.json and GGUF metadata, and what it refuses.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/json_object.h"
#include "model/families/family.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

ModelConfig map(const ConfigFields& fields) {
  const JsonObject config = JsonObject::parse(config_text(fields), "config.json");
  return family_of(config).from_config_json(config);
}

// The tiny model's fields with one changed; an empty value takes it out.
ConfigFields with(const std::string& key, const std::string& value) {
  ConfigFields fields = tiny_config({});
  fields[key] = value;
  if (value.empty()) fields.erase(key);
  return fields;
}

std::string refusal(const ConfigFields& fields) {
  try {
    map(fields);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ConfigJson, EveryTraitIsMapped) {
  const ModelConfig model = map(tiny_config({.attention_bias = true, .mlp_bias = true}));
  EXPECT_EQ(model.architecture, "LlamaForCausalLM");
  EXPECT_EQ(model.num_layers, 2);
  EXPECT_EQ(model.hidden_size, 16);
  EXPECT_EQ(model.num_heads, 4);
  EXPECT_EQ(model.num_kv_heads, 2);
  EXPECT_EQ(model.head_dim, 4);
  EXPECT_EQ(model.intermediate_size, 32);
  EXPECT_EQ(model.vocab_size, 24);
  EXPECT_EQ(model.max_position_embeddings, 128);
  EXPECT_EQ(model.norm_eps, 1e-5F);
  EXPECT_TRUE(model.tied_head);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_TRUE(model.output_bias);
  EXPECT_TRUE(model.mlp_bias);
  EXPECT_EQ(model.rope.theta, 10000.0);
  EXPECT_EQ(model.rope.rotary_dim, 4);
  EXPECT_EQ(model.bos_token_id, 1);
  EXPECT_EQ(model.eos_token_ids, std::vector<TokenId>{2});
}

TEST(ConfigJson, AbsentKeysHaveTransformersDefaults) {
  ConfigFields fields = tiny_config({});
  for (const char* key :
       {"num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta",
        "tie_word_embeddings", "attention_bias", "mlp_bias", "hidden_act", "bos_token_id",
        "eos_token_id", "torch_dtype", "model_type"}) {
    fields.erase(key);
  }
  const ModelConfig model = map(fields);
  EXPECT_EQ(model.num_kv_heads, 4);
  EXPECT_EQ(model.head_dim, 4);
  EXPECT_EQ(model.max_position_embeddings, 2048);
  EXPECT_EQ(model.norm_eps, 1e-6F);
  EXPECT_FALSE(model.tied_head);
  EXPECT_FALSE(model.qkv_bias);
  EXPECT_FALSE(model.mlp_bias);
  EXPECT_EQ(model.rope.theta, 10000.0);
  EXPECT_EQ(model.bos_token_id, 1);
  EXPECT_EQ(model.eos_token_ids, std::vector<TokenId>{2});
}

TEST(ConfigJson, NullMeansNoneForTokensAndTheDefaultElsewhere) {
  EXPECT_EQ(map(with("bos_token_id", "null")).bos_token_id, std::nullopt);
  EXPECT_TRUE(map(with("eos_token_id", "null")).eos_token_ids.empty());
  EXPECT_EQ(map(with("num_key_value_heads", "null")).num_kv_heads, 4);
  EXPECT_EQ(map(with("head_dim", "null")).head_dim, 4);
  EXPECT_EQ(map(with("rope_scaling", "null")).rope.scaling, RopeConfig::Scaling::kNone);
  EXPECT_EQ(map(with("quantization_config", "null")).num_layers, 2);
}

TEST(ConfigJson, SeveralEndsOfTextAreKept) {
  EXPECT_EQ(map(with("eos_token_id", "[128001, 128008, 128009]")).eos_token_ids,
            (std::vector<TokenId>{128001, 128008, 128009}));
}

TEST(ConfigJson, HeadDimMayDifferFromHiddenSizeOverHeads) {
  EXPECT_EQ(map(with("head_dim", "12")).head_dim, 12);
  ConfigFields fields = with("num_attention_heads", "6");
  EXPECT_EQ(map(fields).num_heads, 6) << "16 / 6 is not asked for where head_dim is given";
}

TEST(ConfigJson, WhatTheDecoderCannotDoIsRefusedByName) {
  struct Case {
    const char* key;
    const char* value;
    const char* expected;
  };
  const Case cases[] = {
      {"architectures", R"(["MixtralForCausalLM"])",
       "architectures is [\"MixtralForCausalLM\"]; supported: LlamaForCausalLM, "
       "MistralForCausalLM, Qwen2ForCausalLM"},
      {"architectures", R"(["LlamaForCausalLM", "X"])", "supported: LlamaForCausalLM"},
      {"architectures", R"("LlamaForCausalLM")", "a list of texts is accepted"},
      {"architectures", "", "architectures is absent; supported: LlamaForCausalLM"},
      {"architectures", "[]", "architectures is []; supported"},
      {"model_type", R"("mistral")", "model_type is \"mistral\"; LlamaForCausalLM has \"llama\""},
      {"quantization_config", R"({"quant_method": "gptq"})",
       "quantization_config is an object; weights in F32, F16 and BF16"},
      {"hidden_act", R"("relu2")", "hidden_act is \"relu2\"; supported: silu, swish, gelu"},
      {"partial_rotary_factor", "0.5",
       "partial_rotary_factor is below 1; Llama models turn whole heads"},
      {"num_hidden_layers", "0", "num_hidden_layers is 0; an integer from 1 to 4096"},
      {"num_hidden_layers", "-3", "num_hidden_layers is -3"},
      {"num_hidden_layers", "5000", "num_hidden_layers is 5000"},
      {"num_hidden_layers", "2.5", "num_hidden_layers is 2.5"},
      {"num_hidden_layers", "\"2\"", "num_hidden_layers is \"2\""},
      {"num_hidden_layers", "true", "num_hidden_layers is true"},
      {"num_hidden_layers", "1e300", "num_hidden_layers is 1e+300"},
      {"num_hidden_layers", "18446744073709551615", "num_hidden_layers is 18446744073709551615"},
      {"num_hidden_layers", "", "num_hidden_layers is absent; an integer"},
      {"hidden_size", "", "hidden_size is absent"},
      {"hidden_size", "99999999999", "hidden_size is 99999999999"},
      {"intermediate_size", "", "intermediate_size is absent"},
      {"vocab_size", "", "vocab_size is absent"},
      {"vocab_size", "0", "vocab_size is 0"},
      {"num_attention_heads", "", "num_attention_heads is absent"},
      {"num_attention_heads", "0", "num_attention_heads is 0"},
      {"num_key_value_heads", "3",
       "num_attention_heads (4) is no multiple of num_key_value_heads (3)"},
      {"num_key_value_heads", "0", "num_key_value_heads is 0"},
      {"head_dim", "5", "the heads have 5 dimensions; RoPE needs an even number"},
      {"head_dim", "16384", "accepted"},
      {"head_dim", "0", "head_dim is 0"},
      {"max_position_embeddings", "0", "max_position_embeddings is 0"},
      {"rms_norm_eps", "0", "rms_norm_eps is 0; a number between 0 and 1"},
      {"rms_norm_eps", "-1e-5", "rms_norm_eps is -1e-05"},
      {"tie_word_embeddings", "1", "tie_word_embeddings is 1; true and false"},
      {"attention_bias", "\"no\"", "attention_bias is \"no\""},
      {"eos_token_id", "-1", "eos_token_id is -1"},
      {"eos_token_id", "[2, \"3\"]", "eos_token_id is [2,\"3\"]"},
      {"bos_token_id", "4294967296", "bos_token_id is 4294967296"},
  };
  for (const Case& test : cases) {
    const std::string message = refusal(with(test.key, test.value));
    EXPECT_NE(message.find(test.expected), std::string::npos)
        << test.key << " = " << test.value << "\n"
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  ConfigFields fields = with("head_dim", "");
  fields["num_attention_heads"] = "6";
  EXPECT_NE(
      refusal(fields).find(
          "hidden_size (16) is no multiple of num_attention_heads (6), and head_dim is absent"),
      std::string::npos);
  fields = with("head_dim", "16384");
  fields["num_attention_heads"] = "65536";
  fields["num_key_value_heads"] = "65536";
  EXPECT_NE(refusal(fields).find("65536 heads of 16384 dimensions"), std::string::npos);
}

TEST(ConfigJson, TextThatIsNoObjectIsRefusedWithItsPlace) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "config.json: is not valid JSON"},
      {"[1, 2]", "config.json: is not a JSON object"},
      {"{\"a\": 1,}", "config.json: is not valid JSON at byte 9"},
      {"{\"a\": \"\xff\"}", "config.json: is not valid JSON at byte"},
      {"{\"a\": 1e999}", "config.json: holds a number that is out of range"},
      {std::string("{\"a\": 1}\0", 9), "config.json: is not valid JSON at byte 9"},
      {"{\"a\": " + std::string(100000, '['), "config.json: nests deeper than 64 levels"},
      {"{\"a\": NaN}", "config.json: is not valid JSON"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      JsonObject::parse(text, "config.json");
      ADD_FAILURE() << "accepted " << text.substr(0, 40);
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

std::string gguf_refusal(const std::function<void(GgufWriter&)>& change) {
  const TempDirectory directory;
  GgufWriter writer = tiny_gguf();
  change(writer);
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  try {
    Checkpoint::open(directory.path() / "tiny.gguf");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

ModelConfig gguf_config(const std::function<void(GgufWriter&)>& change) {
  const TempDirectory directory;
  GgufWriter writer = tiny_gguf();
  change(writer);
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  return Checkpoint::open(directory.path() / "tiny.gguf")->config();
}

TEST(GgufMetadata, EveryTraitIsMapped) {
  const ModelConfig model = gguf_config([](GgufWriter& file) {
    file.set_u32("tokenizer.ggml.eot_token_id", 5);
    file.set_u32("llama.vocab_size", 99);  // padded vocabularies differ; the table decides
  });
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(model.num_layers, 2);
  EXPECT_EQ(model.num_kv_heads, 2);
  EXPECT_EQ(model.head_dim, 4);
  EXPECT_EQ(model.vocab_size, 24);
  EXPECT_EQ(model.max_position_embeddings, 128);
  EXPECT_EQ(model.norm_eps, 1e-5F);
  EXPECT_TRUE(model.tied_head);
  EXPECT_EQ(model.rope.theta, 10000.0);
  EXPECT_EQ(model.bos_token_id, 1);
  EXPECT_EQ(model.eos_token_ids, (std::vector<TokenId>{2, 5}));
}

TEST(GgufMetadata, RopeScalingsAreMapped) {
  const RopeConfig linear = gguf_config([](GgufWriter& file) {
                              file.set_string("llama.rope.scaling.type", "linear")
                                  .set_f32("llama.rope.scaling.factor", 4.0F);
                            }).rope;
  EXPECT_EQ(linear.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(linear.factor, 4.0);
  const RopeConfig old =
      gguf_config([](GgufWriter& file) { file.set_f32("llama.rope.scale_linear", 2.0F); }).rope;
  EXPECT_EQ(old.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(old.factor, 2.0);
  const RopeConfig yarn = gguf_config([](GgufWriter& file) {
                            file.set_string("llama.rope.scaling.type", "yarn")
                                .set_f32("llama.rope.scaling.factor", 16.0F);
                            file.set_u32("llama.rope.scaling.original_context_length", 8);
                          }).rope;
  EXPECT_EQ(yarn.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_EQ(yarn.original_max_position_embeddings, 8);
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 1.0 + 0.1 * std::log(16.0));
}

TEST(GgufMetadata, WhatTheDecoderCannotDoIsRefusedByName) {
  struct Case {
    std::function<void(GgufWriter&)> change;
    const char* expected;
  };
  const Case cases[] = {
      {[](GgufWriter& f) { f.set_string("general.architecture", "qwen2moe"); },
       "general.architecture is \"qwen2moe\"; supported: llama, qwen2, qwen3"},
      {[](GgufWriter& f) { f.erase("general.architecture"); },
       "general.architecture is absent; supported: llama"},
      {[](GgufWriter& f) { f.set_u32("general.architecture", 1); },
       "key \"general.architecture\" must be a string"},
      {[](GgufWriter& f) { f.set_u32("llama.expert_count", 8); },
       "llama.expert_count is 8; only 0 is supported"},
      {[](GgufWriter& f) { f.erase("llama.block_count"); }, "the key llama.block_count is missing"},
      {[](GgufWriter& f) { f.set_u32("llama.block_count", 0); },
       "llama.block_count is 0; an integer from 1 to 4096"},
      {[](GgufWriter& f) { f.set_u64("llama.block_count", ~std::uint64_t{0}); },
       "must be an integer that fits 63 bits"},
      {[](GgufWriter& f) { f.set_u32("llama.block_count", 3); },
       "tensor \"model.layers.2.input_layernorm.weight\" is missing (and 8 more)"},
      {[](GgufWriter& f) { f.set_u32("llama.block_count", 1); },
       "tensor \"blk.1.attn_norm.weight\" (and 8 more) has no place in this llama with 1 layers"},
      {[](GgufWriter& f) {
         f.set_i32s("llama.attention.head_count", {4, 4});
       },
       "must be an integer"},
      {[](GgufWriter& f) { f.set_u32("llama.attention.value_length", 8); },
       "llama.attention.value_length is 8; only the key_length of 4"},
      {[](GgufWriter& f) { f.set_u32("llama.rope.dimension_count", 2); },
       "llama.rope.dimension_count is 2; Llama models turn whole heads of 4"},
      {[](GgufWriter& f) { f.set_u32("llama.rope.dimension_count", 8); },
       "llama.rope.dimension_count has an unsupported value"},
      {[](GgufWriter& f) { f.set_f32("llama.rope.freq_base", NAN); },
       "llama.rope.freq_base has an unsupported value; a finite number"},
      {[](GgufWriter& f) { f.set_string("llama.rope.scaling.type", "longrope"); },
       "llama.rope.scaling.type is \"longrope\"; supported: none, linear, yarn"},
      {[](GgufWriter& f) { f.erase("llama.attention.layer_norm_rms_epsilon"); },
       "layer_norm_rms_epsilon must be a number between 0 and 1"},
      {[](GgufWriter& f) {
         std::erase_if(f.tensors(), [](auto& t) { return t.name == "token_embd.weight"; });
       },
       "tensor token_embd.weight is missing"},
      {[](GgufWriter& f) { f.tensors()[0].shape = {24 * 16}; },
       "tensor token_embd.weight has the shape [384]; [vocabulary, 16]"},
      {[](GgufWriter& f) {
         f.add(make_tensor("blk.0.attn_q_norm.weight", "F32", {4}, {1, 1, 1, 1}));
       },
       "tensor \"blk.0.attn_q_norm.weight\" has no place in this llama"},
      {[](GgufWriter& f) {
         f.add(make_tensor("blk.0.attn_rel_b.weight", "F32", {4}, {1, 1, 1, 1}));
       },
       "tensor \"blk.0.attn_rel_b.weight\" has no place in a llama model"},
      {[](GgufWriter& f) {
         f.add(make_tensor("blk.0.attn_q.bias", "F32", {16}, std::vector<float>(16)));
       },
       "tensor \"model.layers.0.self_attn.k_proj.bias\" is missing"},
      {[](GgufWriter& f) {
         f.tensors()[1] = {"blk.0.attn_norm.weight", "24", {16}, std::string(16, 'x')};
       },
       "tensor \"blk.0.attn_norm.weight\" has the type \"I8\"; supported: F32, F16"},
      {[](GgufWriter& f) { f.tensors()[1].name = "blk.00.attn_norm.weight"; },
       "\"model.layers.0.input_layernorm.weight\" is missing"},
      {[](GgufWriter& f) { f.set_u32("llama.feed_forward_length", 31); },
       "tensor \"blk.0.ffn_gate.weight\" has the shape [32, 16], but the metadata implies [31, "
       "16]"},
  };
  for (const Case& test : cases) {
    const std::string message = gguf_refusal(test.change);
    EXPECT_NE(message.find(test.expected), std::string::npos) << test.expected << "\n" << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace headrace
