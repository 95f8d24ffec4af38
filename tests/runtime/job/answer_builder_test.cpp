#include "runtime/job/answer_builder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "fake_tokenizer.h"
#include "runtime/job/json_text.h"
#include "runtime/job/request_parser.h"
#include "tests/limits.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

const AnswerContext& context() {
  static const AnswerContext kContext{std::make_shared<FakeTokenizer>(), {1, 2}, "model", 0};
  return kContext;
}

const RequestParser& parser() {
  static const RequestParser kParser = [] {
    ParserConfig config;
    config.tokenizer = context().tokenizer;
    config.chat = [](const ChatRequest&) { return "c"; };
    config.max_model_len = 1000;
    config.vocab_size = FakeTokenizer::kVocabSize;
    config.end_ids = {FakeTokenizer::kEos};
    return RequestParser(config);
  }();
  return kParser;
}

AnswerBuilder builder(const std::string& text) {
  InputLine line;
  line.number = 3;
  line.text = text;
  ParsedLine parsed = parser().parse(line);
  if (const auto* error = std::get_if<LineError>(&parsed.result))
    throw std::runtime_error(error->message);
  return {std::make_shared<Request>(std::get<Request>(std::move(parsed.result))), context()};
}

// The request {"prompt":"p", FIELDS}.
AnswerBuilder with(const std::string& fields) {
  return builder("{\"prompt\":\"p\"," + fields + "}");
}

ScoredToken token(TokenId id, float logprob = -0.5F) {
  return {id, logprob, 1, {}};
}

// Feeds bytes as tokens to choice 0 until it ends; returns how many it took.
int feed(AnswerBuilder& answer, const std::string& text, int choice = 0) {
  int taken = 0;
  for (const char c : text) {
    if (answer.choice_done(choice)) break;
    EXPECT_TRUE(answer.add(choice, token(static_cast<unsigned char>(c))));
    ++taken;
  }
  return taken;
}

Json body(const AnswerBuilder& answer) {
  return Json::parse(answer.line())["response"]["body"];
}
Json choice(const AnswerBuilder& answer, std::size_t index = 0) {
  return body(answer)["choices"][index];
}

TEST(AnswerBuilder, WholeLineOfACompletion) {
  AnswerBuilder answer = builder(R"({"custom_id":"a\"b","prompt":"p","max_tokens":2})");
  feed(answer, "xy");
  ASSERT_TRUE(answer.done());
  const std::string hash = batch_request_id({1, 2}, 3).substr(10);
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(
      answer.line(),
      "{\"id\":\"batch_req_" + hash +
          R"(","custom_id":"a\"b","response":{"status_code":200,"request_id":"req_)" +
          answer.line().substr(answer.line().find("\"req_") + 5, 32) + R"(","body":{"id":"cmpl-)" +
          answer.line().substr(answer.line().find("cmpl-") + 5, 32) +
          R"(","object":"text_completion","created":0,"model":"model","choices":[{"index":0,"text":"xy",)"
          R"("logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":2,)"
          R"("completion_tokens":2,"total_tokens":4}}},"error":null})");
}

TEST(AnswerBuilder, WholeLineOfAFailure) {
  const std::optional<std::string> id = "x";
  const LineError error{"invalid_json", "bad \"thing\"\n"};
  const std::string line = failed_line({9, id, error}, {1, 2});
  EXPECT_EQ(line, "{\"id\":\"" + batch_request_id({1, 2}, 9) +
                      R"(","custom_id":"x","response":null,"error":{"code":"invalid_json",)"
                      R"("message":"bad \"thing\"\n","line":9}})");
  EXPECT_FALSE(is_answer(line));
  const std::optional<std::string> none;
  EXPECT_TRUE(Json::parse(failed_line({9, none, error}, {1, 2}))["custom_id"].is_null());
  AnswerBuilder answer = with("\"max_tokens\":1");
  feed(answer, "x");
  EXPECT_TRUE(is_answer(answer.line()));
}

TEST(AnswerBuilder, IdsDependOnJobKeyAndLineOnly) {
  EXPECT_EQ(batch_request_id({1, 2}, 3), batch_request_id({1, 2}, 3));
  EXPECT_NE(batch_request_id({1, 2}, 3), batch_request_id({1, 2}, 4));
  EXPECT_NE(batch_request_id({1, 2}, 3), batch_request_id({1, 3}, 3));
}

