#include "model/tokenizer/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>

#include "model/checkpoint/embedded_files.h"
#include "model/tokenizer/base64.h"
#include "model/tokenizer/json_node.h"
#include "model/tokenizer/sentencepiece_model.h"
#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/token_splits.h"
#include "model/tokenizer/vocabulary.h"

namespace headrace {
namespace {

using nlohmann::json;
using Roles = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kMetaspace = "\xE2\x96\x81";

// Whose rules turn the model into ids. transformers has a class for each; the one that follows the
// model's own settings is its TokenizersBackend.
enum class Rules { kOwn, kLlama, kGemma };

json replace(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}
json replace_regex(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}
json metaspace(const char* scheme) {
  return {{"type", "Metaspace"},
          {"replacement", kMetaspace},
          {"prepend_scheme", scheme},
          {"split", false}};
}
json strip_first_space() {
  return {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
}
json sequence(const char* member, json steps) {
  return {{"type", "Sequence"}, {member, std::move(steps)}};
}

json read_if_there(const std::filesystem::path& path) {
  return is_model_file(path) ? read_json(path) : json::object();
}

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

/// A text that stands for itself in an expression.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#&~ \t\n\r\v\f").find(c) != std::string_view::npos) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

/// Fills a TokenizerJsonFile from a model and the files beside it.
class Converter {
 public:
  Converter(const std::filesystem::path& directory, Roles& roles)
      : directory_(directory),
        roles_(roles),
        model_(read_sentencepiece_model(directory / "tokenizer.model")),
        config_tree_(read_if_there(directory / "tokenizer_config.json")),
        config_(config_tree_, (directory / "tokenizer_config.json").string()) {}

  TokenizerJsonFile run() {
    rules_ = find_rules();
    file_.name = model_.name;
    file_.bytes = model_.bytes;
    file_.tree["version"] = "1.0";
    add_default_roles();
    describe_model();
    describe_text();
    describe_added_tokens();
    describe_sequence();
    return std::move(file_);
  }

 private:
  bool is_bpe() const { return model_.kind == SentencePieceModel::Kind::kBpe; }

  // As transformers finds the class: in tokenizer_config.json, else in config.json, else by the
  // type of the model.
  Rules find_rules() const {
    const json model_tree = read_if_there(directory_ / "config.json");
    const JsonNode model_config(model_tree, (directory_ / "config.json").string());
    std::string name = config_.string_or("tokenizer_class", "");
    if (name.empty()) name = model_config.string_or("tokenizer_class", "");
    if (name.empty() && model_config.string_or("model_type", "").starts_with("gemma")) {
      name = "GemmaTokenizer";
    }
    name = without_fast(name);
    // Both are written for BPE; a unigram model goes by its own settings.
    if (name == "LlamaTokenizer") return is_bpe() ? Rules::kLlama : Rules::kOwn;
    if (name == "GemmaTokenizer") return is_bpe() ? Rules::kGemma : Rules::kOwn;
    if (name.empty() || name == "PreTrainedTokenizer" || name == "TokenizersBackend") {
      return Rules::kOwn;
    }
    throw std::invalid_argument(
        fmt::format("{}: the tokenizer class is {}; accepted where there is no tokenizer.json: "
                    "LlamaTokenizer, GemmaTokenizer, TokenizersBackend",
                    directory_.string(), shown_key(name)));
  }

  // Without the key: what the class of the rules does.
  bool legacy() const { return config_.boolean_or("legacy", rules_ == Rules::kOwn); }

  // ---- roles

  std::string piece(std::int64_t id) const {
    return std::string(model_.pieces.token(model_.pieces.entries[static_cast<std::size_t>(id)]));
  }

  /// -1: no such piece.
  std::int64_t find(std::string_view text) const {
    const auto& entries = model_.pieces.entries;
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return model_.pieces.token(entry) == text;
    });
    return found == entries.end() ? -1 : found->id;
  }

  void default_role(const char* role, std::int64_t id) {
    const bool given = std::any_of(roles_.begin(), roles_.end(),
                                   [role](const auto& entry) { return entry.first == role; });
    if (!given && id >= 0) roles_.emplace_back(role, piece(id));
  }

  void add_default_roles() {
    default_role("unk_token", model_.unk_id);
    default_role("bos_token", model_.bos_id);
    default_role("eos_token", model_.eos_id);
    if (rules_ != Rules::kGemma) return;
    default_role("pad_token", model_.pad_id);
    default_role("mask_token", find("<mask>"));
  }

  std::string role_text(std::string_view role) const {
    const auto found = std::find_if(roles_.begin(), roles_.end(),
                                    [role](const auto& entry) { return entry.first == role; });
    return found == roles_.end() ? std::string() : found->second;
  }

  // ---- vocabulary

