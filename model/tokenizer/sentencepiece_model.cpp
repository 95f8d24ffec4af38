#include "model/tokenizer/sentencepiece_model.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "model/tokenizer/protobuf_reader.h"
#include "model/tokenizer/tokenizer_json_file.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

class Reader {
 public:
  explicit Reader(SentencePieceModel& model) : model_(model) {}

  void model(ProtobufReader reader) {
    while (reader.next()) {
      if (reader.field() == 1) piece(reader.message());
      if (reader.field() == 2) trainer(reader.message());
      if (reader.field() == 3) normalizer(reader.message());
    }
    check_ids();
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw std::invalid_argument(what); }

  void piece(ProtobufReader reader) {
    std::string_view text;
    float score = 0.0F;
    std::int64_t type = 1;
    while (reader.next()) {
      if (reader.field() == 1) text = reader.bytes();
      if (reader.field() == 2) score = reader.float32();
      if (reader.field() == 3) type = reader.integer();
    }
    const std::size_t index = model_.types.size();
    if (text.empty()) fail(fmt::format("piece {} has no text", index));
    if (find_invalid_utf8(text) != std::string_view::npos) {
      fail(fmt::format("piece {} is not UTF-8", index));
    }
    if (!std::isfinite(score)) fail(fmt::format("piece {} has no finite score", index));
    if (type < 1 || type > 6) {
      fail(fmt::format("piece {} has the type {}; accepted: 1 to 6", index, type));
    }
    model_.pieces.add(text, static_cast<std::int64_t>(index), score);
    model_.types.push_back(static_cast<TokenType>(type));
  }

  void trainer(ProtobufReader reader) {
    while (reader.next()) {
      switch (reader.field()) {
        case 3:
          kind(reader.integer());
          break;
        case 24:
          if (reader.boolean()) {
            fail("treat_whitespace_as_suffix is true; accepted: spaces before words");
          }
          break;
        case 35:
          model_.byte_fallback = reader.boolean();
          break;
        case 40:
          model_.unk_id = reader.integer();
          break;
        case 41:
          model_.bos_id = reader.integer();
          break;
        case 42:
          model_.eos_id = reader.integer();
          break;
        case 43:
          model_.pad_id = reader.integer();
          break;
        default:
          break;  // how the model was trained
      }
    }
  }

  void kind(std::int64_t number) {
    if (number != 1 && number != 2) {
      fail(fmt::format("model_type is {}; accepted: 1 (unigram), 2 (BPE)", number));
    }
    model_.kind = static_cast<SentencePieceModel::Kind>(number);
  }

  void normalizer(ProtobufReader reader) {
    while (reader.next()) {
      if (reader.field() == 2) model_.charsmap = reader.bytes();
      if (reader.field() == 3) model_.add_dummy_prefix = reader.boolean();
      if (reader.field() == 4) model_.remove_extra_whitespaces = reader.boolean();
      if (reader.field() == 5) model_.escape_whitespaces = reader.boolean();
    }
  }

  void check_ids() {
    const auto size = static_cast<std::int64_t>(model_.types.size());
    if (size == 0) fail("no pieces (tiktoken's file of the same name is not read)");
    if (model_.unk_id < 0 || model_.unk_id >= size) {
      fail(fmt::format("unk_id is {}; accepted: 0 to {}", model_.unk_id, size - 1));
    }
    for (std::int64_t* id : {&model_.bos_id, &model_.eos_id, &model_.pad_id}) {
      if (*id < 0 || *id >= size) *id = -1;
    }
  }

  SentencePieceModel& model_;
};

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  SentencePieceModel model;
  model.name = path.string();
  model.pieces.is_list = true;
  const std::string content = read_file(path);
  model.bytes = content.size();
  try {
    Reader(model).model(ProtobufReader(content));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("{}: no SentencePiece model that can be used: {}", model.name, error.what()));
  }
  return model;
}

}  // namespace headrace
