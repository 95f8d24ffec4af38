#include "runtime/job/request_parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "fake_parser_config.h"
#include "runtime/job/hash.h"
#include "runtime/job/json_line.h"

namespace headrace {
namespace {

ParserConfig config() {
  ParserConfig config = fake_parser_config();
  config.seed = 11;
  return config;
}

ParsedLine parse(const std::string& text, const ParserConfig& settings = config()) {
  InputLine line;
  line.ordinal = 4;
  line.number = 7;
  line.text = text;
  return RequestParser(settings).parse(line);
}

Request request(const std::string& text, const ParserConfig& settings = config()) {
  ParsedLine parsed = parse(text, settings);
  if (const auto* error = std::get_if<LineError>(&parsed.result)) {
    ADD_FAILURE() << text << "\n" << error->message;
    return {};
  }
  return std::get<Request>(std::move(parsed.result));
}

LineError error(const std::string& text, const ParserConfig& settings = config()) {
  ParsedLine parsed = parse(text, settings);
  if (const auto* error = std::get_if<LineError>(&parsed.result)) return *error;
  return {"none", text};
}

// The request {"prompt":"ab", FIELDS}.
std::string with(const std::string& fields) {
  return "{\"prompt\":\"ab\"," + fields + "}";
}
std::string chat(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
}

std::string text_of(const std::vector<TokenId>& ids) {
  return FakeTokenizer().decode(ids);
}

nlohmann::ordered_json context_of(const std::string& text) {
  const Request parsed = request(text);
  return parsed.prompts.empty() ? nlohmann::ordered_json()
                                : nlohmann::ordered_json::parse(text_of(parsed.prompts[0].tokens));
}

TEST(RequestParser, BatchFormAndShortFormSayTheSame) {
  const Request batch = request(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"hi"}})");
  const Request brief = request(R"({"custom_id":"a","model":"m","prompt":"hi"})");
  for (const Request& r : {batch, brief}) {
    EXPECT_EQ(r.custom_id, "a");
    EXPECT_EQ(r.endpoint, Endpoint::kCompletions);
    EXPECT_EQ(r.ordinal, 4);
    EXPECT_EQ(r.line, 7);
    ASSERT_EQ(r.prompts.size(), 1U);
    EXPECT_EQ(text_of(r.prompts[0].tokens), "<s>hi");
    EXPECT_EQ(r.prompts[0].max_tokens, 16);
  }
}

TEST(RequestParser, BadFormsAreNamed) {
  EXPECT_EQ(error("[1]").message, "expected an object, got a list");
  EXPECT_EQ(error("{}").code, "invalid_request");
  EXPECT_EQ(error(R"({"body":{"prompt":"x"}})").message, "url: is missing");
  EXPECT_EQ(error(R"({"url":"/v1/embeddings","body":{"input":"x"}})").code, "unsupported");
  EXPECT_EQ(error(R"({"url":"/v2","body":{}})").message,
            "url: expected /v1/completions or /v1/chat/completions, got \"/v2\"");
  EXPECT_EQ(error(R"({"url":"/v1/completions","method":"GET","body":{"prompt":"x"}})").message,
            "method: expected \"POST\", got \"GET\"");
  EXPECT_EQ(error(R"({"url":"/v1/completions","body":[]})").message,
            "body: expected an object, got a list");
  EXPECT_EQ(error(R"({"url":"/v1/completions","body":{"prompt":"x"},"extra":1})").message,
            "unknown field \"extra\" beside body");
  EXPECT_EQ(error(R"({"prompt":"x","messages":[]})").message,
            "prompt and messages exclude each other");
  EXPECT_EQ(error(R"({"custom_id":5,"prompt":"x"})").message,
            "custom_id: expected a string, got 5");
  EXPECT_EQ(error(R"({"url":"/v1/completions","body":{"messages":[]}})").message,
            "messages: belongs to /v1/chat/completions");
  EXPECT_EQ(error(R"({"url":"/v1/completions","body":{}})").message, "prompt: is missing");
}

