#include <fmt/format.h>

#include <cmath>
#include <map>

#include "launch/inspect.h"
#include "launch/model_text.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/embedded_files.h"
#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/tokenizer/sentencepiece_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string_view scaling_name(RopeConfig::Scaling scaling) {
  switch (scaling) {
    case RopeConfig::Scaling::kNone:
      return "none";
    case RopeConfig::Scaling::kLinear:
      return "linear";
    case RopeConfig::Scaling::kLlama3:
      return "llama3";
    case RopeConfig::Scaling::kYarn:
      return "yarn";
    case RopeConfig::Scaling::kLong:
      return "longrope";
  }
  return "unknown";
}

void add_config_facts(const ModelConfig& c, ordered_json& facts) {
  facts["architecture"] = c.architecture;
  facts["layers"] = c.num_layers;
  facts["hidden_size"] = c.hidden_size;
  facts["heads"] = c.num_heads;
  facts["kv_heads"] = c.num_kv_heads;
  facts["head_dim"] = c.head_dim;
  facts["intermediate_size"] = c.intermediate_size;
  facts["vocab_size"] = c.vocab_size;
  facts["max_position_embeddings"] = c.max_position_embeddings;
  if (c.rope.rotary_dim > 0) {
    facts["rope"] = {{"theta", c.rope.theta}, {"scaling", scaling_name(c.rope.scaling)}};
  }
  if (c.window > 0) facts["sliding_window"] = c.window;
  facts["tied_head"] = c.tied_head;
  facts["eos_token_ids"] = c.eos_token_ids;
}

void add_weight_facts(const Checkpoint& checkpoint, ordered_json& facts) {
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::int64_t> tensors_by_type;
  for (const TensorInfo& t : checkpoint.tensors()) {
    parameters += t.rows * t.cols;
    bytes += t.stored_bytes;
    ++tensors_by_type[t.stored_type];
  }
  facts["format"] = checkpoint.format();
  facts["parameters"] = parameters;
  facts["weight_bytes"] = bytes;
  facts["tensors"] = checkpoint.tensors().size();
  facts["stored_types"] = tensors_by_type;
  facts["dtype_auto"] = dtype_name(checkpoint.preferred_dtype());
  facts["fingerprint"] = checkpoint.fingerprint();
}

/// Reads every weight: bytes against the checksums that the format has, values against what would
/// spread to every token.
void verify_weights(Checkpoint& checkpoint, Findings& findings) {
  for (const std::string& name : checkpoint.damaged_tensors()) {
    findings.problem(fmt::format("{}: its bytes do not have the checksum stored with them", name));
  }
  std::vector<float> rows;
  for (const TensorInfo& t : checkpoint.tensors()) {
    constexpr std::int64_t kValues = 1 << 22;  // 16 MiB at a time
    const std::int64_t step =
        std::max<std::int64_t>(1, kValues / std::max<std::int64_t>(1, t.cols));
    std::int64_t bad = 0;
    for (std::int64_t row = 0; row < t.rows; row += step) {
      const std::int64_t end = std::min(t.rows, row + step);
      rows.resize(static_cast<std::size_t>((end - row) * t.cols));
      checkpoint.read_rows(t.name, row, end, rows.data());
      for (const float value : rows) bad += std::isfinite(value) ? 0 : 1;
    }
    if (bad > 0) findings.problem(fmt::format("{}: {} values are not finite", t.name, bad));
  }
}

/// What kind of tokenizer the files declare, as they spell it.
std::string tokenizer_kind(const fs::path& model) {
  const fs::path main = is_hdf5(model) ? hdf5_main_file(model) : model;
  if (main.extension() != ".gguf" && !is_model_file(model / "tokenizer.json")) {
    const SentencePieceModel pieces = read_sentencepiece_model(model / "tokenizer.model");
    const bool bpe = pieces.kind == SentencePieceModel::Kind::kBpe;
    return bpe ? "SentencePiece (BPE)" : "SentencePiece (unigram)";
  }
  if (main.extension() != ".gguf") {
    const InputFile file(model / "tokenizer.json");
    const auto json = nlohmann::json::parse(file.head(file.size()), nullptr,
                                            /*allow_exceptions=*/false);
    const nlohmann::json::json_pointer type("/model/type");
    return json.contains(type) && json[type].is_string() ? json[type].get<std::string>()
                                                         : "unknown";
  }
  const GgufFile file(main);
  const std::string* kind = file.string("tokenizer.ggml.model");
  const std::string* pre = file.string("tokenizer.ggml.pre");
  return (kind != nullptr ? *kind : "unknown") + (pre != nullptr ? " (" + *pre + ")" : "");
}

void add_text_facts(const InspectOptions& options, const fs::path& path, Findings& findings) {
  try {
    const ModelText text = load_model_text({.model = options.path, .chat_template = std::nullopt});
    const Tokenizer& t = *text.tokenizer;
    ordered_json& facts = findings.facts["tokenizer"];
    facts["kind"] = tokenizer_kind(path);
    facts["ids"] = t.vocab_size();
    for (const auto& [name, id] : {std::pair("bos", t.bos_id()), std::pair("eos", t.eos_id())}) {
      if (id) facts[name] = fmt::format("{} ({})", *id, t.id_to_token(*id));
    }
    facts["fingerprint"] = t.fingerprint();
    std::vector<std::string> names;
    for (const Tokenizer::NamedTemplate& named : t.chat_templates()) names.push_back(named.name);
    findings.facts["chat_templates"] = names;
    if (!names.empty() && text.chat == nullptr) findings.problem(text.chat_problem);
  } catch (const std::invalid_argument& e) {
    findings.problem(e.what());
  }
}

/// What a Headrace checkpoint was made from, and the files in it.
void add_origin(const fs::path& path, ordered_json& facts) {
  const Hdf5Contents contents = read_hdf5_contents(path);
  facts["made_from"] = contents.provenance.source;
  facts["made_by"] = contents.provenance.program;
  facts["source_fingerprint"] = contents.provenance.fingerprint;
  for (const Hdf5File& file : contents.files) {
    facts["embedded"][file.name] = fmt::format("{} bytes", file.bytes);
  }
}

std::string_view kind_of(const fs::path& path) {
  if (fs::is_directory(path)) return "model (Hugging Face directory)";
  return is_hdf5(path) ? "model (Headrace HDF5)" : "model (GGUF)";
}

void add_files(const fs::path& path, ordered_json& facts) {
  if (!fs::is_directory(path)) {
    facts["files"] = {{path.filename().string(), fmt::format("{} bytes", fs::file_size(path))}};
    return;
  }
  std::map<std::string, std::uintmax_t> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files[entry.path().filename().string()] = entry.file_size();
  }
  for (const auto& [name, bytes] : files) facts["files"][name] = fmt::format("{} bytes", bytes);
}

}  // namespace

Findings inspect_model(const InspectOptions& options) {
  Findings findings;
  const fs::path path = resolve_model_path(options.path);
  findings.kind = kind_of(path);
  if (path != fs::path(options.path)) findings.facts["found_at"] = path.string();
  try {
    const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(path);
    add_config_facts(checkpoint->config(), findings.facts);
    add_weight_facts(*checkpoint, findings.facts);
    if (is_hdf5(path)) add_origin(path, findings.facts);
    if (options.verify) verify_weights(*checkpoint, findings);
  } catch (const std::invalid_argument& e) {
    findings.problem(e.what());
  }
  add_text_facts(options, path, findings);
  add_files(path, findings.facts);
  return findings;
}

}  // namespace headrace
