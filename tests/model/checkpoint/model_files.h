// Writers of small model files for tests: safetensors, GGUF, and a whole tiny Llama in either.
// Written from the formats' descriptions, apart from the readers that they test.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace::model_files {

/// A new directory that vanishes with the object.
class TempDirectory {
 public:
  TempDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "headrace-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  // A new file: some file systems flush one that is truncated and written again.
  std::error_code absent;
  std::filesystem::remove(path, absent);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The bytes of a number, little-endian.
template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// A tensor as a file holds it. type is the format's spelling ("F32", "BF16").
struct FileTensor {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;  // outermost first
  std::string data;
};

/// Values as 16-bit ones, cut off behind the mantissa's end: tests use values that fit.
inline std::string to_bf16(const std::vector<float>& values) {
  std::string data;
  for (const float value : values) {
    data += bytes_of(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  return data;
}

inline std::string to_f32(const std::vector<float>& values) {
  std::string data;
  for (const float value : values) data += bytes_of(value);
  return data;
}

/// Normal half-precision values only.
inline std::string to_f16(const std::vector<float>& values) {
  std::string data;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000U;
    const std::uint32_t rest = bits & 0x7fffffffU;
    data += bytes_of(
        static_cast<std::uint16_t>(rest == 0 ? sign : sign | ((rest - (112U << 23)) >> 13)));
  }
  return data;
}

inline FileTensor make_tensor(std::string name, std::string type, std::vector<std::int64_t> shape,
                              const std::vector<float>& values) {
  std::string data = type == "F32"   ? to_f32(values)
                     : type == "F16" ? to_f16(values)
                                     : to_bf16(values);
  return {std::move(name), std::move(type), std::move(shape), std::move(data)};
}

/// A safetensors file of these tensors with this JSON header, or the header that describes them.
inline std::string safetensors_header(const std::vector<FileTensor>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::size_t offset = 0;
  for (const FileTensor& tensor : tensors) {
    std::string shape;
    for (const std::int64_t length : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(length);
    }
    json += ",\"" + tensor.name + R"(":{"dtype":")" + tensor.type + R"(","shape":[)" + shape +
            R"(],"data_offsets":[)" + std::to_string(offset) + "," +
            std::to_string(offset + tensor.data.size()) + "]}";
    offset += tensor.data.size();
  }
  json += "}";
  while (json.size() % 8 != 0) json += ' ';
  return json;
}

inline std::string safetensors_bytes(const std::vector<FileTensor>& tensors,
                                     std::string json = {}) {
  if (json.empty()) json = safetensors_header(tensors);
  std::string bytes = bytes_of(std::uint64_t{json.size()}) + json;
  for (const FileTensor& tensor : tensors) bytes += tensor.data;
  return bytes;
}

/// Builds a GGUF file key by key.
class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3) : version_(version) {}

  GgufWriter& set_u32(const std::string& key, std::uint32_t v) { return set(key, 4, bytes_of(v)); }
  GgufWriter& set_u16(const std::string& key, std::uint16_t v) { return set(key, 2, bytes_of(v)); }
  GgufWriter& set_i32(const std::string& key, std::int32_t v) { return set(key, 5, bytes_of(v)); }
  GgufWriter& set_u64(const std::string& key, std::uint64_t v) { return set(key, 10, bytes_of(v)); }
  GgufWriter& set_f32(const std::string& key, float v) { return set(key, 6, bytes_of(v)); }
  GgufWriter& set_f64(const std::string& key, double v) { return set(key, 12, bytes_of(v)); }
  GgufWriter& set_bool(const std::string& key, bool v) {
    return set(key, 7, std::string(1, v ? 1 : 0));
  }
  GgufWriter& set_string(const std::string& key, const std::string& v) {
    return set(key, 8, text(v));
  }
  GgufWriter& set_strings(const std::string& key, const std::vector<std::string>& values) {
    std::string elements;
    for (const std::string& value : values) elements += text(value);
    return set_array(key, 8, values.size(), elements);
  }
  GgufWriter& set_i32s(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string elements;
    for (const std::int32_t value : values) elements += bytes_of(value);
    return set_array(key, 5, values.size(), elements);
  }
  GgufWriter& set_f32s(const std::string& key, const std::vector<float>& values) {
    return set_array(key, 6, values.size(), to_f32(values));
  }
  GgufWriter& set_array(const std::string& key, std::uint32_t kind, std::uint64_t count,
                        const std::string& elements) {
    return set(key, 9, bytes_of(kind) + bytes_of(count) + elements);
  }
  /// A value of any kind, also one that does not exist.
  GgufWriter& set(const std::string& key, std::uint32_t kind, const std::string& value) {
    if (!keys_.contains(key)) order_.push_back(key);
    keys_[key] = bytes_of(kind) + value;
    return *this;
  }
  GgufWriter& erase(const std::string& key) {
    keys_.erase(key);
    std::erase(order_, key);
    return *this;
  }

  GgufWriter& add(FileTensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
  }
  std::vector<FileTensor>& tensors() { return tensors_; }

  GgufWriter& set_alignment(std::uint32_t alignment) {
    alignment_ = alignment;
    return set_u32("general.alignment", alignment);
  }

  std::string bytes() const {
    std::string out = "GGUF" + bytes_of(version_) + bytes_of(std::uint64_t{tensors_.size()}) +
                      bytes_of(std::uint64_t{order_.size()});
    for (const std::string& key : order_) out += text(key) + keys_.at(key);
    std::string data;
    for (const FileTensor& tensor : tensors_) {
      out += text(tensor.name) + bytes_of(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto length = tensor.shape.rbegin(); length != tensor.shape.rend(); ++length) {
        out += bytes_of(static_cast<std::uint64_t>(*length));
      }
      out += bytes_of(type_number(tensor.type)) + bytes_of(std::uint64_t{data.size()});
      data += tensor.data;
      pad(data);
    }
    if (!tensors_.empty()) pad(out);
    return out + data;
  }

 private:
  static std::string text(const std::string& value) {
    return bytes_of(std::uint64_t{value.size()}) + value;
  }

  static std::uint32_t type_number(const std::string& type) {
    static const std::map<std::string, std::uint32_t> kNumbers{
        {"F32", 0}, {"F16", 1}, {"Q4_0", 2}, {"Q4_1", 3}, {"Q8_0", 8}, {"IQ1_S", 19}, {"BF16", 30}};
    const auto found = kNumbers.find(type);
    return found != kNumbers.end() ? found->second : static_cast<std::uint32_t>(std::stoul(type));
  }

  void pad(std::string& bytes) const {
    bytes.resize((bytes.size() + alignment_ - 1) / alignment_ * alignment_);
  }

  std::uint32_t version_;
  std::uint32_t alignment_ = 32;
  std::map<std::string, std::string> keys_;
  std::vector<std::string> order_;
  std::vector<FileTensor> tensors_;
};

/// The traits of a tiny Llama. Its weights follow from names and positions alone.
struct TinyLlama {
  int num_layers = 2;
  int hidden_size = 16;
  int num_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 4;
  int intermediate_size = 32;
  int vocab_size = 24;
  bool tied_head = true;
  bool attention_bias = false;
  bool mlp_bias = false;
};

/// A value between -1 and 1 that every stored type of 16 bits or more holds exactly.
inline float tiny_value(std::string_view name, std::int64_t row, std::int64_t col) {
  std::uint32_t hash = 2166136261U;
  const auto mix = [&hash](std::uint32_t value) { hash = (hash ^ value) * 16777619U; };
  for (const char c : name) mix(static_cast<unsigned char>(c));
  mix(static_cast<std::uint32_t>(row));
  mix(static_cast<std::uint32_t>(col));
  hash ^= hash >> 15;
  return static_cast<float>(static_cast<int>(hash % 127) - 63) / 64.0F;
}

/// The tensors of a Hugging Face checkpoint, all of one type.
inline std::vector<FileTensor> tiny_tensors(const TinyLlama& model,
                                            const std::string& type = "BF16") {
  std::vector<FileTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t rows = shape.size() == 2 ? shape[0] : 1;
    std::vector<float> values;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < shape.back(); ++col)
        values.push_back(tiny_value(name, row, col));
    }
    tensors.push_back(make_tensor(name, type, std::move(shape), values));
  };
  const int queries = model.num_heads * model.head_dim;
  const int keys = model.num_kv_heads * model.head_dim;
  add("model.embed_tokens.weight", {model.vocab_size, model.hidden_size});
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto linear = [&](const std::string& name, std::int64_t rows, std::int64_t cols,
                            bool bias) {
      add(prefix + name + ".weight", {rows, cols});
      if (bias) add(prefix + name + ".bias", {rows});
    };
    add(prefix + "input_layernorm.weight", {model.hidden_size});
    linear("self_attn.q_proj", queries, model.hidden_size, model.attention_bias);
    linear("self_attn.k_proj", keys, model.hidden_size, model.attention_bias);
    linear("self_attn.v_proj", keys, model.hidden_size, model.attention_bias);
    linear("self_attn.o_proj", model.hidden_size, queries, model.attention_bias);
    add(prefix + "post_attention_layernorm.weight", {model.hidden_size});
    linear("mlp.gate_proj", model.intermediate_size, model.hidden_size, model.mlp_bias);
    linear("mlp.up_proj", model.intermediate_size, model.hidden_size, model.mlp_bias);
    linear("mlp.down_proj", model.hidden_size, model.intermediate_size, model.mlp_bias);
  }
  add("model.norm.weight", {model.hidden_size});
  if (!model.tied_head) add("lm_head.weight", {model.vocab_size, model.hidden_size});
  return tensors;
}

