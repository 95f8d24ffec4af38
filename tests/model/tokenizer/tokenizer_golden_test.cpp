// Ids and texts against Hugging Face's tokenizers library: small tokenizers of many kinds, made and
// run by make_goldens.py, which also says what the files hold, and make_sentencepiece_goldens.py.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace headrace {
namespace {

using nlohmann::json;

const std::filesystem::path kData = "tests/data/tokenizer";

json read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream) << path;
  return json::parse(stream);
}

std::string fnv(const unsigned char* bytes, std::size_t size) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[15 - i] = "0123456789abcdef"[hash >> 4 * i & 15];
  return text;
}

// In the goldens' form: long ones as count and hash.
json shortened(const std::vector<TokenId>& ids) {
  if (ids.size() <= 40) return ids;
  std::vector<unsigned char> bytes;
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<unsigned char>(id >> shift));
    }
  }
  return {ids.size(), fnv(bytes.data(), bytes.size())};
}

json shortened(const std::string& text) {
  if (text.size() <= 80) return text;
  return {text.size(), fnv(reinterpret_cast<const unsigned char*>(text.data()), text.size())};
}

json or_else(const json& value, const json& otherwise) {
  return value.is_null() ? otherwise : value;
}

std::string decode_piecewise(const std::shared_ptr<const Tokenizer>& tokenizer,
                             const std::vector<TokenId>& ids, DecodeOptions options) {
  IncrementalDecoder decoder(tokenizer, options);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

struct Golden {
  std::string tokenizer;  // directory or .gguf file under kData
  std::string expected;   // directory with expected.json
};

std::ostream& operator<<(std::ostream& out, const Golden& golden) {
  return out << golden.tokenizer;
}

class TokenizerGolden : public testing::TestWithParam<Golden> {
 protected:
  std::shared_ptr<const Tokenizer> tokenizer_ = Tokenizer::load(kData / GetParam().tokenizer);
  json expected_ = read(kData / GetParam().expected / "expected.json");
};

TEST_P(TokenizerGolden, EncodesAndDecodesEveryTextAsTheLibraryDoes) {
  const json texts = read(kData / "texts.json");
  ASSERT_GT(texts.size(), 150U);
  ASSERT_EQ(texts.size(), expected_["texts"].size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const json& entry = expected_["texts"][i];
    const std::vector<TokenId> ids = tokenizer_->encode(text);
    EXPECT_EQ(shortened(ids), entry[0]) << texts[i];
    const auto front = entry[1][0].get<std::ptrdiff_t>();
    const auto back = entry[1][1].get<std::ptrdiff_t>();
    const std::vector<TokenId> plain = tokenizer_->encode(text, {.add_special_tokens = false});
    EXPECT_EQ(plain, std::vector<TokenId>(ids.begin() + front, ids.end() - back)) << texts[i];
    const std::string decoded = tokenizer_->decode(plain);
    const std::string skipped = tokenizer_->decode(ids, {.skip_special_tokens = true});
    EXPECT_EQ(shortened(decoded), or_else(entry[2], shortened(text))) << texts[i];
    EXPECT_EQ(shortened(skipped), or_else(entry[3], shortened(decoded))) << texts[i];
    EXPECT_EQ(decode_piecewise(tokenizer_, plain, {}), decoded) << texts[i];
    EXPECT_EQ(decode_piecewise(tokenizer_, ids, {.skip_special_tokens = true}), skipped)
        << texts[i];
  }
}

TEST_P(TokenizerGolden, DecodesRandomIdsAsTheLibraryDoes) {
  ASSERT_GE(expected_["sequences"].size(), 20U);
  for (const json& entry : expected_["sequences"]) {
    const auto ids = entry[0].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer_->decode(ids), entry[1].get<std::string>()) << entry[0];
    EXPECT_EQ(tokenizer_->decode(ids, {.skip_special_tokens = true}), entry[2].get<std::string>());
    EXPECT_EQ(decode_piecewise(tokenizer_, ids, {}), entry[1].get<std::string>());
    EXPECT_EQ(decode_piecewise(tokenizer_, ids, {.skip_special_tokens = true}),
              entry[2].get<std::string>());
  }
}

std::vector<Golden> goldens() {
  std::vector<Golden> goldens;
  for (const char* name : {"gpt2",         "roberta",     "smollm",         "llama3",
                           "qwen2",        "qwen35",      "o200k",          "tekken",
                           "cl100k",       "deepseek_v3", "deepseek_coder", "falcon",
                           "llama2",       "mistral",     "gemma",          "metaspace_split",
                           "never_prefix", "unigram",     "unigram_bytes",  "flags",
                           "behaviors",    "bert",        "byte_normalizer"}) {
    goldens.push_back({.tokenizer = name, .expected = name});
  }
  for (const char* name : {"spm_llama", "spm_llama_legacy", "spm_llama_plain",
                           "spm_llama_no_prefix", "spm_gemma", "spm_own_bpe", "spm_own_unigram"}) {
    goldens.push_back({.tokenizer = name, .expected = name});
  }
  for (const char* name : {"smollm", "llama3", "qwen2", "deepseek_v3", "deepseek_coder", "o200k",
                           "tekken", "gpt2", "sentencepiece"}) {
    goldens.push_back({.tokenizer = std::string(name) + ".gguf", .expected = name});
  }
  goldens.push_back({.tokenizer = "gemma.gguf", .expected = "gemma_gguf"});
  return goldens;
}

std::string golden_name(const testing::TestParamInfo<Golden>& info) {
  std::string name = info.param.tokenizer;
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, TokenizerGolden, testing::ValuesIn(goldens()), golden_name);

}  // namespace
}  // namespace headrace