TEST(RequestParser, FailedLineKeepsItsCustomId) {
  EXPECT_EQ(parse(R"({"custom_id":"x","prompt":"a","n":0})").custom_id, "x");
  EXPECT_EQ(parse(R"({"custom_id":"x","url":"/v2","body":{}})").custom_id, "x");
  EXPECT_EQ(parse("nonsense").custom_id, std::nullopt);
}

TEST(RequestParser, PromptTakesAllItsForms) {
  const auto texts = [](const std::string& prompt) {
    std::vector<std::string> all;
    for (const Prompt& p : request("{\"prompt\":" + prompt + "}").prompts)
      all.push_back(text_of(p.tokens));
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("\"ab\""), (Texts{"<s>ab"}));
  EXPECT_EQ(texts("[97,98]"), (Texts{"ab"}));
  EXPECT_EQ(texts("[\"a\",\"b\"]"), (Texts{"<s>a", "<s>b"}));
  EXPECT_EQ(texts("[[97],[98,99]]"), (Texts{"a", "bc"}));
  EXPECT_EQ(texts("[\"a\",[98]]"), (Texts{"<s>a", "b"}));
  EXPECT_EQ(texts("\"\""), (Texts{"<s>"}));
  for (const char* bad : {"[]", "[[]]", "5", "{}", "[97,\"a\"]", "[263]", "[-1]", "[1.5]", "[null]",
                          "true", "[[97],5]", "[1e30]"}) {
    EXPECT_EQ(error(std::string("{\"prompt\":") + bad + "}").code, "invalid_request") << bad;
  }
  EXPECT_EQ(error(R"({"prompt":"","add_special_tokens":false})").message,
            "the prompt has no tokens");
  EXPECT_EQ(error("{\"prompt\":null}").message, "prompt: is missing");
}