TEST(AnswerBuilder, ChatHasAMessage) {
  AnswerBuilder answer = builder(
      R"({"messages":[{"role":"user","content":"x"}],"max_tokens":2,"return_token_ids":true,"logprobs":true,"top_logprobs":1})");
  answer.add(0, {'h', -0.25F, 1, {{'h', -0.25F}, {'i', -3.0F}}});
  answer.add(0, {0xE9, -1.5F, 2, {{'a', -1.0F}}});
  ASSERT_TRUE(answer.done());
  const Json b = body(answer);
  EXPECT_EQ(b["object"], "chat.completion");
  EXPECT_TRUE(b["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(b["choices"][0]["message"].dump(),
            "{\"role\":\"assistant\",\"content\":\"h\xEF\xBF\xBD\"}");
  EXPECT_EQ(
      b["choices"][0]["logprobs"].dump(),
      R"({"content":[{"token":"h","logprob":-0.25,"bytes":[104],"top_logprobs":[{"token":"h","logprob":-0.25,"bytes":[104]}]},)"
      "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-1.5,\"bytes\":[239,191,189],"
      R"("top_logprobs":[{"token":"a","logprob":-1.0,"bytes":[97]}]}]})");
  EXPECT_EQ(b["choices"][0]["token_ids"], (Json{104, 233}));
  EXPECT_EQ(b["prompt_token_ids"], (Json{99}));
}

TEST(AnswerBuilder, ChoicesAreOrderedByPromptThenNumber) {
  AnswerBuilder answer =
      builder(R"({"prompt":["a","bc"],"n":2,"max_tokens":1,"return_token_ids":true})");
  for (const int c : {3, 0, 2, 1}) feed(answer, std::string(1, static_cast<char>('0' + c)), c);
  ASSERT_TRUE(answer.done());
  for (int c = 0; c < 4; ++c) {
    const Json shown = choice(answer, static_cast<std::size_t>(c));
    EXPECT_EQ(shown["index"], c);
    EXPECT_EQ(shown["text"], std::to_string(c));
    EXPECT_EQ(shown["prompt_token_ids"].size(), c < 2 ? 2U : 3U);
  }
  EXPECT_EQ(body(answer)["usage"].dump(),
            R"({"prompt_tokens":5,"completion_tokens":4,"total_tokens":9})");
}

TEST(AnswerBuilder, EndOfSequenceStopsWithoutTextOrReason) {
  AnswerBuilder answer = with("\"max_tokens\":9,\"return_token_ids\":true");
  feed(answer, "ab");
  EXPECT_TRUE(answer.add(0, token(FakeTokenizer::kEos)));
  ASSERT_TRUE(answer.done());
  EXPECT_FALSE(answer.add(0, token('c')));
  EXPECT_EQ(choice(answer)["text"], "ab");
  EXPECT_EQ(choice(answer)["finish_reason"], "stop");
  EXPECT_TRUE(choice(answer)["stop_reason"].is_null());
  EXPECT_EQ(choice(answer)["token_ids"], (Json{97, 98, 257}));
}

TEST(AnswerBuilder, StopIdIsItsOwnReason) {
  AnswerBuilder plain = with(R"("stop_token_ids":[98])");
  EXPECT_EQ(feed(plain, "abc"), 2);
  EXPECT_EQ(choice(plain)["text"], "a");
  EXPECT_EQ(choice(plain)["stop_reason"], 98);
  AnswerBuilder included = with(R"("stop_token_ids":[98],"include_stop_str_in_output":true)");
  feed(included, "abc");
  EXPECT_EQ(choice(included)["text"], "ab");
}

TEST(AnswerBuilder, IgnoredEndOfSequenceGoesOn) {
  AnswerBuilder answer = with("\"ignore_eos\":true,\"max_tokens\":3,\"skip_special_tokens\":false");
  answer.add(0, token(FakeTokenizer::kEos));
  EXPECT_FALSE(answer.choice_done(0));
  feed(answer, "ab");
  EXPECT_EQ(choice(answer)["text"], "</s>ab");
  EXPECT_EQ(choice(answer)["finish_reason"], "length");
}

TEST(AnswerBuilder, StopStringMayBeginInAnyTokenAndEndInAnother) {
  AnswerBuilder answer = with(R"("stop":["cde"],"return_token_ids":true)");
  EXPECT_EQ(feed(answer, "abcdefg"), 5);
  EXPECT_TRUE(answer.choice_done(0));
  EXPECT_EQ(choice(answer)["text"], "ab");
  EXPECT_EQ(choice(answer)["finish_reason"], "stop");
  EXPECT_EQ(choice(answer)["stop_reason"], "cde");
  EXPECT_EQ(choice(answer)["token_ids"].size(), 5U);
  EXPECT_EQ(body(answer)["usage"]["completion_tokens"], 5);
}

TEST(AnswerBuilder, StopStringInsideATokenCutsThatToken) {
  AnswerBuilder answer = with(R"("stop":["n"])");
  answer.add(0, token('x'));
  answer.add(0, token(FakeTokenizer::kWord));  // "end"
  EXPECT_EQ(choice(answer)["text"], "xe");
  AnswerBuilder included = with(R"("stop":["n"],"include_stop_str_in_output":true)");
  included.add(0, token(FakeTokenizer::kWord));
  EXPECT_EQ(choice(included)["text"], "en");
}

TEST(AnswerBuilder, StopStringThatEndsFirstWins) {
  const auto reason = [](const std::string& stops, const std::string& text) {
    AnswerBuilder answer = with("\"stop\":" + stops);
    feed(answer, text);
    return choice(answer)["stop_reason"];
  };
  EXPECT_EQ(reason(R"(["abcd","bc"])", "abcd"), "bc");
  EXPECT_EQ(reason(R"(["c","bc"])", "abcd"), "c");
  EXPECT_EQ(reason(R"(["bc","c"])", "abcd"), "bc");
  EXPECT_EQ(reason(R"(["aab"])", "aaab"), "aab");
}

TEST(AnswerBuilder, StopStringInCharactersOfSeveralTokens) {
  AnswerBuilder answer = with(R"("stop":["\u00e9"])");
  EXPECT_EQ(feed(answer, "a\xC3\xA9z"), 3);
  EXPECT_EQ(choice(answer)["text"], "a");
}

TEST(AnswerBuilder, StopStringCountsOnlyBeyondMinTokens) {
  const auto taken = [](int min_tokens) {
    AnswerBuilder answer =
        with("\"stop\":[\"ab\"],\"max_tokens\":8,\"min_tokens\":" + std::to_string(min_tokens));
    return feed(answer, "abxabxab");
  };
  EXPECT_EQ(taken(0), 2);
  EXPECT_EQ(taken(1), 2);  // ends with the second token
  EXPECT_EQ(taken(2), 5);
  EXPECT_EQ(taken(4), 5);  // begins before the bound, ends beyond it
  EXPECT_EQ(taken(5), 8);
}

TEST(AnswerBuilder, UnfinishedCharacterAtTheEndIsReplaced) {
  AnswerBuilder answer = with("\"max_tokens\":2");
  feed(answer, "a\xC3");
  EXPECT_EQ(choice(answer)["text"], "a\xEF\xBF\xBD");
}

TEST(AnswerBuilder, StopStringInTheLastHeldBackTextStillStops) {
  AnswerBuilder answer = with("\"max_tokens\":2,\"stop\":[\"\xEF\xBF\xBD\"]");
  feed(answer, "a\xC3");
  EXPECT_EQ(choice(answer)["text"], "a");
  EXPECT_EQ(choice(answer)["finish_reason"], "stop");
}

TEST(AnswerBuilder, CompletionLogprobsAreFourLists) {
  AnswerBuilder answer = with("\"logprobs\":1,\"max_tokens\":3");
  answer.add(0, {'a', -0.25F, 1, {{'a', -0.25F}, {'z', -2.0F}}});
  answer.add(0, {0xC3, -1.5F, 2, {{'b', -1.0F}}});
  answer.add(0, {FakeTokenizer::kTwin, -3.0F, 2, {{'a', -0.5F}}});
  EXPECT_EQ(choice(answer)["logprobs"].dump(),
            "{\"text_offset\":[0,1,2],\"token_logprobs\":[-0.25,-1.5,-3.0],"
            "\"tokens\":[\"a\",\"\xEF\xBF\xBD\",\"a\"],"
            "\"top_logprobs\":[{\"a\":-0.25},{\"b\":-1.0,\"\xEF\xBF\xBD\":-1.5},{\"a\":-0.5}]}");
}

TEST(AnswerBuilder, EchoPutsThePromptFirst) {
  AnswerBuilder answer = builder(R"({"prompt":"\u00e9x","echo":true,"logprobs":1,"max_tokens":1})");
  const auto sequence = answer.sequence(0);
  ASSERT_TRUE(sequence.has_value());
  EXPECT_EQ(sequence->params.num_prompt_logprobs, 1);
  EXPECT_EQ(sequence->tokens.size(), 4U);
  const std::vector<ScoredToken> scores = {
      {0xC3, -1.0F, 1, {{0xC3, -1.0F}}}, {0xA9, -2.0F, 1, {}}, {'x', -3.0F, 4, {{'y', -0.5F}}}};
  answer.add_prompt_scores(0, std::span(scores).first(1));
  answer.add_prompt_scores(0, std::span(scores).subspan(1));
  answer.add(0, {'!', -4.0F, 1, {{'!', -4.0F}}});
  ASSERT_TRUE(answer.done());
  const Json logprobs = choice(answer)["logprobs"];
  EXPECT_EQ(choice(answer)["text"], "\xC3\xA9x!");
  EXPECT_EQ(logprobs["tokens"][0], "<s>");
  EXPECT_EQ(logprobs["token_logprobs"].dump(), "[null,-1.0,-2.0,-3.0,-4.0]");
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["top_logprobs"][3].dump(), R"({"y":-0.5,"x":-3.0})");
  EXPECT_EQ(logprobs["text_offset"].dump(), "[0,3,4,5,6]");
}

