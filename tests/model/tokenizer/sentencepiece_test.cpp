// Directories with tokenizer.model alone: defaults, what stands beside it, and files that are
// broken or hostile. What real models encode to is in tokenizer_golden_test.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "model/tokenizer/base64.h"
#include "tests/model/tokenizer/small_tokenizer.h"

namespace headrace {
namespace {

using Ids = std::vector<TokenId>;

// A writer of protocol buffers, apart from the reader that it tests.
std::string varint(std::uint64_t value) {
  std::string bytes;
  while (value >= 0x80) {
    bytes += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
std::string text(int field, const std::string& value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
std::string float32(int field, float value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 5) + model_files::bytes_of(value);
}

std::string piece(const std::string& content, float score, int type = 1) {
  return text(1, text(1, content) + float32(2, score) + (type == 1 ? "" : number(3, type)));
}

constexpr int kBpe = 2;

// <unk> <s> </s> a b c ab bc abc ▁ ▁a: ids 0 to 10.
std::string small_pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("a", -9) +
         piece("b", -9) + piece("c", -9) + piece("ab", -2) + piece("bc", -1) + piece("abc", -3) +
         piece("▁", -9) + piece("▁a", -8);
}
std::string small_model(const std::string& trainer = "", const std::string& normalizer = "") {
  return small_pieces() + text(2, number(3, kBpe) + trainer) + text(3, number(4, 0) + normalizer);
}

class SentencePiece : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    model_files::write_file(directory_.path() / name, bytes);
  }
  std::shared_ptr<const Tokenizer> load(const std::string& model,
                                        const std::string& config = "{}") const {
    write("tokenizer.model", model);
    write("tokenizer_config.json", config);
    return Tokenizer::load(directory_.path());
  }
  void expect_refused(const std::string& model, const std::vector<std::string>& parts,
                      const std::string& config = "{}") const {
    try {
      load(model, config);
      ADD_FAILURE() << "accepted; lacks: " << parts[0];
    } catch (const std::invalid_argument& error) {
      const std::string complaint = error.what();
      EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
      for (const std::string& part : parts) {
        EXPECT_NE(complaint.find(part), std::string::npos) << complaint << "\nlacks " << part;
      }
    }
  }

  model_files::TempDirectory directory_;
};

TEST_F(SentencePiece, BestScoreJoinsFirstByTheModelsOwnSettings) {
  // bc (-1) before ab (-2): a bc, and no merge makes abc of these but the one with its own score.
  EXPECT_EQ(load(small_model("", number(3, 0)))->encode("abc"), (Ids{8}));
  EXPECT_EQ(load(small_model("", number(3, 0)))->encode("abcb"), (Ids{8, 4}));
  EXPECT_EQ(load(small_model())->encode("ab"), (Ids{9, 6}));
}

TEST_F(SentencePiece, LlamasClassRanksByIdAndAddsABos) {
  const char* config = R"({"tokenizer_class": "LlamaTokenizer"})";
  const auto tokenizer = load(small_model(), config);
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{1, 9, 6}));
  EXPECT_EQ(tokenizer->encode("ab", {.add_special_tokens = false}), (Ids{9, 6}));
  EXPECT_EQ(tokenizer->encode("a"), (Ids{1, 10}));
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_TRUE(tokenizer->is_special(2));
}

TEST_F(SentencePiece, LegacyDecidesAboutThePrefixBehindAddedTokens) {
  const auto ids = [&](const std::string& legacy) {
    return load(
               small_model(),
               R"({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false)" + legacy + "}")
        ->encode("a<s>a");
  };
  EXPECT_EQ(ids(""), (Ids{10, 1, 3}));
  EXPECT_EQ(ids(R"(, "legacy": false)"), (Ids{10, 1, 3}));
  EXPECT_EQ(ids(R"(, "legacy": true)"), (Ids{10, 1, 10}));
  // Without a class, by the model's own settings.
  EXPECT_EQ(load(small_model())->encode("a<s>a"), (Ids{10, 1, 10}));
}