TEST(RequestParser, SamplingFieldsArriveInTheParameters) {
  const Request r = request(with(
      R"("temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"presence_penalty":-1.5,"frequency_penalty":2,
         "repetition_penalty":1.25,"logit_bias":{"98":-100,"97":1.5},"min_tokens":2,"max_tokens":9,"n":3,
         "stop":["x","y"],"stop_token_ids":[5,3],"priority":-4,"logprobs":2,"ignore_eos":true,
         "include_stop_str_in_output":true,"skip_special_tokens":false,"return_token_ids":true)"));
  EXPECT_EQ(r.params.temperature, 0.5F);
  EXPECT_EQ(r.params.top_p, 0.25F);
  EXPECT_EQ(r.params.top_k, 7);
  EXPECT_EQ(r.params.min_p, 0.125F);
  EXPECT_EQ(r.params.presence_penalty, -1.5F);
  EXPECT_EQ(r.params.frequency_penalty, 2.0F);
  EXPECT_EQ(r.params.repetition_penalty, 1.25F);
  EXPECT_EQ(r.params.logit_bias,
            (std::vector<std::pair<TokenId, float>>{{97, 1.5F}, {98, -100.0F}}));
  EXPECT_EQ(r.params.min_tokens, 2);
  EXPECT_EQ(r.params.banned_before_min, (std::vector<TokenId>{3, 5}));
  EXPECT_EQ(r.stop_token_ids, (std::vector<TokenId>{3, 5}));
  EXPECT_TRUE(r.end_ids.empty());
  EXPECT_EQ(r.prompts[0].max_tokens, 9);
  EXPECT_EQ(r.num_choices(), 3);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(r.priority, -4);
  EXPECT_EQ(r.params.num_logprobs, 2);
  EXPECT_EQ(r.params.num_prompt_logprobs, -1);
  EXPECT_TRUE(r.include_stop_str_in_output);
  EXPECT_FALSE(r.skip_special_tokens);
  EXPECT_TRUE(r.return_token_ids);
}

TEST(RequestParser, NothingSaidMeansNeutralValues) {
  const Request r = request("{\"prompt\":\"a\"}");
  EXPECT_EQ(r.params.temperature, 1.0F);
  EXPECT_EQ(r.params.top_p, 1.0F);
  EXPECT_EQ(r.params.top_k, 0);
  EXPECT_EQ(r.params.num_logprobs, -1);
  EXPECT_EQ(r.stop_token_ids, (std::vector<TokenId>{FakeTokenizer::kEos}));
  EXPECT_TRUE(r.params.banned_before_min.empty());
}

TEST(RequestParser, ValuesOutOfRangeAreRefusedByName) {
  for (const char* field : {R"("temperature":-0.1)",
                            R"("temperature":"1")",
                            R"("temperature":1e300)",
                            R"("temperature":true)",
                            R"("top_p":0)",
                            R"("top_p":1.01)",
                            R"("top_p":1e-60)",
                            R"("top_k":-2)",
                            R"("top_k":1.5)",
                            R"("top_k":99999999999)",
                            R"("min_p":-0.1)",
                            R"("min_p":1.1)",
                            R"("presence_penalty":2.1)",
                            R"("frequency_penalty":-2.1)",
                            R"("repetition_penalty":0)",
                            R"("n":0)",
                            R"("n":1025)",
                            R"("n":true)",
                            R"("max_tokens":-1)",
                            R"("max_tokens":"5")",
                            R"("max_tokens":18446744073709551616)",
                            R"("max_completion_tokens":-1)",
                            R"("min_tokens":-1)",
                            R"("seed":1.5)",
                            R"("seed":9223372036854775808)",
                            R"("stop":5)",
                            R"("stop":[5])",
                            R"("stop":"")",
                            R"("stop":["a",""])",
                            R"("stop_token_ids":[263])",
                            R"("stop_token_ids":5)",
                            R"("logprobs":21)",
                            R"("logprobs":-1)",
                            R"("logprobs":true)",
                            R"("prompt_logprobs":21)",
                            R"("logit_bias":[])",
                            R"("logit_bias":{"x":1})",
                            R"("logit_bias":{"5":101})",
                            R"("logit_bias":{"263":1})",
                            R"("logit_bias":{"-1":1})",
                            R"("logit_bias":{"5":"1"})",
                            R"("logit_bias":{"5":1,"05":2})",
                            R"("echo":1)",
                            R"("ignore_eos":"no")",
                            R"("priority":1e12)",
                            R"("return_token_ids":0)",
                            R"("model":5)"}) {
    const LineError refused = error(with(field));
    const std::string name = std::string(field).substr(1, std::string(field).find("\":") - 1);
    EXPECT_EQ(refused.code, "invalid_request") << field;
    EXPECT_TRUE(refused.message.starts_with(name + ":")) << field << " -> " << refused.message;
  }
  EXPECT_EQ(error(with(R"("temperature":-0.1)")).message,
            "temperature: expected a number of at least 0, got -0.1");
  EXPECT_EQ(error(with(R"("top_p":0)")).message,
            "top_p: expected a number above 0 and at most 1, got 0");
}

TEST(RequestParser, BoundsThemselvesAreAccepted) {
  for (const char* field : {R"("temperature":0)", R"("temperature":100)", R"("top_p":1)",
                            R"("top_k":-1)", R"("top_k":0)", R"("top_k":5.0)", R"("min_p":1)",
                            R"("presence_penalty":-2)", R"("n":1024)", R"("max_tokens":0)",
                            R"("logprobs":0)", R"("logprobs":20)", R"("seed":-9223372036854775808)",
                            R"("stop":[])", R"("logit_bias":{})", R"("stop_token_ids":[260])"}) {
    EXPECT_EQ(error(with(field)).code, "none") << field;
  }
}

TEST(RequestParser, StopStringsHaveALimit) {
  std::string sixteen = "\"a\"";
  for (int i = 1; i < 16; ++i) sixteen += ",\"a\"";
  EXPECT_EQ(request(with("\"stop\":[" + sixteen + "]")).stop.size(), 16U);
  EXPECT_EQ(error(with("\"stop\":[" + sixteen + ",\"b\"]")).code, "invalid_request");
}

TEST(RequestParser, FieldsWithoutInfluenceAreAccepted) {
  request(with(R"("user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto","stream":false,
                  "stream_options":{"include_usage":true},"model":"any","best_of":1,"suffix":null,
                  "use_beam_search":false,"length_penalty":1.0,"bad_words":[],"guided_json":null,
                  "spaces_between_special_tokens":true,"truncate_prompt_tokens":null,
                  "response_format":{"type":"text"},"temperature":null,"stop":null,"n":null,
                  "never_heard_of":null)"));
  request(
      chat(R"("parallel_tool_calls":true,"tool_choice":"auto","modalities":["text"],"tools":[])"));
}

TEST(RequestParser, UnsupportedFieldsAreNamed) {
  for (const char* field :
       {R"("stream":true)", R"("best_of":3)", R"("suffix":"x")", R"("use_beam_search":true)",
        R"("truncate_prompt_tokens":5)", R"("guided_json":{})",
        R"("response_format":{"type":"json_object"})", R"("spaces_between_special_tokens":false)",
        R"("bad_words":["x"])", R"("frequence_penalty":1)"}) {
    const LineError refused = error(with(field));
    const std::string name = std::string(field).substr(1, std::string(field).find("\":") - 1);
    EXPECT_EQ(refused.code, "unsupported") << field;
    EXPECT_NE(refused.message.find(name), std::string::npos) << refused.message;
  }
  EXPECT_EQ(error(chat(R"("continue_final_message":true)")).code, "unsupported");
  EXPECT_EQ(error(chat(R"("tool_choice":"required")")).code, "unsupported");
  EXPECT_EQ(error(chat(R"("echo":true)")).message, "echo: belongs to /v1/completions");
}

TEST(RequestParser, LongNamesAreCutBetweenCharacters) {
  ParserConfig named = config();
  named.served_model_names = {"small"};
  for (int pad = 0; pad < 4; ++pad) {
    std::string name(static_cast<std::size_t>(pad), 'x');
    for (int i = 0; i < 200; ++i) name += "\xE2\x82\xAC";
    for (const std::string& line :
         {with("\"" + name + "\":1"), with("\"model\":\"" + name + "\""),
          with("\"n\":\"" + name + "\""),
          "{\"url\":\"/v1/completions\",\"body\":{},\"" + name + "\":1}"}) {
      const LineError refused = error(line, named);
      EXPECT_NE(refused.code, "none");
      EXPECT_LT(refused.message.size(), 400U);
      EXPECT_NO_THROW(nlohmann::json(refused.message).dump()) << refused.message;
    }
  }
}

TEST(RequestParser, ServedModelNameMustMatchWhereOneIsSet) {
  ParserConfig named = config();
  named.served_model_names = {"small", "tiny"};
  request(with(R"("model":"tiny")"), named);
  request("{\"prompt\":\"a\"}", named);
  EXPECT_EQ(error(with(R"("model":"large")"), named).code, "model_not_found");
}

TEST(RequestParser, GenerationConfigStandsBehindTheBody) {
  ParserConfig defaults = config();
  defaults.defaults = parse_generation_config(
      R"({"temperature":0.6,"top_p":0.9,"top_k":50,"min_p":null,"repetition_penalty":1.1,"do_sample":false,
          "max_new_tokens":33,"eos_token_id":[2,1,2],"transformers_version":"4"})",
      "generation_config.json");
  EXPECT_EQ(defaults.defaults.eos_token_ids, (std::vector<TokenId>{1, 2}));
  const Request quiet = request("{\"prompt\":\"a\"}", defaults);
  EXPECT_EQ(quiet.params.temperature, 0.6F);
  EXPECT_EQ(quiet.params.top_p, 0.9F);
  EXPECT_EQ(quiet.params.top_k, 50);
  EXPECT_EQ(quiet.params.min_p, 0.0F);
  EXPECT_EQ(quiet.params.repetition_penalty, 1.1F);
  EXPECT_EQ(quiet.prompts[0].max_tokens, 16);
  EXPECT_EQ(request(chat("\"n\":1"), defaults).prompts[0].max_tokens, 33);
  const Request loud = request(with(R"("temperature":0,"top_k":-1,"top_p":1)"), defaults);
  EXPECT_EQ(loud.params.temperature, 0.0F);
  EXPECT_EQ(loud.params.top_k, 0);
  EXPECT_EQ(loud.params.top_p, 1.0F);
}