  void describe_model() {
    file_.vocabulary = model_.pieces;
    file_.has_vocabulary = true;
    json& model = file_.tree["model"];
    model["byte_fallback"] = model_.byte_fallback || rules_ != Rules::kOwn;
    if (!is_bpe()) {
      model["type"] = "Unigram";
      model["unk_id"] = model_.unk_id;
      return;
    }
    model["type"] = "BPE";
    model["unk_token"] = piece(model_.unk_id);
    model["fuse_unk"] = true;
    // Pieces of the user's are words of their own, see describe_text().
    model["ignore_merges"] = rules_ == Rules::kOwn && !user_defined().empty();
    file_.vocabulary.is_list = false;
    file_.has_merges = true;
    add_merges();
  }

  // transformers' classes for Llama and Gemma rank merges by the id of the whole, and let every
  // piece take part; by the model's own settings it is the score, and normal pieces alone.
  void add_merges() {
    const Vocabulary vocabulary(file_.vocabulary, static_cast<std::int64_t>(model_.types.size()),
                                file_.name);
    std::vector<bool> takes_part(model_.types.size(), true);
    if (rules_ == Rules::kOwn) {
      for (std::size_t id = 0; id < takes_part.size(); ++id) {
        takes_part[id] = model_.types[id] == TokenType::kNormal;
      }
    }
    std::vector<TokenSplit> splits = token_splits(vocabulary, takes_part);
    if (rules_ == Rules::kOwn) {
      std::stable_sort(splits.begin(), splits.end(),
                       [this](const TokenSplit& a, const TokenSplit& b) {
                         return score(a.joined) > score(b.joined);
                       });
    }
    for (const TokenSplit& s : splits) {
      file_.merges.add(vocabulary.token(s.left), vocabulary.token(s.right));
    }
  }

  double score(TokenId id) const {
    return model_.pieces.entries[static_cast<std::size_t>(id)].score;
  }

  std::vector<std::string> user_defined() const {
    std::vector<std::string> pieces;
    for (std::size_t id = 0; id < model_.types.size(); ++id) {
      if (model_.types[id] == TokenType::kUserDefined) {
        pieces.push_back(piece(static_cast<std::int64_t>(id)));
      }
    }
    return pieces;
  }

  // ---- the way of a text to words and back

  void describe_text() {
    switch (rules_) {
      case Rules::kLlama:
        describe_llama();
        break;
      case Rules::kGemma:
        describe_gemma();
        break;
      case Rules::kOwn:
        describe_own();
        break;
    }
  }

  void describe_llama() {
    const bool prefix = config_.boolean_or("add_prefix_space", true);
    file_.tree["pre_tokenizer"] = metaspace(!prefix ? "never" : legacy() ? "always" : "first");
    describe_decoder({.fallback = true, .fuse = true, .strip = prefix});
  }

  void describe_gemma() {
    file_.tree["normalizer"] = replace(" ", kMetaspace);
    file_.tree["pre_tokenizer"] = {{"type", "Split"},
                                   {"pattern", {{"String", " "}}},
                                   {"behavior", "MergedWithPrevious"},
                                   {"invert", false}};
    describe_decoder({.fallback = true, .fuse = true, .strip = false});
  }