// Padded tables: the model knows ids that the tokenizer lacks.
TEST(AnswerBuilder, IdsWithoutATokenAreEmptyTextInPromptAndAnswer) {
  constexpr TokenId kPadding = FakeTokenizer::kPadding;
  AnswerBuilder answer = builder(
      R"({"prompt":[97,262],"echo":true,"logprobs":1,"prompt_logprobs":1,"max_tokens":3,"return_token_ids":true})");
  ASSERT_TRUE(answer.sequence(0).has_value());
  answer.add_prompt_scores(0, std::vector<ScoredToken>{{kPadding, -1.0F, 1, {{kPadding, -1.0F}}}});
  answer.add(0, token('x'));
  answer.add(0, {kPadding, -2.0F, 1, {{'b', -1.0F}}});
  answer.add(0, {'y', -0.5F, 2, {{kPadding, -0.25F}}});
  ASSERT_TRUE(answer.done());
  const Json shown = choice(answer);
  EXPECT_EQ(shown["text"], "axy");
  EXPECT_EQ(shown["token_ids"], (Json{'x', kPadding, 'y'}));
  EXPECT_EQ(shown["logprobs"]["tokens"], (Json{"a", "", "x", "", "y"}));
  EXPECT_EQ(shown["logprobs"]["text_offset"], (Json{0, 1, 1, 2, 2}));
  EXPECT_EQ(shown["logprobs"]["top_logprobs"][4].dump(), R"({"":-0.25,"y":-0.5})");
  EXPECT_EQ(shown["prompt_logprobs"][1]["262"]["decoded_token"], "");
}