TEST(RequestParser, BadGenerationConfigNamesFileKeyAndValue) {
  const auto refusal = [](const std::string& json) {
    try {
      parse_generation_config(json, "g.json");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(R"({"top_p":3})"),
            "g.json: top_p: expected a number above 0 and at most 1, got 3");
  EXPECT_TRUE(refusal("{").starts_with("g.json: not valid JSON"));
  EXPECT_TRUE(refusal("[]").starts_with("g.json: expected an object"));
  EXPECT_TRUE(refusal(R"({"eos_token_id":"x"})").starts_with("g.json: eos_token_id"));
  EXPECT_EQ(refusal(R"({"eos_token_id":7})"), "accepted");
}

TEST(RequestParser, ContextBoundsPromptAndAnswer) {
  ParserConfig small = config();
  small.max_model_len = 8;
  EXPECT_EQ(request(R"({"prompt":"abcd","max_tokens":100})", small).prompts[0].max_tokens, 3);
  EXPECT_EQ(request(R"({"prompt":"abcdef","max_tokens":1})", small).prompts[0].max_tokens, 1);
  const LineError full = error(R"({"prompt":"abcdefg","max_tokens":1})", small);
  EXPECT_EQ(full.code, "context_length_exceeded");
  EXPECT_EQ(full.message, "the prompt has 8 tokens; the context of 8 leaves no room for an answer");
  EXPECT_EQ(request(R"({"prompt":"abcdefg","max_tokens":0,"echo":true,"logprobs":1})", small)
                .prompts[0]
                .max_tokens,
            0);
  EXPECT_EQ(error(R"({"prompt":"abcdefgh","max_tokens":0})", small).code,
            "context_length_exceeded");
  EXPECT_EQ(error(R"({"prompt":["a","abcdefgh"]})", small).code, "context_length_exceeded");
}

TEST(RequestParser, ChatGetsWhatIsLeftOfTheContext) {
  const Request r = request(chat("\"n\":1"));
  EXPECT_EQ(r.prompts[0].max_tokens, 4096 - static_cast<int>(r.prompts[0].tokens.size()));
  EXPECT_EQ(request(chat("\"max_completion_tokens\":5")).prompts[0].max_tokens, 5);
  EXPECT_EQ(request(chat("\"max_tokens\":5,\"max_completion_tokens\":5")).prompts[0].max_tokens, 5);
  EXPECT_EQ(error(chat("\"max_tokens\":4,\"max_completion_tokens\":5")).message,
            "max_tokens (4) and max_completion_tokens (5) differ");
  EXPECT_EQ(error(chat("\"max_tokens\":0")).code, "invalid_request");
  EXPECT_EQ(error(with("\"min_tokens\":5,\"max_tokens\":4")).message,
            "min_tokens: 5 is above max_tokens (4)");
}

TEST(RequestParser, RandomStreamIsTheSeedsOrTheLines) {
  EXPECT_EQ(request(with("\"seed\":5")).params.key, 5U);
  EXPECT_EQ(request(with("\"seed\":5")).params.stream, 0U);
  EXPECT_EQ(request(with("\"seed\":-2")).params.key, static_cast<std::uint64_t>(-2));
  EXPECT_EQ(request(with("\"seed\":-1")).params.key, 11U);
  EXPECT_EQ(request(with("\"custom_id\":\"r\"")).params.key, 11U);
  EXPECT_EQ(request(with("\"custom_id\":\"r\"")).params.stream, hash64("r"));
  EXPECT_EQ(request("{\"prompt\":\"a\"}").params.stream, hash64("line 7"));
}

TEST(RequestParser, EchoWithLogprobsScoresThePrompt) {
  // What lm-evaluation-harness sends.
  const Request r = request(
      R"({"model":"m","prompt":[97,98,99],"temperature":0,"max_tokens":1,"logprobs":1,"seed":1234,"echo":true})");
  EXPECT_TRUE(r.echo);
  EXPECT_EQ(r.prompts[0].text, "abc");
  EXPECT_EQ(r.params.num_logprobs, 1);
  EXPECT_EQ(r.params.num_prompt_logprobs, 1);
  EXPECT_EQ(r.num_prompt_logprobs, -1);
  EXPECT_EQ(
      request(with(R"("echo":true,"logprobs":1,"prompt_logprobs":3)")).params.num_prompt_logprobs,
      3);
  EXPECT_EQ(request(with(R"("echo":true)")).params.num_prompt_logprobs, -1);
}

TEST(RequestParser, ChatLogprobsAreAFlagAndANumber) {
  EXPECT_EQ(request(chat(R"("logprobs":true)")).num_logprobs, 0);
  EXPECT_EQ(request(chat(R"("logprobs":true,"top_logprobs":5)")).num_logprobs, 5);
  EXPECT_EQ(request(chat(R"("logprobs":false)")).num_logprobs, -1);
  EXPECT_EQ(error(chat(R"("top_logprobs":5)")).message, "top_logprobs: needs logprobs to be true");
  EXPECT_EQ(error(chat(R"("logprobs":5)")).code, "invalid_request");
  EXPECT_EQ(error(chat(R"("logprobs":true,"top_logprobs":21)")).code, "invalid_request");
}

TEST(RequestParser, TemplateSeesMessagesAsText) {
  const auto context = context_of(
      R"({"messages":[{"role":"system","content":null},
                      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"n"},
                      {"role":"assistant","tool_calls":[{"id":"1","type":"function",
                         "function":{"name":"f","arguments":"{\"z\":1,\"a\":[2]}"}}]},
                      {"role":"tool","content":"3","tool_call_id":"1"}],
          "tools":[{"type":"function","function":{"name":"f"}}],"add_generation_prompt":false,
          "chat_template_kwargs":{"enable_thinking":false}})");
  EXPECT_EQ(context["messages"][0]["content"], "");
  EXPECT_EQ(context["messages"][1]["content"], "ab");
  EXPECT_EQ(context["messages"][1]["name"], "n");
  EXPECT_EQ(context["messages"][2]["tool_calls"][0]["function"]["arguments"].dump(),
            R"({"z":1,"a":[2]})");
  EXPECT_EQ(context["tools"][0]["function"]["name"], "f");
  EXPECT_EQ(context["add_generation_prompt"], false);
  EXPECT_EQ(context["enable_thinking"], false);
  EXPECT_EQ(context["bos_token"], "<s>");
  EXPECT_FALSE(context.contains("pad_token"));
  EXPECT_TRUE(context_of(chat("\"n\":1"))["tools"].is_null());
}

