#include "model/tokenizer/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "model/checkpoint/gguf_file.h"
#include "model/tokenizer/bpe_model.h"
#include "model/tokenizer/gguf_rules.h"
#include "model/tokenizer/json_node.h"
#include "model/tokenizer/model_fingerprint.h"
#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/token_splits.h"
#include "model/tokenizer/token_type.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kMetaspace = "\xE2\x96\x81";

/// The metadata of one file, with complaints that name it.
class Metadata {
 public:
  explicit Metadata(const std::filesystem::path& path) : name_(path.string()), file_(path) {}

  const std::string& name() const { return name_; }
  const GgufFile& file() const { return file_; }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("{}: {}", name_, what));
  }

  template <class T>
  const T& require(const T* value, std::string_view key) const {
    if (value == nullptr) fail(fmt::format("has no {}{}", kPrefix, key));
    return *value;
  }

  /// Text, which must be UTF-8; so below.
  const std::string& string(std::string_view key) const {
    return require_utf8(require(file_.string(full(key)), key), key);
  }
  const std::vector<std::string>& strings(std::string_view key) const {
    const std::vector<std::string>& all = require(file_.strings(full(key)), key);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (find_invalid_utf8(all[i]) == std::string_view::npos) continue;
      fail(fmt::format("{}{}, entry {}: not UTF-8", kPrefix, key, i));
    }
    return all;
  }
  bool boolean_or(std::string_view key, bool otherwise) const {
    return file_.boolean(full(key)).value_or(otherwise);
  }
  std::optional<TokenId> token_id(std::string_view key, std::size_t num_tokens) const {
    const auto id = file_.integer(full(key));
    // Writers note "none" as the largest 32-bit number or as -1.
    if (!id || *id == UINT32_MAX || *id == -1) return std::nullopt;
    if (*id < 0 || static_cast<std::uint64_t>(*id) >= num_tokens) {
      fail(fmt::format("{}{} is {}; accepted: 0 to {}", kPrefix, key, *id, num_tokens - 1));
    }
    return static_cast<TokenId>(*id);
  }

  const std::string& require_utf8(const std::string& text, std::string_view key) const {
    if (find_invalid_utf8(text) != std::string_view::npos) {
      fail(fmt::format("{}{} is not UTF-8", kPrefix, key));
    }
    return text;
  }

  static std::string full(std::string_view key) { return std::string(kPrefix) + std::string(key); }

 private:
  std::string name_;
  GgufFile file_;
};

std::vector<TokenType> read_types(const Metadata& metadata, std::size_t num_tokens) {
  const auto* raw = metadata.file().integers(Metadata::full("token_type"));
  if (raw == nullptr) return std::vector<TokenType>(num_tokens, TokenType::kNormal);
  if (raw->size() != num_tokens) {
    metadata.fail(
        fmt::format("{}token_type has {} entries for {} tokens", kPrefix, raw->size(), num_tokens));
  }
  std::vector<TokenType> types;
  types.reserve(num_tokens);
  for (const std::int64_t type : *raw) {
    if (type < 1 || type > 6) {
      metadata.fail(fmt::format("{}token_type of token {} is {}; accepted: 1 to 6", kPrefix,
                                types.size(), type));
    }
    types.push_back(static_cast<TokenType>(type));
  }
  return types;
}

// Gemma's files differ in two points from others of SentencePiece's: tokens of spaces are spelled
// with real spaces, and it is the order of the tokens, not their score, that ranks merges.
// transformers goes by these architectures as well.
bool is_gemma(const Metadata& metadata) {
  const std::string* name = metadata.file().string("general.architecture");
  return name != nullptr && (*name == "gemma" || *name == "gemma2" || *name == "gemma3");
}

std::string respelled(const std::string& token) {
  std::string text;
  for (const char c : token) {
    if (c != ' ') return token;
    text += kMetaspace;
  }
  return text;
}

/// Of a respelled token.
bool is_spaces(std::string_view text) {
  while (text.starts_with(kMetaspace)) text.remove_prefix(kMetaspace.size());
  return text.empty();
}

RawVocabulary read_vocabulary(const Metadata& metadata) {
  const bool gemma = is_gemma(metadata);
  RawVocabulary raw;
  raw.is_list = true;
  for (const std::string& token : metadata.strings("tokens")) {
    const auto id = static_cast<std::int64_t>(raw.entries.size());
    raw.add(gemma ? respelled(token) : token, id);
  }
  if (raw.entries.empty()) metadata.fail(fmt::format("{}tokens is empty", kPrefix));
  return raw;
}