TEST(AnswerBuilder, ScoringAloneNeedsNoToken) {
  AnswerBuilder answer =
      builder(R"({"prompt":"xy","echo":true,"logprobs":0,"max_tokens":0,"n":2})");
  EXPECT_FALSE(answer.done());
  const auto sequence = answer.sequence(0);
  ASSERT_TRUE(sequence.has_value());
  EXPECT_EQ(sequence->max_tokens, 0);
  EXPECT_FALSE(answer.sequence(1).has_value());
  const std::vector<ScoredToken> scores = {{'x', -1.0F, 1, {}}, {'y', -2.0F, 1, {}}};
  answer.add_prompt_scores(0, scores);
  answer.end(0, FinishReason::kLength);
  ASSERT_TRUE(answer.done());
  EXPECT_EQ(choice(answer, 1)["text"], "xy");
  EXPECT_EQ(choice(answer, 1)["finish_reason"], "length");
  EXPECT_EQ(choice(answer, 1)["logprobs"]["token_logprobs"].dump(), "[null,-1.0,-2.0]");
  EXPECT_TRUE(builder(R"({"prompt":"xy","max_tokens":0})").done());
}

TEST(AnswerBuilder, PromptLogprobsHaveVllmsShape) {
  AnswerBuilder answer = builder(R"({"prompt":"xy","prompt_logprobs":2,"max_tokens":1})");
  const std::vector<ScoredToken> scores = {{'x', -1.0F, 1, {{'x', -1.0F}, {'a', -2.0F}}},
                                           {'y', -7.0F, 9, {{'b', -0.5F}, {'c', -0.75F}}}};
  answer.add_prompt_scores(0, scores);
  feed(answer, "!");
  EXPECT_EQ(
      choice(answer)["prompt_logprobs"].dump(),
      R"([null,{"120":{"logprob":-1.0,"rank":1,"decoded_token":"x"},"97":{"logprob":-2.0,"rank":2,"decoded_token":"a"}},)"
      R"({"121":{"logprob":-7.0,"rank":9,"decoded_token":"y"},"98":{"logprob":-0.5,"rank":1,"decoded_token":"b"},)"
      R"("99":{"logprob":-0.75,"rank":2,"decoded_token":"c"}}])");
}