TEST(RequestParser, ChatTextGetsNoSecondBeginning) {
  EXPECT_NE(request(chat("\"n\":1")).prompts[0].tokens.front(), FakeTokenizer::kBos);
  EXPECT_EQ(request(chat("\"add_special_tokens\":true")).prompts[0].tokens.front(),
            FakeTokenizer::kBos);
  EXPECT_NE(request(with("\"add_special_tokens\":false")).prompts[0].tokens.front(),
            FakeTokenizer::kBos);
}

TEST(RequestParser, BadMessagesSayWhere) {
  for (const auto& [messages, place] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "messages"},
           {"5", "messages"},
           {"[5]", "messages[0]"},
           {R"([{"content":"x"}])", "messages[0]"},
           {R"([{"role":"user","content":"x"},{"role":"user","content":5}])",
            "messages[1].content"},
           {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
            "messages[0].content[0]"},
           {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0]"},
           {R"([{"role":"assistant","tool_calls":5}])", "messages[0].tool_calls"}}) {
    const LineError refused = error("{\"messages\":" + messages + "}");
    EXPECT_TRUE(refused.message.starts_with(place + ":")) << messages << " -> " << refused.message;
  }
  EXPECT_EQ(error(chat(R"("chat_template_kwargs":{"messages":[]})")).code, "invalid_request");
}

