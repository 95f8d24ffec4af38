#include "model/tokenizer/text_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> selected;
  for (const AddedToken& token : tokens) {
    if (token.normalized == normalized) selected.push_back(token);
  }
  return selected;
}

}  // namespace

struct TextTokenizer::Memory {
  WordMemory word;
  Words words;
  std::vector<AddedTokenFinder::Piece> raw_pieces;
  std::vector<AddedTokenFinder::Piece> pieces;
};

/// One decoding in progress.
class TokenTextStream final : public TextStream {
 public:
  TokenTextStream(const TextTokenizer& tokenizer, DecodeOptions options)
      : tokenizer_(tokenizer), options_(options), chain_(tokenizer.parts_.decoder, out_) {}

  std::string push(TokenId id) override {
    append(id);
    return take();
  }
  std::string finish() override {
    chain_.finish();
    return take();
  }

  void append(TokenId id) {
    if (tokenizer_.added(id) == nullptr && !tokenizer_.parts_.vocabulary->contains(id)) return;
    if (options_.skip_special_tokens && tokenizer_.is_skipped(id)) return;
    chain_.push(tokenizer_.decoder_token(id));
  }

 private:
  std::string take() { return std::exchange(out_, {}); }

  const TextTokenizer& tokenizer_;
  DecodeOptions options_;
  std::string out_;
  DecoderChain chain_;
};

TextTokenizer::TextTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)),
      raw_finder_(select(parts_.added, false)),
      normalized_finder_(select(parts_.added, true)) {
  TokenId size = parts_.vocabulary->size();
  for (const AddedToken& token : parts_.added) size = std::max(size, token.id + 1);
  added_by_id_.assign(static_cast<std::size_t>(size), -1);
  for (std::size_t i = 0; i < parts_.added.size(); ++i) {
    added_by_id_[static_cast<std::size_t>(parts_.added[i].id)] = static_cast<std::int32_t>(i);
    added_by_content_.emplace(parts_.added[i].content, parts_.added[i].id);
  }
}

TextTokenizer::~TextTokenizer() = default;

std::unique_ptr<TextTokenizer::Memory> TextTokenizer::borrow_memory() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Memory> memory = std::move(idle_.back());
      idle_.pop_back();
      return memory;
    }
  }
  return std::make_unique<Memory>();
}

void TextTokenizer::give_back(std::unique_ptr<Memory> memory) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(memory));
}

std::vector<TokenId> TextTokenizer::encode(std::string_view text, EncodeOptions options) const {
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    throw std::invalid_argument(fmt::format("the text is not UTF-8 at byte {} (0x{:02X})", invalid,
                                            static_cast<unsigned char>(text[invalid])));
  }
  std::unique_ptr<Memory> memory = borrow_memory();
  std::vector<TokenId> ids;
  if (parts_.sequence_template.empty()) {
    encode_text(text, *memory, ids);
  }
  for (const TemplatePiece& piece : parts_.sequence_template) {
    if (piece.is_text) {
      encode_text(text, *memory, ids);
    } else if (options.add_special_tokens) {
      ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
    }
  }
  give_back(std::move(memory));
  return ids;
}

void TextTokenizer::encode_text(std::string_view text, Memory& memory,
                                std::vector<TokenId>& out) const {
  memory.raw_pieces.clear();
  raw_finder_.cut(text, memory.raw_pieces);
  for (const AddedTokenFinder::Piece& piece : memory.raw_pieces) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
      continue;
    }
    Segment segment{.text = std::string(text.substr(piece.begin, piece.end - piece.begin)),
                    .at_start = piece.begin == 0};
    normalize_segment(parts_.normalizers, segment);
    encode_segment(std::move(segment), memory, out);
  }
}

void TextTokenizer::encode_segment(Segment segment, Memory& memory,
                                   std::vector<TokenId>& out) const {
  memory.pieces.clear();
  normalized_finder_.cut(segment.text, memory.pieces);
  for (const AddedTokenFinder::Piece& piece : memory.pieces) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
      continue;
    }
    memory.words.segment.at_start = segment.at_start && piece.begin == 0;
    if (piece.begin == 0 && piece.end == segment.text.size()) {
      memory.words.segment.text = std::move(segment.text);
    } else {
      memory.words.segment.text.assign(segment.text, piece.begin, piece.end - piece.begin);
    }
    pre_tokenize(parts_.pre_tokenizers, memory.words);
    for (const Words::Span span : memory.words.spans) {
      parts_.model->encode(memory.words.word(span), memory.word, out);
    }
  }
}

std::string TextTokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  TokenTextStream stream(*this, options);
  for (const TokenId id : ids) stream.append(id);
  return stream.finish();
}

std::unique_ptr<TextStream> TextTokenizer::open_stream(DecodeOptions options) const {
  return std::make_unique<TokenTextStream>(*this, options);
}

const AddedToken* TextTokenizer::added(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return nullptr;
  const std::int32_t index = added_by_id_[static_cast<std::size_t>(id)];
  return index < 0 ? nullptr : &parts_.added[static_cast<std::size_t>(index)];
}

std::string_view TextTokenizer::decoder_token(TokenId id) const {
  const AddedToken* token = added(id);
  return token != nullptr ? token->pattern() : parts_.vocabulary->token(id);
}

// The library compares the text that decoding starts from with the special tokens' own.
bool TextTokenizer::is_skipped(TokenId id) const {
  const AddedToken* token = added(id);
  return token != nullptr && token->special && token->pattern() == token->content;
}

int TextTokenizer::vocab_size() const {
  return static_cast<int>(added_by_id_.size());
}

std::optional<TokenId> TextTokenizer::token_to_id(std::string_view token) const {
  const auto found = added_by_content_.find(token);
  return found != added_by_content_.end() ? std::optional(found->second)
                                          : parts_.vocabulary->find(token);
}

std::string TextTokenizer::id_to_token(TokenId id) const {
  const AddedToken* token = added(id);
  return token != nullptr ? token->content : std::string(parts_.vocabulary->token(id));
}

bool TextTokenizer::is_special(TokenId id) const {
  const AddedToken* token = added(id);
  return token != nullptr && token->special;
}

std::string TextTokenizer::special_text(std::string_view role) const {
  const auto found = std::find_if(parts_.special_texts.begin(), parts_.special_texts.end(),
                                  [role](const auto& entry) { return entry.first == role; });
  return found == parts_.special_texts.end() ? std::string() : found->second;
}

std::optional<TokenId> TextTokenizer::bos_id() const {
  const std::string text = special_text("bos_token");
  return text.empty() ? std::nullopt : token_to_id(text);
}

std::optional<TokenId> TextTokenizer::eos_id() const {
  const std::string text = special_text("eos_token");
  return text.empty() ? std::nullopt : token_to_id(text);
}

}  // namespace headrace