TEST(AnswerBuilder, SequencesCarryPromptTokensAndChoice) {
  AnswerBuilder answer = builder(
      R"({"prompt":["a","b"],"n":2,"max_tokens":5,"priority":3,"prompt_logprobs":0,"stop_token_ids":[9]})");
  feed(answer, "xy", 3);
  const auto sequence = answer.sequence(3);
  ASSERT_TRUE(sequence.has_value());
  EXPECT_EQ(sequence->tokens, (std::vector<TokenId>{FakeTokenizer::kBos, 'b', 'x', 'y'}));
  EXPECT_EQ(sequence->num_prompt_tokens, 2);
  EXPECT_EQ(sequence->max_tokens, 5);
  EXPECT_EQ(sequence->params.choice, 3U);
  EXPECT_EQ(sequence->params.num_prompt_logprobs, -1);
  EXPECT_EQ(answer.sequence(2)->params.num_prompt_logprobs, 0);
  EXPECT_EQ(sequence->priority, 3);
  EXPECT_EQ(sequence->stop_token_ids, (std::vector<TokenId>{9, FakeTokenizer::kEos}));
}

TEST(AnswerBuilder, SavedChoiceThatEndedOnlyScoresItsPrompt) {
  AnswerBuilder answer = builder(R"({"prompt":"ab","echo":true,"logprobs":1,"max_tokens":2})");
  feed(answer, "xy");
  EXPECT_FALSE(answer.choice_done(0));
  const auto sequence = answer.sequence(0);
  ASSERT_TRUE(sequence.has_value());
  EXPECT_EQ(sequence->max_tokens, 0);
  EXPECT_EQ(sequence->tokens.size(), 3U);
  const std::vector<ScoredToken> scores = {token('a'), token('b')};
  answer.add_prompt_scores(0, scores);
  EXPECT_TRUE(answer.done());
}

TEST(JsonText, LogprobsAreTheShortestThatReadBack) {
  const auto text = [](float value) {
    std::string out;
    append_json_logprob(out, value);
    return out;
  };
  EXPECT_EQ(text(-0.1F), "-0.1");
  EXPECT_EQ(text(0.0F), "0.0");
  EXPECT_EQ(text(-2.0F), "-2.0");
  EXPECT_EQ(text(-1.1754944e-38F), "-1.1754944e-38");
  EXPECT_EQ(text(-std::numeric_limits<float>::infinity()), "-9999.0");
  EXPECT_EQ(text(-1e20F), "-9999.0");
  EXPECT_EQ(text(std::nanf("")), "null");
  for (float value = -1e-6F; value > -100.0F; value *= 1.37F) {
    EXPECT_EQ(static_cast<float>(Json::parse(text(value)).get<double>()), value);
  }
}

TEST(JsonText, StringsEscapeWhatMustBe) {
  std::string all;
  for (int i = 0; i < 128; ++i) all += static_cast<char>(i);
  all += "\xC3\xA9\xF0\x9F\x98\x80";
  std::string out;
  append_json_string(out, all);
  EXPECT_EQ(Json::parse(out).get<std::string>(), all);
  EXPECT_NE(out.find("\\u001f"), std::string::npos);
  EXPECT_EQ(num_characters("a\xC3\xA9\xF0\x9F\x98\x80"), 3);
}

TEST(AnswerBuilder, ParsingAndAnsweringKeepUpWithAPipeline) {
  // 5,000 requests a second is the aim in an optimised build; the bound here allows for sanitizers
  // and a busy machine.
  const auto begin = std::chrono::steady_clock::now();
  const int num_requests = 2000;
  std::string prompt(400, 'x');
  std::size_t bytes = 0;
  for (int i = 0; i < num_requests; ++i) {
    AnswerBuilder answer =
        builder("{\"custom_id\":\"r\",\"prompt\":\"" + prompt +
                "\",\"max_tokens\":64,\"stop\":[\"never\"],\"temperature\":0.5}");
    feed(answer, std::string(64, 'y'));
    bytes += answer.line().size();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  RecordProperty("requests_per_second", static_cast<int>(num_requests / seconds));
  EXPECT_GT(bytes, 0U);
  EXPECT_LT(seconds / num_requests, time_limit(1.0 / 300.0));
}

}  // namespace
}  // namespace headrace