TEST(RequestParser, TemplateErrorsEndTheLineOnly) {
  ParserConfig failing = config();
  failing.chat = [](const ChatRequest&) -> std::string {
    throw std::runtime_error("roles must alternate");
  };
  EXPECT_EQ(error(chat("\"n\":1"), failing).message, "chat template: roles must alternate");
  failing.chat = nullptr;
  EXPECT_EQ(error(chat("\"n\":1"), failing).code, "unsupported");
}

TEST(RequestParser, TextThatIsNotJsonIsAnErrorInUtf8) {
  for (const std::string& bad :
       {std::string("{"), std::string("{\"prompt\":\"a\"} x"), std::string("{\"prompt\":NaN}"),
        std::string("{\"prompt\":\"\\ud800\"}"), std::string("{\"prompt\":\"\\ud800\\u0041\"}"),
        std::string("{\"prompt\":\"\xFF\"}"), std::string("{\"prompt\":\"\xC0\xAF\"}"),
        std::string("{\"prompt\":\"\xED\xA0\x80\"}"), std::string("{\"temperature\":1e999}"),
        std::string("{\"prompt\":\"a\0b\"}", 16), std::string("\0", 1), std::string("{'a':1}"),
        std::string("{\"a\":1,}"), std::string("{\"n\":01}")}) {
    const LineError refused = error(bad);
    EXPECT_EQ(refused.code, "invalid_json") << bad;
    EXPECT_LT(refused.message.size(), 200U);
    EXPECT_NO_THROW(nlohmann::json(refused.message).dump()) << bad;
  }
  EXPECT_EQ(text_of(request(R"({"prompt":"\ud83d\ude00"})").prompts[0].tokens),
            "<s>\xF0\x9F\x98\x80");
}