TEST_F(SentencePiece, TheClassIsFoundInConfigJsonToo) {
  write("config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  EXPECT_EQ(load(small_model())->encode("a"), (Ids{1, 10}));
  write("config.json", R"({"model_type": "llama"})");
  EXPECT_EQ(load(small_model())->encode("a"), (Ids{10}));
}

TEST_F(SentencePiece, TokenizerJsonGoesFirst) {
  write("tokenizer.json", small_tokenizer().dump());
  EXPECT_EQ(load("no model at all")->encode("abc"), (Ids{5}));
}

TEST_F(SentencePiece, AddedTokensOfBothFilesAreFound) {
  const char* listed =
      R"({"added_tokens_decoder": {"11": {"content": "<x>", "special": true}, "2": {"content": "</s>", "special": true}}})";
  const auto tokenizer = load(small_model(), listed);
  EXPECT_EQ(tokenizer->encode("b<x></s>"), (Ids{9, 4, 11, 2}));
  EXPECT_TRUE(tokenizer->is_special(11));
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  write("added_tokens.json", R"({"<y>": 12, "<x>": 11})");
  EXPECT_EQ(load(small_model())->encode("<y><x>"), (Ids{12, 11}));
  EXPECT_FALSE(load(small_model())->is_special(12));
}

TEST_F(SentencePiece, AddedTokensWithIdsThatCannotBeAreRefused) {
  expect_refused(small_model(), {"id is 40", "accepted: 11", "<x>"},
                 R"({"added_tokens_decoder": {"40": {"content": "<x>"}}})");
  expect_refused(small_model(), {"added_tokens_decoder.x", "under its id"},
                 R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})");
  write("added_tokens.json", R"({"<y>": -4})");
  expect_refused(small_model(), {"added_tokens.json", "<y>", "-4"});
}

TEST_F(SentencePiece, OtherClassesAreNamed) {
  expect_refused(small_model(), {"T5Tokenizer", "accepted", "LlamaTokenizer"},
                 R"({"tokenizer_class": "T5Tokenizer"})");
}

TEST_F(SentencePiece, WhatIsNoModelIsNamedWithItsPlace) {
  const std::string name = "tokenizer.model";
  expect_refused("", {name, "no pieces"});
  expect_refused("IQ== 0\nIg== 1\n", {name, "tiktoken"});  // the other tokenizer.model
  expect_refused(R"({"model": {}})", {name});
  expect_refused(text(2, number(3, kBpe)), {name, "no pieces"});
  expect_refused(piece("", 0, 2), {name, "piece 0", "no text"});
  expect_refused(piece("\xFF", 0, 2), {name, "piece 0", "UTF-8"});
  expect_refused(piece("a", 0, 2) + piece("b", 0, 9), {name, "piece 1", "type 9"});
  expect_refused(piece("a", NAN, 2), {name, "piece 0", "finite"});
  expect_refused(piece("a", -std::numeric_limits<float>::infinity(), 2), {name, "finite"});
  expect_refused(piece("a", 0, 2) + piece("a", 0) + text(2, number(3, kBpe)),
                 {name, "\"a\" stands twice"});
  expect_refused(piece("a", 0, 2) + text(2, number(3, 3)), {name, "model_type is 3"});
  expect_refused(small_model(number(40, 11)), {name, "unk_id is 11", "0 to 10"});
  expect_refused(small_model(number(40, UINT64_MAX)), {name, "unk_id is -1"});
  expect_refused(small_model(number(24, 1)), {name, "treat_whitespace_as_suffix"});
  expect_refused(small_model(text(3, "x")), {name, "field 3 is of another type"});
  expect_refused(small_model("", text(2, "xyz")), {"precompiled_charsmap"});
}

TEST_F(SentencePiece, EveryTruncationIsRefusedOrStandsForFewerPieces) {
  const std::string whole = small_model();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try {
      EXPECT_LE(load(whole.substr(0, size))->vocab_size(), 11) << size;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

TEST_F(SentencePiece, LengthsBeyondTheFileCostNothing) {
  for (const std::uint64_t length : {std::uint64_t{1000}, std::uint64_t{1} << 40, UINT64_MAX}) {
    expect_refused("\x0A" + varint(length) + "abc", {"announced where 3 are left"});
  }
  expect_refused(std::string(12, '\xFF'), {"more than 64 bits"});
}

TEST(Base64, RoundTripsEveryLength) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  EXPECT_EQ(encode_base64("\xFF\xFE"), "//4=");
  EXPECT_EQ(encode_base64("abcd"), "YWJjZA==");
  EXPECT_THROW(decode_base64("a!"), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