// The best score of the whole first, then the longest left part, as converters to tokenizer.json
// order them.
MergeTable scored_merges(const Vocabulary& vocabulary, const RawVocabulary& raw) {
  std::vector<TokenSplit> splits = token_splits(
      vocabulary, std::vector<bool>(static_cast<std::size_t>(vocabulary.size()), true));
  const auto order = [&raw](const TokenSplit& s) {
    return std::tuple(raw.entries[static_cast<std::size_t>(s.joined)].score, s.left_chars,
                      s.right_chars);
  };
  std::stable_sort(
      splits.begin(), splits.end(),
      [&order](const TokenSplit& a, const TokenSplit& b) { return order(a) > order(b); });
  MergeTable table(splits.size());
  std::uint32_t rank = 0;
  for (const TokenSplit& s : splits)
    table.set(s.left, s.right, {.rank = rank++, .joined = s.joined});
  return table;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : metadata_(path), raw_(read_vocabulary(metadata_)) {
    types_ = read_types(metadata_, raw_.entries.size());
    parts_.vocabulary = std::make_shared<Vocabulary>(
        raw_, static_cast<std::int64_t>(raw_.entries.size()), metadata_.name());
  }

  TokenizerParts run() {
    const std::string model = metadata_.string("model");
    if (model == "gpt2") {
      read_byte_level();
    } else if (model == "llama") {
      read_sentencepiece();
    } else {
      metadata_.fail(
          fmt::format("{}model is {}; accepted: gpt2, llama", kPrefix, shown_text(model)));
    }
    read_roles();
    read_added_tokens();
    read_chat_templates();
    parts_.fingerprint = fingerprint_of(describe(), raw_, merges_);
    return std::move(parts_);
  }

 private:
  void read_byte_level() {
    const bool named = metadata_.file().string(Metadata::full("pre")) != nullptr;
    const std::string pre = named ? metadata_.string("pre") : "default";
    const GgufRules rules = rules_of(pre);
    description_["pre_tokenizer"] = gguf_pre_tokenizer(pre);
    description_["decoder"] = {{"type", "ByteLevel"}};
    description_["ignore_merges"] = rules.ignore_merges;
    if (rules.nfc) description_["normalizer"] = {{"type", "NFC"}};
    add_bos_ = rules.add_bos;
    for (const std::string& line : metadata_.strings("merges")) {
      if (!merges_.add_legacy(line)) {
        metadata_.fail(fmt::format("{}merges, entry {}: accepted: \"left right\"", kPrefix,
                                   merges_.entries.size()));
      }
    }
    parse_description();
    BpeOptions options;
    options.ignore_merges = rules.ignore_merges;
    options.words_are_bytes = true;
    parts_.model = std::make_unique<BpeModel>(
        parts_.vocabulary, rank_merges(merges_, *parts_.vocabulary, "", metadata_.name()),
        std::move(options));
  }

  GgufRules rules_of(const std::string& pre) const {
    try {
      return gguf_rules(pre);
    } catch (const std::invalid_argument& error) {
      metadata_.fail(error.what());
    }
  }

  void read_sentencepiece() {
    read_scores();
    describe_sentencepiece(metadata_.boolean_or("add_space_prefix", true));
    add_bos_ = true;
    parse_description();
    BpeOptions options;
    options.fuse_unk = true;
    options.byte_fallback = true;
    const auto unk = metadata_.token_id("unknown_token_id", raw_.entries.size());
    if (unk) options.unk_token = std::string(parts_.vocabulary->token(*unk));
    parts_.model = std::make_unique<BpeModel>(
        parts_.vocabulary, scored_merges(*parts_.vocabulary, raw_), std::move(options));
  }

  void read_scores() {
    const auto* scores = metadata_.file().numbers(Metadata::full("scores"));
    if (metadata_.require(scores, "scores").size() != raw_.entries.size()) {
      metadata_.fail(fmt::format("{}scores has {} entries for {} tokens", kPrefix, scores->size(),
                                 raw_.entries.size()));
    }
    const bool by_position = is_gemma(metadata_);
    for (std::size_t i = 0; i < scores->size(); ++i) {
      if (!std::isfinite((*scores)[i])) {
        metadata_.fail(fmt::format("{}scores, entry {}: accepted: a finite number", kPrefix, i));
      }
      raw_.entries[i].score = by_position ? -static_cast<double>(i) : (*scores)[i];
    }
  }

  // The whole text is one word with its spaces written as U+2581; one such space comes first.
  void describe_sentencepiece(bool add_space_prefix) {
    json normalizers = json::array();
    if (add_space_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    normalizers.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMetaspace}});
    description_["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
    json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kMetaspace}}}, {"content", " "}},
                     {{"type", "ByteFallback"}},
                     {{"type", "Fuse"}}};
    if (add_space_prefix) {
      decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    description_["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  }

  void parse_description() {
    const JsonNode root(description_, metadata_.name());
    if (const auto node = root.find("normalizer")) parts_.normalizers = parse_normalizer(*node);
    if (const auto node = root.find("pre_tokenizer")) {
      parts_.pre_tokenizers = parse_pre_tokenizer(*node);
    }
    parts_.decoder = parse_decoder(root.at("decoder"));
  }

  void read_roles() {
    struct Role {
      std::string_view key;
      const char* name;
    };
    static constexpr std::array<Role, 4> kRoles = {{{"bos_token_id", "bos_token"},
                                                    {"eos_token_id", "eos_token"},
                                                    {"unknown_token_id", "unk_token"},
                                                    {"padding_token_id", "pad_token"}}};
    for (const Role& role : kRoles) {
      const auto id = metadata_.token_id(role.key, raw_.entries.size());
      if (id) parts_.special_texts.emplace_back(role.name, parts_.vocabulary->token(*id));
    }
    const auto bos = metadata_.token_id("bos_token_id", raw_.entries.size());
    const auto eos = metadata_.token_id("eos_token_id", raw_.entries.size());
    const bool add_bos = metadata_.boolean_or("add_bos_token", add_bos_);
    const bool add_eos = metadata_.boolean_or("add_eos_token", false);
    SequenceTemplate& sequence = parts_.sequence_template;
    if (add_bos && bos) sequence.push_back({.is_text = false, .ids = {*bos}});
    sequence.push_back({.is_text = true, .ids = {}});
    if (add_eos && eos) sequence.push_back({.is_text = false, .ids = {*eos}});
  }

  // Control and user-defined tokens are found in the text as they are; a file without types has the
  // tokens of the roles as its control tokens.
  void read_added_tokens() {
    if (metadata_.file().find(Metadata::full("token_type")) == nullptr) {
      for (const auto& [role, text] : parts_.special_texts) {
        types_[static_cast<std::size_t>(parts_.vocabulary->find_or(text, 0))] = TokenType::kControl;
      }
    }
    const bool gemma = is_gemma(metadata_);
    for (const RawVocabulary::Entry& entry : raw_.entries) {
      const TokenType type = types_[static_cast<std::size_t>(entry.id)];
      const bool special = type == TokenType::kControl || type == TokenType::kUnknown;
      if (!special && type != TokenType::kUserDefined) continue;
      const std::string_view text = raw_.token(entry);
      if (!special && gemma && is_spaces(text)) continue;  // the model makes them
      if (text.empty() || parts_.vocabulary->find_or(text, -1) != entry.id) continue;
      AddedToken token;
      token.id = static_cast<TokenId>(entry.id);
      token.content = std::string(text);
      token.special = special;
      parts_.added.push_back(std::move(token));
    }
  }

  void read_chat_templates() {
    constexpr std::string_view kKey = "tokenizer.chat_template";
    if (const std::string* source = metadata_.file().string(kKey)) {
      parts_.chat_templates.push_back({.name = "default", .source = *source});
    }
    const std::string named = std::string(kKey) + ".";
    for (const auto& [key, value] : metadata_.file().metadata()) {
      if (!key.starts_with(named)) continue;
      parts_.chat_templates.push_back(
          {.name = key.substr(named.size()),
           .source = metadata_.require(metadata_.file().string(key), key)});
    }
  }

  std::string describe() const {
    json description = description_;
    for (const TemplatePiece& piece : parts_.sequence_template) {
      description["template"].push_back(piece.is_text ? json("text") : json(piece.ids));
    }
    for (const TokenType type : types_) description["types"].push_back(static_cast<int>(type));
    return description.dump();
  }

  Metadata metadata_;
  RawVocabulary raw_;
  RawMerges merges_;
  std::vector<TokenType> types_;
  json description_;  // normalizer, pre_tokenizer and decoder as tokenizer.json would have them
  bool add_bos_ = false;
  TokenizerParts parts_;
};

}  // namespace

TokenizerParts read_gguf_tokenizer(const std::filesystem::path& path) {
  return Reader(path).run();
}

}  // namespace headrace
