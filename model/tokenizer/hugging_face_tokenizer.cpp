#include "model/tokenizer/hugging_face_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "model/checkpoint/embedded_files.h"
#include "model/tokenizer/bpe_model.h"
#include "model/tokenizer/json_node.h"
#include "model/tokenizer/model_fingerprint.h"
#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/tokenizer_json_file.h"
#include "model/tokenizer/unigram_model.h"

namespace headrace {
namespace {

// A file cannot ask for more memory by an id than a small multiple of its own size.
std::int64_t id_limit(const TokenizerJsonFile& file) {
  constexpr std::int64_t kAlwaysAccepted = std::int64_t{1} << 20;
  return std::min<std::int64_t>(INT32_MAX,
                                std::max(kAlwaysAccepted, static_cast<std::int64_t>(file.bytes)));
}

std::unique_ptr<const WordModel> make_bpe(const TokenizerJsonFile& file, const JsonNode& node,
                                          std::shared_ptr<const Vocabulary> vocabulary,
                                          bool words_are_bytes) {
  if (!file.has_merges) node.at("merges").reject("a list of merges");
  if (file.vocabulary.is_list) {
    throw std::invalid_argument(fmt::format(
        "{}: model.vocab is a list; accepted for BPE: {{\"text\": id, ...}}", file.name));
  }
  if (const auto dropout = node.find("dropout"); dropout && dropout->number() != 0.0) {
    dropout->reject("null or 0: a dropout would make ids random");
  }
  BpeOptions options;
  if (const auto unk = node.find("unk_token")) options.unk_token = unk->string();
  options.continuing_subword_prefix = node.string_or("continuing_subword_prefix", "");
  options.end_of_word_suffix = node.string_or("end_of_word_suffix", "");
  options.fuse_unk = node.boolean_or("fuse_unk", false);
  options.byte_fallback = node.boolean_or("byte_fallback", false);
  options.ignore_merges = node.boolean_or("ignore_merges", false);
  options.words_are_bytes = words_are_bytes;
  MergeTable merges =
      rank_merges(file.merges, *vocabulary, options.continuing_subword_prefix, file.name);
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

std::unique_ptr<const WordModel> make_unigram(const TokenizerJsonFile& file, const JsonNode& node,
                                              std::shared_ptr<const Vocabulary> vocabulary) {
  if (!file.vocabulary.is_list) {
    throw std::invalid_argument(fmt::format(
        "{}: model.vocab is an object; accepted for Unigram: [[\"text\", score], ...]", file.name));
  }
  UnigramModel::Options options;
  if (const auto unk = node.find("unk_id")) {
    const std::int64_t id = unk->integer();
    if (id < 0 || id >= vocabulary->size()) unk->reject("the id of a token of the vocabulary");
    options.unk_id = static_cast<TokenId>(id);
  }
  options.byte_fallback = node.boolean_or("byte_fallback", false);
  std::vector<double> scores;
  scores.reserve(file.vocabulary.entries.size());
  for (const RawVocabulary::Entry& entry : file.vocabulary.entries) scores.push_back(entry.score);
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options);
}

// A byte-level pre-tokenizer leaves its respelling to BPE; another model gets it as text.
void read_model(const TokenizerJsonFile& file, const JsonNode& root, TokenizerParts& parts) {
  const JsonNode node = root.at("model");
  if (!file.has_vocabulary) node.at("vocab").reject("a vocabulary");
  parts.vocabulary =
      std::make_shared<Vocabulary>(file.vocabulary, id_limit(file), file.name + ": model.vocab");
  const std::string type = node.string_or("type", file.has_merges ? "BPE" : "");
  if (type == "BPE") {
    parts.model = make_bpe(file, node, parts.vocabulary, parts.pre_tokenizers.words_are_bytes);
  } else if (type == "Unigram" && !parts.pre_tokenizers.words_are_bytes) {
    parts.model = make_unigram(file, node, parts.vocabulary);
  } else if (type == "Unigram") {
    root.at("pre_tokenizer").reject("one without ByteLevel beside a Unigram model");
  } else {
    node.at("type").reject("BPE, Unigram");
  }
}

std::string normal_form(const Normalizers& normalizers, const std::string& content) {
  Segment segment{.text = content, .at_start = true};
  normalize_segment(normalizers, segment);
  return segment.text;
}

// Keeps the list of added tokens as the library does: a token of the vocabulary has its id there,
// the others are numbered behind the vocabulary. A file that says otherwise is refused: the library
// would give its tokens ids that the model was not trained with.
class AddedTokenList {
 public:
  explicit AddedTokenList(TokenizerParts& parts) : parts_(parts) {
    next_id_ = parts.vocabulary->count();
  }

  void add(AddedToken token, const JsonNode& id_node) {
    const auto known = by_content_.find(token.content);
    const TokenId in_vocabulary = parts_.vocabulary->find_or(token.content, -1);
    std::int64_t id = in_vocabulary;
    if (known != by_content_.end()) {
      id = parts_.added[known->second].id;
    } else if (in_vocabulary < 0) {
      id = next_id_++;
    }
    if (id_node.integer() != id)
      id_node.reject(fmt::format("{} for {}", id, shown_text(token.content)));
    token.id = static_cast<TokenId>(id);
    if (known != by_content_.end()) {
      parts_.added[known->second] = std::move(token);
    } else {
      by_content_.emplace(token.content, parts_.added.size());
      parts_.added.push_back(std::move(token));
    }
  }

