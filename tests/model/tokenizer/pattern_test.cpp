#include "model/tokenizer/pattern.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/tokenizer/scanners.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

std::string marked(const std::string& expression, const std::string& text) {
  return replace_matches(text, *pcre_pattern(expression), "_");
}

// Right column: what the tokenizers library (Oniguruma) gives.
TEST(Pattern, ExpressionsMeanWhatOnigurumaMeansByThem) {
  struct Case {
    std::string expression, text, result;
  };
  const std::vector<Case> cases = {
      {"a{1,2}+", "aaaaab", "_b"},
      {"a{2}+", "aaaaab", "_ab"},
      {"(?:ab){2}+", "ababababab", "_ab"},
      {"a{,2}", "aaaaab", "___b_"},
      {"a{2", "a{2", "_"},
      {"^", "ab\ncd", "_ab\n_cd"},
      {"$", "ab\ncd\n", "ab_\ncd_\n_"},
      {"a.b", "a\nb", "a\nb"},
      {"(?m:a.b)", "a\nb", "_"},
      {R"(\h)", "0fg\t ", "__g\t "},
      {R"(\v)", "a\x0b\n\r", "a_\n\r"},
      {"a++b", "aaab", "_"},
      {"x*", "abxxc", "_a_b_c_"},
      {R"(\b)", "ab cd", "_ab_ _cd_"},
      {R"(\bé)", "é a", "_ a"},
      {R"(\u0041)", "A", "_"},
      {R"(\p{^L})", "a1", "a_"},
      {R"([^\S])", "a ", "a_"},
      {R"([\S])", "a\u180e ", "__ "},
      {R"(\s)", "a\u180e\u0085\u3000", "a\u180e__"},
      {R"(\p{Letter})", "a1", "_1"},
      {R"(\R)", "a\r\n", "a_"},
      {R"([\d\-])", "1-", "__"},
      {"[]a]", "a]", "__"},
      {"[a-c-e]", "-d", "_d"},
      {R"((?<!\S)a)", "a a", "_ _"},
      {R"(\Ga)", "aab", "__b"},
      {"(?i:s)", "sS\u017f", "___"},
      {R"(\p{Han})", "中。", "_。"},
      {R"(\w+)", "e\u0301x\u0897 ²", "_ _"},
      {R"([\W])", "a ²é", "a_²é"},
      {R"([\P{L}])", "a\U0002ebf01", "a\U0002ebf0_"},
      {R"(\p{L}+)", "\U00031350\ua7cb", "_"},
      {R"([[:alpha:]]+)", "é1", "_1"},
      {"", "ab", "_a_b_"},
  };
  for (const Case& c : cases) EXPECT_EQ(marked(c.expression, c.text), c.result) << c.expression;
}

TEST(Pattern, WhatPcreCannotExpressIsRefused) {
  for (const char* expression : {"[[a]b]", "[a&&b]", "[a", "(a", R"(\p{Nonsense})", R"(\p{L)",
                                 R"(\)", "(?s:a)", R"(\u12)", R"(\C)", "a**b(", "[z-a]"}) {
    EXPECT_THROW(pcre_pattern(expression), std::invalid_argument) << expression;
  }
}

TEST(Pattern, MatchesAndGapsCoverTheText) {
  std::vector<Match> matches;
  pcre_pattern("b+")->find("abba", matches);
  ASSERT_EQ(matches.size(), 3U);
  EXPECT_FALSE(matches[0].is_match);
  EXPECT_TRUE(matches[1].is_match);
  EXPECT_EQ(matches[1].begin, 1U);
  EXPECT_EQ(matches[2].end, 4U);
}

TEST(Pattern, ManyStepsOnOneTextAreAnErrorNotACrash) {
  const auto pattern = pcre_pattern("(a*)*b|(?:a|aa)+c");
  std::vector<Match> matches;
  EXPECT_THROW(pattern->find(std::string(5000, 'a'), matches), std::invalid_argument);
}

// Cuts the text by hand-written scanner and by PCRE2; both as the ends of the matches.
std::vector<std::size_t> scanned(Scanner scanner, std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < text.size();) ends.push_back(at = scanner(text, at));
  return ends;
}

std::vector<std::size_t> matched(const Pattern& pattern, std::string_view text) {
  std::vector<Match> matches;
  pattern.find(text, matches);
  std::vector<std::size_t> ends;
  for (const Match& match : matches) {
    EXPECT_TRUE(match.is_match);
    ends.push_back(match.end);
  }
  return ends;
}

class Scanners : public testing::TestWithParam<std::string_view> {
 protected:
  void expect_same(const std::string& text) const {
    ASSERT_EQ(scanned(scanner_, text), matched(*pattern_, text)) << text.substr(0, 200);
  }
  Scanner scanner_ = find_scanner(GetParam());
  std::unique_ptr<Pattern> pattern_ = pcre_pattern(std::string(GetParam()));
};

TEST_P(Scanners, CutTheGoldenTextsAsPcreDoes) {
  std::ifstream stream("tests/data/tokenizer/texts.json");
  const nlohmann::json texts = nlohmann::json::parse(stream);
  ASSERT_GT(texts.size(), 150U);
  for (const nlohmann::json& text : texts) expect_same(text.get<std::string>());
}

TEST_P(Scanners, CutTextsAroundEveryCharacterAsPcreDoes) {
  std::string text;
  for (char32_t c = 0; c < 0x32400; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    text += 'x';
    append_utf8(text, c);
    append_utf8(text, c);
    text += " ";
    append_utf8(text, c);
    text += "1'";
    append_utf8(text, c);
    if (text.size() > 4000) {
      expect_same(text);
      text.clear();
    }
  }
  expect_same(text);
}

TEST_P(Scanners, CutRandomTextsAsPcreDoes) {
  const std::vector<std::string> atoms = {
      "'",  "s",   "S",      "l",      "L",      "re",   "VE",
      "a",  "B",   "é",      "É",      "ǅ",      "ʰ",    "中",
      "1",  "²",   "Ⅷ",      "٣",      " ",      " ",    "\n",
      "\r", "\t",  "\u3000", "\u0085", "\u0301", "ſ",    "-",
      "/",  "\\",  "!",      "。",     "😀",      "_",    std::string(1, '\0'),
      "ß",  "the", "\u200d", "\u180e", "'t",     "\r\n", "K"};
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) text += atoms[random() % atoms.size()];
    expect_same(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Known, Scanners,
                         testing::Values(kGpt2Expression, kLlama3Expression, kQwen2Expression,
                                         kQwen35Expression, kO200kExpression),
                         [](const auto& instance) {
                           return "Expression" + std::to_string(instance.index);
                         });

TEST(Scanners, AreChosenByTheExactExpression) {
  EXPECT_NE(find_scanner(kGpt2Expression), nullptr);
  EXPECT_EQ(find_scanner(std::string(kGpt2Expression) + " "), nullptr);
  EXPECT_EQ(find_scanner(""), nullptr);
}

}  // namespace
}  // namespace headrace
