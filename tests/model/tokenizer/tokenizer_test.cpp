#include "model/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/model/tokenizer/small_tokenizer.h"

namespace headrace {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::shared_ptr<const Tokenizer> golden(const std::string& name) {
  return Tokenizer::load(std::filesystem::path("tests/data/tokenizer") / name);
}

TEST(Tokenizer, AnswersForIdsAndTokens) {
  const auto tokenizer = TokenizerDirectory(small_tokenizer()).load();
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_EQ(tokenizer->token_to_id("abc"), 5);
  EXPECT_EQ(tokenizer->token_to_id("</s>"), 8);
  EXPECT_EQ(tokenizer->token_to_id("abcd"), std::nullopt);
  EXPECT_EQ(tokenizer->id_to_token(6), "Ġa");
  EXPECT_EQ(tokenizer->id_to_token(9), "<t>");
  EXPECT_EQ(tokenizer->id_to_token(10), "");
  EXPECT_EQ(tokenizer->id_to_token(-1), "");
  EXPECT_TRUE(tokenizer->is_special(7));
  EXPECT_FALSE(tokenizer->is_special(9));
  EXPECT_FALSE(tokenizer->is_special(0));
  EXPECT_EQ(tokenizer->encode("abc abca<t>cab"), (Ids{5, 3, 5, 0, 9, 2, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{7, 5, 6, 9}), "<s>abc a<t>");
  EXPECT_EQ(tokenizer->decode(Ids{7, 5, 6, 9}, {.skip_special_tokens = true}), "abc a<t>");
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedByItsFirstBadByte) {
  const auto tokenizer = golden("gpt2");
  for (const std::string bad :
       {"\x80", "ab\xFF", "\xC3", "\xED\xA0\x80", "\xED\xBF\xBF", "\xC0\x80", "\xF4\x90\x80\x80",
        "\xF0\x80\x80\x80", "\xE2\x82", "x\xF8\x88\x80\x80\x80"}) {
    EXPECT_THROW(tokenizer->encode(bad), std::invalid_argument);
  }
  try {
    tokenizer->encode("ab\xFFz");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("byte 2"), std::string::npos) << error.what();
  }
}

// Padded tables have rows behind the last id; a sampler may choose one.
TEST(Tokenizer, IdsWithoutATokenAreNoText) {
  json holed = small_tokenizer();
  holed["model"]["vocab"]["far"] = 20;
  holed["added_tokens"] = json::array();
  for (const auto& tokenizer :
       {TokenizerDirectory(small_tokenizer()).load(), TokenizerDirectory(holed).load()}) {
    for (const TokenId id : {11, 19, 21, 1000000, INT32_MAX, -1, INT32_MIN}) {
      EXPECT_EQ(tokenizer->decode(Ids{id}), "") << id;
      EXPECT_EQ(tokenizer->decode(Ids{5, id, 6}, {.skip_special_tokens = true}), "abc a") << id;
      IncrementalDecoder decoder(tokenizer, {});
      EXPECT_EQ(decoder.push(5), "abc");
      EXPECT_EQ(decoder.push(id), "") << id;
      EXPECT_EQ(decoder.push(6), " a");
      EXPECT_EQ(decoder.finish(), "");
    }
  }
}

// Also between the bytes of one character, and where a decoder tells the first token from others.
TEST(Tokenizer, IdsWithoutATokenDoNotCutWhatIsAroundThem) {
  const auto bytes = golden("gpt2");
  Ids ids = bytes->encode("😀");
  ASSERT_GT(ids.size(), 1U);
  ids.insert(ids.begin() + 1, bytes->vocab_size());
  EXPECT_EQ(bytes->decode(ids), "😀");
  const auto pieces = golden("llama2");
  const TokenId the = *pieces->token_to_id("▁the");
  EXPECT_EQ(pieces->decode(Ids{pieces->vocab_size(), the, the}), "the the");
}

TEST(Tokenizer, ManyThreadsEncodeTheSameIds) {
  const auto tokenizer = golden("qwen2");
  std::string text;
  for (int i = 0; i < 400; ++i) text += "word" + std::to_string(i * 7919) + " don't, 中文 é\n";
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> results(8);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (Ids& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) result = tokenizer->encode(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

// More different words than the cache holds: what it forgets and replaces must not show.
TEST(Tokenizer, WordsEncodeTheSameAgainAfterManyOthers) {
  const auto tokenizer = golden("gpt2");
  std::mt19937 random(3);
  std::vector<std::string> words;
  std::vector<Ids> ids;
  for (int i = 0; i < 60000; ++i) {
    std::string word;
    for (std::size_t n = 1 + random() % 9; n > 0; --n)
      word += static_cast<char>('a' + random() % 6);
    words.push_back(word);
    ids.push_back(tokenizer->encode(word));
  }
  for (std::size_t i = 0; i < words.size(); i += 7) {
    ASSERT_EQ(tokenizer->encode(words[i]), ids[i]) << words[i];
    if (i % 700 == 0) {
      ASSERT_EQ(golden("gpt2")->encode(words[i]), ids[i]) << words[i];
    }
  }
}

// A quadratic merge would take minutes.
TEST(Tokenizer, OneWordOfHundredThousandCharactersIsQuick) {
  std::mt19937 random(11);
  std::string letters(100000, 'a');
  for (char& c : letters) c = static_cast<char>('a' + random() % 26);
  std::string spaces = "x" + std::string(100000, ' ') + "x";
  std::string marks = "a";
  for (int i = 0; i < 50000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0316";
  for (const char* name : {"gpt2", "llama2", "unigram", "unigram_bytes", "qwen2", "flags", "bert",
                           "deepseek_v3", "cl100k"}) {
    const auto tokenizer = golden(name);
    for (const std::string& text : {letters, std::string(100000, 'a'), spaces, marks}) {
      Ids ids;
      EXPECT_LT(seconds_of([&] { ids = tokenizer->encode(text); }), 5.0) << name;
      EXPECT_FALSE(ids.empty());
    }
  }
}

TEST(Tokenizer, FingerprintsFollowTheRulesNotTheSpelling) {
  const json base = small_tokenizer();
  const std::string print = TokenizerDirectory(base).load()->fingerprint();
  EXPECT_EQ(TokenizerDirectory(base.dump(2)).load()->fingerprint(), print);
  json changed = base;
  changed["pre_tokenizer"]["use_regex"] = false;
  EXPECT_NE(TokenizerDirectory(changed).load()->fingerprint(), print);
  changed = base;
  changed["model"]["vocab"]["a"] = 1;
  changed["model"]["vocab"]["b"] = 0;
  EXPECT_NE(TokenizerDirectory(changed).load()->fingerprint(), print);
  changed = base;
  std::swap(changed["model"]["merges"][0], changed["model"]["merges"][2]);
  EXPECT_NE(TokenizerDirectory(changed).load()->fingerprint(), print);
  EXPECT_NE(golden("llama3")->fingerprint(), golden("qwen2")->fingerprint());
}

TEST(IncrementalDecoder, HoldsBackAnUnfinishedCharacterOnly) {
  const auto tokenizer = golden("gpt2");
  const Ids ids = tokenizer->encode("é😀x");
  IncrementalDecoder decoder(tokenizer, {});
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(piece.empty() || (static_cast<unsigned char>(piece[0]) & 0xC0) != 0x80);
    text += piece;
  }
  EXPECT_EQ(text, "é😀x");  // nothing is left for the end
  EXPECT_EQ(decoder.finish(), "");
}

TEST(IncrementalDecoder, AnUnfinishedCharacterAtTheEndIsOneReplacement) {
  const auto tokenizer = golden("gpt2");
  Ids ids = tokenizer->encode("😀");
  ASSERT_GT(ids.size(), 1U);
  ids.pop_back();
  IncrementalDecoder decoder(tokenizer, {});
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  EXPECT_EQ(text, "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(tokenizer->decode(ids), "\uFFFD");
}

TEST(IncrementalDecoder, ARunOfByteTokensIsTextOnlyAsAWhole) {
  const auto tokenizer = golden("llama2");
  const TokenId e2 = *tokenizer->token_to_id("<0xE2>");
  const TokenId b82 = *tokenizer->token_to_id("<0x82>");
  const TokenId ac = *tokenizer->token_to_id("<0xAC>");
  const TokenId the = *tokenizer->token_to_id("▁the");
  const auto pieces = [&](const Ids& ids) {
    IncrementalDecoder decoder(tokenizer, {});
    std::vector<std::string> out;
    for (const TokenId id : ids) out.push_back(decoder.push(id));
    out.push_back(decoder.finish());
    return out;
  };
  EXPECT_EQ(pieces({the, e2, b82, ac, the}),
            (std::vector<std::string>{"the", "", "", "", "€ the", ""}));
  EXPECT_EQ(pieces({the, e2, b82, the}),
            (std::vector<std::string>{"the", "", "", "\uFFFD\uFFFD the", ""}));
  EXPECT_EQ(pieces({the, e2}), (std::vector<std::string>{"the", "", "\uFFFD"}));
}

// Re-decoding what came before would make this quadratic: hours instead of a second.
TEST(IncrementalDecoder, TimeDoesNotGrowWithWhatCameBefore) {
  for (const char* name : {"gpt2", "llama2", "mistral", "unigram", "unigram_bytes", "bert"}) {
    const auto tokenizer = golden(name);
    std::mt19937 random(5);
    IncrementalDecoder decoder(tokenizer, {.skip_special_tokens = true});
    std::size_t bytes = 0;
    EXPECT_LT(seconds_of([&] {
                for (int i = 0; i < 300000; ++i) {
                  bytes += decoder
                               .push(static_cast<TokenId>(
                                   random() % static_cast<unsigned>(tokenizer->vocab_size())))
                               .size();
                }
              }),
              10.0)
        << name;
    EXPECT_GT(bytes, 100000U) << name;
  }
}

TEST(IncrementalDecoder, KeepsItsTokenizerAlive) {
  auto tokenizer = golden("gpt2");
  const Ids ids = tokenizer->encode("hello");
  IncrementalDecoder decoder(tokenizer, {});
  tokenizer.reset();
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  EXPECT_EQ(text + decoder.finish(), "hello");
}

TEST(IncrementalDecoder, StripsTheEndsOfAFusedText) {
  json parts = small_tokenizer();
  parts["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Fuse"}}, {{"type", "Strip"}, {"content", "a"}, {"start", 1}, {"stop", 2}}}}};
  const auto tokenizer = TokenizerDirectory(parts).load();
  EXPECT_EQ(tokenizer->decode(Ids{0, 0, 1, 0, 0, 0}), "aba");
  EXPECT_EQ(tokenizer->decode(Ids{0, 0}), "");
  EXPECT_EQ(tokenizer->decode(Ids{}), "");
  IncrementalDecoder decoder(tokenizer, {});
  EXPECT_EQ(decoder.push(0), "");
  EXPECT_EQ(decoder.push(0), "");  // may be the end
  EXPECT_EQ(decoder.push(1), "ab");
  EXPECT_EQ(decoder.push(0), "");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace headrace
