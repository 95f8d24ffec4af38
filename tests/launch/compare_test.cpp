#include "launch/compare.h"

#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

namespace headrace {
namespace {

using nlohmann::json;

/// A line that answers a completion.
json completion(const json& id, const std::string& text) {
  const json choice = {
      {"index", 0}, {"text", text}, {"finish_reason", "stop"}, {"logprobs", nullptr}};
  const json body = {{"id", "cmpl-1"},
                     {"object", "text_completion"},
                     {"choices", json::array({choice})},
                     {"usage", {{"prompt_tokens", 3}, {"completion_tokens", 2}}}};
  return {{"id", "batch_req_1"},
          {"custom_id", id},
          {"response", {{"status_code", 200}, {"request_id", "r"}, {"body", body}}},
          {"error", nullptr}};
}

json failure(const json& id, const std::string& code) {
  return {{"id", "batch_req_1"},
          {"custom_id", id},
          {"response", nullptr},
          {"error", {{"code", code}, {"message", "m"}, {"line", 4}}}};
}

json& choice(json& line, std::size_t i = 0) {
  return line["response"]["body"]["choices"][i];
}

json with_logprobs(json line, const std::vector<double>& values) {
  json tokens = json::array();
  for (std::size_t i = 0; i < values.size(); ++i) tokens.push_back("t" + std::to_string(i));
  choice(line)["logprobs"] = {{"tokens", tokens}, {"token_logprobs", values}};
  return line;
}

class CompareTest : public testing::Test {
 protected:
  static std::string write(const std::string& name, const std::string& content) {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::string path = testing::TempDir() + "compare_" + test + "_" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  static std::string lines(const std::vector<json>& list) {
    std::string text;
    for (const json& line : list) text += line.dump() + "\n";
    return text;
  }

  Comparison compare(const std::vector<json>& a, const std::vector<json>& b,
                     double tolerance = 0.0) {
    options_.tolerance = tolerance;
    options_.files = {write("a", lines(a)), write("b", lines(b))};
    return compare_outputs(options_);
  }

  static std::int64_t count(const Comparison& c, DifferenceKind kind) {
    return c.requests_by_kind.at(static_cast<std::size_t>(kind));
  }

  CompareOptions options_;
};

TEST_F(CompareTest, SameBytesAreIdentical) {
  const auto c = compare({completion("x", "a")}, {completion("x", "a")});
  EXPECT_TRUE(c.identical);
  EXPECT_TRUE(c.equal());
}

TEST_F(CompareTest, OrderAndJobIdentifiersDoNotCount) {
  json other = completion("x", "a");
  other["id"] = "batch_req_2";
  other["response"]["request_id"] = "s";
  other["response"]["body"]["id"] = "cmpl-2";
  other["response"]["body"]["model"] = "elsewhere/model";
  const auto c =
      compare({completion("x", "a"), completion("y", "b")}, {completion("y", "b"), other});
  EXPECT_FALSE(c.identical);
  EXPECT_TRUE(c.equal());
  EXPECT_EQ(c.compared, 2);
}

TEST_F(CompareTest, MissingIdsAreNamedOnBothSides) {
  const auto c = compare({completion("x", "a"), completion("y", "b")},
                         {completion("x", "a"), completion("z", "b"), completion("w", "b")});
  EXPECT_FALSE(c.equal());
  EXPECT_EQ(c.compared, 1);
  EXPECT_EQ(c.different, 0);
  EXPECT_EQ(c.a.only_here_names, std::vector<std::string>{"\"y\""});
  EXPECT_EQ(c.b.only_here_names, (std::vector<std::string>{"\"z\"", "\"w\""}));
  EXPECT_EQ(c.b.only_here, 2);
}

TEST_F(CompareTest, LinesWithoutIdPairUpByPosition) {
  const auto c = compare({completion(nullptr, "a"), completion("x", "b"), completion(nullptr, "c")},
                         {completion("x", "b"), completion(nullptr, "a"), completion(nullptr, "d"),
                          completion(nullptr, "e")});
  EXPECT_EQ(c.compared, 3);
  EXPECT_EQ(c.different, 1);
  EXPECT_EQ(c.listed.at(0).request, "line 3");
  EXPECT_EQ(c.b.only_here_names, std::vector<std::string>{"line 4"});
}

TEST_F(CompareTest, RepeatedIdsPairUpInOrder) {
  const auto c =
      compare({completion("x", "a"), failure("x", "duplicate"), failure("x", "duplicate")},
              {completion("x", "a"), failure("x", "duplicate")});
  EXPECT_EQ(c.compared, 2);
  EXPECT_EQ(c.different, 0);
  EXPECT_EQ(c.a.only_here, 1);
}

TEST_F(CompareTest, TheFirstOtherTokenIsNamed) {
  json a = completion("x", "a b");
  json b = completion("x", "a c");
  choice(a)["token_ids"] = {5, 6, 7};
  choice(b)["token_ids"] = {5, 6, 8, 9};
  const auto c = compare({a}, {b});
  EXPECT_EQ(count(c, DifferenceKind::kTokens), 1);
  EXPECT_EQ(count(c, DifferenceKind::kText), 0);
  const Difference& d = c.listed.at(0).difference;
  EXPECT_EQ(d.where, "choice 0, token 2");
  EXPECT_EQ(d.a, "7");
  EXPECT_EQ(d.b, "8");
}

TEST_F(CompareTest, AnAnswerThatEndsEarlierDiffersAtItsEnd) {
  json a = completion("x", "a");
  json b = completion("x", "a");
  choice(a)["token_ids"] = {5};
  choice(b)["token_ids"] = {5, 6};
  EXPECT_EQ(compare({a}, {b}).listed.at(0).difference.a, "the end");
}

TEST_F(CompareTest, TextIsComparedByCharacters) {
  // Two letters whose UTF-8 begins with the same byte.
  const auto c = compare({completion("x", "a\u00e9\u00e9z")}, {completion("x", "a\u00e9\u00e8z")});
  const Difference& d = c.listed.at(0).difference;
  EXPECT_EQ(d.kind, DifferenceKind::kText);
  EXPECT_EQ(d.where, "choice 0, character 2");
  EXPECT_EQ(d.a, "\"\u00e9z\"");
  EXPECT_EQ(d.b, "\"\u00e8z\"");
}

TEST_F(CompareTest, ChatContentIsCompared) {
  json a = completion("x", "");
  json b = a;
  for (json* line : {&a, &b}) choice(*line).erase("text");
  choice(a)["message"] = {{"role", "assistant"}, {"content", "yes"}};
  choice(b)["message"] = {{"role", "assistant"}, {"content", "yet"}};
  EXPECT_EQ(count(compare({a}, {b}), DifferenceKind::kText), 1);
}

TEST_F(CompareTest, ChoicesAreMatchedByIndex) {
  json a = completion("x", "first");
  json second = choice(a);
  second["index"] = 1;
  second["text"] = "second";
  json b = a;
  a["response"]["body"]["choices"].push_back(second);
  b["response"]["body"]["choices"] = {second, choice(a)};
  EXPECT_TRUE(compare({a}, {b}).equal());
  choice(b, 0)["text"] = "other";
  EXPECT_EQ(compare({a}, {b}).listed.at(0).difference.where, "choice 1, character 0");
}

TEST_F(CompareTest, FinishReasonsAreCompared) {
  json b = completion("x", "a");
  choice(b)["finish_reason"] = "length";
  EXPECT_EQ(count(compare({completion("x", "a")}, {b}), DifferenceKind::kFinishReason), 1);
}

TEST_F(CompareTest, ErrorsAreComparedWithoutTheirLine) {
  json moved = failure("x", "invalid_json");
  moved["error"]["line"] = 9;
  EXPECT_TRUE(compare({failure("x", "invalid_json")}, {moved}).equal());
  EXPECT_EQ(count(compare({failure("x", "a")}, {failure("x", "b")}), DifferenceKind::kError), 1);
  const auto c = compare({failure("x", "a")}, {completion("x", "t")});
  EXPECT_EQ(count(c, DifferenceKind::kOutcome), 1);
  EXPECT_EQ(c.a.failed, 1);
  EXPECT_EQ(c.b.failed, 0);
}

TEST_F(CompareTest, LogprobDistancesAreMeasuredUpToTheFirstOtherToken) {
  const json a = with_logprobs(completion("x", "a"), {-1.0, -2.0, -3.0});
  json b = with_logprobs(completion("x", "a"), {-1.25, -2.0, -9.0});
  choice(b)["logprobs"]["tokens"][2] = "other";
  const auto c = compare({a}, {b}, 0.5);
  EXPECT_EQ(c.logprobs.pairs, 2);
  EXPECT_DOUBLE_EQ(c.logprobs.max, 0.25);
  EXPECT_DOUBLE_EQ(c.logprobs.mean(), 0.125);
  EXPECT_TRUE(c.equal());
}

TEST_F(CompareTest, TheToleranceDecidesAboutLogprobs) {
  const json a = with_logprobs(completion("x", "a"), {-1.0, -2.0});
  const json b = with_logprobs(completion("x", "a"), {-1.0, -2.25});
  EXPECT_FALSE(compare({a}, {b}).equal());
  EXPECT_FALSE(compare({a}, {b}, 0.2).equal());
  EXPECT_TRUE(compare({a}, {b}, 0.25).equal());
}

TEST_F(CompareTest, ChatLogprobsAndAlternativesAreCompared) {
  const auto line = [](double logprob, const char* alternative) {
    json l = completion("x", "a");
    const json top = json::array(
        {{{"token", "t"}, {"logprob", -1.0}}, {{"token", alternative}, {"logprob", -2.0}}});
    choice(l)["logprobs"] = {
        {"content", json::array({{{"token", "t"}, {"logprob", logprob}, {"top_logprobs", top}}})}};
    return l;
  };
  EXPECT_EQ(count(compare({line(-1.0, "u")}, {line(-1.5, "u")}), DifferenceKind::kLogprobs), 1);
  EXPECT_EQ(count(compare({line(-1.0, "u")}, {line(-1.0, "v")}), DifferenceKind::kLogprobs), 1);
  EXPECT_TRUE(compare({line(-1.0, "u")}, {line(-1.0, "v")}, 0.1).equal());
}

TEST_F(CompareTest, PromptLogprobsAreComparedWithinTheTolerance) {
  const auto line = [](double logprob, const char* second) {
    json l = completion("x", "a");
    choice(l)["prompt_logprobs"] = json::array(
        {nullptr,
         {{"5", {{"logprob", logprob}, {"rank", 1}}}, {second, {{"logprob", -3.0}, {"rank", 2}}}}});
    return l;
  };
  const auto c = compare({line(-1.0, "6")}, {line(-1.25, "6")});
  EXPECT_EQ(c.listed.at(0).difference.where, "choice 0, prompt token 1");
  EXPECT_EQ(c.listed.at(0).difference.kind, DifferenceKind::kLogprobs);
  EXPECT_FALSE(compare({line(-1.0, "6")}, {line(-1.0, "7")}).equal());
  EXPECT_FALSE(compare({line(-1.0, "6")}, {line(-1.25, "7")}, 0.2).equal());
  EXPECT_TRUE(compare({line(-1.0, "6")}, {line(-1.25, "7")}, 0.25).equal());
}

TEST_F(CompareTest, LogprobsOfOneFileOnlyAreNotedButNotADifference) {
  const auto c = compare({with_logprobs(completion("x", "a"), {-1.0})}, {completion("x", "a")});
  EXPECT_TRUE(c.equal());
  EXPECT_EQ(c.one_sided.at("logprobs"), 1);
  EXPECT_NE(comparison_text(c, options_).find("logprobs (1)"), std::string::npos);
}

TEST_F(CompareTest, AnyOtherFieldThatBothHaveCounts) {
  json a = completion("x", "a");
  json b = a;
  b["response"]["body"]["usage"]["prompt_tokens"] = 4;
  EXPECT_EQ(compare({a}, {b}).listed.at(0).difference.where, "usage.prompt_tokens");
  b = a;
  choice(a)["stop_reason"] = 2;
  choice(b)["stop_reason"] = "END";
  EXPECT_EQ(count(compare({a}, {b}), DifferenceKind::kOther), 1);
}

TEST_F(CompareTest, OnlyTheFirstDifferencesAreListed) {
  std::vector<json> a;
  std::vector<json> b;
  for (int i = 0; i < 20; ++i) {
    a.push_back(completion(std::to_string(i), "a"));
    b.push_back(completion(std::to_string(i), "b"));
  }
  options_.list = 3;
  const auto c = compare(a, b);
  EXPECT_EQ(c.listed.size(), 3U);
  EXPECT_EQ(c.different, 20);
}

TEST_F(CompareTest, WhatIsNoOutputIsRefusedByFileAndLine) {
  const std::string good = write("good", completion("x", "a").dump() + "\n");
  const auto refusal = [&](const std::string& content) {
    options_.files = {good, write("bad", content)};
    try {
      compare_outputs(options_);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal("{\"custom_id\":").find("line 1: valid JSON, nested"), std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[') + "\n").find("line 1: valid JSON"),
            std::string::npos);
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_NE(
      refusal(R"({"custom_id":"x","response":{"body":)" + deep + "}}\n").find("nested at most"),
      std::string::npos);
  EXPECT_NE(refusal("[1]\n").find("line 1: an output line"), std::string::npos);
  EXPECT_NE(refusal(completion("x", "a").dump() + "\n\n{\"prompt\":\"p\"}\n").find("line 3"),
            std::string::npos);
  options_.files = {good, good + ".missing"};
  EXPECT_THROW(compare_outputs(options_), std::invalid_argument);
  options_.files = {good, testing::TempDir()};
  EXPECT_THROW(compare_outputs(options_), std::invalid_argument);
}

TEST_F(CompareTest, EqualFilesThatAreNoOutputsAreRefused) {
  const std::string a = write("a", "{\"prompt\":\"p\"}\n");
  const std::string b = write("b", "{\"prompt\":\"p\"}\n");
  options_.files = {a, b};
  EXPECT_THROW(compare_outputs(options_), std::invalid_argument);
}

TEST_F(CompareTest, AnUnfinishedJobIsNamed) {
  const std::string good = write("good", completion("x", "a").dump() + "\n");
  write("running.partial", "");
  options_.files = {good, testing::TempDir() + "compare_AnUnfinishedJobIsNamed_running"};
  try {
    compare_outputs(options_);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("is not finished"), std::string::npos) << e.what();
  }
}

TEST_F(CompareTest, SpeedComesFromTheSummaries) {
  options_.files = {write("a", lines({completion("x", "a")})),
                    write("b", lines({completion("x", "b")}))};
  const auto summary = [](double rate) {
    return json({{"wall_s", 2.0}, {"output_tokens_per_s", rate}}).dump();
  };
  write("a.summary.json", summary(100.0));
  EXPECT_EQ(comparison_text(compare_outputs(options_), options_).find("speed"), std::string::npos);
  write("b.summary.json", summary(150.0));
  const std::string text = comparison_text(compare_outputs(options_), options_);
  EXPECT_NE(text.find("B / A = 1.50"), std::string::npos) << text;
  write("b.summary.json", "{");
  EXPECT_FALSE(compare_outputs(options_).b.speed.has_value());
}

TEST_F(CompareTest, EmptyOutputsAreEqual) {
  EXPECT_TRUE(compare({}, {}).equal());
}

TEST_F(CompareTest, LinesOfAnyOrderAreFoundInLargerFiles) {
  std::vector<json> a;
  a.reserve(500);
  for (int i = 0; i < 500; ++i)
    a.push_back(completion("id-" + std::to_string(i), std::to_string(i)));
  std::vector<json> b(a.rbegin(), a.rend());
  const auto c = compare(a, b);
  EXPECT_EQ(c.compared, 500);
  EXPECT_TRUE(c.equal());
}

TEST_F(CompareTest, MalformedAnswersDoNotStopTheComparison) {
  // Right outside, wrong inside: an answer is whatever another program wrote.
  json a = completion("x", "a");
  for (const json& choices :
       {json(3), json::array({1, "t"}), json::array({{{"index", "x"}}}),
        json::array({{{"logprobs", 7}, {"token_ids", "y"}, {"message", 1}}})}) {
    a["response"]["body"]["choices"] = choices;
    const auto c = compare({a}, {completion("x", "a")});
    EXPECT_EQ(c.compared, 1) << choices;
  }
}

TEST_F(CompareTest, ReportsAgreeWithTheCounts) {
  const auto c = compare({completion("x", "a"), completion("y", "b")}, {completion("x", "c")});
  const json report = json::parse(comparison_json(c, options_).dump());
  EXPECT_EQ(report["equal"], false);
  EXPECT_EQ(report["differences"]["text"], 1);
  EXPECT_EQ(report["a"]["only_here"]["count"], 1);
  EXPECT_EQ(report["first"][0]["request"], "\"x\"");
  const std::string text = comparison_text(c, options_);
  EXPECT_NE(text.find("only in A: \"y\""), std::string::npos) << text;
  EXPECT_NE(text.find("different text"), std::string::npos) << text;
}

}  // namespace
}  // namespace headrace