/// The fields of config.json, each with its JSON value, to be changed before they are written.
using ConfigFields = std::map<std::string, std::string>;

inline ConfigFields tiny_config(const TinyLlama& model) {
  const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
  return {
      {"architectures", R"(["LlamaForCausalLM"])"},
      {"model_type", R"("llama")"},
      {"num_hidden_layers", std::to_string(model.num_layers)},
      {"hidden_size", std::to_string(model.hidden_size)},
      {"num_attention_heads", std::to_string(model.num_heads)},
      {"num_key_value_heads", std::to_string(model.num_kv_heads)},
      {"head_dim", std::to_string(model.head_dim)},
      {"intermediate_size", std::to_string(model.intermediate_size)},
      {"vocab_size", std::to_string(model.vocab_size)},
      {"max_position_embeddings", "128"},
      {"rms_norm_eps", "1e-05"},
      {"rope_theta", "10000.0"},
      {"tie_word_embeddings", flag(model.tied_head)},
      {"attention_bias", flag(model.attention_bias)},
      {"mlp_bias", flag(model.mlp_bias)},
      {"hidden_act", R"("silu")"},
      {"bos_token_id", "1"},
      {"eos_token_id", "2"},
      {"torch_dtype", R"("bfloat16")"},
  };
}

inline std::string config_text(const ConfigFields& fields) {
  std::string text;
  for (const auto& [key, value] : fields) {
    text.append(text.empty() ? "{\n  \"" : ",\n  \"").append(key).append("\": ").append(value);
  }
  return text + "\n}\n";
}