  void describe_own() {
    json normalizers = json::array();
    if (!model_.charsmap.empty()) {
      normalizers.push_back(
          {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model_.charsmap)}});
    }
    if (model_.remove_extra_whitespaces) {
      normalizers.push_back(replace_regex("\\A +| +\\z", ""));
      normalizers.push_back(replace_regex(" {2,}", " "));
    }
    if (model_.escape_whitespaces) normalizers.push_back(replace(" ", kMetaspace));
    // Metaspace adds no prefix where one is, SentencePiece does.
    if (model_.add_dummy_prefix && legacy()) {
      normalizers.push_back(
          replace_regex(std::string("\\A") + kMetaspace, std::string(kMetaspace) + kMetaspace));
    }
    file_.tree["normalizer"] = sequence("normalizers", std::move(normalizers));
    json steps = json::array();
    if (model_.add_dummy_prefix) steps.push_back(metaspace(legacy() ? "always" : "first"));
    if (std::vector<std::string> words = user_defined(); !words.empty()) {
      steps.push_back(split_off(std::move(words)));
    }
    if (!steps.empty()) file_.tree["pre_tokenizer"] = sequence("pretokenizers", std::move(steps));
    describe_decoder({.fallback = model_.byte_fallback,
                      .fuse = model_.byte_fallback || model_.add_dummy_prefix,
                      .strip = model_.add_dummy_prefix});
  }

  // Pieces of the user's, the longest first.
  static json split_off(std::vector<std::string> words) {
    std::stable_sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
      return a.size() > b.size();
    });
    std::string expression;
    for (const std::string& word : words) {
      if (!expression.empty()) expression += '|';
      expression += escaped(word);
    }
    return {{"type", "Split"},
            {"pattern", {{"Regex", expression}}},
            {"behavior", "Isolated"},
            {"invert", false}};
  }

  struct DecoderSteps {
    bool fallback;
    bool fuse;
    bool strip;
  };
  void describe_decoder(DecoderSteps steps) {
    json decoders = {replace(kMetaspace, " ")};
    if (steps.fallback) decoders.push_back({{"type", "ByteFallback"}});
    if (steps.fuse) decoders.push_back({{"type", "Fuse"}});
    if (steps.strip) decoders.push_back(strip_first_space());
    file_.tree["decoder"] = sequence("decoders", std::move(decoders));
  }

  // ---- added tokens

  // First what the configuration lists, by id, then the model's control pieces and the user's.
  void describe_added_tokens() {
    std::map<std::int64_t, json> tokens;
    if (const auto listed = config_.find("added_tokens_decoder")) {
      read_added_tokens(*listed, tokens);
    } else {
      read_added_tokens_file(tokens);
    }
    json& out = file_.tree["added_tokens"] = json::array();
    std::set<std::string> contents;
    for (auto& [id, token] : tokens) {
      token["id"] = id;
      contents.insert(token.at("content").get<std::string>());
      out.push_back(std::move(token));
    }
    for (std::size_t id = 0; id < model_.types.size(); ++id) {
      const TokenType type = model_.types[id];
      const bool control = type == TokenType::kControl;
      const bool users = type == TokenType::kUserDefined && rules_ != Rules::kOwn;
      const std::string text = piece(static_cast<std::int64_t>(id));
      if ((!control && !users) || contents.contains(text)) continue;
      json token = plain_token(text, control);
      token["id"] = id;
      out.push_back(std::move(token));
    }
  }

  static json plain_token(const std::string& content, bool special) {
    return {{"content", content}, {"single_word", false}, {"lstrip", false},
            {"rstrip", false},    {"normalized", false},  {"special", special}};
  }

  // With a prefix before each stretch of text, added tokens are looked for in the text as it comes.
  bool looks_in_raw_text() const { return rules_ == Rules::kOwn && model_.add_dummy_prefix; }

  // {"32000": {"content": "<|im_start|>", "lstrip": false, ...}, ...}
  void read_added_tokens(const JsonNode& listed, std::map<std::int64_t, json>& tokens) const {
    for (const auto& [key, node] : listed.members()) {
      std::int64_t id = -1;
      const char* end = key.data() + key.size();
      const auto [stop, error] = std::from_chars(key.data(), end, id);
      if (error != std::errc() || stop != end || id < 0) node.reject("a token under its id");
      json token = plain_token(node.at("content").string(), node.boolean_or("special", false));
      token["lstrip"] = node.boolean_or("lstrip", false);
      token["rstrip"] = node.boolean_or("rstrip", false);
      token["single_word"] = node.boolean_or("single_word", false);
      // With a prefix before each stretch of text, tokens are looked for in the text as it comes.
      const bool raw = rules_ == Rules::kOwn && model_.add_dummy_prefix;
      token["normalized"] = !raw && node.boolean_or("normalized", !token.at("special").get<bool>());
      tokens[id] = std::move(token);
    }
  }

  // {"<|im_start|>": 32000, ...}, of older versions of transformers.
  void read_added_tokens_file(std::map<std::int64_t, json>& tokens) const {
    const std::filesystem::path path = directory_ / "added_tokens.json";
    const json tree = read_if_there(path);
    for (const auto& [content, id] : JsonNode(tree, path.string()).members()) {
      const bool special =
          std::any_of(roles_.begin(), roles_.end(),
                      [&text = content](const auto& r) { return r.second == text; });
      json token = plain_token(content, special);
      token["normalized"] = !special && !looks_in_raw_text();
      if (id.integer() < 0) id.reject("an id from 0");
      tokens[id.integer()] = std::move(token);
    }
  }

  // ---- what is put around a text

  // The classes' documentation has a BOS by default, and version 4 of transformers adds it (5.24
  // does not where the key is missing).
  void describe_sequence() {
    const bool by_default = rules_ != Rules::kOwn;
    const bool bos = config_.boolean_or("add_bos_token", by_default);
    const bool eos = config_.boolean_or("add_eos_token", false);
    json single = json::array();
    json special = json::object();
    if (bos) add_special("bos_token", single, special);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (eos) add_special("eos_token", single, special);
    file_.tree["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
  }

  // A role that nothing names adds nothing, as in transformers.
  void add_special(const char* role, json& single, json& special) const {
    const std::string text = role_text(role);
    if (text.empty()) return;
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"ids", {id_of(role, text)}}};
  }

  std::int64_t id_of(const char* role, const std::string& text) const {
    for (const json& token : file_.tree.at("added_tokens")) {
      if (token.at("content") == text) return token.at("id").get<std::int64_t>();
    }
    if (const std::int64_t id = find(text); id >= 0) return id;
    throw std::invalid_argument(
        fmt::format("{}: {} is {}, which is no token", file_.name, role, shown_text(text)));
  }

  std::filesystem::path directory_;
  Roles& roles_;
  SentencePieceModel model_;
  json config_tree_;
  JsonNode config_;
  Rules rules_ = Rules::kOwn;
  TokenizerJsonFile file_;
};

}  // namespace

TokenizerJsonFile read_sentencepiece_as_json(const std::filesystem::path& directory, Roles& roles) {
  return Converter(directory, roles).run();
}

}  // namespace headrace