 private:
  TokenizerParts& parts_;
  std::int64_t next_id_ = 0;
  std::unordered_map<std::string, std::size_t> by_content_;  // index into parts_.added
};

void read_added_tokens(const JsonNode& root, TokenizerParts& parts) {
  const auto list = root.find("added_tokens");
  if (!list) return;
  AddedTokenList added(parts);
  for (const JsonNode& node : list->elements()) {
    AddedToken token;
    token.content = node.at("content").string();
    token.single_word = node.at("single_word").boolean();
    token.lstrip = node.at("lstrip").boolean();
    token.rstrip = node.at("rstrip").boolean();
    token.normalized = node.at("normalized").boolean();
    token.special = node.at("special").boolean();
    if (token.content.empty()) continue;  // the library skips it
    token.normal_form = token.normalized ? normal_form(parts.normalizers, token.content) : "";
    added.add(std::move(token), node.at("id"));
  }
}

bool has_role(const TokenizerParts& parts, std::string_view role) {
  return std::any_of(parts.special_texts.begin(), parts.special_texts.end(),
                     [role](const auto& entry) { return entry.first == role; });
}

// "bos_token": text, or an AddedToken with its text in "content". The first file that has a role
// decides.
void read_special_texts(const JsonNode& config, TokenizerParts& parts) {
  for (const auto& [key, value] : config.members()) {
    if (!key.ends_with("_token") || !(value.is_string() || value.is_object())) continue;
    if (has_role(parts, key)) continue;
    parts.special_texts.emplace_back(
        key, value.is_string() ? value.string() : value.at("content").string());
  }
}

void read_config_templates(const JsonNode& config, TokenizerParts& parts) {
  const auto node = config.find("chat_template");
  if (!node) return;
  if (node->is_string()) {
    parts.chat_templates.push_back({.name = "default", .source = node->string()});
    return;
  }
  for (const JsonNode& entry : node->elements()) {
    parts.chat_templates.push_back(
        {.name = entry.at("name").string(), .source = entry.at("template").string()});
  }
}

// Template files, where there are any, replace the templates of the configuration.
void read_template_files(const std::filesystem::path& directory, TokenizerParts& parts) {
  std::vector<Tokenizer::NamedTemplate> templates;
  const std::filesystem::path single = directory / "chat_template.jinja";
  if (is_model_file(single)) {
    templates.push_back({.name = "default", .source = read_file(single)});
  }
  for (const auto& file : model_files_in(directory / "additional_chat_templates")) {
    if (file.extension() != ".jinja") continue;
    templates.push_back({.name = file.stem().string(), .source = read_file(file)});
  }
  if (!templates.empty()) parts.chat_templates = std::move(templates);
}

void read_side_files(const std::filesystem::path& directory, TokenizerParts& parts) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path path = directory / name;
    if (!is_model_file(path)) continue;
    const nlohmann::json tree = read_json(path);
    const JsonNode config(tree, path.string());
    read_special_texts(config, parts);
    read_config_templates(config, parts);
  }
  read_template_files(directory, parts);
}

// tokenizer.json, or what stands in for it.
TokenizerJsonFile read_rules(const std::filesystem::path& directory, TokenizerParts& parts) {
  if (is_model_file(directory / "tokenizer.json")) {
    return read_tokenizer_json(directory / "tokenizer.json");
  }
  if (is_model_file(directory / "tokenizer.model")) {
    return read_sentencepiece_as_json(directory, parts.special_texts);
  }
  throw std::invalid_argument(
      fmt::format("{}: no tokenizer; accepted: tokenizer.json, or SentencePiece's tokenizer.model",
                  directory.string()));
}

// Tokens with a role are special, whether or not the list of added tokens says so, as transformers
// has it. One that the vocabulary lacks has no id that a model was trained with, and stays a mere
// text.
void make_roles_special(TokenizerParts& parts) {
  for (const auto& [role, text] : parts.special_texts) {
    const std::string& content = text;
    const auto known =
        std::find_if(parts.added.begin(), parts.added.end(),
                     [&content](const AddedToken& t) { return t.content == content; });
    const TokenId id = parts.vocabulary->find_or(content, -1);
    if (known != parts.added.end()) {
      known->special = true;
    } else if (id >= 0 && !content.empty()) {
      AddedToken token;
      token.id = id;
      token.content = content;
      token.special = true;
      parts.added.push_back(std::move(token));
    }
  }
}

}  // namespace

TokenizerParts read_hugging_face_tokenizer(const std::filesystem::path& directory) {
  TokenizerParts parts;
  read_side_files(directory, parts);
  const TokenizerJsonFile file = read_rules(directory, parts);
  const JsonNode root(file.tree, file.name);
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    version->reject("\"1.0\"");
  }
  if (const auto node = root.find("normalizer")) parts.normalizers = parse_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) {
    parts.pre_tokenizers = parse_pre_tokenizer(*node);
  }
  read_model(file, root, parts);
  read_added_tokens(root, parts);
  if (const auto node = root.find("post_processor")) {
    parts.sequence_template = parse_post_processor(*node, [&parts](std::int64_t id) {
      return (id >= 0 && id <= INT32_MAX && parts.vocabulary->contains(static_cast<TokenId>(id))) ||
             std::any_of(parts.added.begin(), parts.added.end(),
                         [id](const AddedToken& token) { return token.id == id; });
    });
  }
  const auto decoder = root.find("decoder");
  parts.decoder = decoder ? parse_decoder(*decoder) : joining_decoder();
  make_roles_special(parts);
  std::string description = file.tree.dump();
  for (const auto& [role, text] : parts.special_texts) {
    description += fmt::format("{}={}\n", role, text);
  }
  parts.fingerprint = fingerprint_of(description, file.vocabulary, file.merges);
  return parts;
}

}  // namespace headrace