/// config.json and model.safetensors in a directory that exists.
inline void write_hugging_face(const std::filesystem::path& directory, const TinyLlama& model = {},
                               const std::string& type = "BF16") {
  write_file(directory / "config.json", config_text(tiny_config(model)));
  write_file(directory / "model.safetensors", safetensors_bytes(tiny_tensors(model, type)));
}

/// A directory with such a model in bfloat16.
class ModelDirectory : public TempDirectory {
 public:
  explicit ModelDirectory(const TinyLlama& model) { write_hugging_face(path(), model); }
};

/// The name that llama.cpp's converter gives a tensor.
inline std::string gguf_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kParts{
      {"model.layers.", "blk."},
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"post_attention_layernorm", "ffn_norm"},
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  for (const auto& [from, to] : kParts) {
    const std::size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

/// Reorders rows of row_bytes each as that converter does for queries and keys: the two halves of
/// each head are dealt like cards, one row of the first, one of the second.
inline std::string interleave_heads(const std::string& data, std::size_t row_bytes, int head_dim) {
  std::string out;
  const std::size_t head_bytes = row_bytes * static_cast<std::size_t>(head_dim);
  for (std::size_t head = 0; head < data.size(); head += head_bytes) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(head_dim) / 2; ++i) {
      out += data.substr(head + i * row_bytes, row_bytes);
      out += data.substr(head + head_bytes / 2 + i * row_bytes, row_bytes);
    }
  }
  return out;
}

/// The tiny Llama as a GGUF file, to be changed before it is written.
inline GgufWriter tiny_gguf(const TinyLlama& model = {}, const std::string& type = "BF16",
                            std::uint32_t version = 3) {
  GgufWriter writer(version);
  const auto number = [&](const std::string& key, int value) {
    writer.set_u32(key, static_cast<std::uint32_t>(value));
  };
  writer.set_string("general.architecture", "llama");
  number("llama.block_count", model.num_layers);
  number("llama.context_length", 128);
  number("llama.embedding_length", model.hidden_size);
  number("llama.feed_forward_length", model.intermediate_size);
  number("llama.attention.head_count", model.num_heads);
  number("llama.attention.head_count_kv", model.num_kv_heads);
  number("llama.attention.key_length", model.head_dim);
  number("llama.rope.dimension_count", model.head_dim);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.set_f32("llama.rope.freq_base", 10000.0F);
  number("tokenizer.ggml.bos_token_id", 1);
  number("tokenizer.ggml.eos_token_id", 2);
  for (FileTensor tensor : tiny_tensors(model, type)) {
    const bool heads = tensor.name.find(".q_proj.") != std::string::npos ||
                       tensor.name.find(".k_proj.") != std::string::npos;
    const std::size_t rows = static_cast<std::size_t>(tensor.shape.front());
    if (heads)
      tensor.data = interleave_heads(tensor.data, tensor.data.size() / rows, model.head_dim);
    tensor.name = gguf_name(tensor.name);
    writer.add(std::move(tensor));
  }
  return writer;
}

}  // namespace headrace::model_files
