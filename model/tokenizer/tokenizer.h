// Text to token ids and back, exactly as Hugging Face's tokenizers library does it. Read from
// tokenizer.json or tokenizer.model (+ tokenizer_config.json), or from GGUF metadata.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/token.h"

namespace headrace {

struct EncodeOptions {
  bool add_special_tokens = true;  // the post-processor's (BOS, EOS)
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Text of a growing sequence of ids, piece by piece. What push() and finish() return,
/// concatenated, is what decode() gives for the whole sequence: text is held back while it could
/// still change (an unfinished UTF-8 character, a decoder that looks ahead). Never cuts a
/// character; constant time a token. The tokenizer must outlive it.
class TextStream {
 public:
  TextStream() = default;
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;
  virtual ~TextStream() = default;
  virtual std::string push(TokenId id) = 0;
  virtual std::string finish() = 0;
};

/// Immutable after loading; every const function may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// model: a directory with tokenizer.json or SentencePiece's tokenizer.model (where both are, the
  /// former), a .gguf file (with or without tensors), or a Headrace .h5 file. Throws
  /// std::invalid_argument naming file, key, value and what would be accepted.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& model);

  /// Text of added and special tokens inside text becomes their ids. Throws std::invalid_argument
  /// for text that is not UTF-8. Linear in the length of the text.
  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const = 0;

  /// Always valid UTF-8; bytes that make no character become U+FFFD. An id without a token is no
  /// text, as the library has it: a model's table may have more rows than its tokenizer has ids.
  virtual std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const = 0;

  virtual std::unique_ptr<TextStream> open_stream(DecodeOptions options = {}) const = 0;

  /// Number of ids: the largest id + 1.
  virtual int vocab_size() const = 0;
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  /// The token as the vocabulary spells it ("Ġthe"); empty for an id without a token.
  virtual std::string id_to_token(TokenId id) const = 0;
  virtual bool is_special(TokenId id) const = 0;

  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;

  /// The texts that chat templates see as bos_token, eos_token, unk_token, pad_token; empty if
  /// absent.
  virtual std::string special_text(std::string_view role) const = 0;

  /// The model's own chat templates: name ("default" for the only one) and Jinja source.
  struct NamedTemplate {
    std::string name;
    std::string source;
  };
  virtual const std::vector<NamedTemplate>& chat_templates() const = 0;

  /// Equal for equal tokenizers (hash of everything that decides ids and text).
  virtual std::string fingerprint() const = 0;
};

/// A TextStream that keeps its tokenizer alive.
class IncrementalDecoder {
 public:
  IncrementalDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options);

  /// Text that became final with this token; may be empty.
  std::string push(TokenId id) { return stream_->push(id); }
  /// The rest, with U+FFFD for an unfinished character. The decoder is spent afterwards.
  std::string finish() { return stream_->finish(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TextStream> stream_;
};

}  // namespace headrace