TEST(RequestParser, NestingAndMembersAreBounded) {
  const auto nested = [](int depth) {
    return "{\"metadata\":" + std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']') + ",\"prompt\":\"a\"}";
  };
  EXPECT_EQ(error(nested(kMaxJsonDepth - 1)).code, "none");
  EXPECT_EQ(error(nested(kMaxJsonDepth)).code, "invalid_json");
  EXPECT_EQ(error(nested(1000000)).code, "invalid_json");
  std::string many = "{\"prompt\":\"a\",\"metadata\":{";
  for (int i = 0; i <= kMaxJsonMembers; ++i) many += "\"" + std::to_string(i) + "\":0,";
  many.back() = '}';
  EXPECT_EQ(error(many + "}").message, "an object with more than 8192 members");
}

TEST(RequestParser, ValuesBeyondAnyRequestAreRefused) {
  std::string line = R"({"custom_id":"a","prompt":[)";
  for (std::int64_t i = 0; i < kMaxJsonValues; ++i) line += "0,";
  line += "0]}";
  EXPECT_EQ(error(line).message, "JSON of more than 8388608 values");
  EXPECT_EQ(peek_custom_id(line), parse(line).custom_id);
}

TEST(RequestParser, OfRepeatedKeysTheLastCounts) {
  EXPECT_EQ(request(R"({"prompt":"a","n":2,"n":3})").n, 3);
  EXPECT_EQ(parse(R"({"custom_id":"a","prompt":"a","custom_id":"b"})").custom_id, "b");
}

TEST(RequestParser, TooLongLineIsAnErrorOfItsOwn) {
  InputLine line;
  line.too_long = true;
  const LineError refusal = std::get<LineError>(RequestParser(config()).parse(line).result);
  EXPECT_EQ(refusal.code, "line_too_long");
  EXPECT_NE(refusal.message.find("64 MiB"), std::string::npos) << refusal.message;
}

TEST(RequestParser, ManyChoicesAreRefusedBeforeTheyCostAnything) {
  std::string prompts = "\"a\"";
  for (int i = 1; i < 2000; ++i) prompts += ",\"a\"";
  EXPECT_EQ(error("{\"n\":1000,\"prompt\":[" + prompts + "]}").code, "invalid_request");
  EXPECT_EQ(request("{\"n\":8,\"prompt\":[" + prompts + "]}").num_choices(), 16000);
}

}  // namespace
}  // namespace headrace
